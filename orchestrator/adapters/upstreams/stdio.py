"""A server that is a process of ours: one JSON message per line on its stdin and stdout."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import structlog

from orchestrator.adapters.upstreams.entries import StdioServer
from orchestrator.adapters.upstreams.faults import TransportFailed
from orchestrator.adapters.upstreams.framing import LineSplitter, Oversized
from orchestrator.adapters.upstreams.jsonrpc import NotJson, Params
from orchestrator.adapters.upstreams.transport import Alerts, Conversation, stop

_CHUNK_BYTES = 64 * 1024
_MAX_STDERR_LINE_BYTES = 2000
_EXIT_GRACE_SECONDS = 2.0
_STATUS_SECONDS = 1.0


class StdioTransport:
    def __init__(self, entry: StdioServer, alerts: Alerts, max_result_bytes: int) -> None:
        self._entry = entry
        self._max_result_bytes = max_result_bytes
        self._conversation = Conversation(self._send, alerts, max_result_bytes)
        self._log = structlog.get_logger().bind(server=entry.name)
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._stderr_reader: asyncio.Task[None] | None = None
        self._noise_was_logged = False

    async def open(self) -> None:
        self._process = await self._start()
        self._reader = asyncio.create_task(self._read(self._process))
        self._stderr_reader = asyncio.create_task(self._drain_stderr(self._process))

    async def _start(self) -> asyncio.subprocess.Process:
        pipe = asyncio.subprocess.PIPE
        try:
            return await asyncio.create_subprocess_exec(
                self._entry.command,
                *self._entry.args,
                env=dict(self._entry.env),
                cwd=self._entry.cwd,
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                start_new_session=True,  # a group of its own, so that what it starts can be ended with it
            )
        except FileNotFoundError:
            raise TransportFailed("its command or working directory was not found; check servers.json") from None
        except (OSError, ValueError):
            raise TransportFailed("its command cannot be started; check servers.json") from None

    async def request(self, method: str, params: Params) -> Mapping[str, Any]:
        return await self._conversation.request(method, params)

    async def notify(self, method: str, params: Params) -> None:
        await self._conversation.notify(method, params)

    def speak(self, protocol_version: str | None, *, modern: bool) -> None:
        pass  # nothing but the messages themselves carries the version

    def listen(self) -> None:
        pass  # notifications come on stdout anyway

    async def _send(self, message: bytes) -> None:
        stdin = self._process.stdin if self._process is not None else None
        if stdin is None or stdin.is_closing():
            raise TransportFailed("its process is not running")
        try:
            stdin.write(message + b"\n")  # whole, before anything can interrupt us: lines never mix
            await stdin.drain()
        except (ConnectionError, RuntimeError):
            raise TransportFailed("its process no longer reads its input") from None

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None  # noqa: S101  (narrows the type)
        lines = LineSplitter(self._max_result_bytes)
        while chunk := await process.stdout.read(_CHUNK_BYTES):
            for line in lines.feed(chunk):
                await self._take(line)
        self._conversation.end(TransportFailed(await self._how_it_ended(process)))

    async def _take(self, line: bytes | Oversized) -> None:
        if isinstance(line, Oversized):
            self._conversation.refuse_oversized(line)
            return
        try:
            if line.strip():
                await self._conversation.receive(line)
        except NotJson:
            self._note_noise(len(line))

    def _note_noise(self, line_bytes: int) -> None:
        if not self._noise_was_logged:
            self._noise_was_logged = True
            self._log.warning("upstream.noise_on_stdout", first_line_bytes=line_bytes)

    async def _how_it_ended(self, process: asyncio.subprocess.Process) -> str:
        with suppress(TimeoutError):
            async with asyncio.timeout(_STATUS_SECONDS):
                status = await process.wait()
                return f"its process was ended by {_signal_name(-status)}" if status < 0 else _exit_sentence(status)
        return "its process closed its output"

    async def _drain_stderr(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None  # noqa: S101  (narrows the type)
        lines = LineSplitter(_MAX_STDERR_LINE_BYTES)
        while chunk := await process.stderr.read(_CHUNK_BYTES):
            for line in lines.feed(chunk):
                text = (line.head if isinstance(line, Oversized) else line).decode("utf-8", "replace")
                self._log.debug("upstream.stderr", line=self._entry.redact(text))

    async def close(self) -> None:
        process = self._process
        if process is None:
            return
        try:
            await self._conversation.close()
            await self._ask_to_exit(process)
        finally:
            _signal_group(process, signal.SIGKILL)  # also when we are cancelled: nothing of it stays
            await process.wait()
            await stop(self._reader)
            await stop(self._stderr_reader)
            # A descendant that left the group may hold the pipes open; asyncio offers no public way to let go of them.
            process._transport.close()  # type: ignore[attr-defined]

    async def _ask_to_exit(self, process: asyncio.subprocess.Process) -> None:
        if process.stdin is not None:
            process.stdin.close()
        if not await _exits(process):
            _signal_group(process, signal.SIGTERM)
            await _exits(process)


async def _exits(process: asyncio.subprocess.Process) -> bool:
    with suppress(TimeoutError):
        async with asyncio.timeout(_EXIT_GRACE_SECONDS):
            await process.wait()
            return True
    return False


def _signal_group(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def _exit_sentence(status: int) -> str:
    return f"its process ended with status {status}; its stderr is in the log at level debug"


def _signal_name(number: int) -> str:
    with suppress(ValueError):
        return signal.Signals(number).name
    return f"signal {number}"
