"""Keeps what is known about the program's run, from the run order to its ending."""

from __future__ import annotations

import os
import resource
import time

from supervision import cgroup, frames, signals
from supervision.orders import Run
from supervision.outbox import Outbox
from supervision.program import Program
from supervision.stream import Stream

EXITED = "exited"
TIMED_OUT = "timed_out"
OUTPUT_LIMIT = "output_limit"
OUT_OF_MEMORY = "out_of_memory"
CANCELLED = "cancelled"


class Execution:
    """One run of the program; the first ending counts, except that output may still turn out too long."""

    __slots__ = (
        "_cpu_seconds_before",
        "_ended_at",
        "_ending",
        "_oom_kills_before",
        "_started_at",
        "_wait_status",
        "deadline",
        "stderr",
        "stdout",
    )

    def __init__(self, order: Run, program: Program) -> None:
        self.stdout = Stream(frames.STDOUT, program.stdout, order.max_output_bytes, order.flood_bytes)
        self.stderr = Stream(frames.STDERR, program.stderr, order.max_output_bytes, order.flood_bytes)
        self._oom_kills_before = cgroup.oom_kills()
        self._cpu_seconds_before = program.cpu_seconds()
        self._started_at = time.monotonic()
        self._ended_at: float | None = None
        self._ending: str | None = None
        self._wait_status: int | None = None
        self.deadline = self._started_at + order.timeout_seconds

    @property
    def ended(self) -> bool:
        return self._ending is not None

    @property
    def succeeded(self) -> bool:
        return self._ending == EXITED and self._wait_status == 0

    @property
    def drained(self) -> bool:
        return not self.open_streams

    @property
    def open_streams(self) -> list[Stream]:
        return [stream for stream in (self.stdout, self.stderr) if stream.open]

    def finish_streams(self, outbox: Outbox) -> None:
        for stream in (self.stdout, self.stderr):
            stream.finish(outbox)

    def end(self, ending: str) -> None:
        if self._ending is None:
            self._ending = ending
            self._ended_at = time.monotonic()
        elif self._ending == EXITED:
            # A program that exits while its last output is still in the pipe may yet have written too much.
            self._ending = ending

    def record_exit(self, wait_status: int) -> None:
        """Record that the main process was reaped, whether it ended by itself or was killed."""
        self._wait_status = wait_status
        killed_for_memory = os.waitstatus_to_exitcode(wait_status) == -signals.KILL and self._oom_kills() > 0
        self.end(OUT_OF_MEMORY if killed_for_memory else EXITED)

    def _oom_kills(self) -> int:
        return max(0, cgroup.oom_kills() - self._oom_kills_before)

    def report(self) -> bytes:
        """Return the payload of the frame that ends the execution."""
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        exit_code, signal_number = _exit_code_and_signal(self._wait_status)
        cpu_seconds = usage.ru_utime + usage.ru_stime - self._cpu_seconds_before
        report = {
            "ending": f'"{self._ending}"',
            "exit_code": exit_code,
            "signal": signal_number,
            "stdout_bytes": self.stdout.forwarded_bytes,
            "stderr_bytes": self.stderr.forwarded_bytes,
            "stdout_dropped_bytes": self.stdout.dropped_bytes,
            "stderr_dropped_bytes": self.stderr.dropped_bytes,
            "seconds": round((self._ended_at or time.monotonic()) - self._started_at, 6),
            "cpu_seconds": round(max(0.0, cpu_seconds), 6),
            "max_rss_bytes": usage.ru_maxrss * 1024,
            "oom_kills": self._oom_kills(),
        }
        return frames.json(report)


def _exit_code_and_signal(wait_status: int | None) -> tuple[int | None, int | None]:
    if wait_status is None:
        return None, None
    code = os.waitstatus_to_exitcode(wait_status)
    return (code, None) if code >= 0 else (128 - code, -code)
