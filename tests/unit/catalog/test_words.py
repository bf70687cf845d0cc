from __future__ import annotations

import pytest

from orchestrator.catalog.words import stem, terms


@pytest.mark.parametrize("name", ["readTextFile", "read_text_file", "read-text-file", "read.text.file", "ReadTextFile"])
def test_every_way_to_join_words_in_a_name_gives_the_same_words(name):
    assert {"read", "text", "file"} <= set(terms(name))


def test_an_acronym_stays_whole_before_a_capitalised_word():
    assert terms("PDFReader")[:2] == ["pdf", stem("reader")]


def test_digits_part_from_letters_and_the_whole_name_stays_findable():
    assert terms("get9to5macNews")[-1] == stem("get9to5macnews")
    assert "12306" in terms("12306-mcp")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("files", "file"),
        ("queries", "query"),
        ("charting", "chart"),
        ("calculator", "calculate"),
        ("mapped", "mapping"),
        ("reader", "read"),
        ("editor", "editing"),
        ("presentations", "presentation"),
    ],
)
def test_forms_of_a_word_share_a_stem(one, other):
    assert stem(one) == stem(other)


@pytest.mark.parametrize("word", ["status", "analysis", "address", "bus", "gas"])
def test_a_word_that_only_looks_like_a_plural_is_left_alone(word):
    assert stem(word) == word


@pytest.mark.parametrize(("one", "other"), [("presentation", "present"), ("documentation", "document")])
def test_words_that_only_share_a_root_stay_apart(one, other):
    assert stem(one) != stem(other)


def test_stop_words_are_dropped():
    assert terms("please help me with the of and to", single_ideographs=False) == []


def test_chinese_is_indexed_in_pairs_and_single_characters_and_in_english():
    assert {"查询", "询余", "余票", "票", stem("query"), stem("ticket")} <= set(terms("查询余票"))
    assert "票" not in terms("查询余票", single_ideographs=False)
    assert terms("票", single_ideographs=False) == ["票"]


def test_full_width_letters_are_read_as_ordinary_ones():
    assert terms("ＰＤＦ") == ["pdf"]  # noqa: RUF001 full-width is meant
