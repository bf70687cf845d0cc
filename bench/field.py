"""Everybody who takes part in the comparison of single executions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack

from bench.contestants import (
    OURS_COLD,
    OURS_WARM,
    Bare,
    Contestant,
    DockerRun,
    Ours,
    Unavailable,
    bubblewrap,
    long_lived_container,
)
from bench.engine import Engine
from bench.installation import Daemon
from bench.llm_sandbox import enter_llm_sandbox

Entering = Callable[[], Sequence[Contestant]]


class Field:
    """Who takes part, and why somebody does not."""

    def __init__(self, engine: Engine, warm: Daemon, cold: Daemon) -> None:
        self.contestants: list[Contestant] = []
        self.unavailable: dict[str, str] = {}
        self._engine, self._warm, self._cold = engine, warm, cold
        self._leave = ExitStack()

    def __enter__(self) -> Field:
        self.contestants = [
            Ours(OURS_WARM, self._warm, streaming=False),
            Ours(OURS_COLD, self._cold, streaming=True),
            DockerRun(self._engine),
            Bare(),
        ]
        with self._leave:  # on an error below, what is open is closed
            self._try("docker exec", lambda: [self._leave.enter_context(long_lived_container(self._engine))])
            self._try("bwrap", lambda: [bubblewrap()])
            self._try("llm-sandbox", lambda: enter_llm_sandbox(self._engine, self._leave))
            self._leave = self._leave.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._leave.close()

    def without(self, *names: str) -> list[Contestant]:
        return [contestant for contestant in self.contestants if contestant.name not in names]

    def _try(self, name: str, enter: Entering) -> None:
        try:
            self.contestants += enter()
        except Unavailable as error:
            self.unavailable[name] = str(error)
