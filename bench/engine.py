"""What the benchmark itself makes on the engine, all of it labelled, and how it is removed again."""

from __future__ import annotations

import secrets
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import docker
import docker.errors

from bench.progress import say
from orchestrator.engines.docker.engine import NETWORK_OPTIONS
from orchestrator.engines.docker.lockdown import LABEL_OWNER

LABEL = "mcp-code-executor-bench"
REMOVALS = 5
REMOVAL_PAUSE_SECONDS = 1.0


class Engine:
    """The engine, as seen by one run of the benchmark."""

    def __init__(self) -> None:
        self.api = docker.from_env(timeout=120)
        self.run_id = secrets.token_hex(4)
        self.label = f"{LABEL}={self.run_id}"
        self.network = f"{LABEL}-{self.run_id}"

    @contextmanager
    def clean(self) -> Iterator[Engine]:
        """Whatever happens, nothing that this run made is left; what others made is not touched."""
        self.api.networks.create(
            self.network, internal=True, options=NETWORK_OPTIONS, labels={LABEL: self.run_id}, check_duplicate=True
        )
        try:
            yield self
        finally:
            self._remove_all(self.label)
            self.remove_network(self.network)
            self.api.close()

    def remove_installation(self, owner: str, network: str) -> None:
        self._remove_all(f"{LABEL_OWNER}={owner}")
        self.remove_network(network)

    def containers_of(self, owner: str) -> list[Any]:
        filters = {"label": f"{LABEL_OWNER}={owner}"}
        return list(self.api.containers.list(filters=filters, ignore_removed=True))

    def remove_network(self, name: str) -> None:
        """An engine may hold on to the endpoint of a container for some time after that was removed."""
        for _ in range(REMOVALS):
            try:
                self.api.networks.get(name).remove()
            except docker.errors.NotFound:
                return
            except docker.errors.APIError as error:
                problem = error.explanation
                time.sleep(REMOVAL_PAUSE_SECONDS)
            else:
                return
        say(f"the network {name} is left behind: {problem}")

    def _remove_all(self, label: str) -> None:
        for container in self.api.containers.list(all=True, filters={"label": label}, ignore_removed=True):
            with suppress(docker.errors.APIError):  # gone already, or going by its own --rm
                container.remove(force=True, v=True)

    @contextmanager
    def image(self, tag: str, dockerfile: str) -> Iterator[str]:
        built = subprocess.run(
            ["docker", "build", "--quiet", "--tag", tag, "-"],
            input=dockerfile.encode(),
            capture_output=True,
            check=False,
        )
        if built.returncode:
            raise RuntimeError(f"docker build: {built.stderr.decode()[-400:]}")
        try:
            yield tag
        finally:
            with suppress(docker.errors.APIError):
                self.api.images.remove(tag, force=True)
