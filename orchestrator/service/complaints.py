"""What is wrong with what somebody sent, in words; short, however much was sent."""

from __future__ import annotations

from pydantic import ValidationError

MOST = 5
NAME_CHARACTERS = 100


def complaints(error: ValidationError, about: str) -> str:
    """`about` is named where no field is."""
    items = error.errors(include_url=False, include_input=False, include_context=False)
    told = [f"{_place(item['loc']) or about}: {item['msg']}" for item in items[:MOST]]
    return "; ".join([*told, f"and {len(items) - MOST} more"] if len(items) > MOST else told)


def _place(location: tuple[int | str, ...]) -> str:
    name = ".".join(map(str, location))
    return name if len(name) <= NAME_CHARACTERS else f"{name[:NAME_CHARACTERS]}…"
