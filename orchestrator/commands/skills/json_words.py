"""JSON that the user typed, or has in a file."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any, NoReturn

from orchestrator.commands.program_file import STDIN
from orchestrator.commands.terminal import EXIT_BAD_DATA, EXIT_BAD_USE, EXIT_NOT_THERE, Json, fail


def json_in(text: str) -> Any:
    """Read JSON without NaN and infinite numbers, which Python would read too; raise ValueError or RecursionError."""
    return json.loads(text, parse_constant=_refuse, parse_float=_finite)


def _finite(number: str) -> float:
    value = float(number)
    return value if math.isfinite(value) else _refuse(number)


def _refuse(number: str) -> NoReturn:
    raise ValueError(f"{number} is not a number of JSON")


def object_in(text: str, where: str, exit_code: int = EXIT_BAD_USE) -> Json:
    """Return the JSON object that a text is; anything else ends the command."""

    try:
        value = json_in(text)
    except (ValueError, RecursionError) as error:
        fail(f"{where} must be a JSON object: {error}.", exit_code)
    if not isinstance(value, dict):
        fail(f"{where} must be a JSON object, such as {{}}.", exit_code)
    return value


def object_in_file(file: str, option: str) -> Json:
    """Return the JSON object that a file has, or standard input."""
    try:
        text = sys.stdin.read() if file == STDIN else Path(file).read_text(encoding="utf-8")
    except OSError as error:
        fail(f"{file} of {option} cannot be read: {error.strerror}.", EXIT_NOT_THERE)
    except UnicodeDecodeError as error:
        fail(f"{file} of {option} cannot be read: {error}.", EXIT_BAD_DATA)
    return object_in(text, "Standard input" if file == STDIN else file, EXIT_BAD_DATA)
