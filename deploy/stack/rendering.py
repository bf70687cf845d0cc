"""The settings of the stack's containers and of the daemon: which document says what, and writing them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from deploy.stack.files import write
from deploy.stack.servers import PROXY, ProxyKind, Server, Stack
from deploy.stack.variables import Variables, referred_to

PORT = 9090
DAEMON = "orchestrator"
PATHS = {ProxyKind.OURS: "/servers/{server}/mcp", ProxyKind.PULLED: "/{server}/mcp"}
PREFIX = "${STACK_PREFIX:-}"  # which compose fills in
PROXY_TOKEN = "MCP_PROXY_TOKEN"  # noqa: S105  # the name of a variable
# The engine publishes nothing on an internal network; without masquerading no answer finds back to this one.
WITHOUT_THE_INTERNET = {"com.docker.network.bridge.enable_ip_masquerade": "false"}


def write_everything(
    stack: Stack, variables: Variables, kind: ProxyKind, servers: list[Server], into: Path
) -> Iterator[str]:
    """Write every document and make the secrets that they refer to; yield each container with new settings."""
    behind_proxies = [server for server in servers if not server.url and not server.watches]
    for container, inside in _by_container(behind_proxies).items():
        # The other containers are of our own image in any case.
        document = proxy_document(kind if container == PROXY else ProxyKind.OURS, container, inside)
        if write(into / container / "config.json", _as_json(document), 0o644):
            yield container
    write(into / "daemon" / "servers.json", _as_json(daemon_document(kind, servers)), 0o644)
    write(into / "networks.yaml", _as_json(networks_document(servers)), 0o644)
    for name in _variables_of(stack, kind, servers):
        variables.value(name)


def proxy_document(kind: ProxyKind, container: str, servers: Iterable[Server]) -> dict[str, Any]:
    entries = {server.name: _proxy_entry(kind, server) for server in servers}
    if kind is ProxyKind.OURS:
        return {"mcpServers": entries}
    return {"mcpProxy": _pulled_proxy(container), "mcpServers": entries}


def daemon_document(kind: ProxyKind, servers: Iterable[Server]) -> dict[str, Any]:
    behind: list[str] = []
    beside: dict[str, dict[str, Any]] = {}
    for server in servers:
        if server.watches:
            continue
        if server.container == PROXY:
            behind.append(server.name)
        else:
            beside[server.name] = {"type": "http", "url": server.url or _address_of(server)}
            if server.contents:
                beside[server.name]["contents"] = server.contents
            if server.session:
                beside[server.name]["session"] = server.session
            if server.withhold:
                beside[server.name]["withhold"] = list(server.withhold)
    document: dict[str, Any] = {"mcpServers": beside}
    if behind:
        document["proxy"] = {"url": f"http://{PROXY}:{PORT}", "servers": behind, "path": PATHS[kind]}
        if kind is ProxyKind.PULLED:
            document["proxy"]["token"] = f"${{{PROXY_TOKEN}}}"
    return document


def networks_document(servers: Iterable[Server]) -> dict[str, Any]:
    """Return what is added to compose.yaml: a server shares its network with the daemon and the services it needs.

    So does what watches the daemon; what watches that in turn does not see the daemon.
    """
    networks: dict[str, Any] = {}
    members: dict[str, dict[str, None]] = {DAEMON: {}}
    for server in servers:
        name = f"{PREFIX}mcp-backend-{server.network}"
        networks[server.network] = {"name": name, "internal": not server.internet and not server.watches}
        if server.watches:
            networks[server.network]["driver_opts"] = dict(WITHOUT_THE_INTERNET)
        seen = () if server.watches and server.services else (DAEMON,)
        for service in (*seen, server.container, *server.services):
            members.setdefault(service, {})[server.network] = None
    return {"services": {service: {"networks": [*joined]} for service, joined in members.items()}, "networks": networks}


def written_networks(into: Path) -> list[str]:
    """Return of each network that was written its name, without the prefix, and whether it is internal."""
    file = into / "networks.yaml"
    networks = json.loads(file.read_text())["networks"].values() if file.exists() else ()
    return [f"{each['name'].removeprefix(PREFIX)} {json.dumps(each['internal'])}" for each in networks]


def _by_container(servers: Iterable[Server]) -> dict[str, list[Server]]:
    grouped: dict[str, list[Server]] = {}
    for server in servers:
        grouped.setdefault(server.container, []).append(server)
    return grouped


def _proxy_entry(kind: ProxyKind, server: Server) -> dict[str, Any]:
    command, *args = server.command(kind)
    return {"command": command, "args": args, "env": dict(server.env)}


def _pulled_proxy(container: str) -> dict[str, Any]:
    return {
        "baseURL": f"http://{container}:{PORT}",
        "addr": f":{PORT}",
        "name": container,
        "version": "1",
        "type": "streamable-http",
        "options": {"authTokens": [f"${{{PROXY_TOKEN}}}"], "panicIfInvalid": False, "logEnabled": True},
    }


def _address_of(server: Server) -> str:
    return f"http://{server.container}:{PORT}{PATHS[ProxyKind.OURS].format(server=server.name)}"


def _variables_of(stack: Stack, kind: ProxyKind, servers: list[Server]) -> list[str]:
    of_servers = referred_to(text for server in servers for text in (*server.args, *server.env.values()))
    of_services = [name for service in stack.services_of(servers) for name in stack.services.get(service, ())]
    of_proxy = [PROXY_TOKEN] if kind is ProxyKind.PULLED else []
    return [*of_servers, *of_services, *of_proxy]


def _as_json(document: Mapping[str, Any]) -> str:
    return json.dumps(document, indent=2) + "\n"
