from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from orchestrator.engines.docker import lockdown
from tests.mutation.mutants import Mutant


class Weakening:
    """Stands between the launcher and the lockdown; what it computes is weakened before it is sent and compared."""

    def __init__(self) -> None:
        self.mutant: Mutant | None = None

    @contextmanager
    def installed(self) -> Iterator[None]:
        original = lockdown.sandbox_config

        def weakened(*arguments: Any, **options: Any) -> Any:
            config = original(*arguments, **options)
            return self.mutant.applied_to(config) if self.mutant is not None else config

        lockdown.sandbox_config = weakened
        try:
            yield
        finally:
            lockdown.sandbox_config = original
