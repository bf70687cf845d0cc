"""What the benchmark itself makes on the engine, all of it labelled, and how it is removed again."""

from __future__ import annotations

import secrets
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import docker
import docker.errors

from bench.testbed.engine import remove_containers_with

LABEL = "mcp-code-executor-bench"


class Engine:
    """The engine, as seen by one run of the benchmark."""

    def __init__(self) -> None:
        self.api = docker.from_env(timeout=120)
        self.run_id = secrets.token_hex(4)
        self.label = f"{LABEL}={self.run_id}"

    @contextmanager
    def clean(self) -> Iterator[Engine]:
        """Whatever happens, nothing that this run made is left; what others made is not touched."""
        try:
            yield self
        finally:
            remove_containers_with(self.label)
            self.api.close()

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
