"""JSON that is checked without being decoded: it must accept what Python's parser accepts, and nothing else."""

import json
import math

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from orchestrator.domain import json_text
from orchestrator.domain.json_text import JsonObject, JsonScan, NotJsonText, Span, TooIntricate

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=40)
    | st.sampled_from(["\\", '"', "\ud800", "é😀", "\x00\x1f", "x" * 100])
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=5), inner), max_leaves=30
)
LAYOUTS = st.fixed_dictionaries({"indent": st.sampled_from([None, 0, 3]), "ensure_ascii": st.booleans()})
PIECES = [b"", b"\\", b"\x00", b"\xc3", *(bytes((character,)) for character in b'[]{},:"01-.e n')]
NOT_JSON = [
    b"", b" ", b"{", b"[", b'"', b"]", b"[,]", b"[1,]", b"[1,,2]", b"[1 2]", b"[1}", b'{"a"}', b'{"a":}', b'{"a":1,}',
    b'{"a":1 "b":2}', b"{1:2}", b"{,}", b"01", b"+1", b".5", b"1.", b"1e", b"-", b"--1", b"tru", b"True", b"nul",
    b"-NaN", b"Infinit", b"'a'", b'"\\x"', b'"\\u12g4"', b'"a\nb"', b'"\\', b"[1]]", b"1 2", b"\xff",
    b'"\xed\xa0\x80"', b"[[1,2]", b'{"a":{"b":1}', b'[{"a":1,}]', b"[[1,],2]", b"[[[[[1,]]]]]", b"/**/1", b"1" * 4301,
]  # fmt: skip


@pytest.fixture(params=[8, 64, 32 * 1024], autouse=True)
def window(request, monkeypatch):
    """Every text is also looked at through a window so small that all kinds of things lie across its edges."""
    monkeypatch.setattr(json_text, "_WINDOW_BYTES", request.param)
    return request.param


def checked(text):
    scan = JsonScan(text)
    end = scan.value(scan.start)
    scan.finish(end)
    return scan.take(Span(scan.start, end))


def accepts(text):
    try:
        checked(text)
    except NotJsonText:
        return False
    return True


def python_accepts(text):
    try:
        json.loads(text.decode())
    except (ValueError, RecursionError):
        return False
    return True


def finite(value):
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, list):
        return [finite(item) for item in value]
    return {name: finite(item) for name, item in value.items()} if isinstance(value, dict) else value


def written(value, layout):
    try:
        return json.dumps(value, **layout).encode()
    except UnicodeEncodeError:
        return json.dumps(value, indent=layout["indent"]).encode()


@given(VALUES, LAYOUTS)
@settings(max_examples=50)
def test_what_is_json_is_passed_on_with_the_same_meaning(value, layout):
    text = written(value, layout)
    assert json.loads(checked(text), parse_constant=pytest.fail) == finite(json.loads(text))


@given(VALUES, LAYOUTS, st.data())
@settings(max_examples=80)
def test_it_accepts_what_pythons_parser_accepts_and_nothing_else(value, layout, data):
    text = bytearray(written(value, layout))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text)))
        text[at : at + data.draw(st.integers(0, 2))] = data.draw(st.sampled_from(PIECES))
    assert accepts(text) == python_accepts(bytes(text))


@pytest.mark.parametrize("text", NOT_JSON)
def test_what_is_not_json_is_rejected(text):
    assert not accepts(text)
    assert not python_accepts(text) or text.startswith(b"\xff")


@given(st.binary(max_size=30))
@example(b"[1e400, -1e400, 1e-400, 1.5e308, 1e99]")
def test_bytes_of_any_kind_are_judged_alike(text):
    assert accepts(text) == python_accepts(text)


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        (b"[1e999, -1e999, NaN, Infinity, -Infinity, 1e308]", [None, None, None, None, None, 1e308]),
        (b'{"a": {"b": [NaN]}, "c": "NaN"}', {"a": {"b": [None]}, "c": "NaN"}),
        (b"NaN", None),
        (b"1" * 400 + b".5", None),
        (b"1" * 400, int("1" * 400)),
    ],
)
def test_what_is_not_a_finite_number_is_null(text, meaning):
    assert json.loads(checked(text), parse_constant=pytest.fail) == meaning


