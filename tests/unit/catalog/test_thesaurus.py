from __future__ import annotations

from orchestrator.catalog.thesaurus import thesaurus
from orchestrator.catalog.words import read_entries, stem, terms


def test_words_of_one_line_mean_the_same_in_either_direction():
    assert stem("fetch") in thesaurus().same[stem("get")]
    assert stem("get") in thesaurus().same[stem("fetch")]


def test_a_hint_leads_one_way_only():
    assert stem("date") in thesaurus().hints["tomorrow"]
    assert "tomorrow" not in thesaurus().hints.get(stem("date"), ())


def test_no_word_is_related_to_itself():
    for related in (thesaurus().same, thesaurus().hints):
        assert [word for word, others in related.items() if word in others] == []


def test_every_line_of_the_thesaurus_relates_words():
    for line in read_entries("thesaurus.txt"):
        causes, colon, effects = line.partition(":")
        assert causes.split(), line
        assert effects.split() if colon else len(causes.split()) > 1, line


def test_every_word_of_the_glossary_is_found_by_its_english():
    for line in read_entries("glossary.txt"):
        chinese, *english = line.split()
        assert {stem(word) for word in english} <= set(terms(chinese)), line
