"""Writes text of strangers as Python comments and literals; whatever it contains, it stays inside them."""

from __future__ import annotations

import keyword
from collections.abc import Mapping
from typing import Any

from orchestrator.wrappers.text import comment_lines


def comment(text: str, indent: str = "") -> str:
    return "".join(f"{indent}# {line}".rstrip() + "\n" for line in comment_lines(text))


def docstring(text: str, indent: str = "") -> str:
    lines = [line.replace("\\", "\\\\").replace('"""', '\\"\\"\\"') for line in comment_lines(text)]
    if len(lines) == 1 and not lines[0].endswith('"'):
        return f'{indent}"""{lines[0]}"""\n'
    body = "".join(f"{indent}{line}".rstrip() + "\n" for line in lines)
    return f'{indent}"""\n{body}{indent}"""\n'


def literal(value: Any) -> str:
    match value:
        case str():
            # repr() writes what cannot be printed as escapes; double quotes are only for looks.
            quoted = repr(value)
            return quoted if '"' in quoted or "\\'" in quoted else f'"{quoted[1:-1]}"'
        case Mapping():
            pairs = (f"{literal(key)}: {literal(item)}" for key, item in value.items())
            return f"{{{', '.join(pairs)}}}"
        case list() | tuple():
            return f"[{', '.join(map(literal, value))}]"
        case _:
            return repr(value)


def is_keyword_argument(name: str) -> bool:
    return name.isidentifier() and name.isascii() and not keyword.iskeyword(name)
