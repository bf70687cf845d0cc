"""Reads .env, for everything that make runs: settings_file.py FILE NAME prints the value of one setting.

The command line reads the file with python-dotenv, and compose reads it as well; all of them have to agree. This one
works with any Python 3, because scripts ask it before there is a virtual environment.
"""

from __future__ import annotations

import codecs
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

SETTING = re.compile(
    r"""
    ^[^\S\n]* (?:export\s+)? (?P<name>[A-Za-z_]\w*) [^\S\n]* =
    (?:
        [^\S\n]* '(?P<single>(?:[^'\\]|\\.)*)' [^\S\n]* (?:\#.*)?
      | [^\S\n]* "(?P<double>(?:[^"\\]|\\.)*)" [^\S\n]* (?:\#.*)?
      | (?![^\S\n]*['"]) (?P<plain>.*?) (?:[^\S\n]+\#.*)?
    )
    [^\S\n]*$
    """,
    re.MULTILINE | re.VERBOSE,
)
ESCAPED_IN_SINGLE_QUOTES = re.compile(r"\\[\\']")
ESCAPED_IN_DOUBLE_QUOTES = re.compile(r"\\[\\'\"abfnrtv]")
REFERENCE = re.compile(r"\$\{([^}:]*)(?::-([^}]*))?\}")


def read(path: Path) -> dict[str, str]:
    """Return the settings of a file that may be missing; of several lines for one name, the last counts."""
    settings: dict[str, str] = {}
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    for match in SETTING.finditer(text):
        settings[match["name"]] = _filled_in(_value(match), {**os.environ, **settings})
    return settings


def _value(match: re.Match[str]) -> str:
    if match["single"] is not None:
        return ESCAPED_IN_SINGLE_QUOTES.sub(_unescaped, match["single"])
    if match["double"] is not None:
        return ESCAPED_IN_DOUBLE_QUOTES.sub(_unescaped, match["double"])
    return match["plain"].strip()


def _unescaped(escape: re.Match[str]) -> str:
    return codecs.decode(escape[0], "unicode-escape")


def _filled_in(value: str, variables: Mapping[str, str]) -> str:
    return REFERENCE.sub(lambda reference: variables.get(reference[1], reference[2] or ""), value)


def main(file: str, name: str) -> None:
    sys.stdout.write(read(Path(file)).get(name, ""))


if __name__ == "__main__":
    main(*sys.argv[1:])
