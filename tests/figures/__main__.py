"""Measures every promise, or some of them: `python -m tests.figures` (`--quick` for a try)."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

import structlog

from bench.paths import BUILD, ROOT
from tests import figures
from tests.figures.figure import FULL, QUICK
from tests.figures.page import rendered
from tests.figures.parts import PARTS, keep, kept, measure

FIGURES = ROOT / "docs" / "figures.md"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.figures", description=figures.__doc__)
    parser.add_argument("--quick", action="store_true", help="small numbers, to see that it works")
    parser.add_argument("--only", default=",".join(PARTS), help=f"some of {','.join(PARTS)}")
    parser.add_argument("--output", type=Path, help="the page; without it docs/figures.md, or for a quick run .build")
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger("critical"))
    chosen = options.only.split(",")
    if unknown := [part for part in chosen if part not in PARTS]:
        parser.error(f"no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    plan = QUICK if options.quick else FULL
    for part in chosen:
        keep(part, asyncio.run(measure(part, plan, quick=options.quick)))
    parts = kept(quick=options.quick)
    output = options.output or (BUILD / "figures.md" if options.quick else FIGURES)
    output.write_text(rendered(parts, quick=options.quick))
    return 0 if all(figure.met for part in parts.values() for figure in part.figures) else 1


if __name__ == "__main__":
    sys.exit(main())
