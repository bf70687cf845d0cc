"""A launcher within the test's own process, for tests that change what it asks of the engine or gets from it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from orchestrator.engines.docker.launcher import Launcher
from orchestrator.engines.docker.launcher_client import LauncherClient
from orchestrator.engines.docker.launcher_server import LauncherServer
from orchestrator.instance import instance_id
from orchestrator.launcher import build_launcher
from tests.support.installation import Installation


@contextmanager
def served(launcher: Launcher, path: Path, *, max_calls: int) -> Iterator[LauncherClient]:
    """Serve a launcher on a thread; give the daemon's end of its socket."""
    server = LauncherServer(launcher, path, max_calls=max_calls)
    thread = threading.Thread(target=server.serve)
    thread.start()

    async def where() -> Path:
        return path

    try:
        yield LauncherClient(where)
    finally:
        server.close()
        thread.join()


@contextmanager
def with_launcher_here(installation: Installation, directory: Path) -> Iterator[Installation]:
    """Give the installation to run, whose daemon uses the launcher of this process instead of one of its own."""
    settings = installation.settings
    path = directory / "launcher.sock"
    launcher = build_launcher(settings, instance_id(settings.instance_file))
    with served(launcher, path, max_calls=settings.max_engine_calls):
        yield Installation(settings.model_copy(update={"launcher_socket": path}), installation.keys)
