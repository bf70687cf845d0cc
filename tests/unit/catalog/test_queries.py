from __future__ import annotations

import pytest

from orchestrator.catalog.queries import MAX_QUERY_TERMS, meaningful, read_query
from orchestrator.domain.errors import InvalidRequest


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("Sum it up and save it to /home/ann/notes/trip.md", ("write", "file")),
        ("Read the figures in /home/ann/sales.xlsx", ("read", "file", "xlsx")),
        ("Export the table as budget.xlsx", ("write", "file", "xlsx")),
        ("Open ./letters/offer.docx", ("read", "file", "docx")),
    ],
)
def test_a_file_that_is_mentioned_asks_for_a_tool_that_reads_or_writes_it(query, expected):
    assert read_query(query).file_terms == (expected,)


@pytest.mark.parametrize("query", ["the P/E ratio", "KOSPI/KOSDAQ and/or both", "https://example.org/page", "Node.js"])
def test_a_slash_or_a_dot_alone_is_no_file(query):
    assert read_query(query).file_terms == ()


def test_directories_of_every_system_say_nothing_but_others_do():
    found = read_query("look at /root/git/project").terms
    assert "git" in found
    assert "root" not in found


def test_a_query_has_a_bounded_number_of_terms():
    assert len(read_query(" ".join(f"word{number}" for number in range(10_000))).terms) == MAX_QUERY_TERMS


@pytest.mark.parametrize("queries", [[], ["x" * 4000], ["x" * 400] * 10, [" ", "a"]])
def test_as_many_and_as_long_queries_as_a_search_may_have_are_taken(queries):
    assert meaningful(queries) == [query for query in queries if query.strip()]


@pytest.mark.parametrize(
    ("queries", "has"), [(["x"] * 11, "11 with 11"), (["x" * 4001], "1 with 4001"), ([" "] * 32, "32 with 32")]
)
def test_more_or_longer_queries_are_refused_with_what_there_may_be(queries, has):
    with pytest.raises(InvalidRequest) as caught:
        meaningful(queries)
    assert caught.value.message == (
        f"A search must have at most 10 queries with 4000 characters in all; this one has {has}."
    )
