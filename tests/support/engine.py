"""The real engine, as a test looks at it from outside of the product."""

from __future__ import annotations

import time
from contextlib import suppress
from functools import lru_cache
from typing import Any

import docker
import docker.errors

LABEL = "mcp-code-executor"


@lru_cache
def engine() -> Any:
    return docker.from_env(timeout=30)


def engine_is_there() -> bool:
    try:
        return bool(engine().ping())
    except (docker.errors.DockerException, OSError):
        return False


def sandboxes_of(owner: str, kind: str = "sandbox") -> list[Any]:
    labels = [f"{LABEL}={kind}", f"{LABEL}.owner={owner}"]
    return list(engine().containers.list(all=True, filters={"label": labels}, ignore_removed=True))


def containers_of(owner: str) -> list[Any]:
    filters = {"label": f"{LABEL}.owner={owner}"}
    return list(engine().containers.list(all=True, filters=filters, ignore_removed=True))


def networks_named(name: str) -> list[Any]:
    return [network for network in engine().networks.list(names=[name]) if network.name == name]


def remove_network(name: str) -> None:
    for network in networks_named(name):
        with suppress(docker.errors.NotFound):
            network.remove()


def creations_of(execution_id: str, since: float) -> list[str]:
    """Ids of every container that was ever made for an execution, also of those that are gone."""
    events = engine().api.events(
        since=f"{since:.9f}",
        until=f"{time.time():.9f}",
        filters={"event": "create", "label": f"{LABEL}.execution={execution_id}"},
        decode=True,
    )
    return [event["id"] for event in events]
