"""MCP over a transport: agree on how to talk, list tools, call them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from orchestrator import __version__
from orchestrator.domain.json_text import JsonObject
from orchestrator.domain.upstream import CallResult
from orchestrator.upstreams.endpoint import VERSION_IN_META
from orchestrator.upstreams.faults import HttpRefused, NotJson, RpcError, SessionLost
from orchestrator.upstreams.jsonrpc import INITIALIZE, INITIALIZED, METHOD_NOT_FOUND, Params
from orchestrator.upstreams.listing import Listed, Listing
from orchestrator.upstreams.room import Room
from orchestrator.upstreams.transport import Alerts, Transport

_HANDSHAKE_VERSION = "2025-11-25"
_MODERN_VERSION = "2026-07-28"
_CLIENT = {"name": "mcp-code-executor", "version": __version__}
_ENVELOPE = {
    VERSION_IN_META: _MODERN_VERSION,
    "io.modelcontextprotocol/clientInfo": _CLIENT,
    "io.modelcontextprotocol/clientCapabilities": {},
}
_INITIALIZE_PARAMS = {"protocolVersion": _HANDSHAKE_VERSION, "capabilities": {}, "clientInfo": _CLIENT}
_STATUSES_OF_NO_HANDSHAKE = {400, 404, 405}
_MAX_PAGES = 100


class Session:
    def __init__(
        self,
        server: str,
        transport: Transport,
        alerts: Alerts,
        *,
        lists_contents: bool = False,
        withheld: Sequence[str] = (),
        is_renewed: bool = True,
    ) -> None:
        self._server = server
        self._lists_contents = lists_contents
        self._withheld = withheld
        self._is_renewed = is_renewed  # when the server has lost it; what was in it is lost in any case
        self._transport = transport
        self._alerts = alerts
        self._modern = False
        self._has_tools = True
        self._greetings = 0
        self._greeting = asyncio.Lock()  # a lost session is begun anew once, not by every call that notices

    async def open(self) -> None:
        """Shake hands if the server knows how to; else find out whether it is stateless, of the old kind or the new."""
        refusals: list[RpcError | HttpRefused] = []
        for greet in (self._shake_hands, partial(self._try_to_list, None), partial(self._try_to_list, _MODERN_VERSION)):
            try:
                await greet()
            except (RpcError, HttpRefused) as refusal:
                if isinstance(refusal, HttpRefused) and refusal.status not in _STATUSES_OF_NO_HANDSHAKE:
                    raise
                refusals.append(refusal)
            else:
                self._greetings += 1
                return
        raise refusals[0]

    async def _shake_hands(self) -> None:
        self._modern = False
        agreed = await self._transport.request(INITIALIZE, _INITIALIZE_PARAMS)
        version, capabilities = agreed.get("protocolVersion"), agreed.get("capabilities")
        self._transport.speak(version if isinstance(version, str) else None)
        with suppress(HttpRefused):  # a stateless server has no use for it
            await self._transport.tell(INITIALIZED)
        tools = capabilities.get("tools") if isinstance(capabilities, dict) else None
        self._has_tools = not isinstance(capabilities, dict) or tools is not None
        self._transport.listen(announced=isinstance(tools, dict) and tools.get("listChanged") is True)

    async def _try_to_list(self, version: str | None) -> None:
        self._modern = version is not None
        self._transport.speak(version)
        await self._transport.request("tools/list", self._enveloped({}))

    async def list_tools(self, before: Mapping[str, Listed]) -> Listing:
        """Read all pages of the listing, up to what a server may reasonably have."""
        listing = Listing(self._server, before, lists_contents=self._lists_contents, withheld=self._withheld)
        cursor, seen = None, set[str]()
        try:
            for _ in range(_MAX_PAGES):
                page = await self._request("tools/list", {"cursor": cursor} if cursor else {})
                if not isinstance(page.get("tools"), list):
                    raise NotJson
                await asyncio.to_thread(listing.read, page["tools"])
                cursor = page.get("nextCursor")
                if not isinstance(cursor, str) or not cursor or cursor in seen:
                    break
                if listing.full:
                    listing.stop()
                    break
                seen.add(cursor)
            else:
                listing.stop()
        except RpcError as error:
            if error.code != METHOD_NOT_FOUND or self._has_tools:
                raise
        return listing

    async def call_tool(self, name: str, arguments: Mapping[str, Any], room: Room | None = None) -> CallResult:
        given = arguments if isinstance(arguments, JsonObject) else dict(arguments)
        return await self._request("tools/call", {"name": name, "arguments": given}, room)

    async def _request(self, method: str, params: Params, room: Room | None = None) -> Mapping[str, Any]:
        greeting = self._greetings
        try:
            return await self._transport.request(method, self._enveloped(params), room)
        except SessionLost:  # said before the request was looked at, so sending it again does nothing twice
            if not self._is_renewed:
                raise
            async with self._greeting:
                if self._greetings == greeting:
                    await self.open()
                    self._alerts.relist()
            return await self._transport.request(method, self._enveloped(params), room)

    def _enveloped(self, params: Params) -> Params:
        return {**params, "_meta": _ENVELOPE} if self._modern else params
