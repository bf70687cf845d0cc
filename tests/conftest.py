"""Fixtures for the tests that need the real engine; unit tests use none of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bench.testbed.engine import containers_of, engine_is_there
from tests.support.api import Api
from tests.support.installation import Installation

STARTS_PROCESSES = (
    "tests/unit/client_library/",
    "tests/unit/commands/test_connection_trial",
    "tests/unit/runner/",
    "tests/unit/setup/",
    "tests/unit/upstreams/test_stdio",
    "tests/unit/wrappers/test_injection",
    "tests/unit/wrappers/test_real_tools",
    "tests/unit/wrappers/test_twelve_servers",
    "tests/unit/wrappers/test_types",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Unit tests that start interpreters, compilers or scripts are told apart, so that the others stay quick."""
    for item in items:
        if any(place in item.path.as_posix() for place in STARTS_PROCESSES):
            item.add_marker("processes")


@pytest.fixture(scope="session")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    if not engine_is_there():
        pytest.fail("No container engine answers: 'make test' starts one, or start yours first.")
    return Installation.create(tmp_path_factory.mktemp("installation"))


@pytest.fixture(scope="session")
async def api(installation: Installation) -> AsyncIterator[Api]:
    """The admin's view of a daemon that the whole run shares."""
    async with installation.run() as api:
        yield api
    left = [container.name for container in containers_of(installation.owner)]
    assert not left, f"containers outlived the daemon: {left}"


@pytest.fixture(scope="session")
async def developer(api: Api, installation: Installation) -> AsyncIterator[Api]:
    async with api.as_caller(installation.keys["developer"]) as other:
        yield other


@pytest.fixture
def own_installation(tmp_path: Path) -> Installation:
    """For tests that stop, break or reconfigure the daemon."""
    return Installation.create(tmp_path)
