"""What must not be in a skill: text that nobody sees, secrets, data that nobody can review, and orders to models.

What only makes code look like other code, such as letters that look like others, is remarked but not refused.

A skill is written by one model and read by others, so what it says about itself is looked at before it is stored. This
catches mistakes and plain attacks, and is no proof of good will: that is what the approval by a person is for. All
patterns are bounded or possessive, so that the time grows with the length of the text and with nothing else.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import log2
from typing import Any

from orchestrator.domain.code_texts import texts_in
from orchestrator.domain.execution import Language
from orchestrator.domain.json_schema import under
from orchestrator.domain.lookalikes import BLANKS, mixed_words, reading, reads_as_ascii
from orchestrator.domain.skills import Remark, SkillContent

HIDDEN_UNICODE = "hidden_unicode"
DECEPTIVE_CODE = "deceptive_code"
DECEPTIVE_TEXT = "deceptive_text"
HIDDEN_CODE = "hidden_code"
REACHES_AROUND = "reaches_around"
SECRET = "secret"  # noqa: S105 - the kind of a remark
LONG_BASE64 = "long_base64"
INSTRUCTION = "instruction"
MARKUP = "markup"
LEFT_OUT = "left_out"

MAX_REMARKS = 50
_MAX_REMARKS_OF_A_KIND = 5  # about one text
_MAX_PLACE_CHARACTERS = 200


def remarks_on(content: SkillContent) -> tuple[Remark, ...]:
    """Return what is wrong with a skill's texts, first what refuses it."""
    remarks: list[Remark] = []
    left_out: Counter[str] = Counter()
    for text in _texts(content):
        for look in _LOOKS:
            findings = sorted(look(text), key=lambda finding: (not finding.refuses, finding.rank))
            remarks += _remarks(text, findings[:_MAX_REMARKS_OF_A_KIND])
            left_out.update(finding.kind for finding in findings[_MAX_REMARKS_OF_A_KIND:])
    remarks.sort(key=lambda remark: not remark.refuses)
    if left_out or len(remarks) > MAX_REMARKS:
        left_out.update(remark.kind for remark in remarks[MAX_REMARKS - 1 :])
        message = f"And {left_out.total()} more: {', '.join(sorted(left_out))}. Mend these, and the others are told."
        remarks[MAX_REMARKS - 1 :] = [Remark(LEFT_OUT, message)]
    return tuple(remarks)


@dataclass(frozen=True, slots=True)
class _Text:
    place: str
    text: str
    language: Language | None = None  # of code
    is_prose: bool = False  # read by models that choose and call skills
    name: str = ""  # of the property whose value it is

    @property
    def is_code(self) -> bool:
        return self.language is not None


@dataclass(frozen=True, slots=True)
class _Finding:
    at: int
    kind: str
    message: str
    refuses: bool
    rank: int = 0  # those of the lowest come first


def _texts(content: SkillContent) -> Iterator[_Text]:
    yield _Text("description", content.description, is_prose=True)
    yield _Text("code", content.code, content.language)
    yield from _texts_in(content.input, "input", is_prose=True)
    yield from _texts_in(content.output, "output", is_prose=True)
    for index, example in enumerate(content.examples):
        yield from _texts_in(example, f"examples[{index}]", is_prose=False)


def _texts_in(value: Any, place: str, *, is_prose: bool) -> Iterator[_Text]:
    """Yield all strings in a JSON value, also the names of properties, however deep they are."""
    ahead = [(place, "", value)]
    while ahead:
        place, name, value = ahead.pop()
        if isinstance(value, str):
            yield _Text(place, value, is_prose=is_prose, name=name)
        elif isinstance(value, Mapping):
            named = [(_deeper(place, under(place, str(key))), str(key), item) for key, item in value.items()]
            for inner, key, _ in named:
                yield _Text(inner, key, is_prose=is_prose)
            ahead += reversed(named)
        elif isinstance(value, list | tuple):
            ahead += reversed([(_deeper(place, f"{place}[{index}]"), name, item) for index, item in enumerate(value)])


