"""Programs as agents write them, right ones and wrong ones, with what must be told of the wrong ones."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.programs import Language

HERE = Path(__file__).parent
LANGUAGES = {".ts": Language.TYPESCRIPT, ".py": Language.PYTHON}


@dataclass(frozen=True, slots=True)
class Written:
    name: str
    language: Language
    code: str
    line: int | None  # of its first mistake; None if it is right
    told: tuple[str, ...]

    @property
    def is_right(self) -> bool:
        return self.line is None


@dataclass(frozen=True, slots=True)
class Seen:
    """What became of a program."""

    program: Written
    outcome: str
    tool_calls: int
    mistakes: tuple[Mapping[str, Any], ...]
    stderr: str

    @property
    def is_falsely_rejected(self) -> bool:
        return self.program.is_right and self.outcome == "rejected"

    @property
    def is_rejected_in_time(self) -> bool:
        return not self.program.is_right and self.outcome == "rejected" and self.tool_calls == 0

    @property
    def untold(self) -> list[str]:
        """Return what should have been told of a wrong program, and was not."""
        said = " ".join(str(mistake["message"]) for mistake in self.mistakes)
        missing = [part for part in self.program.told if part not in said]
        lines = [mistake["line"] for mistake in self.mistakes]
        return missing if self.program.line in (None, *lines[:1]) else [f"line {self.program.line}", *missing]


def programs() -> list[Written]:
    expected = json.loads((HERE / "expectations.json").read_text())
    return [_written(name, expectation) for name, expectation in expected.items()]


def _written(name: str, expected: Mapping[str, Any]) -> Written:
    file = HERE / "programs" / name
    return Written(
        name, LANGUAGES[file.suffix], file.read_text(), expected.get("line"), tuple(expected.get("told", ()))
    )
