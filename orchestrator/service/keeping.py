"""Takes the files that a program left out of its sandbox and into the store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import structlog

from orchestrator.domain.errors import StoreUnavailable
from orchestrator.domain.files import File, Kept, LeftOut, Place, Why, is_name, media_type_of, shown_name
from orchestrator.service.ports import Contents, Writing

log = structlog.get_logger()

MAX_TOLD = 20
MAX_TOLD_CHARACTERS = 200
# Small files come in one piece, and large ones need not be written in pieces of 64 KiB.
WRITE_BYTES = 1024 * 1024


@dataclass(slots=True)
class _Place:
    """What has come out of one place so far."""

    files: dict[str, File] = field(default_factory=dict)
    left_out: list[LeftOut] = field(default_factory=list)
    refused: int = 0  # by us: the sandbox counts them among those that it handed over
    missing: int = 0  # left out by the sandbox, which names some and counts all

    def refuse(self, name: bytes, size: int, why: Why) -> None:
        self.refused += 1
        self.tell(name, size, why)

    def tell(self, name: bytes, size: int, why: Why) -> None:
        if len(self.left_out) < MAX_TOLD:
            self.left_out.append(LeftOut(shown_name(name)[:MAX_TOLD_CHARACTERS], why, size))


@dataclass(slots=True)
class _Arriving:
    """The file whose content is on its way."""

    place: Place
    name: bytes
    size: int
    writing: Writing
    pieces: bytearray = field(default_factory=bytearray)


class Keeper:
    """One execution's files; what was brought into a place and left as it was is not sent again."""

    def __init__(self, contents: Contents, brought: Mapping[tuple[Place, str], File]) -> None:
        self._contents = contents
        self._brought = brought
        self._places = {place: _Place() for place in Place}
        self._arriving: _Arriving | None = None
        self._failed = False
        self.complete = False

    async def begin(self, place: Place, name: bytes, size: int) -> None:
        await self._lose_what_is_not_whole()
        if self._failed:
            self._places[place].refuse(name, size, Why.QUOTA)
        else:
            self._arriving = _Arriving(place, name, size, self._contents.create())

    async def write(self, data: bytes) -> None:
        arriving = self._arriving
        if arriving is not None:
            arriving.pieces += data
            if len(arriving.pieces) >= WRITE_BYTES:
                await self._flush(arriving)

    async def end(self) -> None:
        arriving = self._arriving
        if arriving is None or not await self._flush(arriving):
            return
        self._arriving = None
        place = self._places[arriving.place]
        name = _name_in(arriving.place, arriving.name)
        if name is None or name in place.files:
            await _abandon(arriving.writing)
            place.refuse(arriving.name, arriving.size, Why.BAD_NAME)
            return
        try:
            digest, size = await arriving.writing.finish()
        except StoreUnavailable as error:
            await self._fail(arriving, error)
        else:
            place.files[name] = File(name, size, digest, media_type_of(name))

    async def unchanged(self, place: Place, name: bytes) -> None:
        await self._lose_what_is_not_whole()
        file = self._brought.get((place, shown_name(name)))
        if file is None:
            self._places[place].refuse(name, 0, Why.LOST)
        else:
            self._places[place].files[file.name] = file

    async def leave_out(self, place: Place, name: bytes, size: int, why: Why) -> None:
        left, arriving = self._places[place], self._arriving
        left.missing += 1
        if arriving is not None and (arriving.place, arriving.name) == (place, name):  # it broke off
            self._arriving = None
            await _abandon(arriving.writing)
        elif why is Why.LOST and self._failed:  # we had refused it before it broke off
            left.refused -= 1
            return
        await self._lose_what_is_not_whole()
        left.tell(name, size, why)

    async def close(self, left_out: Mapping[Place, int]) -> None:
        await self._lose_what_is_not_whole()
        for place, count in left_out.items():
            self._places[place].missing = max(self._places[place].missing, count)
        self.complete = True

    async def abandon(self) -> None:
        """Let go of what is on its way, when nothing more will come."""
        await self._lose_what_is_not_whole()

    @property
    def contents(self) -> frozenset[str]:
        """Return the hashes of what was brought and of what has come so far, which nothing else may name yet."""
        files = [*self._brought.values(), *(file for place in self._places.values() for file in place.files.values())]
        return frozenset(file.sha256 for file in files)

    def kept(self, place: Place) -> Kept:
        found = self._places[place]
        return Kept(tuple(found.files.values()), tuple(found.left_out), found.refused + found.missing)

    async def _flush(self, arriving: _Arriving) -> bool:
        data = bytes(arriving.pieces)
        arriving.pieces.clear()
        try:
            await arriving.writing.write(data)
        except StoreUnavailable as error:
            await self._fail(arriving, error)
            return False
        return True

    async def _fail(self, arriving: _Arriving, error: StoreUnavailable) -> None:
        """Take no more: the disk is full or broken. The sandbox still hands over what it has, to nobody."""
        log.error("files.not_kept", error=error.message)
        self._failed = True
        self._arriving = None
        self._places[arriving.place].refuse(arriving.name, arriving.size, Why.QUOTA)
        await _abandon(arriving.writing)

    async def _lose_what_is_not_whole(self) -> None:
        arriving, self._arriving = self._arriving, None
        if arriving is not None:
            self._places[arriving.place].refuse(arriving.name, arriving.size, Why.LOST)
            await _abandon(arriving.writing)


async def _abandon(writing: Writing) -> None:
    try:
        await writing.abandon()
    except StoreUnavailable as error:  # a later sweep removes it
        log.warning("files.not_abandoned", error=error.message)


def _name_in(place: Place, name: bytes) -> str | None:
    """Return the name that a file is kept under; in a workspace it must come back as it was, so none is respelled."""
    shown = shown_name(name)
    if not is_name(shown) or (place is Place.WORKSPACE and shown.encode() != name):
        return None
    return shown
