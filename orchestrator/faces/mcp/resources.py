"""What executions printed and which files they left, as resources: execution://ID/stdout, execution://ID/files/NAME."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from dataclasses import dataclass
from urllib.parse import parse_qs, quote, unquote, urlsplit

import mcp_types as types

from orchestrator.domain.access import Caller
from orchestrator.domain.errors import InvalidRequest, NotFound
from orchestrator.domain.execution import Filter, Kind, Stream
from orchestrator.domain.file_words import size_in_words
from orchestrator.domain.files import require_name
from orchestrator.faces.mcp.messages import FRAME_BYTES, MAX_CONTENT_BYTES, MAX_MESSAGE_BYTES
from orchestrator.faces.mcp.stored_files import is_text
from orchestrator.service.budget import Budget
from orchestrator.service.files import Files
from orchestrator.service.records import Records

LISTED_EXECUTIONS = 20
LISTED_FILES = 100
# JSON may write a byte of text as six.
SAFE_TEXT_BYTES = MAX_CONTENT_BYTES // 6
TEXT = "text/plain"
TEMPLATES = [
    types.ResourceTemplate(
        name="output",
        title="Output of an execution",
        uri_template="execution://{executionId}/{stream}{?offset,length}",
        description="What an execution printed; stream is stdout or stderr, offset and length are in bytes.",
        mime_type=TEXT,
    ),
    types.ResourceTemplate(
        name="file",
        title="File of an execution",
        uri_template="execution://{executionId}/files/{+name}{?offset,length}",
        description="A file that an execution left in /workspace/out; offset and length are in bytes.",
    ),
]

Contents = types.TextResourceContents | types.BlobResourceContents


@dataclass(frozen=True, slots=True)
class Address:
    """Which bytes of a stream or of a file are meant."""

    execution_id: str
    of: Stream | str  # a stream, or the name of a file
    offset: int = 0
    length: int | None = None

    @classmethod
    def parse(cls, uri: str) -> Address:
        parts = urlsplit(uri)
        place = f"{parts.netloc}{parts.path}"
        found = re.fullmatch(r"([0-9A-Za-z-]{1,64})/(?:(stdout|stderr)|files/(.+))", place)
        if parts.scheme != "execution" or found is None:
            raise InvalidRequest(
                "A resource must be execution://ID/stdout, execution://ID/stderr or execution://ID/files/NAME, "
                f"not {uri[:200]}."
            )
        query = parse_qs(parts.query)
        of = Stream(found[2]) if found[2] else require_name(unquote(found[3]))
        return cls(found[1], of, _number(query, "offset") or 0, _number(query, "length"))


class Resources:
    def __init__(self, records: Records, files: Files, questions: Budget) -> None:
        self._records = records
        self._files = files
        self._questions = questions

    async def listed(self, caller: Caller) -> list[types.Resource]:
        """Return the outputs and the files of the newest programs that the caller may see."""
        records = await self._records.newest(caller, Filter(kind=Kind.PROGRAM), LISTED_EXECUTIONS)
        outputs = [
            types.Resource(
                uri=f"execution://{record.id}/stdout",
                name=f"stdout of {record.id}",
                description=f"{record.language} program, {record.outcome}",
                mime_type=TEXT,
                size=record.stdout_bytes,
            )
            for record in records
            if record.stdout_bytes
        ]
        files: list[types.Resource] = []
        for record in records:
            if len(files) < LISTED_FILES:
                files += await self._files_of(caller, record.id)
        return [*outputs, *files[:LISTED_FILES]]

    async def read(self, caller: Caller, uri: str) -> Contents:
        address = Address.parse(uri)
        if not isinstance(address.of, Stream):
            async with self._questions.reserve(caller.key_name, 1):  # it may have megabytes
                return await self._read_file(caller, uri, address, address.of)
        record = await self._records.visible(caller, address.execution_id)
        length = min(address.length or MAX_CONTENT_BYTES + 1, MAX_CONTENT_BYTES + 1)
        page = await self._records.output(record, address.of, address.offset, length)
        if len(page.data) > MAX_CONTENT_BYTES:
            raise _too_large(page.total_bytes, MAX_CONTENT_BYTES)
        return _text(uri, TEXT, page.data, page.total_bytes)

    async def _files_of(self, caller: Caller, execution_id: str) -> list[types.Resource]:
        try:
            files = await self._files.of_execution(caller, execution_id)
        except NotFound:  # it has left the journal meanwhile
            return []
        return [
            types.Resource(
                uri=f"execution://{execution_id}/files/{quote(file.name)}",
                name=file.name,
                description=f"File of {execution_id}",
                mime_type=file.media_type,
                size=file.bytes,
            )
            for file in files
        ]

    async def _read_file(self, caller: Caller, uri: str, address: Address, name: str) -> Contents:
        stored = await self._files.of_execution_named(caller, address.execution_id, name)
        rest = max(0, stored.file.bytes - address.offset)
        length = rest if address.length is None else min(address.length, rest)
        if length > MAX_CONTENT_BYTES:
            raise _too_large(stored.file.bytes, MAX_CONTENT_BYTES)
        data, media_type = await stored.read(address.offset, length) if length else b"", stored.file.media_type
        if await is_text(stored):
            return _text(uri, media_type, data, stored.file.bytes)
        return types.BlobResourceContents(uri=uri, mime_type=media_type, blob=b64encode(data).decode())


def _text(uri: str, media_type: str, data: bytes, total_bytes: int) -> types.TextResourceContents:
    text = data.decode(errors="replace")
    if len(json.dumps(text, ensure_ascii=False).encode()) > MAX_MESSAGE_BYTES - FRAME_BYTES:
        raise _too_large(total_bytes, SAFE_TEXT_BYTES)
    return types.TextResourceContents(uri=uri, mime_type=media_type, text=text)


def _too_large(total_bytes: int, piece_bytes: int) -> InvalidRequest:
    return InvalidRequest(
        f"One reply holds at most {size_in_words(piece_bytes)} of these {size_in_words(total_bytes)}. "
        f"Read it in pieces, with ?offset=0&length={piece_bytes} first."
    )


def _number(query: dict[str, list[str]], name: str) -> int | None:
    if name not in query:
        return None
    if not re.fullmatch(r"[0-9]{1,15}", text := query[name][-1]):
        raise InvalidRequest(f"`{name}` must be a whole number.")
    return int(text)
