"""The full output of executions as resources: execution://ID/stdout, whole or by offset and length."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

import mcp_types as types

from orchestrator.domain.access import Caller
from orchestrator.domain.errors import InvalidRequest
from orchestrator.domain.execution import Filter, Kind, Stream
from orchestrator.service.records import LARGEST_OUTPUT_BYTES, Records

LISTED_EXECUTIONS = 20
TEXT = "text/plain"
TEMPLATE = types.ResourceTemplate(
    name="output",
    title="Output of an execution",
    uri_template="execution://{executionId}/{stream}{?offset,length}",
    description="What an execution printed; stream is stdout or stderr, offset and length are in bytes.",
    mime_type=TEXT,
)


@dataclass(frozen=True, slots=True)
class OutputAddress:
    execution_id: str
    stream: Stream
    offset: int = 0
    length: int = LARGEST_OUTPUT_BYTES

    @classmethod
    def parse(cls, uri: str) -> OutputAddress:
        parts = urlsplit(uri)
        found = re.fullmatch(r"([0-9A-Za-z-]{1,64})/(stdout|stderr)", f"{parts.netloc}{parts.path}")
        if parts.scheme != "execution" or found is None:
            raise InvalidRequest(f"A resource must be execution://ID/stdout or execution://ID/stderr, not {uri[:200]}.")
        query = parse_qs(parts.query)
        offset, length = _number(query, "offset", 0), _number(query, "length", LARGEST_OUTPUT_BYTES)
        return cls(found[1], Stream(found[2]), offset, min(max(1, length), LARGEST_OUTPUT_BYTES))


class Resources:
    def __init__(self, records: Records) -> None:
        self._records = records

    async def listed(self, caller: Caller) -> list[types.Resource]:
        """Return the outputs of the newest programs that the caller may see."""
        records = await self._records.newest(caller, Filter(kind=Kind.PROGRAM), LISTED_EXECUTIONS)
        return [
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

    async def read(self, caller: Caller, uri: str) -> types.TextResourceContents:
        address = OutputAddress.parse(uri)
        record = await self._records.visible(caller, address.execution_id)
        page = await self._records.output(record, address.stream, address.offset, address.length)
        return types.TextResourceContents(uri=uri, mime_type=TEXT, text=page.data.decode(errors="replace"))


def _number(query: dict[str, list[str]], name: str, default: int) -> int:
    text = query.get(name, [str(default)])[-1]
    if not re.fullmatch(r"[0-9]{1,15}", text):
        raise InvalidRequest(f"`{name}` must be a whole number.")
    return int(text)
