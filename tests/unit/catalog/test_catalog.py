"""Editions of the catalog, and how little of a hostile server's text gets into its index."""

import time
import unicodedata

import pytest

from orchestrator.catalog.catalog import Catalog
from orchestrator.catalog.postings import MAX_TERMS_OF_A_SERVER
from orchestrator.catalog.search import SearchIndex
from orchestrator.catalog.words import terms
from orchestrator.domain.access import Role
from orchestrator.domain.tools import SkillTraits, Tool
from orchestrator.upstreams.listing import Listing
from tests.support.hostile_listings import combining_marks, made_up_words

EVERYTHING = Role("admin", frozenset({"*"}))
ADD, STOP, READ = Tool("math", "add", "Adds numbers."), Tool("math", "stop"), Tool("disk", "read", "Reads a file.")


class CountedTexts:
    def __init__(self):
        self.texts = []

    def count(self, text):
        self.texts.append(text)
        return len(text)


class Source:
    def __init__(self):
        self.listed = {"math": (ADD,), "disk": ()}

    def tools(self):
        return self.listed

    def statuses(self):
        return []


@pytest.fixture
def source():
    return Source()


@pytest.fixture
def catalog(source):
    catalog = Catalog(source, CountedTexts())
    catalog.refresh()
    return catalog


def found(catalog, query):
    return [hit.tool.name for hit in catalog.search(EVERYTHING, [query], server=None, limit=5)]


def test_a_draft_changes_nothing_until_it_is_published(source, catalog):
    source.listed = {"math": (ADD, STOP), "disk": (READ,)}
    draft = catalog.draft(catalog.listed())
    assert (catalog.visible(EVERYTHING), catalog.find("disk", "read")) == ((ADD,), None)
    assert catalog.tools_by_server() == {"disk": 0, "math": 1}
    assert found(catalog, "read a file") == []
    catalog.publish(draft)
    assert catalog.visible(EVERYTHING) == (ADD, STOP, READ)
    assert catalog.tools_by_server() == {"disk": 1, "math": 2}
    assert found(catalog, "read a file") == ["read"]


def test_a_new_edition_is_made_only_of_new_tools(source, catalog):
    first = catalog.latest
    source.listed = {"disk": (), "math": (Tool("math", "add", "Adds numbers."),)}
    assert catalog.draft(catalog.listed()) is first
    source.listed = {"math": (ADD, STOP)}
    assert catalog.draft(catalog.listed()).version == first.version + 1


def test_only_the_definitions_of_new_tools_are_counted_and_before_anybody_asks(source):
    counter = CountedTexts()
    catalog = Catalog(source, counter)
    catalog.refresh()
    before = len(counter.texts)
    source.listed = {"math": (ADD, STOP)}
    catalog.refresh()
    assert [text for text in counter.texts[before:] if '"add"' in text] == []
    counted = len(counter.texts)
    assert catalog.full_tokens(EVERYTHING) == sum(map(len, counter.texts))
    assert len(counter.texts) == counted


def test_a_server_that_makes_up_words_neither_fills_the_index_nor_hides_the_others():
    listing = Listing("hostile")
    listing.read(made_up_words())
    assert len(listing.tools) > 100
    index = SearchIndex((*listing.tools, ADD, READ))
    assert len(index._lookups._postings.by_term) < 2 * MAX_TERMS_OF_A_SERVER
    assert [hit.tool for hit in index.search(["read a file"], limit=1)] == [READ]
    assert index.search(["wordy_117"], limit=1)[0].tool.name == "wordy_117"


def test_marks_that_would_have_to_be_sorted_cost_next_to_nothing():
    listing = Listing("hostile")
    listing.read(combining_marks())
    began = time.monotonic()
    SearchIndex(listing.tools)
    assert time.monotonic() - began < 5  # a tenth of a second; it was fifteen


@pytest.mark.parametrize(
    "text",
    [
        "ﬁle Ａｌｐｈａ １２３ ½ ",  # noqa: RUF001 (to be normalised)
        "Cafe\u0301 ".ljust(511, "x") + "e\u0301" * 600,
        "한국어 파일을 읽습니다 " * 100,
        "が" * 700,
        "列出数据库中的所有表。" * 90,
    ],
)
def test_text_is_normalised_in_pieces_as_it_would_be_whole(text):
    assert terms(text) == terms(unicodedata.normalize("NFKC", text))


def test_a_skill_is_not_counted_among_what_a_caller_would_carry_without_us(source, catalog):
    skill = Tool("skills", "report", "Reports.", skill=SkillTraits("1" * 64, "python", ()))
    with_skill = Catalog(source, CountedTexts(), lambda listed: [skill])
    with_skill.refresh()
    assert skill in with_skill.visible(EVERYTHING)
    assert with_skill.full_tokens(EVERYTHING) == catalog.full_tokens(EVERYTHING) > 0
