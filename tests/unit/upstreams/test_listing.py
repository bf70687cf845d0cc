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


def test_what_no_server_needs_is_left_out_and_told():
    listing = read_listing("s", [{**GOOD, "name": f"tool {number}"} for number in range(3000)])
    assert len(listing.tools) == 1000
    assert (
        listing.problem == "2000 of its tools are left out: number 1001 and those after it exceed the 1000 tools or "
        "1048576 bytes of a server"
    )
    large = {**GOOD, "name": "large", "description": "x" * 70_000}
    listing = read_listing("s", [large, GOOD])
    assert [tool.name for tool in listing.tools] == ["good"]
    assert "number 1 has a description and schemas of more than 65536 bytes" in listing.problem
    listing = read_listing("s", [{**GOOD, "name": f"tool {n}", "description": "x" * 60_000} for n in range(1000)])
    assert 10 < len(listing.tools) < 20
    assert listing.problem.startswith(f"{1000 - len(listing.tools)} of its tools are left out: number")


@pytest.mark.parametrize(
    "value", [[[]] * 30_000, ["", 1] * 10_000, {f"k{n}": None for n in range(10_000)}, [10**4000] * 20]
)
def test_a_tool_of_many_small_values_is_as_large_as_one_of_much_text(value):
    listing = read_listing("s", [{**GOOD, "annotations": {"many": value}}, {**GOOD, "name": "ok"}])
    assert [tool.name for tool in listing.tools] == ["ok"]


def test_pages_that_are_not_read_are_told_of():
    listing = read_listing("s", [GOOD])
    listing.stop()
    assert listing.problem.startswith("at least 1 of its tools are left out: number 2 and those after it")


def test_a_tool_that_has_not_changed_is_the_object_that_it_was_in_whatever_order_its_members_come():
    schema = {"type": "object", "properties": {"a": {}, "b": {}}}
    turned = {"properties": {"b": {}, "a": {}}, "type": "object"}
    first = read_listing("s", [{"name": "t", "inputSchema": schema}, {"name": "u", "inputSchema": schema}])
    second = Listing("s", first.listed)
    second.read([{"inputSchema": turned, "name": "t"}, {"name": "u", "inputSchema": schema, "description": "New."}])
    assert second.tools[0] is first.tools[0]
    assert second.tools[1].description == "New."


def test_tools_that_are_too_large_count_towards_the_size_of_the_listing():
    """Else a hundred pages, each as large as any answer, would all be read."""
    listing = Listing("s")
    for _ in range(16):
        assert not listing.full
        listing.read([{**GOOD, "description": "x" * 70_000}])
    assert listing.full


def test_a_tool_whose_contents_are_a_list_declares_nothing_of_them():
    item = {**GOOD, "outputSchema": {"type": "object"}}
    before = read_listing("s", [item])
    listing = Listing("s", before.listed, lists_contents=True)
    listing.read([item])
    assert listing.tools == (Tool("s", "good", input_schema=SCHEMA, lists_contents=True),)


def test_what_the_entry_withholds_is_not_listed_and_is_no_problem():
    schema = {"type": "object"}
    listing = Listing("s", withheld=("run_code*", "exact"))
    names = ("run_code_unsafe", "run_codes", "exact", "exactly", "Run_code", "safe")
    listing.read([{"name": name, "inputSchema": schema} for name in names])
    assert [tool.name for tool in listing.tools] == ["exactly", "Run_code", "safe"]
    assert listing.problem is None
