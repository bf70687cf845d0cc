"""Writes text of strangers as TypeScript comments and literals; whatever it contains, it stays inside them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from orchestrator.wrappers.text import comment_lines

_PLAIN_KEY = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")


def comment(text: str, indent: str = "") -> str:
    lines = [_inert(line) for line in comment_lines(text)]
    if not lines:
        return ""
    if len(lines) == 1:
        return f"{indent}/** {lines[0]} */\n"
    body = "".join(f"{indent} * {line}".rstrip() + "\n" for line in lines)
    return f"{indent}/**\n{body}{indent} */\n"


def note(text: str) -> str:
    return f" /* {_inert(' '.join(comment_lines(text)))} */" if text else ""


def _inert(line: str) -> str:
    # The compiler takes orders from comments such as @ts-nocheck.
    return line.replace("*/", "*\\/").replace("@ts-", "@ ts-")


def literal(value: Any) -> str:
    match value:
        case str():
            quoted = json.dumps(value, ensure_ascii=False)
            return "".join(each if each.isprintable() else json.dumps(each)[1:-1] for each in quoted)
        case Mapping():
            # As a plain key of an object literal, __proto__ would set the prototype.
            keys = ['["__proto__"]' if name == "__proto__" else key(name) for name in value]
            pairs = [f"{name}: {literal(item)}" for name, item in zip(keys, value.values(), strict=True)]
            return f"{{ {', '.join(pairs)} }}" if pairs else "{}"
        case list() | tuple():
            return f"[{', '.join(map(literal, value))}]"
        case _:
            return json.dumps(value)


def key(name: str) -> str:
    """Return the name as a key of a type or an object, quoted only where it must be."""
    return name if _PLAIN_KEY.fullmatch(name) else literal(name)
