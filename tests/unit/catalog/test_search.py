from __future__ import annotations

import random
from time import perf_counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.catalog.postings import Weights
from orchestrator.catalog.search import MAX_POSTINGS, SearchIndex
from orchestrator.domain.tools import Tool


def tool(where: str, description: str = "", /, **parameters: str) -> Tool:
    server, name = where.split("/")
    properties = {key: {"type": "string", "description": text} for key, text in parameters.items()}
    return Tool(server, name, description, {"type": "object", "properties": properties})


SHELF = [
    tool("files/read_file", "Read a file as text.", path="where it is"),
    tool("files/write_file", "Write text to a file.", path="where to", content="the text"),
    tool("files/list_directory", "List what a directory holds.", path="which directory"),
    tool("office/createPresentation", "Create an empty deck of slides."),
    tool("office/savePresentation", "Save the slides.", file_path="where to"),
    tool("browser/take-screenshot", "Take a picture of the current page."),
    tool("browser/navigate", "Go to a URL.", url="address"),
    tool("trains/get-tickets", "查询余票信息，按出发站和到达站。"),  # noqa: RUF001 full-width is meant
    tool("weather/forecast", "Weather of the next days.", latitude="north", longitude="east"),
    tool("sql/query", "Run a read-only SQL query.", sql="the statement"),
    tool("misc/zap"),
]
INDEX = SearchIndex(SHELF)


def found(*queries: str, index: SearchIndex = INDEX, **options) -> list[str]:
    return [hit.tool.path for hit in index.search(queries, **options)]


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("write a file", "files/write_file"),
        ("take screenshot", "browser/take-screenshot"),
        ("create presentation", "office/createPresentation"),
        ("longitude", "weather/forecast"),
        ("statement", "sql/query"),
        ("zap", "misc/zap"),
    ],
)
def test_name_description_and_parameters_are_searched(query, path):
    assert found(query)[0] == path


def test_the_name_of_the_server_finds_its_tools():
    assert set(found("trains")) == {"trains/get-tickets"}


@pytest.mark.parametrize(
    ("query", "path"),
    [("make a powerpoint", "office/createPresentation"), ("visit a website", "browser/navigate")],
)
def test_words_that_mean_the_same_find_each_other(query, path):
    assert path in found(query, limit=2)


def test_chinese_text_is_found_by_chinese_and_by_english():
    assert found("余票")[0] == "trains/get-tickets"
    assert found("票")[0] == "trains/get-tickets"
    assert found("ticket")[0] == "trains/get-tickets"


def test_an_english_tool_is_found_by_a_chinese_query():
    assert found("天气")[0] == "weather/forecast"


@pytest.mark.parametrize("typo", ["screenshto", "screnshot", "screenshoot", "screanshot", "screens"])
def test_a_slip_of_one_letter_or_an_unfinished_word_still_finds(typo):
    assert found(typo)[0] == "browser/take-screenshot"


def test_a_file_to_write_brings_its_writer_into_the_hits_of_a_long_wish():
    forecasts = [
        tool(f"weather/{period}_forecast", f"Weather forecast of rain and wind of the {period}, saved.")
        for period in ("hourly", "daily", "weekly", "monthly")
    ]
    index = SearchIndex([*SHELF, *forecasts])
    wish = "Get the weather forecast with rain and wind: hourly, daily, weekly and monthly"
    assert "files/write_file" not in found(f"{wish}, save it", index=index, limit=4)
    assert found(f"{wish}, save it to /home/ann/weather.md", index=index, limit=4)[-1] == "files/write_file"


def test_several_queries_each_get_their_best_hit_in():
    assert set(found("write file", "forecast", "sql query", limit=3)) == {
        "files/write_file",
        "weather/forecast",
        "sql/query",
    }


def test_a_query_without_hits_does_not_disturb_the_others():
    assert found("forecast", "qqqqqq", "") == found("forecast")


def test_scores_never_rise_down_the_list():
    for queries in (["read the file in /data/x.csv"], ["read file", "write file"]):
        scores = [hit.score for hit in INDEX.search(queries)]
        assert scores == sorted(scores, reverse=True)
        assert all(score > 0 for score in scores)


def test_hits_stay_within_the_server_that_was_asked_for():
    assert {path.split("/")[0] for path in found("read write list query", server="files")} == {"files"}
    assert found("read", server="nobody") == []
    assert found("read", server="FILES") == []


def test_what_is_not_visible_is_never_a_hit():
    hidden = found("write file read", visible=lambda candidate: candidate.server != "files")
    assert hidden
    assert not [path for path in hidden if path.startswith("files/")]


def test_the_one_visible_tool_is_found_behind_hundreds_of_better_hidden_ones():
    crowd = [tool(f"crowd/report_{number}", "report") for number in range(MAX_POSTINGS + 1)]
    index = SearchIndex([*crowd, tool("own/archive", "Archive of what others say in a long and winding report.")])
    assert found("report", index=index, visible=lambda candidate: candidate.server == "own") == ["own/archive"]


