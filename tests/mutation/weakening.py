from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from orchestrator.engines.docker import lockdown
from tests.mutation.mutants import Mutant


class Weakening:
    """Stands between the engine and the lockdown; what it computes is weakened before it is sent and compared."""

    def __init__(self) -> None:
        self.mutant: Mutant | None = None

    @contextmanager
    def installed(self) -> Iterator[None]:
        original = lockdown.sandbox_config, lockdown.slot_config
        lockdown.sandbox_config = self._around(lockdown.sandbox_config, of_slot=False)
        lockdown.slot_config = self._around(lockdown.slot_config, of_slot=True)
        try:
            yield
        finally:
            lockdown.sandbox_config, lockdown.slot_config = original

    def _around(self, compute: Callable[..., Any], *, of_slot: bool) -> Callable[..., Any]:
        def weakened(*arguments: Any, **options: Any) -> Any:
            config = compute(*arguments, **options)
            applies = self.mutant is not None and self.mutant.of_slot == of_slot
            return self.mutant.applied_to(config) if self.mutant is not None and applies else config

        return weakened
