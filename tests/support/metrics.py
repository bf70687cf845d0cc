"""The daemon's metrics, read as Prometheus would."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from bench.testbed.engine import sandboxes_of
from tests.support.api import Api, eventually


async def samples(api: Api) -> dict[tuple[str, ...], float]:
    """By name and the values of the labels, in the labels' order."""
    async with api.session.get(f"{api.url}/metrics") as response:
        assert response.status == 200
        text = await response.text()
    return {
        (sample.name, *(sample.labels[label] for label in sorted(sample.labels))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def gauges(api: Api) -> dict[str, float]:
    return {key[0]: value for key, value in (await samples(api)).items() if len(key) == 1}


async def until_warm(api: Api, count: int = 1) -> None:
    async def is_warm() -> bool:
        return (await gauges(api))["code_executor_warm"] >= count

    await eventually(is_warm)


async def only_unused_sandboxes_are_left(api: Api, owner: str) -> bool:
    """Whether nothing runs, and the daemon and the engine know of the same warm sandboxes and of no others."""
    known = await gauges(api)
    warm, all_of_them = known["code_executor_warm"], known["code_executor_sandboxes"]
    return known["code_executor_running"] == 0 and warm == all_of_them == len(sandboxes_of(owner))
