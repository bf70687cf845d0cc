from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from bench.testbed.engine import sandboxes_of
from tests.support.api import Api, eventually
from tests.support.installation import Installation
from tests.support.metrics import gauges


@pytest.fixture(autouse=True)
async def unharmed(api: Api, installation: Installation) -> AsyncIterator[None]:
    """After every attack: the daemon is healthy, the next ordinary call succeeds, and no used sandbox is left."""
    yield
    assert await api.get("/livez") == (200, {"status": "alive"})
    result = await api.python("print('ordinary')")
    assert (result["outcome"], result["output"]) == ("completed", "ordinary\n")
    await eventually(lambda: _only_unused_sandboxes_are_left(api, installation.owner), seconds=10)


async def _only_unused_sandboxes_are_left(api: Api, owner: str) -> bool:
    known = await gauges(api)
    unused = known["code_executor_warm"]
    return known["code_executor_running"] == 0 and unused == known["code_executor_sandboxes"] == len(
        sandboxes_of(owner)
    )
