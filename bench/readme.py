"""Puts the newest table and chart into the README, between its markers."""

from __future__ import annotations

import re
from pathlib import Path

from bench.paths import README, RESULTS, ROOT
from bench.results import read
from bench.tables import readme_section

BEGIN, END = "<!-- bench -->", "<!-- /bench -->"
HEADING = "## How fast it is"


class NothingToShow(Exception):
    pass


def newest_results() -> Path:
    files = sorted(RESULTS.glob("*.json"))
    if not files:
        raise NothingToShow(f"There is no result in {RESULTS.relative_to(ROOT)}; run `make bench` first.")
    return files[-1]


def write_readme() -> Path:
    file = newest_results()
    chart = (RESULTS / f"{file.stem}-latency.svg").relative_to(ROOT)
    section = f"{BEGIN}\n{readme_section(read(file), str(chart))}\n{END}"
    README.write_text(_placed(README.read_text(), section))
    return file


def _placed(text: str, section: str) -> str:
    if BEGIN not in text:
        return f"{text.rstrip()}\n\n{HEADING}\n\n{section}\n"
    between = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)
    return between.sub(lambda _: section, text, count=1)
