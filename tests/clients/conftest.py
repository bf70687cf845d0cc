from __future__ import annotations

import pytest

from tests.clients.clients import CLIENTS, ENVIRONMENTS, Client
from tests.clients.conversation import Conversation, converse
from tests.clients.programs import ALL
from tests.support.api import Api
from tests.support.installation import Installation


def installed(client: Client) -> Client:
    if not (ENVIRONMENTS / client.environment / ".inputs").exists():
        pytest.fail(f"{client} is not installed; 'scripts/clients.sh {client.environment}' installs it.")
    return client


@pytest.fixture(scope="session", params=CLIENTS, ids=str)
async def conversation(
    request: pytest.FixtureRequest, api: Api, installation: Installation, tmp_path_factory: pytest.TempPathFactory
) -> Conversation:
    """All programs, run by one client; the tests look at it from several sides."""
    home = tmp_path_factory.mktemp(str(request.param))
    return await converse(installed(request.param), ALL, home, f"{api.url}/mcp", installation.keys["admin"])
