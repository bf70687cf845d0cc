"""Judges every mutant, or some of them: `python -m tests.mutation --sample 20`."""

from __future__ import annotations

import argparse
import asyncio
import sys

import structlog

from tests import mutation
from tests.mutation.verdicts import Fate, chosen_mutants, judge, summary


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=mutation.__doc__)
    parser.add_argument("--sample", type=int, help="only so many mutants, drawn at random")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="only mutants whose group or name has this")
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger("critical"))
    report = asyncio.run(judge(chosen_mutants(options.sample, options.seed, options.only)))
    print(summary(report), *(f"survived: {name}" for name in report.named(Fate.SURVIVED)), sep="\n")
    return 0 if not report.named(Fate.SURVIVED) else 1


if __name__ == "__main__":
    sys.exit(main())
