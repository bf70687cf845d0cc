"""A server that is a process of ours: one JSON message per line on its stdin and stdout."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress

import structlog

from orchestrator.upstreams.entries import StdioServer
from orchestrator.upstreams.faults import NotJson, Severed, TransportFailed
from orchestrator.upstreams.framing import LineSplitter, Oversized, stretches
from orchestrator.upstreams.pace import ReadingPace
from orchestrator.upstreams.transport import Alerts, StreamTransport, stop

_CHUNK_BYTES = 64 * 1024
_MAX_STDERR_LINE_BYTES = 2000
_EXIT_GRACE_SECONDS = 2.0
_LAST_WORDS_SECONDS = 0.5


class _Process(asyncio.subprocess.SubprocessStreamProtocol):
    """Tells of its end when the process ends. asyncio's own wait() also waits for its pipes, which a child may hold."""

    def __init__(self) -> None:
        super().__init__(limit=_CHUNK_BYTES, loop=asyncio.get_running_loop())
        self.exited = asyncio.Event()
        self.transport: asyncio.SubprocessTransport

    @classmethod
    async def start(cls, entry: StdioServer) -> _Process:
        """Run the entry's command; raise TransportFailed if that cannot be done."""
        pipe = asyncio.subprocess.PIPE
        try:
            transport, process = await asyncio.get_running_loop().subprocess_exec(
                cls,
                entry.command,
                *entry.args,
                env=dict(entry.env),
                cwd=entry.cwd,
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                start_new_session=True,  # a group of its own, so that what it starts can be ended with it
            )
        except FileNotFoundError:
            raise TransportFailed("its command or working directory was not found. Check servers.json") from None
        except (OSError, ValueError):
            raise TransportFailed("its command cannot be started. Check servers.json") from None
        process.transport = transport
        return process

    def process_exited(self) -> None:
        self.exited.set()
        super().process_exited()

    async def exits(self, within_seconds: float) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(within_seconds):
                await self.exited.wait()
        return self.exited.is_set()

    def signal_group(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.transport.get_pid(), number)

    @property
    def how_it_ended(self) -> str:
        status = self.transport.get_returncode()
        if status is None:
            return "its process closed its output"
        if status < 0:
            names = {number.value: number.name for number in signal.Signals}
            return f"its process was ended by {names.get(-status, f'signal {-status}')}"
        return f"its process ended with status {status}. Its stderr is in the log at level debug"


class StdioTransport(StreamTransport):
    def __init__(self, entry: StdioServer, alerts: Alerts, max_result_bytes: int) -> None:
        super().__init__(alerts, max_result_bytes)
        self._entry = entry
        self._log = structlog.get_logger().bind(server=entry.name)
        self._process: _Process | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._writing = asyncio.Lock()  # of the pipe's buffer, in which one message at a time may wait to be taken

    async def open(self) -> None:
        process = self._process = await _Process.start(self._entry)
        reader = asyncio.create_task(self._read(process))
        stderr = asyncio.create_task(self._drain_stderr(process))
        self._tasks = [reader, stderr, asyncio.create_task(self._watch(process, reader))]

    async def close(self) -> None:
        """Close the process's stdin, then ask it to end, then kill it and all that it has started."""
        process = self._process
        if process is None:
            return
        try:
            await stop(*self._tasks)
            await super().close()
            if process.stdin is not None:
                process.stdin.close()
            if not await process.exits(_EXIT_GRACE_SECONDS):
                process.signal_group(signal.SIGTERM)
                await process.exits(_EXIT_GRACE_SECONDS)
        finally:
            process.signal_group(signal.SIGKILL)  # also when we are cancelled: nothing of it stays
            process.transport.close()
            await process.exited.wait()

    async def _send(self, message: bytes) -> None:
        stdin = self._process.stdin if self._process is not None else None
        if stdin is None or stdin.is_closing():
            raise Severed("its process is not running")
        try:
            async with self._writing:
                # Whoever gives up leaves its message in the buffer, and gives back what it had reserved for it. So
                # the next one waits until that is taken, and a server that does not read gets no more.
                await stdin.drain()
                stdin.write(message + b"\n")  # whole, before anything can interrupt us: lines never mix
                await stdin.drain()
        except (ConnectionError, RuntimeError):
            raise Severed("its process no longer reads its input") from None

    async def _watch(self, process: _Process, reader: asyncio.Task[None]) -> None:
        exited = asyncio.create_task(process.exited.wait())
        await asyncio.wait({reader, exited}, return_when=asyncio.FIRST_COMPLETED)
        # The one follows the other soon, and until then there may be answers left to read.
        await asyncio.wait({reader, exited}, timeout=_LAST_WORDS_SECONDS)
        exited.cancel()
        self._end(TransportFailed(process.how_it_ended))

    async def _read(self, process: _Process) -> None:
        """Take in each line of stdout; what is not a message is logged once, by its length only."""
        assert process.stdout is not None  # noqa: S101  (narrows the type)
        lines, noise_was_logged = LineSplitter(self._max_result_bytes), False
        while chunk := await process.stdout.read(_CHUNK_BYTES):
            for stretch in stretches(chunk):
                for line in lines.feed(stretch):
                    if not isinstance(line, Oversized) and not line.strip():
                        continue
                    try:
                        await self._receive(line)
                    except NotJson:
                        if not isinstance(line, Oversized) and not noise_was_logged:
                            self._log.warning("upstream.noise_on_stdout", first_line_bytes=len(line))
                        noise_was_logged = True
                await self._pace.after(stretch)

    async def _drain_stderr(self, process: _Process) -> None:
        assert process.stderr is not None  # noqa: S101  (narrows the type)
        lines, pace = LineSplitter(_MAX_STDERR_LINE_BYTES), ReadingPace()  # of its own: words here delay no reply
        while chunk := await process.stderr.read(_CHUNK_BYTES):
            for stretch in stretches(chunk):
                for line in lines.feed(stretch):
                    text = (line.head if isinstance(line, Oversized) else line).decode("utf-8", "replace")
                    self._log.debug("upstream.stderr", line=self._entry.redact(text))
                await pace.after(stretch)
