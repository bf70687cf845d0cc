"""One thing that is surely wrong with a program, as a person would want to be told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

_MAX_CHARACTERS = 600
_MAX_LISTED = 12


class Mistake(NamedTuple):
    line: int
    column: int
    message: str
    usage: str = ""  # how the tool is called that it is about


def as_told(mistakes: Iterable[Mistake]) -> Iterator[dict[str, object]]:
    """Yield what is told of each; how a tool is called is told once."""
    explained: set[str] = {""}
    for mistake in mistakes:
        usage = "" if mistake.usage in explained else f" Usage: {mistake.usage}"
        explained.add(mistake.usage)
        message = f"{mistake.message}{usage}"[:_MAX_CHARACTERS]
        yield {"line": mistake.line, "column": mistake.column, "message": message}


def looks_like(language: str) -> str:
    return f'This looks like {language}: set language to "{language.lower()}".'


def no_such_server(name: str, servers: Iterable[str]) -> str:
    return f"There is no server `{name}`.{suggestion(name, servers)}"


def no_such_tool(name: str, server: str, tools: Iterable[str]) -> str:
    return f"The server `{server}` has no tool `{name}`.{suggestion(name, tools)}"


def no_such_skill(name: str, skills: Iterable[str]) -> str:
    return f"There is no skill `{name}`.{suggestion(name, skills)}"


def suggestion(name: str, known: Iterable[str]) -> str:
    """Name what was probably meant; failing that, a few of those that there are."""
    from difflib import get_close_matches

    names = sorted(known)
    if close := get_close_matches(name, names, 1, 0.6):
        return f" Did you mean `{close[0]}`?"
    listed = ", ".join(f"`{each}`" for each in names[:_MAX_LISTED])
    more = ", …" if len(names) > _MAX_LISTED else ""
    return f" There are: {listed}{more}." if names else ""
