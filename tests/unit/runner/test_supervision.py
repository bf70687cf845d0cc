"""Parts of the supervisor that are easier to see alone."""

from __future__ import annotations

import json
import os
import signal
import struct
from pathlib import Path

import pytest
from supervision import cgroup, execution, frames, languages, orders, processes
from supervision.outbox import PAUSE_ABOVE_BYTES, Outbox
from supervision.program import Program


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


class TestCgroup:
    def test_oom_kills_are_read_from_version_2(self, tmp_path: Path) -> None:
        write(tmp_path, "memory.events", "low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 0\n")
        assert cgroup.oom_kills(str(tmp_path)) == 2

    def test_oom_kills_are_read_from_version_1(self, tmp_path: Path) -> None:
        write(tmp_path, "memory/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n")
        assert cgroup.oom_kills(str(tmp_path)) == 5

    def test_unreadable_cgroup_means_no_oom_kill_and_no_limit(self, tmp_path: Path) -> None:
        assert cgroup.oom_kills(str(tmp_path)) == 0
        assert cgroup.memory_limit_bytes(str(tmp_path)) is None

    @pytest.mark.parametrize("name", ["memory.max", "memory/memory.limit_in_bytes"])
    def test_memory_limit_is_read_from_either_version(self, tmp_path: Path, name: str) -> None:
        write(tmp_path, name, "1073741824\n")
        assert cgroup.memory_limit_bytes(str(tmp_path)) == 1024**3

    @pytest.mark.parametrize(
        ("name", "text"), [("memory.max", "max\n"), ("memory/memory.limit_in_bytes", "9223372036854771712\n")]
    )
    def test_no_limit_is_recognised_in_either_version(self, tmp_path: Path, name: str, text: str) -> None:
        write(tmp_path, name, text)
        assert cgroup.memory_limit_bytes(str(tmp_path)) is None


class TestHeap:
    def test_node_may_use_all_memory_that_the_cgroup_allows(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(cgroup, "memory_limit_bytes", lambda: 512 * 1024 * 1024)
        assert "--max-old-space-size=512" in languages.command("typescript", "/workspace")

    def test_heap_has_a_fallback_without_a_limit(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(cgroup, "memory_limit_bytes", lambda: None)
        assert "--max-old-space-size=1024" in languages.command("typescript", "/workspace")


class TestMemoryEnding:
    @pytest.mark.parametrize(
        ("wait_status", "kills", "ending"),
        [
            (signal.SIGKILL, 1, "out_of_memory"),
            (signal.SIGKILL, 0, "exited"),
            (signal.SIGABRT, 1, "exited"),
            (1 << 8, 1, "exited"),
        ],
        ids=["killed by the kernel", "killed by itself", "aborted", "survived its child"],
    )
    def test_only_a_kill_with_a_risen_counter_is_out_of_memory(
        self, monkeypatch: pytest.MonkeyPatch, wait_status: int, kills: int, ending: str
    ) -> None:
        counted = 4
        monkeypatch.setattr(cgroup, "oom_kills", lambda: counted)
        run = started_execution()
        counted += kills
        run.record_exit(wait_status)
        report = json.loads(run.report())
        assert (report["ending"], report["oom_kills"]) == (ending, kills)

    def test_kill_of_our_own_stays_what_it_was(self, monkeypatch: pytest.MonkeyPatch) -> None:
        counted = 0
        monkeypatch.setattr(cgroup, "oom_kills", lambda: counted)
        run = started_execution()
        run.end(execution.TIMED_OUT)
        counted = 1
        run.record_exit(signal.SIGKILL)
        assert json.loads(run.report())["ending"] == "timed_out"


def started_execution() -> execution.Execution:
    program = Program(os.getpid(), *os.pipe(), *os.pipe())
    return execution.Execution(orders.Run(b"", memoryview(b""), 1.0, 100, 100, checked=False), program)


class TestKilling:
    def test_everything_means_the_namespace_only_for_its_first_process(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert processes.killer() is processes.kill_descendants
        monkeypatch.setattr(os, "getpid", lambda: 1)
        assert processes.killer() is processes.kill_namespace


class TestFrames:
    def test_several_frames_may_come_in_one_piece(self) -> None:
        decoder = frames.FrameDecoder()
        first, second = struct.pack(">cI", b"P", 2) + b"ab", struct.pack(">cI", b"L", 0)
        assert list(decoder.feed(first + second + first[:6])) == [(b"P", b"ab"), (b"L", b"")]
        assert list(decoder.feed(first[6:])) == [(b"P", b"ab")]

    def test_payload_above_the_limit_is_not_framed(self) -> None:
        assert frames.encode(b"O", b"x" * 65_536)[:5] == b"O\x00\x01\x00\x00"
        with pytest.raises(ValueError, match="at most 65536"):
            frames.encode(b"O", b"x" * 65_537)


class TestOutbox:
    def test_writing_to_a_stuck_reader_does_not_block(self) -> None:
        read_end, write_end = os.pipe()
        outbox = Outbox(write_end)
        while not outbox.full:
            outbox.put(b"O", b"x" * 65_536)
            outbox.flush()
        assert not outbox.empty
        os.close(read_end)
        os.close(write_end)

    def test_everything_arrives_in_order_once_it_is_read(self) -> None:
        read_end, write_end = os.pipe()
        outbox = Outbox(write_end)
        sent = [os.urandom(50_000) for _ in range(2 * PAUSE_ABOVE_BYTES // 50_000)]
        for payload in sent:
            outbox.put(b"O", payload)
        received = b""
        while not outbox.empty:
            outbox.flush()
            received += os.read(read_end, 1 << 20)
        os.close(write_end)
        while piece := os.read(read_end, 1 << 20):
            received += piece
        os.close(read_end)
        assert received == b"".join(frames.encode(b"O", payload) for payload in sent)