def _deeper(place: str, inner: str) -> str:
    """Stop naming what is too deep: the names of all places would take far more room than the places."""
    if place.endswith("…"):
        return place
    return inner if len(inner) <= _MAX_PLACE_CHARACTERS else f"{place}…"


def _remarks(text: _Text, findings: Sequence[_Finding]) -> Iterator[Remark]:
    starts = [0, *(match.end() for match in re.finditer("\n", text.text))] if findings and text.is_code else []
    for finding in findings:
        place = text.place
        if text.is_code:
            line = bisect_right(starts, finding.at)
            place = f"{place}:{line}:{finding.at - starts[line - 1] + 1}"
        yield Remark(finding.kind, finding.message, place, finding.refuses)


# --- What cannot be seen

_MAYBE_HIDDEN = re.compile(r"[^\t\n\r -~]")
# Default ignorable, but letters, marks and spaces by their category.
_IGNORABLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2028\u2029\u3164\ufe00-\ufe0f\uffa0\U00013441\U00013442\U00016fe4"
    "\U000e0000-\U000e0fff]"
)
_BLANK = re.compile(f"[{BLANKS}]")
# French has such a space on the inner side of these, and numbers between their digits and before their unit.
_NARROW_SPACE = re.compile("(?<=[«0-9])[\u00a0\u202f](?=\\S)|(?<=\\S)[\u00a0\u202f](?=[»:;?!%€$])")
# Of the category of the invisible ones, but drawn: signs that enclose a number or a word.
_DRAWN = re.compile("[\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd]")
# Later versions of Unicode than Python's put pictures and ideographs here.
_TO_BE_DRAWN = re.compile("[\U0001f000-\U0001faff\U00020000-\U0002fffd\U00030000-\U0003fffd]")
_JOINERS = "\u200c\u200d"
_EMOJI_STYLES = "\ufe0e\ufe0f"
_KEYCAP = "\u20e3"
_SCRIPTS_WITH_JOINERS = (
    "ARABIC BENGALI DEVANAGARI GUJARATI GURMUKHI KANNADA KHMER MALAYALAM MONGOLIAN MYANMAR ORIYA SINHALA SYRIAC TAMIL "
    "TELUGU TIBETAN"
)
_JOINED_SCRIPTS = tuple(f"{script} " for script in _SCRIPTS_WITH_JOINERS.split())
_NORMALIZED_AT_ONCE = 256
_UNNAMED = {"Cc": "a control character", "Co": "a private-use character", "Cs": "half a character"}


def _hidden(text: _Text) -> Iterator[_Finding]:
    for match in _MAYBE_HIDDEN.finditer(text.text):
        character, at = match.group(), match.start()
        if _BLANK.match(character):
            if not _NARROW_SPACE.match(text.text, at):
                message = f"{_named(character)} looks like a plain space. Write that, or an escape sequence."
                yield _Finding(at, HIDDEN_UNICODE, message, refuses=not text.is_code)
            continue
        category = unicodedata.category(character)
        if _IGNORABLE.match(character):
            hides = not _is_emoji_style(text.text, at)
        elif category == "Cf":
            hides = not _DRAWN.match(character) and not _joins(text.text, at)
        else:
            hides = category in ("Cc", "Co", "Cs") or (category == "Cn" and not _TO_BE_DRAWN.match(character))
        if hides:
            message = f"{_named(character)} cannot be seen. Remove it, or write it as an escape sequence."
            yield _Finding(at, HIDDEN_UNICODE, message, refuses=True)


@lru_cache(maxsize=1 << 10)
def _named(character: str) -> str:
    unnamed = _UNNAMED.get(unicodedata.category(character), "no character")
    return f"U+{ord(character):04X} ({unicodedata.name(character, unnamed)})"


def _normalized(text: str) -> str:
    """Normalize it part by part, because the time grows with the square of the number of accents on one letter."""
    parts = (text[at : at + _NORMALIZED_AT_ONCE] for at in range(0, len(text), _NORMALIZED_AT_ONCE))
    return "".join(unicodedata.normalize("NFKC", part) for part in parts)


