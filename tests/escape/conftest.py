from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.api import Api, eventually
from tests.support.installation import Installation
from tests.support.metrics import only_unused_sandboxes_are_left


@pytest.fixture(autouse=True)
async def unharmed(api: Api, installation: Installation) -> AsyncIterator[None]:
    """After every attack: the daemon is healthy, the next ordinary call succeeds, and no used sandbox is left."""
    yield
    assert await api.get("/livez") == (200, {"status": "alive"})
    result = await api.python("print('ordinary')")
    assert (result["outcome"], result["output"]) == ("completed", "ordinary\n")
    await eventually(lambda: only_unused_sandboxes_are_left(api, installation.owner), seconds=60)
