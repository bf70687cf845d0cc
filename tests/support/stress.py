"""stress-ng in a sandbox: the image that has it, and the program that runs it while a test looks at another caller."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from tests.support.api import Api
from tests.support.installation import PROJECT

IMAGE = "mcp-code-executor/runner-stress:latest"
WORKERS = 4
# What the lockdown lets run; files are in memory there.
STRESSORS = ("cpu", "vm", "fork", "switch", "pipe", "sockpair", "hdd")
# All workers of a kind share vm-bytes. write64 counts while it writes; other methods count a whole round at its end.
MODEST = ("--vm-bytes", "400M", "--vm-method", "write64", "--hdd-bytes", "16M", "--temp-path", "/workspace")
PROGRAM = r"""
import json, re, subprocess
print("stressing", flush=True)
ended = subprocess.run(["stress-ng", *{arguments}], stdin=subprocess.DEVNULL, capture_output=True, text=True)
measured = re.findall(r"metrc: \[\d+\] (\S+) +(\d+) +\d+\.\d\d ", ended.stdout + ended.stderr)
print(json.dumps({{"status": ended.returncode, "operations": {{name: int(count) for name, count in measured}}}}))
"""


class StressNgMissing(Exception):
    pass


def ensure_image() -> None:
    made = subprocess.run([PROJECT / "scripts" / "stress.sh"], capture_output=True, text=True, check=False)
    if made.returncode != 0:
        sentence = made.stderr.strip().rpartition("\n")[2].removeprefix("make: ")
        raise StressNgMissing(sentence or "scripts/stress.sh failed.")


def program(stressors: Sequence[str], seconds: float) -> str:
    workers = [word for stressor in stressors for word in (f"--{stressor}", str(WORKERS))]
    return PROGRAM.format(arguments=["--metrics-brief", "--timeout", f"{seconds:.0f}", *MODEST, *workers])


@dataclass(frozen=True)
class Stress:
    _result: asyncio.Task[Any]

    @property
    def over(self) -> bool:
        return self._result.done()

    async def operations(self) -> dict[str, int]:
        """What each stressor got done, when it is over; one that did nothing proves nothing."""
        result = await self._result
        assert result["outcome"] == "completed", result
        told = json.loads(result["output"].splitlines()[-1])
        return dict(told["operations"])


@asynccontextmanager
async def stressed(api: Api, stressors: Sequence[str], seconds: float) -> AsyncIterator[Stress]:
    """Under way when entered; cancelled when left, if it is not over."""
    async with aclosing(api.stream(program(stressors, seconds), "python", seconds + 30)) as events:
        async for name, _ in events:
            if name == "stdout":
                break
        result = asyncio.create_task(_last(events))
        try:
            yield Stress(result)
        finally:
            result.cancel()
            await asyncio.gather(result, return_exceptions=True)


async def _last(events: AsyncIterator[tuple[str, Any]]) -> Any:
    return [fields async for _, fields in events][-1]