def _is_emoji_style(text: str, at: int) -> bool:
    """Tell whether a variation selector says how the picture before it is drawn."""
    if text[at] not in _EMOJI_STYLES or at == 0:
        return False
    before = text[at - 1]
    if before.isascii():
        return before in "0123456789#*" and text[at + 1 : at + 2] == _KEYCAP
    return _is_picture(before) or before in "‼⁉ℹ〰〽"  # noqa: RUF001 - those that are no symbols by category


def _joins(text: str, at: int) -> bool:
    """Tell whether a joiner stands where the writing of a language, or a picture of several people, needs it."""
    if text[at] not in _JOINERS or not 0 < at < len(text) - 1:
        return False
    before, after = text[at - 1], text[at + 1]
    if before in _EMOJI_STYLES and at > 1:
        before = text[at - 2]
    if text[at] == "\u200d" and _is_picture(before) and _is_picture(after):
        return True
    return all(unicodedata.name(letter, "").startswith(_JOINED_SCRIPTS) for letter in (before, after))


def _is_picture(character: str) -> bool:
    if character.isascii():
        return False
    return unicodedata.category(character) in ("So", "Sm", "Sk") or bool(_TO_BE_DRAWN.match(character))


# --- Code that looks like other code

_STRAY_RETURN = re.compile(r"\r(?!\n)")
_LINES_WITH_ENCODING = 2
_ENCODING = re.compile(r"[ \t\f]*#[^\n]*?coding[:=][ \t]*([-\w.]+)")
_PLAIN_ENCODING = re.compile("utf[-_]?8", re.IGNORECASE)
_NAME = re.compile(r"[\w\u0080-\U0010ffff]++")
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]")
_MAX_SHOWN_CHARACTERS = 40


def _stray_returns(text: _Text) -> Iterator[_Finding]:
    for match in _STRAY_RETURN.finditer(text.text) if text.is_code else ():
        message = (
            "A carriage return without a line feed begins a new line of code, which is not shown as one everywhere."
        )
        yield _Finding(match.start(), DECEPTIVE_CODE, message, refuses=True)


def _encodings(text: _Text) -> Iterator[_Finding]:
    """Yield what would make Python read other code than is shown: it decodes a module as its first two lines say."""
    if text.language is not Language.PYTHON:
        return
    end = 0
    for _ in range(_LINES_WITH_ENCODING):
        match = _ENCODING.match(text.text, end)
        if match and not _PLAIN_ENCODING.fullmatch(match[1]):
            message = "The encoding of a skill must be UTF-8. Leave out this comment."
            yield _Finding(match.start(1), DECEPTIVE_CODE, message, refuses=True)
        end = text.text.find("\n", end) + 1
        if not end:
            return


def _odd_names(text: _Text) -> Iterator[_Finding]:
    """Yield names with letters that look like others, and with those that Python takes for others, each once."""
    names: set[str] = set()
    for start, end in _code_in(text):
        for match in _NAME.finditer(text.text, start, end):
            name = match.group()
            # What cannot be in a name is a mistake that the language finds.
            odd = next((each for each in name if not each.isascii() and f"a{each}".isidentifier()), None)
            if odd is None or name in names:
                continue
            names.add(name)
            shown, meant = (word[:_MAX_SHOWN_CHARACTERS] for word in (name, _normalized(name)))
            if shown != meant and text.language is Language.PYTHON:
                message = f"`{shown}` is `{meant}` to Python. Write it so."
            else:
                message = f"`{shown}` has {_named(odd)}, which may look like another letter. Use ASCII in names."
            yield _Finding(match.start(), DECEPTIVE_CODE, message, refuses=False, rank=_rank(name, meant))


def _rank(name: str, meant: str) -> int:
    """Put names that are made to mislead before those of other languages, which may be many."""
    if meant.isascii() or any(mixed_words(name)):
        return 0
    return 1 if reads_as_ascii(name) else 2


