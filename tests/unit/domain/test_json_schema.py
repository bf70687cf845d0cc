import json
import sys
from contextlib import contextmanager

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.domain.json_schema import (
    MAX_SEGMENTS,
    MAX_STEPS,
    Budget,
    differences,
    mismatches,
    schema_of,
    without_prose,
)

QUERY = {
    "type": "object",
    "properties": {
        "table": {"type": "string", "minLength": 1},
        "limit": {"type": "integer", "minimum": 1, "maximum": 100},
        "mode": {"enum": ["a", "b"]},
    },
    "required": ["table"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("value", "sentences"),
    [
        ({"table": "t"}, []),
        ({"table": "t", "limit": 5, "mode": "a"}, []),
        ({"table": "t", "limit": 5.0}, []),
        ({}, ["`input.table` is required."]),
        ({"table": "t", "limit": "5"}, ["`input.limit` must be an integer, not a string."]),
        ({"table": "t", "limit": True}, ["`input.limit` must be an integer, not a boolean."]),
        ({"table": "t", "limit": 1.5}, ["`input.limit` must be an integer, not 1.5."]),
        ({"table": "t", "limit": 0}, ["`input.limit` must be at least 1."]),
        ({"table": "t", "limit": 101}, ["`input.limit` must be at most 100."]),
        ({"table": ""}, ["`input.table` must have at least 1 character."]),
        ({"table": "t", "mode": "c"}, ["`input.mode` must be one of 'a', 'b'."]),
        ({"tabel": "t"}, ["`input.table` is required.", "`input.tabel` is not known; there are: table, limit, mode."]),
        ([], ["`input` must be an object, not an array."]),
        (None, ["`input` must be an object, not null."]),
    ],
)
def test_what_does_not_fit_is_named(value, sentences):
    assert mismatches(QUERY, value) == sentences


@pytest.mark.parametrize(
    ("schema", "value", "sentences"),
    [
        ({"type": ["string", "null"]}, None, []),
        ({"type": ["string", "null"]}, 1, ["`x` must be a string or null, not an integer."]),
        ({"type": ["string", "integer", "null"]}, [], ["`x` must be a string, an integer or null, not an array."]),
        ({"type": "number"}, 1, []),
        ({"type": "number"}, False, ["`x` must be a number, not a boolean."]),
        ({"type": "string", "nullable": True}, None, []),
        ({"enum": ["a"], "nullable": True}, None, []),
        ({"const": 1}, 1.0, []),
        ({"const": 1}, True, ["`x` must be 1."]),
        ({"const": [1, {"a": None}]}, [1, {"a": None}], []),
        ({"const": [1]}, [2], ["`x` must be an array."]),
        ({"enum": [None, True, 2.5]}, 0, ["`x` must be one of null, true, 2.5."]),
        ({"items": {"type": "string"}}, ["a", 1], ["`x[1]` must be a string, not an integer."]),
        ({"prefixItems": [{"type": "string"}], "items": False}, ["a"], []),
        ({"prefixItems": [{"type": "string"}], "items": False}, ["a", 1], ["`x[1]` must not be given."]),
        ({"items": [{"type": "string"}], "additionalItems": False}, ["a", 1], ["`x[1]` must not be given."]),
        ({"minItems": 2}, [1], ["`x` must have at least 2 items."]),
        ({"maxItems": 1}, [1, 2], ["`x` must have at most 1 item."]),
        ({"maxLength": 2}, "abc", ["`x` must have at most 2 characters."]),
        ({"maxLength": 1}, "\N{GRINNING FACE}", []),
        ({"exclusiveMinimum": 0}, 0, ["`x` must be greater than 0."]),
        ({"exclusiveMaximum": 1}, 1.0, ["`x` must be less than 1."]),
        ({"additionalProperties": {"type": "integer"}}, {"a": "b"}, ["`x.a` must be an integer, not a string."]),
        ({"additionalProperties": False}, {"a": 1}, ["`x.a` is not known; there is nothing to give."]),
        ({"additionalProperties": False, "patternProperties": {"^a": {}}}, {"b": 1}, []),
        ({"properties": {"a": False}}, {"a": 1}, ["`x.a` must not be given."]),
        ({"properties": {"a": True}}, {"a": 1}, []),
        ({"allOf": [{"required": ["a"]}, {"required": ["b"]}]}, {}, ["`x.a` is required.", "`x.b` is required."]),
        ({"required": ["a b"]}, {}, ["`x['a b']` is required."]),
    ],
)
def test_keywords_are_checked_as_json_schema_says(schema, value, sentences):
    assert mismatches(schema, value, "x") == sentences


@pytest.mark.parametrize("word", ["anyOf", "oneOf"])
@pytest.mark.parametrize(
    ("branches", "value", "sentences"),
    [
        ([{"type": "integer"}, {"type": "null"}], None, []),
        ([{"type": "integer"}, {"type": "null"}], "a", ["`x` must be an integer or null, not a string."]),
        ([{"type": "integer", "minimum": 1}, {"type": "null"}], 0, ["`x` must be at least 1."]),
        ([{"type": "integer"}, {"minimum": 0}], 1, []),  # also fits both
        ([{"type": "array", "items": {"type": "string"}}, {"type": "string"}], [1], None),
        ([{"$ref": "#/$defs/a"}, {"type": "null"}], [1], ["`x` must be a string or null, not an array."]),
    ],
)
def test_of_a_union_the_branch_that_was_meant_is_explained(word, branches, value, sentences):
    found = mismatches({word: branches, "$defs": {"a": {"type": "string"}}}, value, "x")
    assert found == (["`x[0]` must be a string, not an integer."] if sentences is None else sentences)


def test_a_union_of_objects_says_what_is_nearest():
    circle = {"type": "object", "properties": {"kind": {"const": "circle"}}, "required": ["kind", "radius"]}
    square = {"type": "object", "properties": {"kind": {"const": "square"}}, "required": ["kind", "width"]}
    assert mismatches({"oneOf": [circle, square]}, {"kind": "circle"}, "shape") == [
        "`shape` fits none of the 2 forms that it may have; of one of them, `shape.radius` is required."
    ]


@pytest.mark.parametrize("word", ["$defs", "definitions"])
def test_local_references_are_followed(word):
    schema = {"properties": {"a": {"$ref": f"#/{word}/odd~1name"}}, word: {"odd/name": {"type": "string"}}}
    assert mismatches(schema, {"a": "x"}) == []
    assert mismatches(schema, {"a": 1}) == ["`input.a` must be a string, not an integer."]


def test_a_schema_that_refers_to_itself_is_followed():
    tree = {"properties": {"children": {"items": {"$ref": "#"}}, "name": {"type": "string"}}}
    assert mismatches(tree, {"children": [{"children": [{"name": 1}]}]}) == [
        "`input.children[0].children[0].name` must be a string, not an integer."
    ]


@pytest.mark.parametrize(
    "reference", ["#/$defs/missing", "https://example.com/schema", "#anchor", "other.json#/a", 1, None, "#/a/" * 1000]
)
def test_a_reference_that_leads_nowhere_accepts_anything(reference):
    assert mismatches({"$ref": reference}, 1) == []


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "any"},
        {"type": 1},
        {"type": ["string", "anything"]},
        {"type": [{}]},
        {"properties": []},
        {"properties": {"a": 1}},
        {"required": "a"},
        {"required": [1, None, {}]},
        {"enum": {}},
        {"enum": []},
        {"items": 1},
        {"anyOf": {}},
        {"anyOf": []},
        {"allOf": [1, None]},
        {"minimum": "1"},
        {"minimum": True},
        {"maxLength": None},
        {"additionalProperties": 1},
        {"patternProperties": {"(a+)+$": False}},
        {"pattern": "(a+)+$"},
        {"nonsense": {"type": "string"}},
    ],
)
@pytest.mark.parametrize("value", [{"a": 1}, [1], "aaaa", 0, None])
def test_what_is_malformed_or_unknown_is_ignored(schema, value):
    assert mismatches(schema, value) == []


