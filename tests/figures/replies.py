"""The time of an ordinary reply from a daemon whose pool is full."""

from __future__ import annotations

import time
from typing import Any

from tests.support.api import Api, eventually
from tests.support.metrics import gauges

WARM_OF_EACH_LANGUAGE = 2
FULL_POOL = {"warm_floor": WARM_OF_EACH_LANGUAGE, "warm_ceiling": WARM_OF_EACH_LANGUAGE}


async def reply(api: Api) -> tuple[float, Any]:
    """Its milliseconds, when the pool was full, and what it says."""
    await _until_warm(api)
    began = time.perf_counter()
    result = await api.python("print(1)")
    milliseconds = 1000 * (time.perf_counter() - began)
    if result["output"] != "1\n":
        raise RuntimeError(f"an ordinary program ended as {result['outcome']}")
    return milliseconds, result


async def _until_warm(api: Api) -> None:
    async def warm() -> bool:
        return (await gauges(api))["code_executor_warm"] >= 2 * WARM_OF_EACH_LANGUAGE

    await eventually(warm, seconds=30)