def test_a_frequent_word_still_orders_what_a_rare_word_found():
    crowd = [tool(f"crowd/report_{number}", "report") for number in range(MAX_POSTINGS + 1)]
    rare = [
        tool("own/first", "A quokka here in quite a long text about nothing much."),
        tool("own/second", "A quokka here in quite a long report about nothing much."),
    ]
    assert found("quokka report", index=SearchIndex([*crowd, *rare]), limit=2) == ["own/second", "own/first"]


def test_limit_is_kept_and_nothing_is_found_for_none():
    assert len(found("file text read write", limit=2)) == 2
    assert found("file", limit=0) == []
    assert found("file", limit=-1) == []
    assert len(found("file text", limit=10_000)) <= len(SHELF)


def test_a_large_limit_reaches_every_tool_that_matches():
    crowd = [tool(f"crowd/report_{number}", "report") for number in range(MAX_POSTINGS + 1)]
    assert len(found("report", index=SearchIndex(crowd), limit=10_000)) == len(crowd)


@pytest.mark.parametrize("query", ["", "   ", "\x00", "the of and", "?!.,;", "🙂", ".*+?^${}()|[]\\", "a", "'\"; --"])
def test_a_query_that_says_nothing_finds_nothing(query):
    assert found(query) == []


def test_no_queries_find_nothing():
    assert found() == []


def test_an_empty_catalog_finds_nothing():
    assert found("read", index=SearchIndex([])) == []


@pytest.mark.parametrize(
    "query",
    [
        "a" * 100_000,
        "read file " * 10_000,
        "/" * 100_000,
        "a." * 50_000,
        "http://" * 15_000,
        "余票" * 50_000,
        "".join(random.Random(7).choices("abcdefghij /._-", k=100_000)),
    ],
    ids=["one word", "many words", "slashes", "dots", "addresses", "chinese", "noise"],
)
def test_a_huge_query_is_answered_in_bounded_time(query):
    start = perf_counter()
    found(query)
    assert perf_counter() - start < 0.5


def test_ten_thousand_queries_in_one_call_are_answered_in_bounded_time():
    start = perf_counter()
    found(*(f"read file {number}" for number in range(10_000)))
    assert perf_counter() - start < 0.5


@settings(deadline=None, max_examples=200)
@given(st.text(max_size=300))
def test_no_query_raises(query):
    assert len(found(query, query + " file", limit=5)) <= 5


@settings(deadline=None, max_examples=100)
@given(
    st.text(min_size=1, max_size=40),
    st.text(max_size=200),
    st.recursive(
        st.none() | st.booleans() | st.text(max_size=5),
        lambda inner: st.dictionaries(
            st.sampled_from(["properties", "items", "description", "type", "$ref"]), inner | st.lists(inner), max_size=4
        ),
        max_leaves=8,
    ),
)
def test_no_tool_however_odd_breaks_the_index(name, description, schema):
    odd = Tool("odd", name, description, schema if isinstance(schema, dict) else {})
    index = SearchIndex([odd, *SHELF], server_descriptions={"odd": description})
    assert "files/write_file" in found("write file", index=index)


def test_the_description_of_a_server_helps_to_find_its_tools():
    tools = [tool("abc/convert"), tool("xyz/convert")]
    index = SearchIndex(tools, server_descriptions={"xyz": "Currency exchange rates of the central bank."})
    assert found("convert currency", index=index)[0] == "xyz/convert"


def test_of_tools_with_the_same_name_the_second_makes_room_for_another():
    tools = [
        *SHELF,
        tool("disk/write_file", "Write text to a file.", path="where to", content="the text"),
        tool("notes/write_text", "Write text to a note."),
    ]
    with_namesakes_apart = SearchIndex(tools)
    with_namesakes_together = SearchIndex(tools, weights=Weights(same_name_again=1.0))
    query = "write text to a file"
    assert found(query, index=with_namesakes_together)[:2] == ["files/write_file", "disk/write_file"]
    assert found(query, index=with_namesakes_apart)[:2] == ["files/write_file", "notes/write_text"]


def test_the_order_of_equal_tools_is_that_of_the_catalog():
    tools = [tool(f"s{number}/ping", "Ping.") for number in range(20)]
    assert found("ping", index=SearchIndex(tools), limit=20) == [each.path for each in tools]


@pytest.mark.parametrize("question", ["query the database", "query postgres", "query", "select rows from a table"])
def test_a_tool_for_sql_is_found_by_who_speaks_of_queries(question):
    tools = [
        Tool("postgres", "execute_sql", "Use this tool to execute a single SQL statement."),
        Tool("postgres", "list_triggers", "Lists the triggers of the database."),
        Tool("memory", "search_nodes", "Search for nodes in the knowledge graph based on a query"),
        Tool("filesystem", "search_files", "Recursively search for files and directories matching a pattern."),
    ]
    found = [hit.tool.name for hit in SearchIndex(tools).search([question], limit=2)]
    assert "execute_sql" in found
