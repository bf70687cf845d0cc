"""How much is measured: everything is bounded, so that a run ends in the time that is promised."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Plan:
    quick: bool
    warm_up_rounds: int
    rounds: int
    spare_rounds: int  # more of them, in place of those that others disturbed
    pool: int
    load_pool: int  # the default ceiling
    levels: tuple[int, ...]
    docker_levels: tuple[int, ...]
    level_warm_up_seconds: float
    level_seconds: float
    capacity_seconds: float  # for the fastest level of each once more
    load_shares: tuple[float, ...]
    load_seconds: float
    burst: int
    burst_rounds: int
    crowds: tuple[int, ...]
    starts_per_crowd: int
    gateway_rounds: int
    gateway_calls: int
    soak_executions: int
    soak_seconds: float | None
    profile_seconds: float


FULL = Plan(
    quick=False,
    warm_up_rounds=2,
    rounds=30,
    spare_rounds=12,
    pool=8,
    load_pool=24,
    levels=(1, 2, 4, 8, 16, 32, 64),
    docker_levels=(1, 2, 4, 8, 16),
    level_warm_up_seconds=2,
    level_seconds=5,
    capacity_seconds=20,
    load_shares=(0.5, 0.8, 1.0, 1.2),
    load_seconds=60,
    burst=50,
    burst_rounds=3,
    crowds=(0, 50, 100, 50, 0),
    starts_per_crowd=10,
    gateway_rounds=6,
    gateway_calls=100,
    soak_executions=10_000,
    soak_seconds=150,
    profile_seconds=10,
)

QUICK = Plan(
    quick=True,
    warm_up_rounds=0,
    rounds=5,
    spare_rounds=0,
    pool=8,
    load_pool=24,
    levels=(1, 8, 64),
    docker_levels=(2, 4),
    level_warm_up_seconds=1,
    level_seconds=3,
    capacity_seconds=4,
    load_shares=(0.5, 0.8, 1.0, 1.2),
    load_seconds=4,
    burst=50,
    burst_rounds=1,
    crowds=(0, 20, 0),
    starts_per_crowd=3,
    gateway_rounds=2,
    gateway_calls=40,
    soak_executions=60,
    soak_seconds=8,
    profile_seconds=4,
)
