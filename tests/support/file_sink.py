"""A sink in memory for what programs leave."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

from orchestrator.domain.files import Place, Why


class MemorySink:
    """Keeps what is whole: files by place and name, None for one that is as it was brought."""

    def __init__(self) -> None:
        self.files: dict[tuple[Place, bytes], bytes | None] = {}
        self.left_out: dict[tuple[Place, bytes], tuple[Why, int]] = {}
        self.left_out_count: Mapping[Place, int] | None = None  # None until all is handed over
        self._current: tuple[Place, bytes, int] | None = None
        self._content = bytearray()

    async def begin(self, place: Place, name: bytes, size: int) -> None:
        self._current, self._content = (place, name, size), bytearray()

    async def write(self, data: bytes) -> None:
        self._content += data

    async def end(self) -> None:
        assert self._current is not None
        place, name, size = self._current
        assert len(self._content) == size
        self.files[place, name] = bytes(self._content)

    async def unchanged(self, place: Place, name: bytes) -> None:
        self.files[place, name] = None

    async def leave_out(self, place: Place, name: bytes, size: int, why: Why) -> None:
        self.left_out[place, name] = (why, size)

    async def close(self, left_out: Mapping[Place, int]) -> None:
        assert self.left_out_count is None
        self.left_out_count = left_out

    @property
    def out(self) -> dict[str, bytes | None]:
        return self._of(Place.OUT)

    @property
    def workspace(self) -> dict[str, bytes | None]:
        return self._of(Place.WORKSPACE)

    @property
    def reasons(self) -> dict[str, Why]:
        return {name.decode(errors="backslashreplace"): why for (_, name), (why, _) in self.left_out.items()}

    def _of(self, place: Place) -> dict[str, bytes | None]:
        return {name.decode(): content for (of, name), content in self.files.items() if of is place}


async def pieces_of(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece
