"""Runs a compiler on the program and reads what it says."""

from __future__ import annotations

import os
from collections.abc import Mapping

_MAX_BYTES = 16 * 1024 * 1024


class Compiler:
    """One run of a compiler, which goes on while its caller does something else."""

    def __init__(self, command: list[str], environment: Mapping[str, str]) -> None:
        self._output, end = os.pipe()
        actions = [(os.POSIX_SPAWN_DUP2, end, 1), (os.POSIX_SPAWN_CLOSE, self._output)]
        self._pid = os.posix_spawn(command[0], command, environment, file_actions=actions)
        os.close(end)

    def said(self) -> str:
        """Wait for the compiler, and return what it printed."""
        with os.fdopen(self._output, "rb") as output:
            said = output.read(_MAX_BYTES)
        os.waitpid(self._pid, 0)
        return said.decode(errors="replace")