def test_no_more_is_said_than_asked_for():
    schema = {"required": [f"p{number}" for number in range(20)], "items": {"type": "string"}}
    assert len(mismatches(schema, {})) == 5
    assert len(mismatches(schema, {}, most=2)) == 2
    assert len(mismatches(schema, [1] * 20, most=3)) == 3


def deep(levels, key="properties"):
    schema = {"type": "string"}
    for _ in range(levels):
        schema = {key: {"a": schema}} if key == "properties" else {key: schema}
    return schema


def test_what_is_too_deep_is_accepted():
    value = 1
    for _ in range(800):
        value = [value]
    assert mismatches(deep(800, "items"), value) == []
    assert mismatches({"$ref": "#"}, 1) == []
    assert mismatches({"anyOf": [{"$ref": "#"}] * 10}, 1) == []
    assert mismatches({"const": value}, json.loads(json.dumps([1]))) == ["`input` must be an array."]


def test_what_takes_too_long_is_accepted():
    doubling = {
        "$defs": {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(30)}
        | {"d30": {"type": "string"}}
    }
    assert mismatches({**doubling, "$ref": "#/$defs/d0"}, 1) == []
    assert mismatches({"items": {"type": "integer"}}, [1] * 30_000 + ["a"]) == []
    assert mismatches({"enum": list(range(30_000))}, "a") == []


