"""Puts the newest tables and chart into docs/speed.md, between its markers."""

from __future__ import annotations

import os
import re
from pathlib import Path

from bench.paths import RESULTS, ROOT, SPEED_PAGE
from bench.results import read
from bench.tables import speed_section

BEGIN, END = "<!-- bench -->", "<!-- /bench -->"


class NothingToShow(Exception):
    pass


def newest_results() -> Path:
    files = sorted(RESULTS.glob("*.json"))
    if not files:
        raise NothingToShow(f"There is no result in {RESULTS.relative_to(ROOT)}; run `make bench` first.")
    return files[-1]


def write_speed_page() -> Path:
    file = newest_results()
    chart = os.path.relpath(RESULTS / f"{file.stem}-latency.svg", SPEED_PAGE.parent)
    section = f"{BEGIN}\n{speed_section(read(file), chart)}\n{END}"
    SPEED_PAGE.write_text(_placed(SPEED_PAGE.read_text(), section))
    return file


def _placed(text: str, section: str) -> str:
    if BEGIN not in text:
        return f"{text.rstrip()}\n\n{section}\n"
    between = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)
    return between.sub(lambda _: section, text, count=1)
