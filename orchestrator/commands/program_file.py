"""Which language a program's file is in: by its ending, else by its `#!` line; a guess would only fail later."""

from __future__ import annotations

import re
from pathlib import Path, PurePath

from orchestrator.domain.execution import Language

STDIN = "-"
LANGUAGE_OF_SUFFIX = {
    **{suffix: language for language in Language for suffix in language.suffixes},
    # JavaScript is TypeScript without types, and both have what CommonJS modules have.
    **dict.fromkeys((".cts", ".js", ".mjs", ".cjs"), Language.TYPESCRIPT),
    ".pyw": Language.PYTHON,
}
LANGUAGE_OF_INTERPRETER = {
    **dict.fromkeys(("node", "nodejs", "deno", "bun", "tsx", "ts-node"), Language.TYPESCRIPT),
    **dict.fromkeys(("python", "pypy", "uv"), Language.PYTHON),
}
# What cannot be run whatever it is called; JSX needs a compiler that sandboxes do not have.
SUFFIXES_OF_OTHERS = {".tsx": "TypeScript with JSX", ".jsx": "JavaScript with JSX", ".ipynb": "a notebook"}
# Up to the interpreter: the path to it, and env with its options and variables.
_INTERPRETER = re.compile(r"#!\s*(?:\S*/)?(?:env\s+(?:-\S+\s+|\w+=\S*\s+)*(?:\S*/)?)?([A-Za-z-]+)")


class LanguageUnknown(Exception):
    """The message says what to do."""


def read_program(file: str, stdin: str | None = None) -> str:
    """Return the program's text, without the mark that some editors put before it; raise OSError or UnicodeError."""
    text = stdin if stdin is not None else Path(file).read_text(encoding="utf-8")
    return text.removeprefix("\ufeff")


def language_of(file: str, code: str) -> Language:
    """Return the language that a file is written in, or raise LanguageUnknown; standard input is TypeScript."""
    suffix = PurePath(file).suffix.lower()
    if suffix in LANGUAGE_OF_SUFFIX:
        return LANGUAGE_OF_SUFFIX[suffix]
    if suffix in SUFFIXES_OF_OTHERS:
        raise LanguageUnknown(
            f"{file} is {SUFFIXES_OF_OTHERS[suffix]}, which is not run here. Save it as plain TypeScript or Python, "
            "or name the language with --language."
        )
    if (shebang := _INTERPRETER.match(code)) is not None:
        interpreter = shebang[1]
        if interpreter in LANGUAGE_OF_INTERPRETER:
            return LANGUAGE_OF_INTERPRETER[interpreter]
        raise LanguageUnknown(f"{file} is a program for {interpreter}; only TypeScript and Python are run here.")
    if file == STDIN:
        return Language.TYPESCRIPT
    raise LanguageUnknown(
        f"The name {file} does not tell its language. Say --language python or --language typescript."
    )
