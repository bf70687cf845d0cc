from __future__ import annotations

import json
from functools import reduce
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.wrappers import Shape, learned, observe

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text("abc", min_size=1, max_size=3), inner, max_size=4)
    ),
    max_leaves=12,
)


def shape_of(value: Any) -> Shape:
    shape = observe({"content": [], "structuredContent": {"it": value}})
    assert shape
    return shape.fields["it"]


@given(json_values, json_values)
def test_order_of_observations_changes_nothing(first: Any, second: Any) -> None:
    assert learned(shape_of(first), shape_of(second)) == learned(shape_of(second), shape_of(first))


@given(json_values)
def test_seeing_the_same_again_teaches_nothing(value: Any) -> None:
    assert learned(shape_of(value), shape_of(value)) == shape_of(value)


@given(json_values, json_values)
def test_shape_survives_storage(first: Any, second: Any) -> None:
    shape = learned(shape_of(first), shape_of(second))
    assert Shape.from_json(json.loads(json.dumps(shape.to_json()))) == shape


def test_values_are_not_remembered() -> None:
    result = {"token": "s3cret", "rows": [{"email": "a@example.org", "balance": 123456}]}
    remembered = json.dumps(shape_of(result).to_json())
    assert "email" in remembered
    assert not [secret for secret in ("s3cret", "example.org", "123456") if secret in remembered]


def test_keys_that_are_data_are_not_remembered() -> None:
    for keys in (["a@example.org"], ["2024-05-01"], ["Jane Doe"], [f"user{n}" for n in range(100)], ["id12345"]):
        shape = shape_of(dict.fromkeys(keys, 1))
        assert shape.fields == {}
        assert shape.values == shape_of(1)


def test_objects_without_a_common_key_are_a_map() -> None:
    shape = learned(shape_of({"alice": {"age": 1}}), shape_of({"bob": {"age": 2}}))
    assert shape.fields == {}
    assert shape.values == shape_of({"age": 3})


def test_depth_and_width_are_bounded() -> None:
    value: Any = 1
    for _ in range(200):
        value = {"deeper": [value]}
    assert len(json.dumps(shape_of(value).to_json())) < 2000
    assert len(json.dumps(shape_of([{f"k{n}": n} for n in range(1000)]).to_json())) < 5000


def test_failed_and_oversized_results_teach_nothing() -> None:
    assert observe({"content": [{"type": "text", "text": "no such file"}], "isError": True}) is None
    assert observe({"content": [{"type": "text", "text": "[" + "1," * 200_000 + "1]"}]}) is None
    assert observe({"content": "nonsense"}) is None


def test_text_that_only_looks_like_json_is_text() -> None:
    assert observe({"content": [{"type": "text", "text": "[not json"}]}) == shape_of("x")


def parts(shape: dict[str, Any]) -> int:
    inner = [*shape.get("fields", {}).values(), *(shape[name] for name in ("items", "values") if name in shape)]
    return 1 + sum(map(parts, inner))


def test_of_a_large_result_only_so_much_is_looked_at() -> None:
    """On the event loop: what a tool returns must not stop the daemon."""
    looked_at: list[int] = []
    shape_of([[Watched(looked_at) for _ in range(50)] for _ in range(50)])
    assert 0 < len(looked_at) <= 1000


def test_of_many_texts_only_so_much_is_read() -> None:
    text = json.dumps([{"a": "x" * 100}] * 2000)
    content = [{"type": "text", "text": text}] * 50
    assert observe({"content": content}) == observe({"content": content[:2]})
    assert observe({"content": content[:1]}) is not None


class Watched(dict[str, int]):
    """Notes when its values are asked for."""

    def __init__(self, notes: list[int]) -> None:
        super().__init__({"x": 1})
        self._notes = notes

    def items(self) -> Any:
        self._notes.append(1)
        return super().items()


def test_what_was_learned_stays_of_a_size_that_a_type_can_say() -> None:
    known = shape_of({"first": 1})
    for number in range(100):
        deep = {f"f{chr(97 + n // 26)}{chr(97 + n % 26)}": {f"g{chr(97 + number % 26)}": n} for n in range(60)}
        known = learned(known, shape_of({"first": 1, "deep": deep}))
    assert parts(known.to_json()) <= 1000
    assert "first" in known.fields


def rows_of(*names: str) -> Shape:
    shape = observe({"content": [{"type": "text", "text": json.dumps(dict.fromkeys(names, 1))}]}, lists_contents=True)
    assert shape
    return shape


def learned_of(*results: Shape) -> Shape:
    return reduce(learned, results)


def test_rows_whose_fields_depend_on_the_question_are_known_as_objects_only() -> None:
    for different in (
        [rows_of("id", "name"), rows_of("count")],
        [rows_of("id", "name"), rows_of("id", "total")],
        [rows_of("id"), rows_of("id", "name"), rows_of("id", "name", "total")],
    ):
        rows = learned_of(*different).items
        assert rows
        assert (rows.varies, rows.fields, rows.values) == (True, {}, None)
        again = learned_of(*different, rows_of("id", "name")).items
        assert again == rows


def test_a_field_that_was_missing_once_is_optional() -> None:
    for results in ([rows_of("id", "name"), rows_of("id")], [rows_of("id"), rows_of("id", "name"), rows_of("id")]):
        rows = learned_of(*results).items
        assert rows
        assert (set(rows.fields), rows.always, rows.varies) == ({"id", "name"}, {"id"}, False)


def test_no_rows_take_nothing_away() -> None:
    nothing = observe({"content": []}, lists_contents=True)
    assert nothing
    assert learned(rows_of("id"), nothing) == rows_of("id")
    assert learned(nothing, rows_of("id")) == rows_of("id")


def test_keys_that_lead_to_objects_of_one_kind_are_data() -> None:
    shape = shape_of({name: {"age": 1, "city": "x"} for name in ("alice", "bob", "carol")})
    assert shape.fields == {}
    assert shape.values == shape_of({"age": 1, "city": "x"})
