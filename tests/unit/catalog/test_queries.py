from __future__ import annotations

import pytest

from orchestrator.catalog.queries import MAX_QUERY_TERMS, read_query


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
