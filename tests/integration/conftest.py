from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.api import Api
from tests.support.installation import Installation

NO_WARM_SANDBOXES = {"warm_floor": 0, "warm_ceiling": 0}


@pytest.fixture(scope="session")
def cold_installation(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """Starts every sandbox for its execution, so that a test can tell from outside which is whose."""
    return Installation.create(tmp_path_factory.mktemp("cold"), **NO_WARM_SANDBOXES)


@pytest.fixture(scope="session")
async def cold(cold_installation: Installation) -> AsyncIterator[Api]:
    async with cold_installation.run() as api:
        yield api
