import pytest

from orchestrator.domain.tools import Tool
from orchestrator.upstreams.listing import Listing

SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}}
GOOD = {"name": "good", "inputSchema": SCHEMA}


def read_listing(server, items):
    listing = Listing(server)
    listing.read(items)
    return listing


def test_a_tool_is_taken_as_its_author_described_it():
    item = {
        "name": "get-weread-rank",
        "title": "Rank",
        "description": "Ranks.",
        "inputSchema": SCHEMA,
        "outputSchema": {"type": "object"},
        "annotations": {"readOnlyHint": True},
    }
    expected = Tool("books", "get-weread-rank", "Ranks.", SCHEMA, {"type": "object"}, {"readOnlyHint": True}, "Rank")
    assert read_listing("books", [item]).tools == (expected,)


@pytest.mark.parametrize(
    ("item", "words"),
    [
        (None, "not an object"),
        ("tool", "not an object"),
        ({"inputSchema": SCHEMA}, "has no name"),
        ({"name": 7, "inputSchema": SCHEMA}, "has no name"),
        ({"name": " ", "inputSchema": SCHEMA}, "has no name"),
        ({"name": "x" * 300, "inputSchema": SCHEMA}, "more than 256"),
        ({"name": "bad"}, "(bad) has no inputSchema"),
        ({"name": "bad", "inputSchema": []}, "(bad) has no inputSchema"),
        ({"name": "bad", "inputSchema": SCHEMA, "description": "\ud800"}, "not valid Unicode"),
    ],
)
def test_a_malformed_item_is_left_out_and_reported_and_the_rest_is_kept(item, words):
    listing = read_listing("s", [GOOD, item, {**GOOD, "name": "better"}])
    assert [tool.name for tool in listing.tools] == ["good", "better"]
    (reason,) = listing.reasons
    assert reason.startswith("number 2 ")
    assert words in reason
    assert (listing.skipped, listing.problem) == (1, f"1 of its tools are left out: {reason}")


@pytest.mark.parametrize("decoration", [{"description": 7}, {"annotations": []}, {"title": {}}, {"outputSchema": "x"}])
def test_malformed_decoration_costs_the_decoration_only(decoration):
    assert read_listing("s", [{**GOOD, **decoration}]).tools == (Tool("s", "good", input_schema=SCHEMA),)


def test_the_first_of_two_tools_with_one_name_is_kept():
    listing = read_listing("s", [{**GOOD, "description": "first"}, {**GOOD, "description": "second"}])
    assert [tool.description for tool in listing.tools] == ["first"]
    assert listing.problem is None


def test_a_tool_that_is_nested_without_end_is_left_out():
    nested = _nested(5000)
    assert read_listing("s", [{**GOOD, "inputSchema": nested}, {**GOOD, "name": "ok"}]).tools[0].name == "ok"


def _nested(depth):
    value = {}
    for _ in range(depth):
        value = {"a": value}
    return value


def test_what_no_server_needs_is_cut():
    listing = read_listing("s", ({**GOOD, "name": f"tool {number}"} for number in range(20_000)))
    assert len(listing.tools) == 10_000
    large = {**GOOD, "name": "large", "description": "x" * 300_000}
    assert [tool.name for tool in read_listing("s", [large, GOOD]).tools] == ["good"]
    many = ({**GOOD, "name": f"tool {number}", "description": "x" * 200_000} for number in range(1000))
    assert len(read_listing("s", many).tools) < 100
