"""What the check found in a program. It comes from where the program runs, so nothing in it is taken on trust."""

from __future__ import annotations

from typing import Any

from orchestrator.domain.chat import printable
from orchestrator.domain.execution import Mistake

MAX_MISTAKES = 8
MAX_PLACE = 10_000_000
MAX_MESSAGE_CHARACTERS = 700


def mistakes_in(told: Any) -> tuple[Mistake, ...]:
    """Read a verdict; one that is not understood says nothing."""
    try:
        return tuple(
            Mistake(_place(each["line"]), _place(each["column"]), _message(each["message"]))
            for each in told["mistakes"][:MAX_MISTAKES]
        )
    except (KeyError, TypeError, ValueError):
        return ()


def _place(value: object) -> int:
    if type(value) is int and 0 < value <= MAX_PLACE:
        return value
    raise ValueError("not a place")


def _message(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("not a text")
    # A lone surrogate is legal in JSON, but nothing that a journal takes.
    return printable(value[:MAX_MESSAGE_CHARACTERS].encode(errors="replace").decode())
