"""An MCP server's streamable HTTP endpoint: what the transport to an upstream and the stdio bridge post to alike."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager

import aiohttp

from orchestrator.upstreams.http_client import JSON, Address
from orchestrator.upstreams.jsonrpc import INITIALIZE, Message, Params, encode
from orchestrator.upstreams.sse import EVENT_STREAM

SESSION_HEADER = "Mcp-Session-Id"
VERSION_HEADER = "MCP-Protocol-Version"
VERSION_IN_META = "io.modelcontextprotocol/protocolVersion"
_NAME_IN_PARAMS = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}

Response = AbstractAsyncContextManager[aiohttp.ClientResponse]


class Endpoint:
    """Knows which headers a message needs; its user keeps `session_id` and `version` as they were agreed on."""

    def __init__(self, http: aiohttp.ClientSession, url: str, headers: Mapping[str, str]) -> None:
        self._address = Address(http, url)
        self._headers = headers
        self.session_id: str | None = None
        self.version: str | None = None

    def post(self, message: Message, body: bytes | None = None) -> Response:
        """Send a message, which may have been written already; `messages_in` reads what comes back."""
        method, params = str(message.get("method", "")), message.get("params")
        meta = params.get("_meta") if isinstance(params, dict) else None
        version = meta.get(VERSION_IN_META) if isinstance(meta, dict) else None
        if isinstance(params, dict) and isinstance(version, str):
            headers = _headers_without_session(version, method, params)
        elif method == INITIALIZE:  # begins a session, so it belongs to none
            headers = {}
        else:
            headers = self._session_headers()
        own = {**self._headers, "Accept": f"{JSON}, {EVENT_STREAM}", "Content-Type": JSON}
        return self._address.send("POST", {**own, **headers}, encode(message) if body is None else body)

    def listen(self) -> Response:
        """Ask for the stream of what the server says unasked; not every server offers one."""
        return self._address.send("GET", {**self._headers, "Accept": EVENT_STREAM, **self._session_headers()})

    async def end_session(self) -> None:
        async with self._address.send("DELETE", {**self._headers, "Accept": JSON, **self._session_headers()}):
            pass

    def _session_headers(self) -> dict[str, str]:
        known = {SESSION_HEADER: self.session_id, VERSION_HEADER: self.version}
        return {name: value for name, value in known.items() if value}


def _headers_without_session(version: str, method: str, params: Params) -> dict[str, str]:
    """Repeat in headers what the revision without sessions wants proxies to see of a message."""
    headers = {VERSION_HEADER: version, "Mcp-Method": method}
    name = params.get(_NAME_IN_PARAMS.get(method, ""))
    if isinstance(name, str):
        is_plain = name.isascii() and name.isprintable() and name == name.strip() and not name.startswith("=?base64?")
        headers["Mcp-Name"] = name if is_plain else f"=?base64?{b64encode(name.encode(errors='replace')).decode()}?="
    return headers
