"""Kills the daemon many times: `python -m tests.chaos --rounds 200`."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time

from bench.progress import say
from tests import chaos
from tests.chaos.rounds import run_rounds, summary


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=chaos.__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    say(f"{options.rounds} rounds, seed {options.seed}")
    report = asyncio.run(run_rounds(options.rounds, options.seed))
    print(summary(report), *report.untruthful, sep="\n")
    return 0 if report.passed else 1


if __name__ == "__main__":
    sys.exit(main())
