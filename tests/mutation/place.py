"""The daemon whose sandboxes are weakened."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.api import Api
from tests.support.installation import Installation
from tests.support.launcher import with_launcher_here
from tests.support.trapping import trapping_installation

# The reaper, which discards what was tampered with, looks so seldom that the tests have to notice.
SETTINGS = {"warm_floor": 0, "warm_ceiling": 0, "check_seconds": 3600}
STARTS = 3


@dataclass(frozen=True, slots=True)
class Place:
    """What the tests' fixtures stand for here: daemons without warm sandboxes, one with the filter that kills."""

    api: Api
    trapping: Api
    installation: Installation

    def fixture(self, name: str, directory: Path) -> Any:
        if name in ("api", "cold", "one_by_one"):
            return self.api
        if name == "trapping":
            return self.trapping
        if name in ("installation", "cold_installation", "single"):
            return self.installation
        if name == "tmp_path":
            return directory
        raise LookupError(f"a test wants {name}")


@asynccontextmanager
async def place() -> AsyncIterator[Place]:
    with tempfile.TemporaryDirectory(prefix="mutation-") as name:
        ordinary, trapping = Path(name) / "ordinary", Path(name) / "trapping"
        for directory in (ordinary, trapping):
            directory.mkdir()
        async with AsyncExitStack() as stack:
            # The launchers are in this process, where the lockdown is weakened.
            whole = Installation.create(ordinary, **SETTINGS)
            installation = stack.enter_context(with_launcher_here(whole, ordinary))
            killing = stack.enter_context(with_launcher_here(trapping_installation(trapping), trapping))
            yield Place(await _started(installation, stack), await _started(killing, stack), installation)


async def _started(installation: Installation, stack: AsyncExitStack) -> Api:
    """One that looks so seldom stays unready if the engine was too busy at its first look; then another is started."""
    for _ in range(STARTS - 1):
        with suppress(Exception):
            return await stack.enter_async_context(installation.run())
    return await stack.enter_async_context(installation.run())
