"""Lets one function serve programs that await and programs that do not."""

from __future__ import annotations

import atexit
import json
import operator
import os
import sys
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future
from copy import copy
from queue import SimpleQueue
from threading import Semaphore, Thread
from traceback import FrameSummary, StackSummary, TracebackException
from typing import Any

_Call = Callable[[], Any]
# File, line and function: a frame would keep the variables of the program.
_Place = tuple[str, int, str]

# More at once wait here, not in the gateway.
_MAX_THREADS = 64
_LIBRARY = f"{os.path.dirname(__file__)}/"
_ADVICE = "The call was not awaited, so nothing could catch its failure: in async code, await each call."


class _Threads:
    """Daemons, so that a call on which the program gave up does not keep the program from ending."""

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


_threads = _Threads()
# Of calls whose values nobody has wanted yet, with their places in the program; they end before it does.
_unused: dict[Future[Any], _Place] = {}
# The program exits with it if all else went well: 1 once a failure was told that the program cannot have seen.
exit_status = 0


def _start_anew() -> None:
    global _threads, exit_status  # noqa: PLW0603
    _threads = _Threads()
    _unused.clear()
    exit_status = 0


# A forked child has none of its parent's threads, so nothing would ever come of the calls that they carry out.
os.register_at_fork(after_in_child=_start_anew)


def _place_in_program() -> _Place:
    frame = sys._getframe()
    while frame.f_code.co_filename.startswith(_LIBRARY) and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name


def _finish(future: Future[Any]) -> None:
    place = _unused.pop(future, None)
    if place is not None and (error := future.exception()) is not None:
        _tell(error, place)


def _tell(error: BaseException, place: _Place) -> None:
    global exit_status  # noqa: PLW0603
    exit_status = 1
    error.add_note(_ADVICE)
    trace = TracebackException(type(error), error, None)
    trace.stack = StackSummary.from_list([FrameSummary(*place)])
    print("".join(trace.format()), end="", file=sys.stderr)  # noqa: T201


def _finish_all() -> None:
    for future in tuple(_unused):
        _finish(future)


# Later is too late: the interpreter that takes itself apart lets no thread of ours go on.
atexit.register(_finish_all)


class Pending:
    """A call that has begun. Await it, or use it like its value, which waits for it.

    It is also a coroutine, so that asyncio makes a task of it wherever it would of one.
    """

    __slots__ = ("__weakref__", "_future", "_steps")

    def __init__(self, call: _Call) -> None:
        self._steps: Generator[Any, None, Any] | None = None
        self._future = _threads.submit(call)
        _unused[self._future] = _place_in_program()

    def result(self) -> Any:
        self.close()
        return self._future.result()

    def __await__(self) -> Generator[Any, None, Any]:
        import asyncio

        self.close()
        return asyncio.wrap_future(self._future).__await__()

    def send(self, value: Any) -> Any:
        self._steps = self._steps or self.__await__()
        return self._steps.send(value)

    def throw(self, *error: Any) -> Any:
        self._steps = self._steps or self.__await__()
        return self._steps.throw(*error)

    def close(self) -> None:
        """The end of the call is its user's concern now."""
        _unused.pop(self._future, None)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.result(), name)

    def __repr__(self) -> str:
        """Does not raise: asyncio looks at results in this way too, and nobody would see the failure."""
        error = self._future.exception()
        return repr(self.result()) if error is None else repr(error)

    # Tasks are kept in sets before they have a result.
    __hash__ = object.__hash__

    def __del__(self) -> None:
        """Nobody wants the value: as a plain statement, the call has to end before the next one begins."""
        _finish(self._future)


def settled(value: Any) -> Any:
    """The value with the results of the calls in it."""
    if isinstance(value, Pending):
        return value.result()
    if isinstance(value, dict):
        return {key: settled(item) for key, item in value.items()}
    return [settled(item) for item in value] if isinstance(value, list | tuple) else value


def _forward(use: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, *others: use(self.result(), *others)


def _reflected(use: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, other: use(other, self.result())


def _behave_like_the_value() -> None:
    for use in (len, iter, str, bool, int, float, complex, bytes, format, reversed, abs, round):
        setattr(Pending, f"__{use.__name__}__", _forward(use))
    for name in "getitem setitem delitem contains eq ne lt le gt ge index neg pos invert".split():  # noqa: SIM905
        setattr(Pending, f"__{name}__", _forward(getattr(operator, name)))
    for name in "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift".split():  # noqa: SIM905
        use = getattr(operator, f"__{name}__")
        setattr(Pending, f"__{name}__", _forward(use))
        setattr(Pending, f"__r{name}__", _reflected(use))


def _be_written_as_json() -> None:
    write = json.JSONEncoder.iterencode

    def settle_and_write(encoder: Any, value: Any, _one_shot: bool = False) -> Iterator[str]:
        def default(each: Any) -> Any:
            return each.result() if isinstance(each, Pending) else encoder.default(each)

        # The program's own default comes second: `default=str`, for example, would take every object.
        settling = copy(encoder)
        settling.default = default
        return write(settling, value, _one_shot)

    json.JSONEncoder.iterencode = settle_and_write  # type: ignore[assignment, method-assign]


_behave_like_the_value()
_be_written_as_json()