def _reordered(text: _Text) -> Iterator[_Finding]:
    for start, end in _code_in(text, with_comments_amid_it=True):
        if match := _RIGHT_TO_LEFT.search(text.text, start, end):
            message = (
                f"{_named(match.group())} is written from right to left, which may show the code around it elsewhere."
            )
            yield _Finding(match.start(), DECEPTIVE_CODE, message, refuses=False)


def _code_in(text: _Text, *, with_comments_amid_it: bool = False) -> Iterator[tuple[int, int]]:
    """Yield from where to where a text is code, rather than a comment or a string."""
    if text.language is None or text.text.isascii():
        return
    start = 0
    for found in texts_in(text.text, text.language):
        if not (with_comments_amid_it and found.is_amid_code):
            yield start, found.start
            start = found.end
    yield start, len(text.text)


# --- Code beside what is seen

_WIDEST_GAP = 40
_WIDEST_INDENTATION = 120
_LONGEST_LINE = 500
_SPACES = f" \\t{BLANKS}"
_GAP = re.compile(rf"(?<![{_SPACES}])[{_SPACES}]{{{_WIDEST_GAP},}}+(?=[^\r\n])")
_LONG_LINE = re.compile(rf"^[^\r\n]{{{_LONGEST_LINE}}}(?=[^\r\n])", re.MULTILINE)


def _hidden_code(text: _Text) -> Iterator[_Finding]:
    """Yield what stands so far to the right that whoever reads the code may not see it."""
    if not text.is_code:
        return
    for match in _GAP.finditer(text.text):
        width = match.end() - match.start()
        is_indentation = match.start() == 0 or text.text[match.start() - 1] in "\r\n"
        if not is_indentation or width >= _WIDEST_INDENTATION:
            message = f"{width} blanks before this may hide it from whoever reads the code. Begin a line with it."
            yield _Finding(match.end(), HIDDEN_CODE, message, refuses=False)
    for match in _LONG_LINE.finditer(text.text):
        message = f"What follows the first {_LONGEST_LINE} characters of a line is easily overlooked. Break the line."
        yield _Finding(match.end(), HIDDEN_CODE, message, refuses=False, rank=1)


_REACHES_AROUND = {
    Language.PYTHON: re.compile(
        r"\b(?:importlib|__import__|__builtins__|subprocess|runpy|ctypes|_client|_code)\b|\bos\.(?:system|exec|spawn|popen)"
        r"|(?<![.\w])(?:exec|eval)\b"
    ),
    Language.TYPESCRIPT: re.compile(
        r"\b(?:child_process|createRequire|worker_threads|_client|_code)\b|\bnode:vm\b|(?<![.\w])(?:eval|Function *\()"
        r"|\bimport *\( *(?![ '\"])"
    ),
}


def _reaches_around(text: _Text) -> Iterator[_Finding]:
    """Yield what may call or run what the imports do not show."""
    pattern = _REACHES_AROUND.get(text.language) if text.language is not None else None
    first = {match[0]: match for match in reversed([*pattern.finditer(text.text)])} if pattern is not None else {}
    for match in first.values():
        message = f"`{match[0]}` can run what `tools` does not name. Read what it is used for."
        yield _Finding(match.start(), REACHES_AROUND, message, refuses=False)


# --- Secrets


def _token(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![A-Za-z0-9_-])(?:{pattern})(?![A-Za-z0-9_-])")


