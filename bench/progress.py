"""One line per thing that is done, with the seconds since the start."""

from __future__ import annotations

import time

_BEGAN = time.monotonic()


def say(text: str) -> None:
    print(f"[{elapsed_seconds():6.0f} s] {text}", flush=True)


def elapsed_seconds() -> float:
    return time.monotonic() - _BEGAN