def test_a_text_is_followed_as_deep_as_programs_can():
    assert accepts(b"[" * 500 + b"]" * 500)
    assert accepts(b'{"":' * 500 + b"1" + b"}" * 500)
    assert not accepts(b"[" * 501 + b"]" * 501)


def test_a_text_that_would_take_too_long_is_rejected(window):
    intricate = b"[" + b"[[[[[[]]]]]]," * 200 + b"1]"
    assert accepts(intricate)
    with pytest.raises(TooIntricate):
        JsonScan(intricate, 300).value(0)
    plain = b"[" + b"[1,2]," * 2000 + b"1]"
    assert window < 64 or JsonScan(plain, 300).value(0) == len(plain)


def test_members_and_items_are_visited_where_they_are():
    text = b' {"a" : [1, {"b": 2} ,3], "\\u0062": {"c":4}, "d": [5], "a": "last"} '
    scan, seen = JsonScan(text), []

    def note(start):
        end = scan.value(start)
        seen.append(text[start:end])
        return end

    visits = {"a": lambda start: scan.items(start, note) if scan.is_array(start) else note(start), "b": note}
    scan.finish(scan.members(scan.start, visits))
    assert seen == [b"1", b'{"b": 2}', b"3", b'{"c":4}', b'"last"']


@pytest.mark.parametrize("text", [b"{}", b"{ }", b'{"a":1}', b'{"a":1 }'])
def test_an_object_is_walked_to_its_end(text):
    scan = JsonScan(text)
    assert scan.members(0, {}) == len(text)


@pytest.mark.parametrize("text", [b"{", b'{"a"', b'{"a":1', b'{"a":1,', b'{"a":1]', b'{"a" 1}', b"{1:1}"])
def test_an_object_that_is_broken_is_rejected_while_it_is_walked(text):
    with pytest.raises(NotJsonText):
        JsonScan(text).members(0, {})


@pytest.mark.parametrize("text", [b"[", b"[1", b"[1,", b"[1}", b"[,"])
def test_an_array_that_is_broken_is_rejected_while_it_is_walked(text):
    scan = JsonScan(text)
    with pytest.raises(NotJsonText):
        scan.items(0, scan.value)


def test_of_many_parts_only_the_first_are_visited_and_all_are_checked():
    many = b",".join(b'"m%d":%d' % (number, number) for number in range(1500))
    for text, walk in ((b"{" + many + b"}", "members"), (b"[" + b"1," * 1499 + b"2]", "items")):
        scan, seen = JsonScan(text), []

        def note(start, scan=scan, seen=seen):
            seen.append(start)
            return scan.value(start)

        visits = {f"m{number}": note for number in range(1500)} if walk == "members" else note
        assert getattr(scan, walk)(0, visits) == len(text)
        assert len(seen) == 1000
        broken = JsonScan(text[:-1] + b",")
        with pytest.raises(NotJsonText):
            getattr(broken, walk)(0, {} if walk == "members" else broken.value)


def test_a_text_that_can_be_cut_is_cut_instead_of_being_copied():
    for text in (b' {"a": [1, 2]} ', b' {"a": [1, NaN]} '):
        changeable = bytearray(text)
        assert (checked(changeable) is changeable) == (b"NaN" not in text)
        assert checked(bytearray(text)) == checked(text)


def test_a_byte_order_mark_is_no_part_of_the_text():
    assert checked(b"\xef\xbb\xbf [1] ") == b"[1]"


def test_an_object_that_is_kept_as_text_can_be_asked_like_any_other():
    kept = JsonObject(b'{"a": [1], "b": null}')
    assert (dict(kept), kept["a"], kept.get("c"), len(kept), list(kept)) == (
        {"a": [1], "b": None},
        [1],
        None,
        2,
        ["a", "b"],
    )