@contextmanager
def counted_calls():
    """Count the calls of functions, of C too: how much work is done, whatever else the machine does."""
    counted = {"calls": 0}

    def count(_frame, event, _function):
        counted["calls"] += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        yield counted
    finally:
        sys.setprofile(None)


def each_item(definition, **more):
    """A schema that looks at one definition a thousand times for each item of a list."""
    return {"items": {"anyOf": [{"$ref": "#/$defs/a"}] * 1000}, "$defs": {"a": definition, **more}}


CALLS_OF_A_STEP = 50
ODD = "\U000e0001" * 60  # ten characters each, once they are quoted
NESTED = {}
for _ in range(30):
    NESTED = {ODD: NESTED}
DOUBLING = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(30)}
HOSTILE = {
    "a long reference that leads to itself": (
        {
            "properties": {"v": {"items": {"$ref": "#" + "/v" * 300}}},
            "v": {"anyOf": [{"$ref": "#" + "/v" * 300}] * 500},
        },
        {"v": [1] * 5},
    ),
    "a reference to a union of itself": ({"anyOf": [{"$ref": "#"}] * 3000}, 1),
    "references in a circle": (
        {
            "$ref": "#/$defs/a",
            "$defs": {name: {"anyOf": [{"$ref": f"#/$defs/{other}"}] * 1500} for name, other in ("ab", "ba")},
        },
        1,
    ),
    "a union of unions": ({"$ref": "#/$defs/d0", "$defs": {**DOUBLING, "d30": {"type": "string"}}}, 1),
    "a union of what nothing fits": ({"$ref": "#/$defs/d0", "$defs": {**DOUBLING, "d30": False}}, 1),
    "kinds that are looked for deep down": (
        each_item({"anyOf": [{"anyOf": [{"anyOf": [{"enum": [1] * 50}] * 10}] * 5}] * 5}),
        ["a"] * 100,
    ),
    "many parts after what does not fit": (each_item({"allOf": [False] * 5 + [True] * 8000}), [1] * 100),
    "many parts at the greatest depth": (
        {
            "$ref": "#/$defs/a",
            "$defs": {"a": {"allOf": [{"$ref": "#/$defs/b"}] * 2000}, "b": {"allOf": [{"$ref": "#/$defs/a"}] * 100}},
        },
        1,
    ),
    "a wide enum of large objects": (
        each_item({"enum": [{f"k{key}": number if key == 0 else 0 for key in range(1000)} for number in range(5)]}),
        [{f"k{key}": 9 if key == 0 else 0 for key in range(1000)}] * 50,
    ),
    "a large constant that differs at its end": (each_item({"const": [1] * 15_000}), [[1] * 14_999 + [2]] * 10),
    "a long text that differs at its end": (each_item({"const": "a" * 45_000}), [f"{'a' * 44_999}b"] * 20),
    "long choices to be named": (each_item({"enum": [f"{ODD}{n}" for n in range(12)]}), [1] * 500),
    "long properties to be named": (
        each_item({"additionalProperties": False, "properties": {f"{ODD}{n}": {} for n in range(40)}}),
        [{f"k{n}": 1 for n in range(10)}] * 500,
    ),
    "much that is required": (each_item({"required": [f"p{n}" for n in range(5000)]}), [{}] * 500),
    "long paths": (
        each_item(
            {"anyOf": [{"$ref": "#/$defs/b"}] * 300},
            b={"properties": {ODD: {"$ref": "#/$defs/a"}}, "required": ["x"], "additionalProperties": False},
        ),
        [NESTED],
    ),
    "many names": ({"additionalProperties": {"type": "integer"}}, {f"k{n}": 1 for n in range(80_000)}),
    "many items": ({"uniqueItems": True, "items": {"uniqueItems": True, "items": {}}}, [[1]] * 100_000),
}


