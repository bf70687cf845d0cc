"""A socket in front of the engine's own that can be cut or made to hang, so that the engine itself is left alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

ENGINE_SOCKET = "/var/run/docker.sock"


class EngineProxy:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._server: asyncio.Server | None = None
        self._pairs: set[asyncio.StreamWriter] = set()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._streaming = asyncio.Event()
        self._streaming.set()

    @property
    def docker_host(self) -> str:
        return f"unix://{self.path}"

    @classmethod
    @asynccontextmanager
    async def listening(cls, path: Path) -> AsyncIterator[EngineProxy]:
        proxy = cls(path)
        await proxy.come_back()
        try:
            yield proxy
        finally:
            proxy.flow()
            await proxy.go_away()

    async def come_back(self) -> None:
        self._server = await asyncio.start_unix_server(self._serve, self.path)

    async def go_away(self) -> None:
        """As when the engine is stopped: nothing listens, and what was open is closed."""
        if self._server is not None:
            self._server.close()
            self.path.unlink(missing_ok=True)
        for writer in list(self._pairs):
            writer.transport.abort()

    def hang(self) -> None:
        """As when the engine is stopped in the middle of everything: connections are taken and nothing is said."""
        self._flowing.clear()

    def hang_streams(self) -> None:
        """Hold up what sandboxes and their daemon say to each other; the engine itself answers."""
        self._streaming.clear()

    def flow(self) -> None:
        self._flowing.set()
        self._streaming.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._flowing.wait()
        engine_reader, engine_writer = await asyncio.open_unix_connection(ENGINE_SOCKET)
        self._pairs |= {writer, engine_writer}
        try:
            attached = asyncio.Event()
            await asyncio.gather(
                self._copy(reader, engine_writer, attached), self._copy(engine_reader, writer, attached)
            )
        finally:
            self._pairs -= {writer, engine_writer}
            for end in (writer, engine_writer):
                end.close()

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, attached: asyncio.Event) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(65536):
                if b"/attach?" in data[:200]:
                    attached.set()
                await self._flowing.wait()
                if attached.is_set():
                    await self._streaming.wait()
                writer.write(data)
                await writer.drain()
        with suppress(OSError, RuntimeError):
            if writer.can_write_eof():
                writer.write_eof()
