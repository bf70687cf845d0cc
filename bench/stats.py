"""Percentiles, and ratios of what was measured in the same round."""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence

from bench.results import Ratio, Summary

RESAMPLES = 2000
INTERVAL = (0.025, 0.975)


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def summary(seconds: Sequence[float]) -> Summary:
    p50, p95, p99 = (1000 * percentile(seconds, share) for share in (0.5, 0.95, 0.99))
    return Summary(n=len(seconds), p50_ms=p50, p95_ms=p95, p99_ms=p99)


def ratio(numerators: Sequence[float], denominators: Sequence[float]) -> Ratio:
    """The median of the rounds' ratios, with the interval that resampling the rounds gives."""
    ratios = [mine / other for mine, other in zip(numerators, denominators, strict=True)]
    low, high = _bootstrap(ratios)
    return Ratio(median=statistics.median(ratios), low=low, high=high, n=len(ratios))


def _bootstrap(ratios: list[float]) -> tuple[float, float]:
    draw = random.Random(0)  # the interval of the same figures is the same
    medians = [statistics.median(draw.choices(ratios, k=len(ratios))) for _ in range(RESAMPLES)]
    low, high = (percentile(medians, share) for share in INTERVAL)
    return low, high
