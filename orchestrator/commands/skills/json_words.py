"""JSON that the user typed, or has in a file."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

from orchestrator.commands.program_file import STDIN
from orchestrator.commands.terminal import EXIT_BAD_DATA, EXIT_BAD_USE, EXIT_NOT_THERE, Json, fail


class NotInJson(ValueError):
    """A text is JSON but for a number that JSON does not have."""


def json_in(text: str) -> Any:
    """Read JSON without NaN and infinite numbers, which Python would read too: they raise NotInJson.

    Other texts raise ValueError or RecursionError.
    """
    refused: list[str] = []

    def finite(number: str) -> float:
        value = float(number)
        if not math.isfinite(value):
            refused.append(number)
        return value

    value = json.loads(text, parse_constant=finite, parse_float=finite)
    if refused:
        raise NotInJson(f"{refused[0]} is not a finite number, which JSON requires")
    return value


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
