"""MCP over a transport: agree on how to talk, list tools, call them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Any

import structlog

from orchestrator import __version__
from orchestrator.domain.upstream import CallResult
from orchestrator.upstreams.faults import HttpRefused, RpcError, SessionLost, TransportFailed
from orchestrator.upstreams.jsonrpc import METHOD_NOT_FOUND, NotJson, Params
from orchestrator.upstreams.listing import Listing, ListingReader
from orchestrator.upstreams.transport import INITIALIZE, Alerts, Transport

_HANDSHAKE_VERSION = "2025-11-25"
_MODERN_VERSION = "2026-07-28"
_CLIENT = {"name": "mcp-code-executor", "version": __version__}
_ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": _MODERN_VERSION,
    "io.modelcontextprotocol/clientInfo": _CLIENT,
    "io.modelcontextprotocol/clientCapabilities": {},
}
_INITIALIZE_PARAMS = {"protocolVersion": _HANDSHAKE_VERSION, "capabilities": {}, "clientInfo": _CLIENT}
_STATUSES_OF_NO_HANDSHAKE = {400, 404, 405}
_MAX_PAGES = 100

log = structlog.get_logger()


class Session:
    def __init__(self, server: str, transport: Transport, alerts: Alerts) -> None:
        self._server = server
        self._transport = transport
        self._alerts = alerts
        self._modern = False
        self._has_tools = True
        self._greetings = 0
        self._greeting = asyncio.Lock()  # a lost session is begun anew once, not by every call that notices

    async def open(self) -> None:
        """A handshake where the server knows one; else it is stateless, of the old kind or of the new."""
        first_refusal: Exception | None = None
        for greet in (self._shake_hands, self._speak_without_handshake, self._speak_modern):
            try:
                await greet()
            except (RpcError, HttpRefused) as refusal:
                if not _may_lack_a_handshake(refusal):
                    raise
                first_refusal = first_refusal or refusal
            else:
                self._greetings += 1
                return
        raise first_refusal or TransportFailed("it cannot be talked to")

    async def _shake_hands(self) -> None:
        self._modern = False
        agreed = await self._transport.request(INITIALIZE, _INITIALIZE_PARAMS)
        version = agreed.get("protocolVersion")
        self._transport.speak(version if isinstance(version, str) else None, modern=False)
        with suppress(HttpRefused):  # a stateless server has no use for it
            await self._transport.notify("notifications/initialized", {})
        self._heed(agreed.get("capabilities"))

    def _heed(self, capabilities: Any) -> None:
        tools = capabilities.get("tools") if isinstance(capabilities, dict) else None
        self._has_tools = not isinstance(capabilities, dict) or tools is not None
        self._transport.listen(announced=isinstance(tools, dict) and tools.get("listChanged") is True)

    async def _speak_without_handshake(self) -> None:
        self._transport.speak(None, modern=False)
        await self._transport.request("tools/list", {})

    async def _speak_modern(self) -> None:
        self._modern = True
        self._transport.speak(_MODERN_VERSION, modern=True)
        await self._transport.request("tools/list", self._enveloped({}))

    async def list_tools(self) -> Listing:
        listing = ListingReader(self._server)
        try:
            async for page in self._pages():
                await asyncio.to_thread(listing.read, page)
                if listing.full:
                    log.warning("upstream.listing_cut", server=self._server, tools=len(listing))
                    break
        except RpcError as error:
            if error.code != METHOD_NOT_FOUND or self._has_tools:
                raise
        return listing.result()

    async def _pages(self) -> AsyncIterator[list[Any]]:
        cursor, seen = None, set[str]()
        for _ in range(_MAX_PAGES):
            page = await self._request("tools/list", {"cursor": cursor} if cursor else {})
            yield _tools_in(page)
            cursor = page.get("nextCursor")
            if not isinstance(cursor, str) or not cursor or cursor in seen:
                return
            seen.add(cursor)
        log.warning("upstream.listing_cut", server=self._server, pages=_MAX_PAGES)

    async def call_tool(self, name: str, arguments: Mapping[str, Any]) -> CallResult:
        return await self._request("tools/call", {"name": name, "arguments": dict(arguments)})

    async def _request(self, method: str, params: Params) -> Mapping[str, Any]:
        greeting = self._greetings
        try:
            return await self._transport.request(method, self._enveloped(params))
        except SessionLost:  # said before the request was looked at, so sending it again does nothing twice
            await self._greet_again(greeting)
            return await self._transport.request(method, self._enveloped(params))

    async def _greet_again(self, lost_greeting: int) -> None:
        async with self._greeting:
            if self._greetings == lost_greeting:
                await self.open()
                self._alerts.relist()

    def _enveloped(self, params: Params) -> Params:
        return {**params, "_meta": _ENVELOPE} if self._modern else params


def _may_lack_a_handshake(refusal: RpcError | HttpRefused) -> bool:
    return isinstance(refusal, RpcError) or refusal.status in _STATUSES_OF_NO_HANDSHAKE


def _tools_in(page: Mapping[str, Any]) -> list[Any]:
    tools = page.get("tools")
    if not isinstance(tools, list):
        raise NotJson
    return tools
