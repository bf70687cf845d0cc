"""Runs the loop of PID 1, which serves the leash, the clocks and the program's pipes without ever blocking."""

from __future__ import annotations

import fcntl
import os
import select
import time
from _collections_abc import Callable

from supervision import frames, languages, orders, processes
from supervision.brought import Brought
from supervision.check import Check
from supervision.door import Door
from supervision.execution import CANCELLED, OUTPUT_LIMIT, TIMED_OUT, Execution
from supervision.outbox import Outbox
from supervision.program import Program
from supervision.stream import Stream

EXIT_DONE = 0
EXIT_FAULT = 70
EXIT_LEASH_ENDED = 71
EXIT_LIFETIME_OVER = 72

PROTOCOL = b"5"

_READ_BYTES = 256 * 1024
_PIPE_BYTES = 1024 * 1024
# A killed process ends as soon as the kernel lets it; one that hangs in the kernel dies with PID 1.
_GRACE_SECONDS = 2.0
_FAULT_CHARACTERS = 4000
# A poll takes its time in milliseconds as a C int; a longer wait is just several.
_LONGEST_POLL_SECONDS = 3600.0

TYPE_CHECKING = False
if TYPE_CHECKING:
    from supervision.handover import Handover

Handlers = dict[int, tuple[int, Callable[[], None]]]


class LeashError(Exception):
    """The orchestrator is gone."""