@pytest.mark.parametrize(("schema", "value"), HOSTILE.values(), ids=HOSTILE)
def test_a_check_does_no_more_work_than_it_has_steps(schema, value):
    budget = Budget(2000)
    with counted_calls() as counted:
        found = mismatches(schema, value, budget=budget)
    assert counted["calls"] < CALLS_OF_A_STEP * 2000
    assert all(len(sentence) < 30_000 for sentence in found)


@pytest.mark.parametrize(("schema", "value"), HOSTILE.values(), ids=HOSTILE)
def test_a_comparison_does_no_more_work_than_it_has_steps(schema, value):
    changed = {**schema, "minLength": 1}
    with counted_calls() as counted:
        assert differences(schema, changed, "input") != []
        assert differences({**schema, "const": value}, {**schema, "const": [value]}, "input") != []
    assert counted["calls"] < 2 * CALLS_OF_A_STEP * MAX_STEPS


def test_a_comparison_of_what_is_used_in_many_places_does_no_more_work_than_it_has_steps():
    def schema(last):
        large = {f"unknown{number}": number for number in range(1000)}
        definition = {**large, "anyOf": [{"not": {"enum": [0] * 200 + [number, last]}} for number in range(50)]}
        uses = {f"p{number}": {"$ref": "#/$defs/a", "pattern": last} for number in range(1500)}
        return {"properties": uses, "$defs": {"a": {**definition, "maximum": [last] * 1000}}}

    with counted_calls() as counted:
        assert differences(schema("a"), schema("b"), "input") != []
    assert counted["calls"] < CALLS_OF_A_STEP * MAX_STEPS


def test_several_checks_share_the_budget_that_they_are_given():
    budget = Budget(1000)
    for _ in range(10):
        assert mismatches({"items": {"type": "integer"}}, [1] * 90 + ["a"], budget=budget) != []
    assert not budget.is_spent
    for _ in range(10):
        mismatches({"items": {"type": "integer"}}, [1] * 90 + ["a"], budget=budget)
    assert budget.is_spent
    assert mismatches({"type": "string"}, 1, budget=budget) == []


def test_a_budget_tells_whether_all_was_looked_at():
    budget = Budget()
    assert mismatches({"items": {"type": "integer"}}, [1] * 1000, budget=budget) == []
    assert not budget.is_spent
    assert mismatches({"items": {"type": "integer"}}, [1] * MAX_STEPS, budget=budget) == []
    assert budget.is_spent


def test_what_was_found_is_told_though_not_all_was_looked_at():
    assert mismatches({"items": {"type": "integer"}}, ["a", *[1] * 30_000]) == [
        "`input[0]` must be an integer, not a string."
    ]


def test_a_reference_of_many_segments_is_not_followed():
    nested = {"type": "string"}
    for _ in range(MAX_SEGMENTS):
        nested = {"a": nested}
    assert mismatches({"$ref": "#" + "/a" * MAX_SEGMENTS, **nested}, 1) != []
    assert mismatches({"$ref": "#" + "/a" * (MAX_SEGMENTS + 1), "a": nested}, 1) == []


def test_deep_places_are_cut():
    schema = {"additionalProperties": {"$ref": "#"}, "required": ["x"]}
    deepest = mismatches(schema, NESTED, most=100)[-1]
    assert deepest.endswith("…` is required.")
    assert len(deepest) < 600


def test_long_names_and_values_are_cut():
    assert len(mismatches({"required": ["a" * 10_000]}, {})[0]) < 120
    assert len(mismatches({"const": "a" * 10_000}, "")[0]) < 120
    assert mismatches({"const": 10**5000}, 1) == ["`input` must be a very large integer."]
    assert "\u202e" not in mismatches({"required": ["\u202e"]}, {})[0]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.5, 1.0, -2.5]) | st.text("ab", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)
KINDS = st.sampled_from(["object", "array", "string", "integer", "number", "boolean", "null"])


