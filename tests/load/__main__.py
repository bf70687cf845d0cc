"""Many callers at once, and two that compete: `python -m tests.load --requests 1000`."""

from __future__ import annotations

import argparse
import asyncio
import sys

from bench.progress import say
from tests.load.fairness import fairness
from tests.load.storm import storm, summary


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.load", description=__doc__)
    parser.add_argument("--requests", type=int, default=1000)
    options = parser.parse_args()
    report = asyncio.run(storm(options.requests))
    say(summary(report))
    competition = asyncio.run(fairness(options.requests // 5, options.requests // 25))
    say(f"a caller that came late had a share of {competition.share:.2f}")
    return 0 if report.passed and competition.fair else 1


if __name__ == "__main__":
    sys.exit(main())
