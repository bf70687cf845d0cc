"""Text of strangers as comments and literals: whatever it contains, it stays inside of them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_MAX_LINES = 200
_MAX_CHARACTERS = 8000
_JOINERS = "\u200c\u200d"

_PLAIN_KEY = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")


def comment_lines(text: str) -> list[str]:
    """Lines without anything that a compiler or a terminal might not take for text, such as bidirectional controls."""
    lines = [_visible(line).rstrip() for line in text[:_MAX_CHARACTERS].strip().splitlines()[:_MAX_LINES]]
    return [*lines, "…"] if len(text) > _MAX_CHARACTERS else lines


def _visible(line: str) -> str:
    return "".join(
        character if character.isprintable() or character in _JOINERS else " " if character.isspace() else "\ufffd"
        for character in line
    )


def typescript_comment(text: str, indent: str = "") -> str:
    lines = [_inert(line) for line in comment_lines(text)]
    if not lines:
        return ""
    if len(lines) == 1:
        return f"{indent}/** {lines[0]} */\n"
    body = "".join(f"{indent} * {line}".rstrip() + "\n" for line in lines)
    return f"{indent}/**\n{body}{indent} */\n"


def typescript_note(text: str) -> str:
    return f" /* {_inert(' '.join(comment_lines(text)))} */" if text else ""


def _inert(line: str) -> str:
    # The compiler takes orders from comments such as @ts-nocheck.
    return line.replace("*/", "*\\/").replace("@ts-", "@ ts-")


def python_comment(text: str, indent: str = "") -> str:
    return "".join(f"{indent}# {line}".rstrip() + "\n" for line in comment_lines(text))


def python_docstring(text: str, indent: str = "") -> str:
    lines = [line.replace("\\", "\\\\").replace('"""', '\\"\\"\\"') for line in comment_lines(text)]
    if len(lines) == 1 and not lines[0].endswith('"'):
        return f'{indent}"""{lines[0]}"""\n'
    body = "".join(f"{indent}{line}".rstrip() + "\n" for line in lines)
    return f'{indent}"""\n{body}{indent}"""\n'


def python_literal(value: Any) -> str:
    match value:
        case str():
            return _python_string(value)
        case Mapping():
            pairs = (f"{python_literal(key)}: {python_literal(item)}" for key, item in value.items())
            return f"{{{', '.join(pairs)}}}"
        case list() | tuple():
            return f"[{', '.join(map(python_literal, value))}]"
        case _:
            return repr(value)


def _python_string(text: str) -> str:
    # repr() writes what cannot be printed as escapes; double quotes are only for looks.
    quoted = repr(text)
    return quoted if '"' in quoted or quoted.startswith('"') or "\\'" in quoted else f'"{quoted[1:-1]}"'


def typescript_literal(value: Any) -> str:
    match value:
        case str():
            return "".join(map(_escaped, json.dumps(value, ensure_ascii=False)))
        case Mapping():
            pairs = (f"{_value_key(key)}: {typescript_literal(item)}" for key, item in value.items())
            return f"{{ {', '.join(pairs)} }}" if value else "{}"
        case list() | tuple():
            return f"[{', '.join(map(typescript_literal, value))}]"
        case _:
            return json.dumps(value)


def _escaped(character: str) -> str:
    return character if character.isprintable() else json.dumps(character)[1:-1]


def typescript_key(name: str) -> str:
    return name if _PLAIN_KEY.fullmatch(name) else typescript_literal(name)


def _value_key(name: str) -> str:
    # As a plain key of an object literal it would set the prototype.
    return '["__proto__"]' if name == "__proto__" else typescript_key(name)
