"""How a text reads to whoever looks at it: letters that look like ASCII ones, and in which words scripts are mixed.

The tables are not complete, and need not be: a word in which only some letters are replaced has letters of two scripts.
Each character is looked at by itself, so that the time grows with the length of the text and with nothing else.
"""
# ruff: noqa: RUF001 - letters that look like others are what this is about

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

# Each pair is a letter and what it looks like. A small letter looks like the small one unless it has a pair of its own.
_PAIRS = """
    АA ВB ЕE ЅS ІI ЈJ КK МM НH ОO РP СC ТT УY ҮY ХX ԌG ԚQ ԜW Һh Ԁd ӀI ӏl ѴV ИN иu ПN пn ЦU цu ШW шw ЯR яr гr ьb єe
    ΑA ΒB ΕE ΖZ ΗH ΙI ΚK ΜM ΝN ΟO ΡP ΤT ΥY ΧX ΘO ΩO ΣE ΠN ΔA ΛA αa βb γy δd εe ζz ηn θo ιi κk λl μu νv οo πn ρp σo ςc
    τt υu φo χx ωw ϳj
    աw գq եt զq էt լl ժd հh մu յj ղn ոn ռn սu վy ցg րr ւi քp օo ՀZ ՍU ՏS ՕO ԼL
    ᎠD ᎡR ᎢT ᎤQ ᎥI ᎦF ᎧO ᎩY ᎪA ᎫJ ᎬE ᎮP ᎳW ᎶG ᎷM ᎻH ᎽY ᎾO ᏀG ᏁN ᏂH ᏃZ ᏆT ᏇW ᏉV ᏋE ᏌU ᏏB ᏒR ᏔW ᏕS ᏖT ᏗA ᏙV ᏚS ᏞL ᏟC
    ᏠJ ᏢP ᏦK ᏧD ᏨC ᏬU ᏰB ᏳG ᏴB
    ⲀA ⲂB ⲈE ⲎH ⲒI ⲔK ⲘM ⲚN ⲞO ⲢP ⲤC ⲦT ⲨY ⲬX ⲱw
    ꓐB ꓑP ꓒd ꓓD ꓔT ꓖG ꓗK ꓙJ ꓚC ꓜZ ꓝF ꓟM ꓠN ꓡL ꓢS ꓣR ꓦV ꓧH ꓪW ꓫX ꓬY ꓮA ꓰE ꓲI ꓳO ꓴU
    ᐯV ᑌU ᑎN ᑕC ᑫq ᑭP ᑯd ᒍJ ᒪL ᔕS ᕼH ᕮE ᖇR ᖴF ᗅA ᗞD ᗩA ᗪD ᗯW ᗰM ᗴE ᗷB ᘜG ᙭X ᛕK ᛁI
    ɑa əe ɾr ʍm ǀl ǃ! סo וl ןl ᄋo ᅵl 口o ロo ʼ' ‘'
"""
_NAMED_LETTER = re.compile(
    r"(?:LATIN(?: CAPITAL| SMALL)?|REGIONAL INDICATOR SYMBOL) LETTER (?:SMALL CAPITAL |DOTLESS |SCRIPT |OPEN )?"
    r"([A-Z])(?: WITH .*)?$"
)
BLANKS = "\u00a0\u1680\u2000-\u200a\u202f\u205f\u2800\u3000\u303f\ufffc\U0001d159"  # for the class of a pattern
_BLANK = re.compile(f"[{BLANKS}]")
_SEPARATORS = "·•‧∙⋅・␀␠␢␣⎵▁ˍ"
_LONGEST_READING = 4  # some signs stand for whole sentences


def _table() -> dict[str, str]:
    own = {pair[0]: pair[1] for pair in _PAIRS.split()}
    small = {letter.lower(): ascii_one.lower() for letter, ascii_one in own.items()}
    return small | own | dict.fromkeys(_SEPARATORS, " ")


_LOOKS_LIKE = _table()


@dataclass(frozen=True, slots=True)
class Reading:
    """A text as it reads, and where in the original each of its characters comes from."""

    text: str
    places: Sequence[int]


def reading(text: str) -> Reading:
    """Replace letters that look like ASCII ones and blanks that look like spaces, and leave out combining marks."""
    if text.isascii():
        return Reading(text, range(len(text)))
    parts = [_read(character) for character in text]
    return Reading("".join(parts), [place for place, part in enumerate(parts) for _ in part])


@lru_cache(maxsize=1 << 14)
def _read(character: str) -> str:
    if character.isascii():
        return character
    if _BLANK.match(character):
        return " "
    decomposed = unicodedata.normalize("NFKD", character)[:_LONGEST_READING]
    return "".join(_looks_like(each) for each in decomposed if unicodedata.category(each) not in ("Mn", "Me"))


def _looks_like(character: str) -> str:
    if character.isascii():
        return character
    if unicodedata.category(character) == "Pc":
        return "_"
    name = unicodedata.name(character, "")
    if named := _NAMED_LETTER.search(name):
        return named[1].lower() if "SMALL" in name else named[1]
    return _LOOKS_LIKE.get(character, character)


def reads_as_ascii(name: str) -> bool:
    """Tell whether a name reads like another one in ASCII, by more than its accents."""
    bases = [unicodedata.normalize("NFD", each)[0] for each in name if unicodedata.category(each)[0] != "M"]
    return not all(base.isascii() for base in bases) and reading(name).text.isascii()


# --- Words of mixed scripts

# Words of other languages stand beside these without a space, and none of their signs looks like a letter of a word.
_WITHOUT_SPACES = ("CJK ", "HANGUL SYLLABLE ", "HIRAGANA ", "KATAKANA", "BOPOMOFO ", "IDEOGRAPHIC ")
_SIGNS = "μΔΩΣσλπθφ"  # of units and quantities: μs, kΩ, Δt
_NO_LETTER = ""
_ANY_SCRIPT = "any"


def mixed_words(text: str) -> Iterator[tuple[int, str]]:
    """Yield each word whose letters are of more than one script, and where it begins."""
    start = 0
    for end, character in enumerate(f"{text} " if not text.isascii() else ""):
        if _script_of(character) == _NO_LETTER:
            if _is_mixed(word := text[start:end]):
                yield start, word
            start = end + 1


@lru_cache(maxsize=1 << 14)
def _script_of(character: str) -> str:
    match unicodedata.category(character)[0]:
        case "M" | "N":
            return _ANY_SCRIPT
        case "L":
            name = unicodedata.name(unicodedata.normalize("NFKC", character)[0], "")
            if name.startswith(_WITHOUT_SPACES) or name.endswith(" FILLER"):
                return _NO_LETTER
            return _ANY_SCRIPT if name.startswith("MODIFIER ") else name.partition(" ")[0]
        case _:
            return _NO_LETTER


def _is_mixed(word: str) -> bool:
    if word.isascii():
        return False
    letters = [letter for letter in word if _script_of(letter) != _ANY_SCRIPT]
    scripts = [_script_of(letter) for letter in letters]
    if set(scripts) == {"LATIN", "GREEK"} and scripts.count("GREEK") == 1:
        return not any(unicodedata.normalize("NFKC", letter) in _SIGNS for letter in (letters[0], letters[-1]))
    return len(set(scripts)) > 1
