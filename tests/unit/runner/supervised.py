"""Drives a real supervisor as an ordinary subprocess, speaking the orchestrator's side of the protocol."""

from __future__ import annotations

import json
import os
import secrets
import select
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

RUNNER = Path(__file__).parents[3] / "runner-image" / "runner"
PATIENCE_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Frame:
    kind: str
    payload: bytes

    @property
    def fields(self) -> dict[str, Any]:
        fields: dict[str, Any] = json.loads(self.payload)
        return fields


@dataclass(frozen=True, slots=True)
class Left:
    """A file that was left out."""

    place: str
    name: bytes
    why: str
    size: int


@dataclass(frozen=True, slots=True)
class Ended:
    stdout: bytes
    stderr: bytes
    report: dict[str, Any]
    status: int
    files: dict[str, bytes | None] = field(default_factory=dict)  # None: as it was brought
    left_out: list[Left] = field(default_factory=list)
    left_out_count: dict[str, int] | None = None  # None: nothing was to be handed over

    @property
    def output(self) -> str:
        return self.stdout.decode()

    @property
    def errors(self) -> str:
        return self.stderr.decode()

    @property
    def exit_code(self) -> int | None:
        code: int | None = self.report["exit_code"]
        return code


# Root's rights over the modes of files, which nobody has in a sandbox.
WITHOUT_OVERRIDING = ("setpriv", "--bounding-set=-dac_override,-dac_read_search")


class Supervised:
    def __init__(
        self,
        language: str,
        workspace: Path,
        interpreter: str,
        lifetime_seconds: float = 60.0,
        *,
        overrides_modes: bool = True,
    ) -> None:
        self.workspace = workspace
        self.door = f"@door-{secrets.token_hex(8)}"  # not in a network namespace of its own here
        self.process = subprocess.Popen(
            [
                *(() if overrides_modes or os.geteuid() else WITHOUT_OVERRIDING),
                *(sys.executable, "-I", "-S", "-B", str(RUNNER / "supervisor.py")),
                *(language, str(lifetime_seconds), self.door, str(workspace), interpreter),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._stdin = self.process.stdin
        self._stdout = self.process.stdout
        self._received = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Letting go of the leash is also how a failed test leaves nothing behind.
        self._stdin.close()
        self._stdout.close()
        self.process.wait(PATIENCE_SECONDS)

    def send_bytes(self, message: bytes) -> None:
        view = memoryview(message)
        while view:
            view = view[os.write(self._stdin.fileno(), view) :]

    def send(self, kind: bytes, payload: bytes = b"") -> None:
        self.send_bytes(struct.pack(">cI", kind, len(payload)) + payload)

    def prepare(self, files: dict[str, str]) -> None:
        texts = [text.encode() for item in files.items() for text in item]
        self.send(b"P", b"".join(struct.pack(">I", len(text)) + text for text in texts))

    def bring(self, path: str, *pieces: bytes) -> None:
        for piece in pieces:
            self.send(b"A", struct.pack(">I", len(path.encode())) + path.encode() + piece)

    def stop(self) -> None:
        self.send(b"K")

    def preload(self) -> None:
        self.send(b"L")

    def start(
        self,
        code: str,
        *,
        timeout_seconds: float = PATIENCE_SECONDS,
        max_output_bytes: int = 1_000_000,
        flood_bytes: int = 16_000_000,
        checked: bool = False,
        environment: dict[str, str] | None = None,
        places: dict[str, tuple[int, int, int]] | None = None,
    ) -> None:
        limits = struct.pack(">dQQ?", timeout_seconds, max_output_bytes, flood_bytes, checked)
        limits += bytes([len(places or {})])
        for letter, place in (places or {}).items():
            limits += struct.pack(">cIQQ", letter.encode(), *place)
        settings = "".join(f"{name}={value}\0" for name, value in (environment or {}).items()).encode()
        self.send(b"G", limits + struct.pack(">I", len(settings)) + settings + code.encode())

    def run(self, code: str, **options: Any) -> Ended:
        self.start(code, **options)
        return self.finish()

    def frame(self) -> Frame | None:
        header = self._exactly(5)
        if not header:
            return None
        kind, length = struct.unpack(">cI", header)
        return Frame(kind.decode(), self._exactly(length))

    def frames(self) -> Iterator[Frame]:
        while (frame := self.frame()) is not None:
            yield frame

    def expect(self, kind: str) -> Frame:
        frame = self.frame()
        assert frame is not None, f"the stream ended where {kind} was expected"
        assert frame.kind == kind, frame
        return frame

    def finish(self) -> Ended:
        frames = [frame for frame in self.frames() if frame.kind != "R"]
        status = self.process.wait(PATIENCE_SECONDS)
        assert frames, f"the supervisor ended with {status} and said nothing"
        done = next((number for number, frame in enumerate(frames) if frame.kind == "D"), -1)
        assert frames[done].kind == "D", frames[-1]
        stdout, stderr = (b"".join(f.payload for f in frames[:done] if f.kind == kind) for kind in "OE")
        return Ended(stdout, stderr, frames[done].fields, status, *_handed_over(frames[done + 1 :]))

    def let_go(self) -> None:
        self._stdin.close()

    def wait(self) -> int:
        return self.process.wait(PATIENCE_SECONDS)

    def _exactly(self, size: int) -> bytes:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len(self._received) < size:
            readable, _, _ = select.select([self._stdout], [], [], max(0.0, deadline - time.monotonic()))
            assert readable, f"no frame within {PATIENCE_SECONDS} s"
            if not (received := os.read(self._stdout.fileno(), 1 << 16)):
                assert not self._received, f"the stream ended inside a frame: {self._received!r}"
                return b""
            self._received += received
        taken, self._received = self._received[:size], self._received[size:]
        return taken


def _handed_over(frames: list[Frame]) -> tuple[dict[str, bytes | None], list[Left], dict[str, int] | None]:
    files: dict[str, bytes | None] = {}
    left_out: list[Left] = []
    sizes: dict[str, int] = {}
    name = ""
    for frame in frames:
        if frame.kind == "N":
            letter, unchanged, size = struct.unpack_from(">c?Q", frame.payload)
            name = letter.decode() + ":" + os.fsdecode(frame.payload[10:])
            files[name] = None if unchanged else b""
            sizes[name] = size
        elif frame.kind == "T":
            files[name] = (files[name] or b"") + frame.payload
        elif frame.kind == "M":
            letter, why, size = struct.unpack_from(">ccQ", frame.payload)
            left_out.append(Left(letter.decode(), frame.payload[10:], why.decode(), size))
        else:
            assert frame.kind == "Z", frame
            assert frame is frames[-1]
    lost = {each.place + ":" + os.fsdecode(each.name) for each in left_out if each.why == "o"}
    assert all(
        len(files[name] or b"") == size for name, size in sizes.items() if name not in lost | unchanged_of(files)
    )
    return files, left_out, frames[-1].fields if frames else None


def unchanged_of(files: dict[str, bytes | None]) -> set[str]:
    return {name for name, content in files.items() if content is None}


class Watched:
    """A process of which we want to see the end, without asking again and again."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._fd = os.pidfd_open(pid)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._fd)

    def ended_within(self, seconds: float) -> bool:
        return bool(select.select([self._fd], [], [], seconds)[0])
