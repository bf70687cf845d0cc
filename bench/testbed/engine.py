"""The real engine, looked at from outside of the product."""

from __future__ import annotations

import time
from contextlib import suppress
from functools import lru_cache
from typing import Any

import docker
import docker.errors

LABEL = "mcp-code-executor"
TIMEOUT_SECONDS = 60


@lru_cache
def engine() -> Any:
    return docker.from_env(timeout=TIMEOUT_SECONDS)


def engine_is_there() -> bool:
    try:
        return bool(engine().ping())
    except (docker.errors.DockerException, OSError):
        return False


def sandboxes_of(owner: str) -> list[Any]:
    return containers_with(f"{LABEL}=sandbox", f"{LABEL}.owner={owner}")


def sandboxes_for(execution_id: str) -> list[Any]:
    """Those that were made for one execution; a warm one was made before anybody knew for which."""
    return containers_with(f"{LABEL}=sandbox", f"{LABEL}.execution={execution_id}")


def containers_of(owner: str) -> list[Any]:
    return containers_with(f"{LABEL}.owner={owner}")


def epochs_of(owner: str) -> set[str]:
    """The starts of the daemon that containers are left of."""
    return {container.labels[f"{LABEL}.epoch"] for container in containers_of(owner)}


def containers_of_epochs(owner: str, epochs: set[str]) -> list[Any]:
    return [container for container in containers_of(owner) if container.labels.get(f"{LABEL}.epoch") in epochs]


def containers_with(*labels: str) -> list[Any]:
    return list(engine().containers.list(all=True, filters={"label": list(labels)}, ignore_removed=True))


def remove_containers_with(*labels: str) -> None:
    for container in containers_with(*labels):
        with suppress(docker.errors.APIError):  # it is gone already, or is going away by itself
            container.remove(force=True, v=True)


def remove_containers_of(owner: str) -> None:
    remove_containers_with(f"{LABEL}.owner={owner}")


def creations_of(execution_id: str, since: float) -> list[str]:
    """Ids of every container that was ever made for an execution, also of those that are gone."""
    events = engine().api.events(
        since=f"{since:.9f}",
        until=f"{time.time():.9f}",
        filters={"event": "create", "label": f"{LABEL}.execution={execution_id}"},
        decode=True,
    )
    return [event["id"] for event in events]
