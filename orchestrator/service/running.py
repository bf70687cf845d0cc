"""An execution under way: what it printed so far, who watches it, and the way to end it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

from orchestrator.domain.execution import Execution, ExecutionResult, State, Stream


@dataclass(frozen=True, slots=True)
class OutputChunk:
    stream: Stream
    data: bytes


class RunningExecution:
    """Output is kept whole (it is capped), so a slow watcher holds up neither the sandbox nor other watchers."""

    def __init__(self, execution: Execution) -> None:
        self.execution = execution
        self.state = State.QUEUED
        self.cancelled = asyncio.Event()
        self._chunks: list[OutputChunk] = []
        self._watchers: list[asyncio.Future[None]] = []
        self._result: asyncio.Future[ExecutionResult] = asyncio.get_running_loop().create_future()

    @property
    def finished(self) -> bool:
        return self._result.done()

    def receive(self, stream: Stream, data: bytes) -> None:
        self._chunks.append(OutputChunk(stream, data))
        self._wake_watchers()

    def output(self, stream: Stream) -> bytes:
        return b"".join(chunk.data for chunk in self._chunks if chunk.stream is stream)

    def cancel(self) -> None:
        self.cancelled.set()

    def publish(self, result: ExecutionResult) -> None:
        self._result.set_result(result)
        self._wake_watchers()

    async def result(self) -> ExecutionResult:
        return await asyncio.shield(self._result)

    async def chunks(self, heartbeat_seconds: float) -> AsyncIterator[OutputChunk | None]:
        """Everything printed, from the beginning, as it comes; None when nothing came for a heartbeat."""
        seen = 0
        while True:
            while seen < len(self._chunks):
                yield self._chunks[seen]
                seen += 1
            if self.finished:
                return
            try:
                async with asyncio.timeout(heartbeat_seconds):
                    await self._next_change()
            except TimeoutError:
                yield None

    async def _next_change(self) -> None:
        watcher: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._watchers.append(watcher)
        try:
            await watcher
        finally:
            self._watchers.remove(watcher)

    def _wake_watchers(self) -> None:
        for watcher in self._watchers:
            if not watcher.done():
                watcher.set_result(None)