def keywords(inner):
    small = st.integers(0, 3)
    return st.fixed_dictionaries(
        {},
        optional={
            "type": KINDS | st.lists(KINDS, min_size=1, max_size=3, unique=True),
            "properties": st.dictionaries(st.sampled_from("abc"), inner, max_size=2),
            "required": st.lists(st.sampled_from("abc"), max_size=2, unique=True),
            "additionalProperties": inner,
            "items": inner,
            "prefixItems": st.lists(inner, min_size=1, max_size=2),
            "enum": st.lists(JSON, min_size=1, max_size=3),
            "const": JSON,
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "allOf": st.lists(inner, min_size=1, max_size=2),
            "$ref": st.sampled_from(["#/$defs/a", "#/$defs/b"]),
            "minimum": small,
            "exclusiveMaximum": small,
            "minLength": small,
            "maxItems": small,
        },
    )


SCHEMAS = st.recursive(st.booleans() | keywords(st.just({})), keywords, max_leaves=5)


@given(keywords(SCHEMAS), JSON, SCHEMAS)
@settings(max_examples=50)
def test_it_accepts_what_another_validator_accepts(schema, value, definition):
    schema = {**schema, "$defs": {"a": definition, "b": {"type": "string"}}}
    if "#/$defs/a" in json.dumps(definition):
        schema["$defs"]["a"] = {}  # the other one does not stop
    assert (mismatches(schema, value) == []) == jsonschema.Draft202012Validator(schema).is_valid(value)


@pytest.mark.parametrize(
    ("values", "schema"),
    [
        ([], {}),
        ([1, 2], {"type": "integer"}),
        ([1, 2.5], {"type": "number"}),
        ([1.0], {"type": "number"}),
        ([True], {"type": "boolean"}),
        (["a", None], {"type": ["string", "null"]}),
        ([None], {"type": "null"}),
        ([1, "a"], {"type": ["string", "integer"]}),
        ([[]], {"type": "array"}),
        ([[1], ["a"]], {"type": "array", "items": {"type": ["string", "integer"]}}),
        ([{}], {"type": "object"}),
        (
            [{"a": 1, "b": "x"}, {"a": 2}],
            {
                "type": "object",
                "properties": {"a": {"type": "integer"}, "b": {"type": "string"}},
                "required": ["a"],
            },
        ),
        (
            [{"a": 1}, None],
            {
                "anyOf": [
                    {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
                    {"type": "null"},
                ]
            },
        ),
        (
            [[{"a": None}, {"a": 1}]],
            {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"a": {"type": ["integer", "null"]}},
                    "required": ["a"],
                },
            },
        ),
        ([{1, 2}], {}),
    ],
)
def test_a_schema_is_inferred(values, schema):
    assert schema_of(values) == schema


@given(st.lists(JSON, min_size=1, max_size=4))
def test_what_was_seen_fits_the_schema_that_was_inferred(values):
    schema = schema_of(values)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert [mismatches(schema, value) for value in values] == [[]] * len(values)
    assert json.dumps(schema) == json.dumps(schema_of(values))


def test_an_inferred_schema_is_bounded():
    value = 1
    for _ in range(20):
        value = {"a": [value]}
    assert json.dumps(schema_of([value])).count("type") <= 10
    many = schema_of([{f"p{number}": number for number in range(150)}])
    assert (len(many["properties"]), many["additionalProperties"]) == (100, {"type": "integer"})
    assert mismatches(many, {f"p{number}": number for number in range(150)}) == []


def test_prose_is_left_out_at_schema_positions_only():
    schema = {
        "title": "T",
        "description": "D",
        "type": "object",
        "properties": {
            "description": {"type": "string", "description": "D", "default": "x"},
            "title": {"anyOf": [{"title": "A", "type": "string"}, {"const": {"title": "kept"}}]},
        },
        "required": ["description"],
        "$defs": {"examples": {"enum": [{"description": "kept"}], "examples": [1]}},
        "items": [{"$comment": "c"}],
        "additionalProperties": {"deprecated": True, "not": {"readOnly": True, "type": "null"}},
        "patternProperties": {"^default$": {"default": 1}},
    }
    assert without_prose(schema) == {
        "type": "object",
        "properties": {
            "description": {"type": "string"},
            "title": {"anyOf": [{"type": "string"}, {"const": {"title": "kept"}}]},
        },
        "required": ["description"],
        "$defs": {"examples": {"enum": [{"description": "kept"}]}},
        "items": [{}],
        "additionalProperties": {"not": {"type": "null"}},
        "patternProperties": {"^default$": {}},
    }
    assert schema["title"] == "T"