_TOKENS = {
    "an AWS access key": _token(r"(?:AKIA|ASIA)[A-Z0-9]{16}"),
    "a GitHub token": _token(r"gh[pousr]_[A-Za-z0-9]{36,255}+|github_pat_[A-Za-z0-9_]{22,255}+"),
    "a GitLab token": _token(r"glpat-[A-Za-z0-9_.-]{20,300}+"),
    "a Slack token": _token(r"xox[abeoprs]-[A-Za-z0-9-]{10,300}+|xapp-[0-9]-[A-Za-z0-9-]{10,300}+"),
    "a Stripe key": _token(r"[sr]k_live_[A-Za-z0-9]{16,255}+"),
    "an Anthropic key": _token(r"sk-ant-[A-Za-z0-9_-]{20,300}+"),
    "an OpenAI key": _token(r"sk-(?:proj|svcacct|admin)-[A-Za-z0-9_-]{20,300}+|sk-[A-Za-z0-9]{32,300}+"),
    "a Google API key": _token(r"AIza[A-Za-z0-9_-]{35}"),
    "an npm token": _token(r"npm_[A-Za-z0-9]{36}"),
    "a PyPI token": _token(r"pypi-AgE[A-Za-z0-9_-]{50,500}+"),
    "a Hugging Face token": _token(r"hf_[A-Za-z0-9]{34,60}+"),
    "a SendGrid key": _token(r"SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}"),
    "a JSON Web Token": _token(r"eyJ[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}+"),
    "a bearer token": re.compile(r"(?i:\bBearer) {1,3}(?P<secret>[A-Za-z0-9._~+/-]{20,2000}+=*+)"),
}
_PRIVATE_KEY = re.compile(r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
_PASSWORD_IN_URL = re.compile(
    r"(?<=[A-Za-z0-9])://(?P<user>[^\s:/?#@'\"`<>]{0,100}):(?P<secret>[^\s@/?#'\"`]{1,200})@(?=[\w\[{$<-])"
)
_SENSITIVE_NAME = (
    r"(?P<before>[A-Za-z0-9_-]{0,40})"
    r"(?:passw(?:or)?d|passphrase|pwd|secret|api[_-]?key|(?:access|auth|private|secret|account)[_-]?key|token)s?"
    r"(?P<after>(?:[_-][A-Za-z0-9_-]{0,40})?)(?![A-Za-z0-9_-])"
)
# In front of the name stands no letter of its own, or every letter of a long word would be tried as its start.
_ASSIGNMENT = re.compile(
    rf"(?i)(?<![A-Za-z0-9_-]){_SENSITIVE_NAME}"
    r"[\"'`\]]{0,2}\s{0,5}(?::\s{0,5}[a-z_][\w. |\[\]]{0,40}?\s{0,5}(?==))?(?:=>|:=|=|:)\s{0,5}[bru]{0,2}"
    r"(?P<quote>[\"'`])(?P<secret>[^\"'`\s]{12,300})(?P=quote)"
)
_NAMED_SECRET = re.compile(f"(?i){_SENSITIVE_NAME}")
# A property that holds no secret, though its name has the word: token_url, next_page_token, secretName.
_ABOUT_A_SECRET = re.compile(
    r"(?i)(?:^|[_-])(?:ur[il]s?|names?|paths?|fields?|ids?|types?|files?|headers?|endpoints?|columns?|regex|patterns?|"
    r"prefix|kinds?|hints?|labels?|env|vars?|hash|policy|page|next|continuation|sync|stop|pad|eos|bos|sep|public)(?:[_-]|$)"
    r"|(?:page|next|continuation|public)$"
)
_PLACEHOLDER = re.compile(
    r"(?i)[<{}$%]|\*\*|\.\.\.|…|xxx|example|placeholder|your|change[_-]?me|dummy|sample|redacted|secret[_-]?here|"
    r"^(?:user|username|pass|passwd|password|pwd|pw|secret|token|key|test|foo|bar|root|guest|postgres)$"
)
# Names that are put together of words, such as oauth2_access_token: no password that anybody would choose.
_WORDS_ONLY = re.compile(r"(?:[A-Za-z]{1,60}\d{0,2}(?:[_./:-]|$)){1,60}")
_LEAST_BITS_PER_CHARACTER = 3.0
_ADVICE = "Take it out and replace it where it is used: a skill is read by many, and tools have their own credentials."


def _secrets(text: _Text) -> Iterator[_Finding]:
    found: list[tuple[int, int, str, str]] = [
        (match.start(), match.end(), what, secret)
        for what, pattern in _TOKENS.items()
        for match in pattern.finditer(text.text)
        if not _is_placeholder(secret := match.groupdict().get("secret") or match.group())
    ]
    found += (
        (match.start(), match.end(), "a private key", match.group()) for match in _PRIVATE_KEY.finditer(text.text)
    )
    found += (
        (match.start("secret"), match.end(), "a password in an address", match["secret"])
        for match in _PASSWORD_IN_URL.finditer(text.text)
        if not _is_placeholder(match["secret"]) and match["secret"] != match["user"]
    )
    found += (
        (match.start("secret"), match.end(), "a password, key or token", match["secret"])
        for match in _ASSIGNMENT.finditer(text.text)
        if _is_secret(match)
    )
    if (named := _NAMED_SECRET.fullmatch(text.name[:100])) and _is_secret(named, text.text):
        found.append((0, len(text.text), "a password, key or token", text.text))
    end = 0
    for start, its_end, what, secret in sorted(found, key=lambda each: each[0]):
        if start >= end:  # a token that is assigned to something is one secret
            end = its_end
            shown = secret[: min(4, len(secret) // 3)]
            yield _Finding(start, SECRET, f"`{shown}…` looks like {what}. {_ADVICE}", refuses=True)


def _is_secret(named: re.Match[str], value: str | None = None) -> bool:
    secret = named["secret"] if value is None else value
    if any(_ABOUT_A_SECRET.search(named[part]) for part in ("before", "after")):
        return False
    if not 12 <= len(secret) <= 300 or re.search(r"\s|://|^[./]", secret) or _is_placeholder(secret):
        return False
    has_letters_and_others = re.search("[A-Za-z]", secret) and re.search("[^A-Za-z]", secret)
    if not has_letters_and_others or _WORDS_ONLY.fullmatch(secret):
        return False
    return _bits_per_character(secret) >= _LEAST_BITS_PER_CHARACTER


def _is_placeholder(secret: str) -> bool:
    return bool(_PLACEHOLDER.search(secret)) or len(set(secret)) < min(5, len(secret))


def _bits_per_character(text: str) -> float:
    return -sum(count / len(text) * log2(count / len(text)) for count in Counter(text).values())


# --- Data that nobody can review

_LONGEST_RUN = 500
_RUN = re.compile(r"[A-Za-z0-9+/_-]{32,}+=*+")
# Between the lines of one text: a literal's end and the next one's start, joined by nothing, a plus or a backslash.
_SEAM = re.compile(r"(?:\\n)?[\"'`]?[ \t]*[+\\.]?[ \t]*\r?\n[ \t]*[+.]?[ \t]*(?:[bru]{0,2}[\"'`])?")
_DIGEST = re.compile(r"(?:[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{64}|[0-9a-f]{96}|[0-9a-f]{128})")


def _long_runs(text: _Text) -> Iterator[_Finding]:
    start, length, end = 0, 0, -1
    are_digests = True  # a list of checksums, one on each line, is no such data
    for match in _RUN.finditer(text.text):
        if end < 0 or match.start() - end > 80 or not _SEAM.fullmatch(text.text, end, match.start()):
            start, length, are_digests = match.start(), 0, True
        run = match.group().rstrip("=")
        is_ruler = 2 * sum(character.isalnum() for character in run) < len(run)
        before, length, end = length, length + (0 if is_ruler else len(run)), match.end()
        are_digests = are_digests and bool(_DIGEST.fullmatch(run))
        if before < _LONGEST_RUN <= length and not are_digests:
            message = (
                f"More than {_LONGEST_RUN} characters of encoded data cannot be reviewed. "
                "Put data into a file, or get it from a tool."
            )
            yield _Finding(start, LONG_BASE64, message, refuses=True)


# --- Orders to models

_BETWEEN_WORDS = "\x1f"  # for an underscore: white space that is no space
_MODEL = r"(?:ai|llm|assistant|agent|(?:language )?model|chatbot)s?"
_READER = r"(?:users?|humans?|persons?|people|anyone|anybody|customers?|operators?|administrators?|developers?)"
_START = r"(?:^|[.!?:;,(\"'*#-]\s{0,3}|\b(?:and|but|please|so|then|also)\s{1,9})"
_ORDERS = [
    # What was said before does not count.
    r"\b(?:ignore|disregard|forget|override|bypass)\s{1,9}(?:(?:all|any|the|your|every|of|these|those|my|its)\s{1,9}){0,3}"
    r"(?:previous|prior|earlier|preceding|above|existing|other|current|system|safety|original)\s{1,9}"
    r"(?:\w{1,30}\s{1,9}){0,2}"
    r"(?:instructions?|prompts?|rules?|guidelines?|directions?|messages?|context|restrictions?|policies|constraints)\b",
    r"\b(?:ignore|disregard|forget)\s{1,9}(?:everything|all|your)\s{1,9}(?:\w{1,30}\s{1,9}){0,2}?"
    r"(?:above|before|instructions?|rules?|guidelines?)\b",
    r"\b(?:new|hidden|secret|following|these)\s{1,9}instructions?\s{0,3}:",
    r"\bfollow\s{1,9}(?:these|my|the\s{1,9}following)\s{1,9}instructions?\b",
    # What the reader has to do.
    r"\byou\s{1,9}must\b",
    r"\byou\s{1,9}(?:should|shall|need\s{1,9}to|have\s{1,9}to|are\s{1,9}required\s{1,9}to)\s{1,9}"
    r"(?:always|never|first|immediately|also\s{1,9}call)\b",
    r"\byou\s{1,9}are\s{1,9}(?:now|no\s{1,9}longer)\b",
    rf"\byou\s{{1,9}}are\s{{1,9}}(?:an?|the)\s{{1,9}}(?:\w{{1,30}}\s{{1,9}}){{0,3}}?{_MODEL}\b",
    r"\bas\s{1,9}an?\s{1,9}(?:ai|artificial\s{1,9}intelligence|llm|(?:large\s{1,9})?language\s{1,9}model)\b",
    rf"\b(?:the|all|any|every|dear|note\s{{1,9}}(?:to|for)(?:\s{{1,9}}the)?)\s{{1,9}}{_MODEL}\s{{1,9}}"
    r"(?:must|should|shall|needs?\s{1,9}to|has\s{1,9}to|have\s{1,9}to)\s{1,9}"
    r"(?:always|never|not|first|call|use|run|read|send|ignore|tell|say|answer|reply)\b",
    rf"\b(?:note|message|instructions?|attention)\s{{1,9}}(?:to|for)\s{{1,9}}(?:(?:the|all|any)\s{{1,9}})?{_MODEL}\b",
    # Whom not to tell.
    r"\b(?:do\s{1,9}not|don['’]?t|never)\s{1,9}(?:tell|inform|notify|alert|warn)\s{1,9}"  # noqa: RUF001
    rf"(?:\w{{1,30}}\s{{1,9}}){{0,4}}?{_READER}\b",
    rf"{_START}(?:do\s{{1,9}}not|don['’]?t|never)\s{{1,9}}(?:(?:mention|reveal|disclose)\b|"  # noqa: RUF001
    rf"(?:ask|show|say)\s{{1,9}}(?:\w{{1,30}}\s{{1,9}}){{0,4}}?{_READER}\b)",
    r"\bwithout\s{1,9}(?:telling|informing|notifying|asking|alerting|warning)\s{1,9}"
    rf"(?:\w{{1,30}}\s{{1,9}}){{0,2}}?{_READER}\b",
    rf"\b(?:hide|conceal|keep)\s{{1,9}}(?:\w{{1,30}}\s{{1,9}}){{1,3}}?from\s{{1,9}}(?:\w{{1,30}}\s{{1,9}})?{_READER}\b",
    # Which tool to take.
    r"\balways\s{1,9}(?:call|use|run|invoke|execute|prefer|choose|pick|select)\s{1,9}(?:this|it|me)\b",
    r"\b(?:call|use|run|invoke|prefer|choose|pick)\s{1,9}(?:this|it|me)\s{1,9}(?:\w{1,30}\s{1,9}){0,2}?"
    r"(?:instead|rather\s{1,9}than|before\s{1,9}(?:any|every|all|each|you|calling|using))\b",
    r"\b(?:before|prior\s{1,9}to|instead\s{1,9}of|rather\s{1,9}than)\s{1,9}(?:(?:using|calling|running|invoking|you|use|"
    r"call|any|all|every|each|of|the|this|it|with)\s{1,9}){0,4}other\s{1,9}(?:\w{1,30}\s{1,9})?"
    r"(?:tools?|skills?|functions?|servers?)\b",
    r"\b(?:must|should)\s{1,9}(?:always\s{1,9})?be\s{1,9}(?:called|used|run|invoked)\s{1,9}"
    r"(?:first\b|instead\b|before\s{1,9}(?:any|every|all|each|other))",
    # What is not for the reader of a description.
    rf"\bsystem[^\S{_BETWEEN_WORDS}]{{1,9}}prompts?\b",  # but `system_prompt` is an ordinary name of a property
    r"(?<!\w)<\s{0,3}/?\s{0,3}(?:system|important|instructions?|assistant|hidden|secret|admin)\s{0,3}/?>",
    r"<\|\s{0,3}(?:im[_\s](?:start|end)|system|user|assistant|endoftext)\s{0,3}\|>|\[/?INST\]",
]
_ORDER = re.compile("|".join(_ORDERS), re.IGNORECASE | re.MULTILINE)
_SHOUT = re.compile(r"\b(?:IMPORTANT|ATTENTION)(?:\s{1,3}[A-Z]{1,20}){0,3}\s{0,3}[:!]")


def _mixed_letters(text: _Text) -> Iterator[_Finding]:
    """Yield words whose letters are of two scripts: no language has them, and no list of words does."""
    for at, word in mixed_words(text.text) if not text.is_code else ():
        message = f"`{word[:_MAX_SHOWN_CHARACTERS]}` has letters of two scripts, of which one looks like the other."
        yield _Finding(at, DECEPTIVE_TEXT, message, refuses=text.is_prose)


def _instructions(text: _Text) -> Iterator[_Finding]:
    read = reading(text.text)
    # In code, underscores are within names.
    looked_at = read.text if text.is_code else read.text.replace("_", _BETWEEN_WORDS)
    for pattern in (_ORDER, _SHOUT):
        for match in pattern.finditer(looked_at):
            words = " ".join(match.group().split()).lstrip(".!?:;,(\"'*#- ")
            message = f"“{words[:80]}” gives orders to whoever reads it. Say only what the skill does and returns."
            yield _Finding(read.places[match.start()], INSTRUCTION, message, refuses=text.is_prose)


# --- Markup

_MARKUP = re.compile(
    r"!?\[[^\[\]\n]{0,200}\]\([^()\s]{1,500}|<!--|(?<!\w)</?(?:a|b|i|u|p|br|hr|h[1-6]|em|strong|img|div|span|code|pre|ul|ol|li|"
    r"table|t[dhr]|style|script|iframe|svg|object|embed|form|input|button|video|audio|link|meta|details|summary)"
    r"(?:\s[^<>]{0,300})?/?>",
    re.IGNORECASE,
)


def _markup(text: _Text) -> Iterator[_Finding]:
    if text.is_prose and (match := _MARKUP.search(text.text)):
        message = "Links, pictures and tags are not shown to those who choose a skill. Write plain text."
        yield _Finding(match.start(), MARKUP, message, refuses=False)


_LOOKS = (
    *(_hidden, _stray_returns, _encodings, _odd_names, _reordered, _hidden_code, _reaches_around),
    *(_secrets, _long_runs, _mixed_letters, _instructions, _markup),
)
