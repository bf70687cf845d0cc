from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.support.api import Api, eventually
from tests.support.installation import Installation
from tests.support.stack import OptionalServers, logs_of, run, running_servers

READY_SECONDS = 180
WITH_THEIR_START_SECONDS = 400  # the first test of a module waits for its servers, too
CHOSEN = os.environ.get("TEST_SERVERS", "").split()


def pytest_collection_modifyitems(items: list[pytest.Item], config: pytest.Config) -> None:
    """Leave out the tests of servers that scripts/test.sh has made no image of."""
    here = Path(__file__).parent
    unwanted = [
        item for item in items if CHOSEN and here in item.path.parents and not set(servers_of(item)) <= set(CHOSEN)
    ]
    config.hook.pytest_deselected(items=unwanted)
    items[:] = [item for item in items if item not in unwanted]
    for item in items:
        if here in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(WITH_THEIR_START_SECONDS))


def servers_of(item: pytest.Item) -> tuple[str, ...]:
    module = item.getparent(pytest.Module)
    assert module
    servers: tuple[str, ...] = module.obj.SERVERS
    return servers


@pytest.fixture(scope="module")
def stand_ins(request: pytest.FixtureRequest) -> list[Path]:
    """Further files for compose; a module whose servers need one has a fixture of this name."""
    return []


@pytest.fixture(scope="module")
def servers(
    request: pytest.FixtureRequest, stand_ins: list[Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OptionalServers]:
    """The servers that the module names in SERVERS, with the variables in GIVEN, in containers of their own."""
    given = getattr(request.module, "GIVEN", {})
    directory = tmp_path_factory.mktemp("stack")
    with running_servers(directory, request.module.SERVERS, more=stand_ins, **given) as running:
        yield running


@pytest.fixture(scope="module")
async def api(
    request: pytest.FixtureRequest, servers: OptionalServers, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Api]:
    """A daemon that has found the tools of all of the servers, whose backends answer what the module asks in READY.

    A server may list its tools while its database is still starting.
    """
    asks = getattr(request.module, "READY", "")
    directory = tmp_path_factory.mktemp("daemon")
    entries = servers.for_a_daemon_on_this_machine()
    (directory / "servers.json").write_text(json.dumps(entries))
    async with Installation.create(directory, servers_file=directory / "servers.json").run() as api:
        try:
            await eventually(lambda: has_tools_of(api, set(entries["mcpServers"])), seconds=READY_SECONDS)
            await eventually(lambda: completes(api, asks), seconds=READY_SECONDS)
        except TimeoutError:
            names = run(*servers.compose, "ps", "-q", **servers.environment).split()
            pytest.fail("\n".join(f"{name}: {logs_of(name)[-2000:]}" for name in names))
        yield api


async def completes(api: Api, program: str) -> bool:
    return bool((await api.python(program))["outcome"] == "completed") if program else True


async def has_tools_of(api: Api, wanted: set[str]) -> bool:
    _, health = await api.get("/health")
    return wanted <= {server for server, count in health["toolsByServer"].items() if count}
