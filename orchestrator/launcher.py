"""The composition root of the launcher, the process that alone holds the engine's socket."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from orchestrator.engines.docker.launcher import Launcher
from orchestrator.engines.docker.launcher_server import LauncherServer, serve_until_told
from orchestrator.engines.docker.lockdown import Bounds, Confinement
from orchestrator.instance import instance_id
from orchestrator.settings import Settings

OWNER_FILE = "owner-id"


def build_launcher(settings: Settings, owner: str) -> Launcher:
    confinement = Confinement(
        image=settings.runner_image, seccomp_profile=settings.seccomp_file.read_text(), runtime=settings.runtime
    )
    most = Bounds(
        memory_bytes=settings.memory_bytes,
        cpus=settings.cpus,
        max_processes=settings.max_processes,
        workspace_bytes=settings.workspace_bytes,
        scratch_bytes=settings.scratch_bytes,
    )
    return Launcher(
        settings.docker_host,
        confinement,
        owner,
        most=most,
        max_running=settings.max_running,
        max_sandboxes=settings.max_sandboxes,
        max_calls=settings.max_engine_calls,
    )


def serve(settings: Settings, owner: str | None, *, leashed: bool) -> None:
    """Serve until told to end or, on a leash, until stdin ends."""
    path = settings.launcher_socket
    if path is None:
        raise ValueError("CODE_EXECUTOR_LAUNCHER_SOCKET must say where to listen")
    daemon = os.getppid()
    launcher = build_launcher(settings, owner or instance_id(path.with_name(OWNER_FILE)))
    server = LauncherServer(launcher, path, max_calls=settings.max_engine_calls)
    serve_until_told(server, leash=sys.stdin.fileno() if leashed else None)
    if leashed and os.getppid() != daemon:  # it was killed, so nobody else removes the directory that it made for us
        path.unlink(missing_ok=True)
        with suppress(OSError):
            path.parent.rmdir()
