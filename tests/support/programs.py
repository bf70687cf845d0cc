"""Ways to run a program that a test needs: as a probe, or held while the test looks at it from outside."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.api import Api

PRELUDE = (Path(__file__).parent / "inside.py").read_text()
UNTIL_ENDED = "\nimport signal\nwhile True: signal.pause()\n"
FOREVER = 'import sys\nsys.stdout.write("running\\n")' + UNTIL_ENDED


@dataclass(frozen=True)
class Held:
    execution_id: str
    line: str


async def probe(api: Api, code: str, timeout_seconds: float = 30) -> Any:
    """What the probe told; one that does not end well proves nothing."""
    result = await api.python(PRELUDE + code, timeout_seconds)
    assert (result["outcome"], result["stderr"]) == ("completed", ""), result
    return json.loads(result["output"])


@asynccontextmanager
async def held(api: Api, code: str = FOREVER, language: str = "python") -> AsyncIterator[Held]:
    """A program that has printed its first line and still runs; it is cancelled by going away."""
    async with aclosing(api.stream(code, language, 60)) as events:
        name, started = await anext(events)
        assert name == "started"
        line = ""
        while "\n" not in line:
            name, fields = await anext(events)
            assert name in ("stdout", "heartbeat", "tool_call"), fields
            line += fields.get("text", "")
        yield Held(started["executionId"], line.strip())
