"""What a statement returns: its rows as JSON can hold them, as many as an answer may have."""

from __future__ import annotations

import json
import math
from collections.abc import AsyncIterable
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

MAX_ROWS = 10_000
# About what the daemon takes as one result.
MAX_BYTES = 16 * 1024 * 1024

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    rows: list[Row]
    affected: int
    is_cut: bool


async def collected(rows: AsyncIterable[Row], max_rows: int = MAX_ROWS, max_bytes: int = MAX_BYTES) -> Answer:
    """Keep the first rows and count the others: to stop reading would undo a statement that also changes something."""
    kept: list[Row] = []
    count, room = 0, max_bytes
    async for row in rows:
        count += 1
        if len(kept) < max_rows and room > 0:
            held = as_json(row)
            room -= len(json.dumps(held))
            if room >= 0 or not kept:
                kept.append(held)
    return Answer(kept, count, is_cut=count > len(kept))


def as_json(value: Any) -> Any:
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case Decimal():
            return as_json(float(value))
        case datetime() | date() | time():
            return value.isoformat()
        case dict():
            return {str(name): as_json(part) for name, part in value.items()}
        case list() | tuple():
            return [as_json(part) for part in value]
        case bytes() | memoryview():
            return bytes(value).hex()
        case _:
            return str(value)
