"""A daemon of its own, as a process of its own: `python -m orchestrator serve` with keys, roles and data apart."""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.client import Client
from bench.engine import LABEL
from bench.paths import MEMORY_SERVER, NODE, RUNNER_IMAGE
from bench.testbed.engine import remove_containers_of
from bench.testbed.installation import Installation
from bench.testbed.process import listening_port, serve

START_SECONDS = 30.0
SETTLE_SECONDS = 60.0
STOP_SECONDS = 60.0
LOOK_SECONDS = 0.02
SETTLED = ("running", "waiting", "warm", "preloaded", "sandboxes")
ROLES = {"roles": {"admin": {"servers": ["*"], "seesAllExecutions": True, "keys": ["code-executor-admin"]}}}
# One caller makes all the load here, so the limits that share a daemon fairly between callers are out of the way.
ONE_CALLER = {"max_running_per_caller": 8, "max_waiting": 1000, "max_waiting_per_caller": 1000}
WARM_MEMORY_BYTES = 2 * 1024**3


@dataclass
class Daemon:
    port: int
    key: str
    owner: str
    pid: int
    warm: int
    _client: Client

    def client(self) -> Client:
        return Client(self.port, self.key)

    def settle(self) -> None:
        """Returns when what was used is destroyed and the pool is full again, with all that it loads."""
        give_up = time.monotonic() + SETTLE_SECONDS
        while self._state() != (0, 0, self.warm, self.warm, self.warm):
            if time.monotonic() > give_up:
                raise TimeoutError(f"the daemon did not settle: {dict(zip(SETTLED, self._state(), strict=True))}")
            time.sleep(LOOK_SECONDS)

    def _state(self) -> tuple[float, ...]:
        return self._client.gauge(*(f"code_executor_{name}" for name in SETTLED))


@contextmanager
def installation(
    *,
    pool: int,
    tools: bool = False,
    servers: Mapping[str, object] | None = None,
    prepare: Callable[[Installation], None] = lambda place: None,
) -> Iterator[Daemon]:
    """`pool` warm sandboxes of each language, always; 0 makes every start a cold one.

    With `tools` it has a real MCP server, with `servers` those that their entries describe. `prepare` is called before
    the daemon starts, when its directories belong to nobody yet.
    """
    with tempfile.TemporaryDirectory(prefix=f"{LABEL}-") as name:
        directory = Path(name)
        listed = servers or ({"memory": memory_server(directory)} if tools else {})
        place, log = _place(directory, pool, listed), directory / "daemon.log"
        prepare(place)
        process = serve(place, log)
        try:
            port, key = _port(process, log), place.keys["admin"]
            client = Client(port, key)
            daemon = Daemon(port, key, place.owner, process.pid, 2 * pool, client)
            _until_ready(client, len(listed))
            daemon.settle()
            yield daemon
        finally:
            _stop(process)
            if place.was_started:
                remove_containers_of(place.owner)


def _place(directory: Path, pool: int, servers: Mapping[str, object]) -> Installation:
    (directory / "roles.json").write_text(json.dumps(ROLES))
    (directory / "servers.json").write_text(json.dumps({"mcpServers": servers}))
    return Installation.create(
        directory,
        roles_file=directory / "roles.json",
        servers_file=directory / "servers.json",
        runner_image=RUNNER_IMAGE,
        warm_floor=pool,
        warm_ceiling=pool,
        warm_memory_bytes=WARM_MEMORY_BYTES,
        shutdown_grace_seconds=2,
        **ONE_CALLER,
    )


def memory_server(directory: Path) -> dict[str, object]:
    return {
        "command": str(NODE),
        "args": [str(MEMORY_SERVER)],
        "env": {"MEMORY_FILE_PATH": str(directory / "memory.json")},
    }


def _port(process: subprocess.Popen[bytes], log: Path) -> int:
    give_up = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < give_up:
        if port := listening_port(log):
            return port
        time.sleep(LOOK_SECONDS)
    raise RuntimeError(f"the daemon did not start: {log.read_text()[-1000:]}")


def _until_ready(client: Client, servers: int) -> None:
    give_up = time.monotonic() + START_SECONDS
    while True:
        try:
            client.get("/readyz")
            if (
                len([tools for tools in json.loads(client.get("/health"))["toolsByServer"].values() if tools])
                >= servers
            ):
                return
            problem = "not all of its MCP servers list tools"
        except Exception as error:
            problem = str(error)
        if time.monotonic() > give_up:
            raise TimeoutError(f"the daemon is not ready: {problem}")
        time.sleep(5 * LOOK_SECONDS)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