@pytest.mark.parametrize("schema", [True, None, 1, [], {"properties": 1, "anyOf": {}, "items": 3}])
def test_what_is_no_schema_stays_as_it_is(schema):
    assert without_prose(schema) == schema


def test_of_a_schema_that_is_very_large_some_prose_may_stay():
    many = {"properties": {f"p{number}": {"title": "T"} for number in range(100_000)}}
    with counted_calls() as counted:
        kept = without_prose(many)["properties"]
    assert (kept["p0"], kept["p99999"]) == ({}, {"title": "T"})
    assert counted["calls"] < 10 * 100_000


def test_a_large_schema_that_is_the_same_has_not_changed():
    many = tool(**{f"p{number}": STRING for number in range(25_000)})
    assert differences(many, json.loads(json.dumps(many)), "input") == []


def test_a_schema_that_is_too_deep_is_left_alone():
    assert without_prose(deep(800)) is not None
    assert differences(deep(800), deep(801), "input") == ["`input` has changed."]


def tool(*required, **properties):
    return {"type": "object", "properties": properties, "required": list(required)}


STRING, INTEGER = {"type": "string"}, {"type": "integer"}


@pytest.mark.parametrize(
    ("before", "after", "sentences"),
    [
        (tool(dialect=STRING), tool("dialect", dialect=STRING), ["`dialect` is required now."]),
        (tool("dialect", dialect=STRING), tool(dialect=STRING), ["`dialect` is optional now."]),
        (tool(), tool("dialect", dialect=STRING), ["`dialect` is new and required."]),
        (tool(), tool(mode=STRING), ["`mode` is new and optional."]),
        (tool("sql", sql=STRING), tool(), ["`sql` is gone."]),
        (tool("sql"), tool(), ["`sql` is gone."]),
        (tool(limit=STRING), tool(limit=INTEGER), ["`limit` must be an integer now; it was a string."]),
        (tool(limit={}), tool(limit=INTEGER), ["`limit` must be an integer now; it could be anything."]),
        (tool(limit=INTEGER), tool(limit={}), ["`limit` may be anything now; it was an integer."]),
        (
            tool(limit=INTEGER),
            tool(limit={"anyOf": [INTEGER, {"type": "null"}]}),
            ["`limit` must be an integer or null now; it was an integer."],
        ),
        (
            tool(sort={"enum": ["asc"]}),
            tool(sort={"enum": ["asc", "desc"]}),
            ["`sort` takes 'asc', 'desc' now; it took 'asc'."],
        ),
        (
            tool(sort=STRING),
            tool(sort={"type": "string", "enum": ["asc"]}),
            ["`sort` takes 'asc' now; it took any value."],
        ),
        (
            tool(options=tool(limit=STRING)),
            tool(options=tool("limit", limit=INTEGER)),
            ["`options.limit` is required now.", "`options.limit` must be an integer now; it was a string."],
        ),
        (
            tool(rows={"type": "array", "items": tool(id=STRING)}),
            tool(rows={"type": "array", "items": tool()}),
            ["`rows[].id` is gone."],
        ),
        (
            tool(limit={"type": "integer", "maximum": 1000}),
            tool(limit={"type": "integer", "maximum": 100, "minimum": 1}),
            [
                "`limit` has the `minimum` 1 now; it had none.",
                "`limit` has the `maximum` 100 now; it was 1000.",
            ],
        ),
        (tool(), {**tool(), "additionalProperties": False}, ["`input` takes no other properties now."]),
        (
            {"additionalProperties": STRING},
            {"additionalProperties": INTEGER},
            ["`*` must be an integer now; it was a string."],
        ),
        (tool(), {"type": "array"}, ["`input` must be an array now; it was an object."]),
        (tool(a={"not": STRING}), tool(a={"not": INTEGER}), ["`a` has changed."]),
        (tool(a=STRING), tool(a=False), ["`a` must not be given now."]),
        (None, tool(), ["`input` has a schema now."]),
        (tool(), None, ["`input` has no schema any more."]),
        (None, None, []),
    ],
)
def test_a_change_is_named(before, after, sentences):
    assert differences(before, after, "input") == sentences


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (tool(a=STRING), tool(a={**STRING, "description": "New.", "default": "x", "examples": ["y"]})),
        (tool("a", "b", a=STRING, b=STRING), tool("b", "a", b=STRING, a=STRING)),
        (tool(a={"type": ["string", "null"]}), tool(a={"type": ["null", "string"]})),
        (tool(a={"enum": [1, 2]}), tool(a={"enum": [2, 1]})),
        (
            tool(a={"anyOf": [STRING, {"type": "null"}]}),
            tool(a={"anyOf": [{"type": "null", "title": "N"}, STRING]}),
        ),
        ({}, {"$schema": "https://json-schema.org/draft/2020-12/schema"}),
    ],
)
def test_what_only_readers_see_and_the_order_do_not_count(before, after):
    assert differences(before, after, "input") == []


