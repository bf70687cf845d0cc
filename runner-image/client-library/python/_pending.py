"""Carries out calls in the background, for async code to await."""

from __future__ import annotations

import asyncio
import atexit
import os
import sys
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Future
from queue import SimpleQueue
from threading import Semaphore, Thread
from traceback import FrameSummary, StackSummary, TracebackException
from typing import Any

_Call = Callable[[], Any]
# File, line and function: a frame would keep the variables of the program.
_Place = tuple[str, int, str]

# More calls than these wait here, not in the gateway.
_MAX_THREADS = 64
_LIBRARY = f"{os.path.dirname(__file__)}/"
_MUST_BE_AWAITED = "The call was not awaited: write `await` before it to get its result."
_ADVICE = "The call was not awaited, so nothing could catch its failure: in async code, await each call."


class _Workers:
    """Carry out calls in daemon threads, so that a call which the program gave up does not keep it from ending."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[tuple[Future[Any], _Call]] = SimpleQueue()
        self._idle = Semaphore(0)
        self._count = 0

    def submit(self, call: _Call) -> Future[Any]:
        future: Future[Any] = Future()
        self._calls.put((future, call))
        if self._count < _MAX_THREADS and not self._idle.acquire(blocking=False):
            Thread(target=self._work, name="tool", daemon=True).start()
            self._count += 1
        return future

    def _work(self) -> None:
        while True:
            _carry_out(*self._calls.get())
            self._idle.release()


def _carry_out(future: Future[Any], call: _Call) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(call())
    except BaseException as error:
        future.set_exception(error)
        del future  # otherwise it would live as long as the trace of its own error, which holds this frame


_workers = _Workers()
# The calls that nobody has awaited yet, with their places in the program; they end before the program does.
_unawaited: dict[Future[Any], _Place] = {}
# The runner ends a program with this status if all else went well: 1 after a failure that nothing could catch.
exit_status = 0


def _start_anew() -> None:
    global _workers, exit_status  # noqa: PLW0603
    _workers = _Workers()
    _unawaited.clear()
    exit_status = 0


# A forked child has none of its parent's threads, so nothing would ever come of the calls that they carry out.
os.register_at_fork(after_in_child=_start_anew)


class UnawaitedCall(Coroutine[Any, Any, Any]):
    """A call that has begun and is to be awaited; whatever else is done with it says so.

    It is a coroutine so that asyncio.create_task and task groups accept it.
    """

    __slots__ = ("__weakref__", "_future", "_steps")

    def __init__(self, call: _Call) -> None:
        self._future = _workers.submit(call)
        self._steps = _outcome_of(self._future)
        _unawaited[self._future] = _place_in_program()

    def __await__(self) -> Generator[Any, Any, Any]:
        _unawaited.pop(self._future, None)
        return _outcome_of(self._future)

    def send(self, value: Any) -> Any:
        _unawaited.pop(self._future, None)
        return self._steps.send(value)

    def throw(self, *error: Any) -> Any:
        self.close()
        return self._steps.throw(*error)

    def close(self) -> None:
        """Give the call up; a request that was sent already is still carried out."""
        _unawaited.pop(self._future, None)
        self._future.cancel()

    def __repr__(self) -> str:
        return "<UnawaitedCall: await it to get its result>"

    def _must_be_awaited(self, *_: Any) -> Any:
        raise TypeError(_MUST_BE_AWAITED)

    __bool__ = __len__ = __iter__ = __getitem__ = __contains__ = __float__ = __int__ = _must_be_awaited
    __add__ = __radd__ = __sub__ = __mul__ = __truediv__ = __lt__ = __le__ = __gt__ = __ge__ = _must_be_awaited

    def __getattr__(self, name: str) -> Any:
        # asyncio asks for names of this kind, and can do without.
        hint = "" if name.startswith(("__", "cr_", "gi_")) else f" {_MUST_BE_AWAITED}"
        raise AttributeError(f"An UnawaitedCall has no '{name}'.{hint}")

    def __del__(self) -> None:
        """Wait for a call that nobody can await any more, so that plain statements are carried out in their order."""
        _finish(self._future)


def _outcome_of(future: Future[Any]) -> Generator[Any, Any, Any]:
    return (yield from asyncio.wrap_future(future))


def _place_in_program() -> _Place:
    frame = sys._getframe()
    while frame.f_code.co_filename.startswith(_LIBRARY) and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name


def _finish(future: Future[Any]) -> None:
    """Wait for a call that nobody awaited, and show its failure."""
    global exit_status  # noqa: PLW0603
    place = _unawaited.pop(future, None)
    if place is None or (error := future.exception()) is None:
        return
    exit_status = 1
    error.add_note(_ADVICE)
    trace = TracebackException(type(error), error, None)
    trace.stack = StackSummary.from_list([FrameSummary(*place)])
    print("".join(trace.format()), end="", file=sys.stderr)  # noqa: T201


def _finish_all() -> None:
    for future in tuple(_unawaited):
        _finish(future)


# Later is too late: the interpreter that takes itself apart lets no thread of ours go on.
atexit.register(_finish_all)