class Supervisor:
    """Obeys the orchestrator, forwards the program's output and reports its ending."""

    def __init__(
        self, language: str, program: Program, workspace: str, lifetime_ends: float, wakeup: int, door: str
    ) -> None:
        self._language = language
        self._program = program
        self._workspace = workspace
        self._lifetime_ends = lifetime_ends
        self._wakeup = wakeup
        self._leash = 0
        self._outbox = Outbox(1)
        self._door = Door(door, self._outbox)
        self._decoder = frames.FrameDecoder()
        self._kill_everything = processes.killer()
        self._ready = False
        self._listening = True
        self._brought = Brought()
        self._at_first: frozenset[str] = frozenset()
        self._run_order: orders.Run | None = None
        self._told_to_stop = False
        self._control_pending = bytearray()
        self._execution: Execution | None = None
        self._check: Check | None = None
        self._grace_ends: float | None = None
        self._reported = False
        self._handover: Handover | None = None
        self._exit_status: int | None = None
        os.set_blocking(self._leash, False)

    @property
    def _stopping(self) -> bool:
        return self._grace_ends is not None

    def supervise(self) -> int:
        """Loop until everything is reported, and return the exit status of PID 1."""
        try:
            while not (self._exit_status is not None and self._outbox.empty):
                self._turn()
        except LeashError:
            self._exit_status = EXIT_LEASH_ENDED
        self._kill_everything()
        return self._exit_status

    def _turn(self) -> None:
        # One reading of the clock for both, or a stream could fall between being read and being waited for.
        now = time.monotonic()
        handlers = self._handlers(now)
        for fd in _poll(handlers, self._next_clock(now) - now):
            handlers[fd][1]()
        try:
            self._watch_clocks()
            self._finish_when_drained()
            self._outbox.flush()
        except BrokenPipeError:
            raise LeashError from None

    # --- waiting ---

    def _handlers(self, now: float) -> Handlers:
        handlers: Handlers = {
            self._leash: (select.POLLIN, self._read_orders),
            self._wakeup: (select.POLLIN, self._reap),
        }
        if not self._outbox.empty:
            # Being woken is enough: every turn ends with a flush.
            handlers[self._outbox.fd] = (select.POLLOUT, lambda: None)
        if self._exit_status is not None:
            return handlers
        if self._listening:
            handlers[self._program.ready] = (select.POLLIN, self._hear_runtime)
        if self._control_pending:
            handlers[self._program.control] = (select.POLLOUT, self._write_control)
        for stream in self._wanted_streams():
            if stream.rests_until <= now or self._stopping:
                handlers[stream.fd] = (select.POLLIN, self._forwarder(stream))
        if self._check is not None:
            handlers[self._check.fd] = (select.POLLIN, self._hear_check)
        if not self._stopping:
            handlers.update((fd, (events, act)) for fd, events, act in self._door.watches())
        return handlers

    def _wanted_streams(self) -> list[Stream]:
        if self._execution is None or self._reported or self._outbox.full:
            return []  # what somebody in the kernel's hands still writes after the report is too late
        return self._execution.open_streams

    def _next_clock(self, now: float) -> float:
        clocks = [self._lifetime_ends]
        if self._execution is not None and not self._execution.ended:
            clocks.append(self._execution.deadline)
            clocks += [stream.rests_until for stream in self._wanted_streams() if stream.rests_until > now]
        if self._check is not None:
            clocks.append(self._check.deadline)
        if self._exit_status is None and not self._outbox.full:
            if self._handover is not None:
                clocks.append(now)
            elif self._grace_ends is not None and not self._reported:
                clocks.append(self._grace_ends)
        return min(clocks)

    # --- events ---

    def _read_orders(self) -> None:
        try:
            received = os.read(self._leash, _READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            raise LeashError from None
        if not received:
            raise LeashError
        if self._exit_status is None:
            try:
                for kind, payload in self._decoder.feed(received):
                    if kind in frames.OF_CONNECTIONS:
                        self._door.take(kind, payload)
                    else:
                        self._obey(orders.parse(kind, payload))
            except frames.ProtocolError as error:
                self._fail(str(error))

    def _obey(self, order: orders.Order) -> None:
        if isinstance(order, orders.Stop):
            self._stop_program()
        elif self._run_order is not None:
            raise frames.ProtocolError("the run order was the last one; only a stop may follow it")
        elif isinstance(order, orders.Prepare):
            orders.write_files(self._workspace, order.files)
        elif isinstance(order, orders.Append):
            _widen(self._leash)
            status = orders.append(self._workspace, order, first=self._brought.begins(order.path))
            self._brought.note(order.path, order.data, status)
        elif isinstance(order, orders.Preload):
            self._control_pending += frames.PRELOAD
            self._write_control()
        else:
            self._run_order = order
            orders.write_program(languages.main_file(self._language, self._workspace), order.code)
            for place in order.places:
                orders.make_folder(f"{self._workspace}/{place.name}")
            self._at_first = frozenset(os.listdir(self._workspace) if order.places else ())
            self._start_run()

    def _stop_program(self) -> None:
        if self._run_order is None:
            raise frames.ProtocolError("stop: nothing runs")
        self._told_to_stop = True
        if self._execution is not None:
            if not self._execution.ended:
                self._execution.end(CANCELLED)
            self._stop_everything()

    def _hear_runtime(self) -> None:
        """Note that the runtime is ready or has preloaded; it closes the pipe before the program begins."""
        try:
            said = os.read(self._program.ready, 1)
        except BlockingIOError:
            return
        self._listening = bool(said)
        was_ready, self._ready = self._ready, True
        if was_ready and said:
            self._outbox.put(frames.PRELOAD, b"")
        elif said:
            self._outbox.put(frames.READY, PROTOCOL)
            self._start_run()
        elif not was_ready:
            self._fail(f"the {self._language} runtime ended before it was ready")

    def _start_run(self) -> None:
        """Start the run if the runtime is ready: an early order waits, so that loading costs the program no time."""
        if self._ready and self._run_order is not None and self._exit_status is None:
            self._execution = Execution(self._run_order, self._program)
            if self._told_to_stop:
                self._end(CANCELLED)
                return
            if self._run_order.checked:
                try:
                    self._check = Check(self._language, self._workspace)
                except OSError:
                    self._outbox.put(frames.CHECKED, b"")  # without a verdict, the program goes on
            self._control_pending += frames.RUN + self._run_order.parcel
            self._write_control()

    def _write_control(self) -> None:
        try:
            written = os.write(self._program.control, self._control_pending)
        except BlockingIOError:
            return
        except BrokenPipeError:
            written = len(self._control_pending)
        del self._control_pending[:written]
        if not self._control_pending and self._execution is not None:
            os.close(self._program.control)

    def _forwarder(self, stream: Stream) -> Callable[[], None]:
        def forward() -> None:
            if not stream.forward(self._outbox):
                self._end(OUTPUT_LIMIT)

        return forward

    def _reap(self) -> None:
        os.read(self._wakeup, _READ_BYTES)
        for pid, wait_status in processes.reap():
            if self._check is not None and pid == self._check.pid:
                self._check.ended = True
            if pid != self._program.pid:
                continue
            if self._execution is not None:
                self._execution.record_exit(wait_status)
                # What failed by itself may have failed by a mistake that the check explains; it is nearly done.
                if self._check is None or self._execution.succeeded:
                    self._stop_everything()
            else:
                awaited = "given a program" if self._ready else "ready"
                self._fail(f"the {self._language} runtime ended before it was {awaited}")
        if self._stopping:
            self._kill_everything()

    def _hear_check(self) -> None:
        if self._check is not None and not self._check.hear():
            self._conclude_check()

    def _conclude_check(self) -> None:
        if self._check is not None:
            self._outbox.put(frames.CHECKED, self._check.conclude())
            self._check = None
        if self._execution is not None and self._execution.ended:
            self._stop_everything()

    # --- endings ---

    def _watch_clocks(self) -> None:
        now = time.monotonic()
        if now >= self._lifetime_ends:
            self._outbox.discard()
            self._exit_status = EXIT_LIFETIME_OVER
        elif self._execution and not self._execution.ended and now >= self._execution.deadline:
            self._end(TIMED_OUT)
        elif self._check is not None and now >= self._check.deadline:
            self._conclude_check()

    def _end(self, ending: str) -> None:
        if self._execution is not None:
            self._execution.end(ending)
            self._stop_everything()

    def _stop_everything(self) -> None:
        self._kill_everything()
        if self._check is not None:
            self._check.conclude()
            self._check = None
        if self._grace_ends is None:
            self._grace_ends = time.monotonic() + _GRACE_SECONDS

    def _finish_when_drained(self) -> None:
        execution = self._execution
        if execution is None or self._grace_ends is None or self._exit_status is not None:
            return
        if self._reported:
            self._hand_over()
            return
        gone = execution.drained and not processes.any_child_left()
        if gone or (time.monotonic() >= self._grace_ends and not self._outbox.full):
            execution.finish_streams(self._outbox)
            self._outbox.put(frames.DONE, execution.report())
            self._reported = True
            self._hand_over()

    def _hand_over(self) -> None:
        if self._handover is None:
            self._begin_handover(() if self._run_order is None else self._run_order.places)
        if self._handover is not None and not self._handover.go_on():
            self._exit_status = EXIT_DONE

    def _begin_handover(self, places: tuple[orders.Place, ...]) -> None:
        """Hand over what there is. The usual case, nothing, costs no more than a look, and travels with the report."""
        filled = any(orders.holds_anything(f"{self._workspace}/{place.name}") for place in places)
        if not filled and not (places and orders.has_stray(self._workspace, self._at_first)):
            if places:
                self._outbox.put(frames.HANDED_OVER, frames.json({place.name: 0 for place in places}))
            self._exit_status = EXIT_DONE
            return
        # Only when the report is gone: a handover may take the last of the memory, and must not take the report along.
        self._outbox.flush()
        if self._outbox.empty:
            from supervision.handover import Handover

            self._handover = Handover(self._workspace, places, self._brought, self._at_first, self._outbox)

    def _fail(self, message: str) -> None:
        if self._exit_status is None:
            self._kill_everything()
            try:
                last_words = os.read(self._program.stderr, frames.MAX_PAYLOAD_BYTES).decode(errors="replace").strip()
            except OSError:
                last_words = ""
            explained = f"{message}: {last_words}" if last_words else message
            self._outbox.put(frames.FAULT, explained[:_FAULT_CHARACTERS].encode(errors="replace"))
            self._exit_status = EXIT_FAULT


def _widen(pipe: int) -> None:
    """Let more of what is brought come at once; a turn for each 64 KiB would take longer than writing them."""
    try:
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    except OSError:
        return  # it is not a pipe here, or there is no room for it


def _poll(handlers: Handlers, seconds: float) -> list[int]:
    poll = select.poll()
    for fd, (events, _) in handlers.items():
        poll.register(fd, events)
    # Rounded up: waking a fraction of a millisecond early would spin until the time has come.
    milliseconds = int(min(max(0.0, seconds), _LONGEST_POLL_SECONDS) * 1000) + 1
    return [fd for fd, _ in poll.poll(milliseconds)]