def test_a_change_in_a_definition_is_named_where_it_is_used():
    def schema(limit, reference="#/$defs/options"):
        return {**tool(options={"$ref": reference}), "$defs": {"options": tool(limit=limit)}}

    changed = ["`options.limit` must be an integer now; it was a string."]
    assert differences(schema(STRING), schema(INTEGER), "input") == changed
    assert differences(tool(options=tool(limit=STRING)), schema(INTEGER), "input") == changed
    optional_before, optional_after = (
        {"properties": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {"type": "null"}]}}, "$defs": {"a": tool(b=kind)}}
        for kind in (STRING, INTEGER)
    )
    assert differences(optional_before, optional_after, "input") == ["`a.b` must be an integer now; it was a string."]


def test_a_definition_that_refers_to_itself_is_compared_once():
    def tree(kind):
        return {
            "$ref": "#/$defs/node",
            "$defs": {"node": tool(name=kind, children={"type": "array", "items": {"$ref": "#/$defs/node"}})},
        }

    assert differences(tree(STRING), tree(INTEGER), "input") == ["`name` must be an integer now; it was a string."]
    assert differences(tree(STRING), tree(STRING), "input") == []


def test_of_many_choices_only_those_that_changed_are_named():
    before, after = (tool(a={"enum": list(range(first, first + 50))}) for first in (0, 1))
    assert differences(before, after, "input") == ["`a` no longer takes 0.", "`a` also takes 50 now."]


def test_what_breaks_calls_comes_first_and_no_more_is_said_than_asked_for():
    before = tool(sql=STRING)
    after = tool("dialect", **{f"new{number}": STRING for number in range(20)}, dialect=STRING)
    assert differences(before, after, "input", most=3) == [
        "`sql` is gone.",
        "`dialect` is new and required.",
        "`new0` is new and optional.",
    ]
    assert len(differences(before, after, "input")) == 8


def test_a_change_that_would_take_too_long_to_find_is_not_missed():
    def doubling(last):
        return {
            "$ref": "#/$defs/d0",
            "$defs": {
                **{f"d{n}": tool(a={"$ref": f"#/$defs/d{n + 1}"}, b={"$ref": f"#/$defs/d{n + 1}"}) for n in range(40)},
                "d40": tool(**{f"p{number}": last for number in range(3)}),
            },
        }

    assert differences(doubling(STRING), doubling(INTEGER), "input")
    many = tool(**{f"p{number}": STRING for number in range(25_000)})
    assert differences(many, {**many, "properties": {**many["properties"], "p24999": INTEGER}}, "input") == [
        "`input` has changed."
    ]


@given(keywords(SCHEMAS), keywords(SCHEMAS))
@settings(max_examples=40)
def test_any_two_schemas_can_be_compared(before, after):
    assert differences(before, before, "input") == []
    assert all(sentence.endswith(".") for sentence in differences(before, after, "input"))


@pytest.mark.parametrize("odd", [{"type": 1}, {"properties": []}, {"required": {}}, {"anyOf": 3}, {"$ref": 5}])
def test_malformed_schemas_can_be_compared(odd):
    assert isinstance(differences(odd, tool(a=STRING), "input"), list)
    assert isinstance(differences(tool(a=odd), tool(a=STRING), "input"), list)
