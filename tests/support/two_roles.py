"""Calls of two roles in turn, each of which looks for what another left, and leaves something itself."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path

from tests.support.api import Api, eventually
from tests.support.installation import Installation
from tests.support.programs import PRELUDE
from tests.support.upstream_server import ScriptedProxy, serving

AT_ONCE = 4
# The supervisor and the program.
OWN_PROCESSES = 2
LOOK_AND_LEAVE = (
    PRELUDE
    + """
places = ("/workspace", "/tmp", "/tmp/executions")
left = [f"{place}/{name}" for place in places for name in os.listdir(place) if name.startswith("marker")]
processes = [pid for pid in os.listdir("/proc") if pid.isdecimal()]
for place in places:
    write_file(f"{place}/marker-{os.environ['CODE_EXECUTOR_GRANT']}")
tell({"left": left, "processes": len(processes), "grant": os.environ["CODE_EXECUTOR_GRANT"],
      "servers": sorted(os.listdir("/workspace/servers/"))})
"""
)


@dataclass(frozen=True, slots=True)
class Answer:
    role: str
    left: list[str]
    processes: int
    grant: str
    servers: list[str]


@asynccontextmanager
async def two_roles(directory: Path) -> AsyncIterator[Mapping[str, Api]]:
    """Two servers, one of which the developer may not see, so that each role has warm sandboxes of its own."""
    proxy = ScriptedProxy("postgres", "secret")
    async with serving(proxy.app()) as url:
        servers = {name: {"url": f"{url}/{name}/mcp"} for name in proxy.tools}
        (directory / "servers.json").write_text(json.dumps({"mcpServers": servers}))
        place = Installation.create(directory, servers_file=directory / "servers.json")
        async with place.run() as admin, admin.as_caller(place.keys["developer"]) as developer:
            await eventually(lambda: _both_are_listed(admin), seconds=30)
            yield {"admin": admin, "developer": developer}


async def _both_are_listed(api: Api) -> bool:
    by_server = (await api.get("/health"))[1]["toolsByServer"]
    return {name for name, tools in by_server.items() if tools} >= {"postgres", "secret"}


async def alternate(callers: Mapping[str, Api], count: int) -> Sequence[Answer]:
    turns = asyncio.Semaphore(AT_ONCE)

    async def one(role: str) -> Answer:
        async with turns:
            # Not checked: the processes of its own check would be among those that it sees.
            result = await callers[role].python(LOOK_AND_LEAVE, 60, check="off")
        assert (result["outcome"], result["stderr"]) == ("completed", ""), result
        return Answer(role, **json.loads(result["output"]))

    return await asyncio.gather(*(one(role) for role in islice(cycle(callers), count)))


def bleed_among(answers: Sequence[Answer]) -> list[str]:
    """What passed from one call to another, in words."""
    found = [f"{answer.role} found {answer.left}" for answer in answers if answer.left]
    found += [f"{answer.role} met processes" for answer in answers if answer.processes != OWN_PROCESSES]
    found += [f"{answer.role} sees {answer.servers}" for answer in answers if not _sees_what_it_may(answer)]
    if len({answer.grant for answer in answers}) != len(answers):
        found.append("two calls had the same grant")
    return found


def _sees_what_it_may(answer: Answer) -> bool:
    return "postgres" in answer.servers and ("secret" in answer.servers) == (answer.role == "admin")
