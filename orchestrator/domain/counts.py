"""Counts that forget whom there is nothing to count of any more, however many there were."""

from __future__ import annotations

from collections import Counter


def count_down(counts: Counter[str], name: str, by: int = 1) -> None:
    counts[name] -= by
    if not counts[name]:
        del counts[name]
