"""Reads a query: its words, and the files that it mentions, which say that something must be read or written."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.catalog.words import terms, word_set
from orchestrator.domain.errors import InvalidRequest

MAX_QUERIES = 10
MAX_QUERY_CHARACTERS = 4000  # of all queries of a search together
MAX_QUERY_TERMS = 48
MAX_FILE_MENTIONS = 3
WORDS_BEFORE_A_FILE = 8

_LOOKS_LIKE_A_FILE = "pdf docx? xlsx? pptx? csv tsv json xml txt md png jpe?g gif svg mp3 wav mp4 zip".replace(" ", "|")
_MENTION = re.compile(
    rf"(?P<url>https?://\S+)"
    rf"|(?P<path>(?<![\w/.~-])(?:~|\.{{1,2}})?/[\w./~-]+)"
    rf"|(?P<file>(?<![\w.-])[\w-]+(?:\.[\w-]+)*\.(?:{_LOOKS_LIKE_A_FILE})\b)"
)
_EXTENSION = re.compile(r"\.(\w{1,5})$")
_WORD = re.compile(r"[a-z]+")

SYSTEM_DIRECTORIES = word_set("root home users tmp var opt mnt srv usr etc")
READING = word_set("read open load import extract analyze parse from under inspect convert view")
WRITING = word_set("save saved saving write written store stored export output create put generate")
# Any program that writes text writes these; the extension says nothing about the tool.
PLAIN_TEXT = word_set("md txt html htm json csv tsv xml yml yaml toml ini log py js ts css svg tex bib rst sh sql")


@dataclass(frozen=True, slots=True)
class Query:
    terms: tuple[str, ...]
    file_terms: tuple[tuple[str, ...], ...]


def meaningful(queries: Sequence[str]) -> list[str]:
    """Return the queries that say something; refuse more of them, or longer ones, than a search may have."""
    require_few(queries)
    return [query for query in queries if query.strip()]


def require_few(queries: Sequence[object]) -> None:
    """Refuse a search for too much, whatever its queries are; to look at each more closely would take long."""
    number, characters = len(queries), sum(len(query) for query in queries if isinstance(query, str))
    if number > MAX_QUERIES or characters > MAX_QUERY_CHARACTERS:
        most = f"at most {MAX_QUERIES} queries with {MAX_QUERY_CHARACTERS} characters in all"
        raise InvalidRequest(f"A search must have {most}; this one has {number} with {characters}.")


def read_query(text: str) -> Query:
    text = text[:MAX_QUERY_CHARACTERS]
    mentions = []
    for match in _MENTION.finditer(text):
        if not (extension := _extension(match)):
            continue
        before = _WORD.findall(text[max(0, match.start() - 100) : match.start()].lower())[-WORDS_BEFORE_A_FILE:]
        verb = "write" if WRITING.intersection(before) or not READING.intersection(before) else "read"
        mentions.append(f"{verb} file" if extension in PLAIN_TEXT else f"{verb} file {extension}")
    return Query(
        terms=_distinct_terms(_MENTION.sub(_in_words, text)),
        file_terms=tuple(_distinct_terms(mention) for mention in dict.fromkeys(mentions[:MAX_FILE_MENTIONS])),
    )


def _in_words(match: re.Match[str]) -> str:
    if match["url"]:
        return " url "
    directories = match[0].split("/")[:-1]
    names = (name for name in directories if name.lower() not in SYSTEM_DIRECTORIES)
    return f" file {_extension(match)} {' '.join(names)} "


def _extension(match: re.Match[str]) -> str:
    found = None if match["url"] else _EXTENSION.search(match[0].rstrip("."))
    return found[1].lower() if found else ""


def _distinct_terms(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(terms(text, single_ideographs=False)))[:MAX_QUERY_TERMS]
