"""Turns names and prose into search terms: identifiers split, words stemmed, text without spaces in pairs."""

from __future__ import annotations

import re
import threading
import unicodedata
from functools import cache, lru_cache
from pathlib import Path
from unicodedata import combining

import Stemmer

# Scripts written without spaces: CJK ideographs, kana, Hangul, and Thai, Lao, Burmese and Khmer.
UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
MAX_TERM_CHARACTERS = 40
MAX_NORMALIZED_CHARACTERS = 512

_CHUNK = re.compile(rf"[{UNSPACED}]+|[^\W_{UNSPACED}]+")
_UNSPACED_START = re.compile(rf"[{UNSPACED}]")
_PIECE = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\WA-Za-z\d_]+")
_END_OF_SENTENCE = re.compile(r"(?<=[.!?])(?<!e\.g\.)(?<!i\.e\.)\s|(?<=[。！？])|\n")  # noqa: RUF001 full-width is meant
_SNOWBALL = Stemmer.Stemmer("english", 0)
_stemming = threading.Lock()  # a stemmer must not be used by two threads at once


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


def terms(text: str, *, single_ideographs: bool = True) -> list[str]:
    """Return the terms of a text; in one that is searched for, only a lone ideograph counts on its own."""
    found: list[str] = []
    for chunk in _CHUNK.findall(_normalized(text)):
        if chunk[0] >= "\u0e00" and _UNSPACED_START.match(chunk):
            found += [chunk[start : start + 2] for start in range(len(chunk) - 1)] or [chunk]
            found += chunk if single_ideographs and len(chunk) > 1 else ""
            known_words, english_for = _glossary()
            found += [stem(word) for known in known_words.findall(chunk) for word in english_for[known]]
            continue
        for part in _identifier_parts(chunk):
            if part not in STOP_WORDS and (len(part) > 1 or not part.isascii()):
                found.append(stem(part[:MAX_TERM_CHARACTERS]))
    return found


def _normalized(text: str) -> str:
    """Return the text in NFKC, made from pieces: the time that one takes grows with the square of its marks."""
    if text.isascii():
        return text
    pieces, start = [], 0
    while start < len(text):
        end = start + MAX_NORMALIZED_CHARACTERS
        # Not before a mark, which belongs to what it stands on; if there is nothing else, anywhere.
        before_a_letter = (cut for cut in range(end, start, -1) if cut >= len(text) or not combining(text[cut]))
        end = next(before_a_letter, end)
        pieces.append(unicodedata.normalize("NFKC", text[start:end]))
        start = end
    return "".join(pieces)


def _identifier_parts(chunk: str) -> list[str]:
    if chunk.isascii() and (chunk.islower() or chunk.istitle()) and chunk.isalpha():
        return [chunk.lower()]
    parts = [part.casefold() for part in _PIECE.findall(chunk)]
    # Whoever writes "youTube" or "9to5mac" may be asked for "youtube" or "9to5mac".
    return [*parts, chunk.casefold()] if len(parts) > 1 else parts


@lru_cache(maxsize=50_000)
def stem(word: str) -> str:
    # Snowball takes the singular "analysis" for a plural.
    if len(word) <= 3 or not word.isascii() or word.endswith("sis"):
        return word
    with _stemming:
        stemmed: str = _SNOWBALL.stemWord(word)
        if stemmed.endswith(("er", "or")) and len(stemmed) >= 6:
            # Tools are named by what they do or by what does it, but Snowball leaves "reader" and "editor" as they are.
            stemmed = _SNOWBALL.stemWord(stemmed[:-2])
    singular = f"{word[:-3]}y" if word.endswith("ies") else word.removesuffix("s")
    # What it cuts off beyond four letters makes another word: a presentation is nothing present.
    return stemmed if len(singular) - len(stemmed) <= 4 else singular


def split_first_sentence(text: str) -> tuple[str, str]:
    """Return the first sentence, and what follows it."""
    stripped = text.strip()
    end = _END_OF_SENTENCE.search(stripped)
    return (stripped[: end.start()], stripped[end.start() :]) if end else (stripped, "")


def read_entries(file_name: str) -> list[str]:
    """Return the lines of a file of vocabulary without its comments."""
    lines = (Path(__file__).parent / "data" / file_name).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


@cache
def _glossary() -> tuple[re.Pattern[str], dict[str, list[str]]]:
    english_for = {chinese: english for chinese, *english in map(str.split, read_entries("glossary.txt"))}
    longest_first = sorted(english_for, key=len, reverse=True)
    return re.compile("|".join(longest_first)), english_for
