"""Turns names and prose into search terms: identifiers split, endings cut, text without spaces in pairs."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache

from orchestrator.catalog.glossary import english_for

# Scripts written without spaces: CJK ideographs, kana, Hangul, and Thai, Lao, Burmese and Khmer.
UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
MAX_TERM_CHARACTERS = 40

_CHUNK = re.compile(rf"[{UNSPACED}]+|[^\W_{UNSPACED}]+")
_PIECE = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\WA-Za-z\d_]+")


def word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


STOP_WORDS = word_set(
    """
    a an the of to in on at by for from with without into onto and or but not no nor as is are was were be been being
    am do does did doing done has have had having it its this that these those there here their them they he she his
    her him i me my we our us you your who whom which what when where why how can could will would shall should may
    might must if then else than so such very just also too only own same other some any all each every both more
    most please help want need needs like let about over under up down out off again further once per via using use
    used within between through during before after etc tell give one two three
    """
)


def terms(text: str) -> list[str]:
    """The terms of a text that is searched in."""
    return list(_terms(text, single_ideographs=True))


def query_terms(text: str) -> list[str]:
    """The terms of a text that is searched for: only a lone ideograph counts on its own."""
    return list(_terms(text, single_ideographs=False))


def _terms(text: str, *, single_ideographs: bool) -> Iterator[str]:
    for chunk in _CHUNK.findall(unicodedata.normalize("NFKC", text)):
        if _is_unspaced(chunk):
            yield from _pairs(chunk)
            if single_ideographs and len(chunk) > 1:
                yield from chunk
            yield from map(stem, english_for(chunk))
        else:
            yield from _stems(_identifier_parts(chunk))


def _is_unspaced(chunk: str) -> bool:
    return chunk[0] >= "\u0e00" and re.match(rf"[{UNSPACED}]", chunk) is not None


def _pairs(chunk: str) -> list[str]:
    return [chunk[start : start + 2] for start in range(len(chunk) - 1)] or [chunk]


def _identifier_parts(chunk: str) -> list[str]:
    if chunk.isascii() and (chunk.islower() or chunk.istitle()) and chunk.isalpha():
        return [chunk.lower()]
    parts = [part.casefold() for part in _PIECE.findall(chunk)]
    # Whoever writes "youTube" or "9to5mac" may be asked for "youtube" or "9to5mac".
    return [*parts, chunk.casefold()] if len(parts) > 1 else parts


def _stems(parts: Iterable[str]) -> Iterator[str]:
    for part in parts:
        if part not in STOP_WORDS and (len(part) > 1 or not part.isascii()):
            yield stem(part[:MAX_TERM_CHARACTERS])


@lru_cache(maxsize=50_000)
def stem(word: str) -> str:
    if len(word) <= 3 or not word.isascii():
        return word
    return _without_last_vowel(_without_ending(_singular(word)))


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith("sses"):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us", "is")) else word


def _without_ending(word: str) -> str:
    if word.endswith(("ization", "isation")):
        return word[:-5]
    for ending in ("ing", "ion", "ed", "er", "or"):
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            return _undoubled(word[: -len(ending)])
    return word


def _undoubled(word: str) -> str:
    return word[:-1] if word[-1] == word[-2] and word[-1] not in "lsz" else word


def _without_last_vowel(word: str) -> str:
    if len(word) <= 4:
        return word
    if word.endswith("e"):
        return word[:-1]
    return word[:-1] + "i" if word.endswith("y") else word
