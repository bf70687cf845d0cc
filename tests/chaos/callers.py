"""Callers that send one program after another, and remember what the daemon told them."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from tests.support.api import Api

CALLERS = 6
PROGRAMS = (
    ("print('hello')", "python"),
    ("console.log('hello')", "typescript"),
    ("import time\nprint('begun', flush=True)\ntime.sleep(60)", "python"),
    ("print('busy', flush=True)\nwhile True: pass", "python"),
    ("console.log('begun'); setTimeout(() => {}, 60_000);", "typescript"),
    ("while True: print('x' * 1000)", "python"),
    ("from servers.scripted import echo, slow\nfor _ in range(20): echo()\nslow()", "python"),
    (
        "import { echo, slow } from '/workspace/servers/scripted/index.js';\n"
        "for (let n = 0; n < 20; n++) await echo({}); await slow({});",
        "typescript",
    ),
)


@dataclass
class Sent:
    """An execution that the daemon acknowledged, the calls that it told, and its result if that still came."""

    execution_id: str
    calls: list[Any] = field(default_factory=list)
    result: Any = None


class Callers:
    """Several at once, each with one execution after another, until the daemon is gone."""

    def __init__(self, api: Api, draw: random.Random) -> None:
        self._api = api
        self._draw = draw
        self._sent: list[Sent] = []
        self._tasks = [asyncio.create_task(self._call()) for _ in range(CALLERS)]

    async def all_sent(self) -> list[Sent]:
        await asyncio.gather(*self._tasks)
        return self._sent

    async def _call(self) -> None:
        while await self._is_answered(*self._draw.choice(PROGRAMS)):
            pass

    async def _is_answered(self, code: str, language: str) -> bool:
        mine: Sent | None = None
        try:
            async for name, fields in self._api.stream(code, language, 120):
                if name == "started":
                    mine = Sent(fields["executionId"])
                    self._sent.append(mine)
                elif name == "tool_call" and mine is not None:
                    mine.calls.append(fields)
                elif name == "result" and mine is not None:
                    mine.result = fields
        except (aiohttp.ClientError, ConnectionError):
            return False
        return mine is not None and mine.result is not None
