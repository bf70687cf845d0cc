"""Counts that forget whom there is nothing to count of any more, however many there were."""

from __future__ import annotations

from collections import Counter


def count_down(counts: Counter[str], name: str) -> None:
    counts[name] -= 1
    if not counts[name]:
        del counts[name]
