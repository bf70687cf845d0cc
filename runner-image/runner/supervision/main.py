"""Puts the supervisor together."""

from __future__ import annotations

import os
import time

from supervision import languages, orders, program, shield, signals
from supervision.supervisor import Supervisor

EXIT_USAGE = 64


def main(arguments: list[str]) -> int:
    started_at = time.monotonic()
    try:
        language, lifetime_seconds, door, workspace, interpreter = _parse(arguments)
    except ValueError as error:
        os.write(2, f"supervisor: {error}\n".encode())
        return EXIT_USAGE
    shield.step_back_from_oom_killer()
    shield.raise_shield()
    shield.adopt_orphans()
    wakeup = signals.wakeup_on_child_exit()
    os.chdir(workspace)
    for folder in (orders.INPUTS, orders.OUTPUTS):
        orders.make_folder(folder)
    started = program.start(languages.command(language, workspace, interpreter), workspace)
    return Supervisor(language, started, workspace, started_at + lifetime_seconds, wakeup, door).supervise()


def _parse(arguments: list[str]) -> tuple[str, float, str, str, str | None]:
    if not 3 <= len(arguments) <= 5:
        raise ValueError("usage: supervisor.py LANGUAGE LIFETIME_SECONDS DOOR [WORKSPACE [INTERPRETER]]")
    language, lifetime_seconds, door, *rest = arguments
    if language not in languages.LANGUAGES:
        raise ValueError(f"the language must be one of {', '.join(languages.LANGUAGES)}")
    if not 0 < (seconds := float(lifetime_seconds)) < float("inf"):
        raise ValueError("the lifetime must be a positive number of seconds")
    workspace = rest[0] if rest else "/workspace"
    return language, seconds, door, workspace, rest[1] if len(rest) > 1 else None
