"""Those who run a program, each in the way its users would; one execution at a time, timed from outside."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from bench.client import Client, Reply
from bench.docker_flags import lockdown_flags
from bench.engine import LABEL, Engine
from bench.installation import Daemon
from bench.paths import NODE, PYTHON, RUNNER_IMAGE
from bench.programs import Language, Program

OURS_WARM = "ours, warm"
OURS_COLD = "ours, cold"
DOCKER_RUN = "docker run --rm"
READ_BYTES = 1 << 16
LONGEST_SECONDS = 120.0
STDIN_COMMANDS = {
    Language.TYPESCRIPT: ["node", "--input-type=module-typescript", "-"],
    Language.PYTHON: ["python3", "-I", "-S", "-"],
}


class Unavailable(Exception):
    """This machine cannot run the contestant; the message says why."""


class Failed(Exception):
    """The contestant ran and did not print what the program prints."""


@dataclass(frozen=True, slots=True)
class Run:
    seconds: float
    output: str
    first_byte_seconds: float | None = None
    reply: Reply | None = None


class Contestant(Protocol):
    name: str
    single_use: bool
    isolated: bool

    def run(self, program: Program) -> Run: ...

    def settle(self) -> None:
        """Returns when the contestant has nothing left to do, so that its cleaning up counts as its CPU time."""


class Ours:
    single_use = True
    isolated = True

    def __init__(self, name: str, daemon: Daemon, *, streaming: bool) -> None:
        self.name = name
        self._daemon = daemon
        self._client: Client = daemon.client()
        self._streaming = streaming

    def run(self, program: Program) -> Run:
        call = self._client.stream if self._streaming else self._client.execute
        reply = call(program.code, program.language)
        return Run(reply.seconds, reply.output, reply.first_byte_seconds, reply)

    def settle(self) -> None:
        self._daemon.settle()


class Command:
    """A command that reads the program from stdin or from a file."""

    def __init__(self, name: str, *, single_use: bool, isolated: bool) -> None:
        self.name = name
        self.single_use = single_use
        self.isolated = isolated

    def command(self, program: Program, file: Path) -> list[str]:
        raise NotImplementedError

    def run(self, program: Program) -> Run:
        with tempfile.TemporaryDirectory(prefix="bench-") as directory:
            file = Path(directory) / f"program{program.suffix}"
            file.write_text(program.code)
            return timed(self.command(program, file), file)

    def settle(self) -> None:
        pass


class DockerRun(Command):
    def __init__(self, engine: Engine) -> None:
        super().__init__(DOCKER_RUN, single_use=True, isolated=True)
        self._engine = engine

    def command(self, program: Program, file: Path) -> list[str]:
        entrypoint, *arguments = STDIN_COMMANDS[program.language]
        if program.packages:  # Python finds none without its site
            arguments = [argument for argument in arguments if argument != "-S"]
        flags = docker_run_flags(self._engine)
        return ["docker", "run", "--rm", "-i", *flags, "--entrypoint", entrypoint, RUNNER_IMAGE, *arguments]


class DockerExec(Command):
    def __init__(self, container: str) -> None:
        super().__init__("docker exec", single_use=False, isolated=True)
        self._container = container

    def command(self, program: Program, file: Path) -> list[str]:
        return ["docker", "exec", "-i", self._container, *STDIN_COMMANDS[program.language]]


class Bare(Command):
    def __init__(self) -> None:
        super().__init__("bare subprocess", single_use=True, isolated=False)

    def command(self, program: Program, file: Path) -> list[str]:
        return interpreter(program, str(file))


class Bubblewrap(Command):
    def __init__(self) -> None:
        super().__init__("bwrap", single_use=True, isolated=True)

    def command(self, program: Program, file: Path) -> list[str]:
        inside = f"/tmp/{file.name}"
        mounts = ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"]
        options = ["--unshare-all", "--die-with-parent", "--new-session", "--ro-bind", str(file), inside]
        return ["bwrap", *mounts, *options, *interpreter(program, inside)]


def docker_run_flags(engine: Engine) -> list[str]:
    return [*lockdown_flags(), "--network=none", f"--label={engine.label}"]


def interpreter(program: Program, file: str) -> list[str]:
    return [str(NODE), file] if program.language is Language.TYPESCRIPT else [str(PYTHON), "-I", "-S", file]


def timed(command: list[str], stdin: Path) -> Run:
    with stdin.open("rb") as source, tempfile.TemporaryFile() as complaints:
        began = time.perf_counter()
        process = subprocess.Popen(command, stdin=source, stdout=subprocess.PIPE, stderr=complaints, bufsize=0)
        try:
            first_byte, output = _drained(process, began)
            status = process.wait(LONGEST_SECONDS)
        except BaseException:
            process.kill()
            process.wait()
            raise
        seconds = time.perf_counter() - began
        if status:
            complaints.seek(0)
            raise Failed(f"{command[:2]} ended with {status}: {complaints.read().decode()[-400:]}")
    return Run(seconds, output.decode(), first_byte)


def _drained(process: subprocess.Popen[bytes], began: float) -> tuple[float | None, bytes]:
    assert process.stdout is not None
    first_byte, pieces = None, []
    while piece := os.read(process.stdout.fileno(), READ_BYTES):
        if first_byte is None:
            first_byte = time.perf_counter() - began
        pieces.append(piece)
    process.stdout.close()
    return first_byte, b"".join(pieces)


@contextmanager
def long_lived_container(engine: Engine) -> Iterator[DockerExec]:
    name = f"{LABEL}-{engine.run_id}-exec"
    flags = [*docker_run_flags(engine), "--name", name, "--entrypoint", "sleep"]
    started = subprocess.run(
        ["docker", "run", "--rm", "-d", *flags, RUNNER_IMAGE, "3600"], capture_output=True, check=False
    )
    if started.returncode:
        raise Unavailable(started.stderr.decode().strip()[-300:])
    try:
        yield DockerExec(name)
    finally:
        subprocess.run(["docker", "rm", "--force", name], capture_output=True, check=False)


def bubblewrap() -> Bubblewrap:
    if shutil.which("bwrap") is None:
        raise Unavailable("bubblewrap is not installed")
    tried = subprocess.run(
        ["bwrap", "--ro-bind", "/", "/", "--unshare-all", "true"], capture_output=True, text=True, check=False
    )
    if tried.returncode:
        raise Unavailable(tried.stderr.strip())
    return Bubblewrap()
