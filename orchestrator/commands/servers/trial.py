"""Tries a server as the daemon would: connects, lists its tools, and counts what their definitions cost a model."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

import structlog

from orchestrator.adapters.tokens import O200kTokenCounter
from orchestrator.catalog.disclosure import compact, definition
from orchestrator.commands.servers.entries import Json, Network
from orchestrator.commands.servers.host import ContainerState
from orchestrator.domain.upstream import UpstreamState, UpstreamStatus
from orchestrator.settings import Settings
from orchestrator.upstreams.entries import ServerEntry, UnusableServer
from orchestrator.upstreams.servers_directory import read_all_servers
from orchestrator.upstreams.servers_file import HOST
from orchestrator.upstreams.upstreams import Upstreams
from orchestrator.upstreams.variables import Variables

PATIENCE_SECONDS = 30.0
LOOK_SECONDS = 0.1
SETTLED_TRIES_SECONDS = 8.0  # a server that is still starting refuses connections for a while

_NO_NETWORK = re.compile(
    r"ENOTFOUND|EAI_AGAIN|ENETUNREACH|EHOSTUNREACH|getaddrinfo|name resolution|Name or service not known"
    r"|Network is unreachable|No address associated",
    re.IGNORECASE,
)
_READ_ONLY = re.compile(r"EROFS|Read-only file system", re.IGNORECASE)
_NOT_BUILT = re.compile(r"Could not locate the bindings file|Cannot find module .*\.node|ERR_DLOPEN_FAILED")
_WANTS_VARIABLE = re.compile(
    r"\b([A-Z][A-Z0-9]*_[A-Z0-9_]+)\b(?=.{0,80}(?:required|missing|not set|must be|undefined|environment))"
)
_REFUSED_TOKEN = re.compile(r"\b(401|403)\b|[Uu]nauthorized|[Ff]orbidden")


UNKNOWN = "There is no such server"  # what one side tells the other, which then says it in its own words


@dataclass(frozen=True, slots=True)
class ToolCost:
    name: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Trial:
    server: str
    connected: bool
    problem: str | None
    tools: tuple[ToolCost, ...]

    @property
    def tokens(self) -> int:
        return sum(tool.tokens for tool in self.tools)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Trial:
        """Read what `to_json` wrote on the other side; raise ValueError for anything else."""
        try:
            told = json.loads(text.splitlines()[-1])
            tools = tuple(ToolCost(str(tool["name"]), int(tool["tokens"])) for tool in told["tools"])
            return cls(str(told["server"]), bool(told["connected"]), told["problem"], tools)
        except (IndexError, KeyError, TypeError) as error:
            raise ValueError("no trial") from error


def find_entry(settings: Settings, name: str) -> ServerEntry | None:
    variables = Variables(settings.variables, settings.server_secrets_dir)
    entries = read_all_servers(settings.servers_file, settings.servers_dir, variables)
    return next((entry for entry in entries if entry.name == name), None)


async def try_server(entry: ServerEntry, settings: Settings) -> Trial:
    """Connect until it works, or until it has failed for so long that waiting changes nothing."""
    # What the upstream logs is for the daemon's log; here the outcome says it.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    upstreams = Upstreams(
        [entry],
        relist_seconds=settings.relist_seconds,
        call_timeout_seconds=settings.tool_timeout_seconds,
        max_result_bytes=settings.max_tool_result_bytes,
        on_change=lambda: None,
    )
    running = asyncio.create_task(upstreams.run())
    try:
        status = await _settled(upstreams, entry)
        counter = O200kTokenCounter()
        tools = upstreams.tools()[entry.name] if status.state is UpstreamState.CONNECTED else ()
        costs = tuple(ToolCost(tool.name, counter.count(compact(definition(tool)))) for tool in tools)
        return Trial(entry.name, status.state is UpstreamState.CONNECTED, status.problem, costs)
    finally:
        running.cancel()
        await asyncio.wait([running])


async def _settled(upstreams: Upstreams, entry: ServerEntry) -> UpstreamStatus:
    loop = asyncio.get_running_loop()
    began = loop.time()
    while True:
        (status,) = upstreams.statuses()
        waited = loop.time() - began
        hopeless = isinstance(entry, UnusableServer) or waited > SETTLED_TRIES_SECONDS
        if status.state is UpstreamState.CONNECTED or (status.state is UpstreamState.DOWN and hopeless):
            return status
        if waited > PATIENCE_SECONDS:
            return status
        await asyncio.sleep(LOOK_SECONDS)


def is_loopback(url: str) -> bool:
    """Tell whether an address leads whoever uses it to itself."""
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def fixes(entry: Json | None, trial: Trial, container: ContainerState | None, log: str) -> Iterable[str]:
    """Say what to do about a server that did not answer, as far as its container and its log tell."""
    problem = trial.problem or ""
    inside = (entry or {}).get("container")
    if inside is not None:
        if container is None:
            yield "Its container does not exist: run 'make up', which starts it and says what keeps it from starting."
            return
        if container.status != "running" or container.restarts > 0:
            yield f"Its container is {container.status}, after {container.restarts} restarts: its log says why."
        network = inside.get("network")
        if _NO_NETWORK.search(log) and network != Network.INTERNET:
            yield f"It looks for a host, but its network is {network}: add it again with --network internet --replace."
        if _READ_ONLY.search(log):
            yield "It writes to its root, which is read-only; only /tmp is not. Look for a setting of the server."
        if _NOT_BUILT.search(log):
            yield "It needs what an install script would build; those are not run. Look for a version without one."
        for variable in dict.fromkeys(_WANTS_VARIABLE.findall(log)):
            yield f"It asks for {variable}: add it again with --env {variable} --replace."
        if container.status == "running" and container.restarts == 0:
            yield f"It may still be starting: run 'code-executor servers test {trial.server}' again in a while."
        return
    if _REFUSED_TOKEN.search(problem):
        yield "The token is missing or wrong: add the server again with --header 'Authorization: Bearer ${NAME}'."
        return
    if is_loopback(str((entry or {}).get("url", ""))):
        yield (
            f"For the daemon, which is in a container, this address is the container itself. A server on this machine "
            f"is at {HOST}: add it again with --url http://{HOST}:PORT/… --host --replace."
        )
    elif HOST in str((entry or {}).get("url", "")):
        yield (
            "The server must listen where containers reach it: on Linux at 0.0.0.0 or at the address of the bridge "
            "docker0, with the firewall open for it; with Docker Desktop 127.0.0.1 is enough."
        )
    elif entry is not None:
        yield "Check its address with curl from this machine, and correct it with --url … --replace."
