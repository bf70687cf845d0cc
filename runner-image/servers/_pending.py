"""Lets one function serve programs that await and programs that do not."""

from __future__ import annotations

import json
import operator
import os
import sys
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

# More at once wait here, not in the gateway.
_MAX_THREADS = 64

_threads = ThreadPoolExecutor(_MAX_THREADS, thread_name_prefix="tool")


def _start_anew() -> None:
    global _threads  # noqa: PLW0603
    _threads = ThreadPoolExecutor(_MAX_THREADS, thread_name_prefix="tool")


# A forked child has none of its parent's threads, but the pool would go on counting on them.
os.register_at_fork(after_in_child=_start_anew)


class Pending:
    """A call that has begun. Await it, or use it like its value, which waits for it.

    It is also a coroutine, so that asyncio makes a task of it wherever it would of one.
    """

    __slots__ = ("__weakref__", "_future", "_is_used", "_label", "_steps")

    def __init__(self, call: Callable[[], Any], label: str) -> None:
        self._is_used = False
        self._label = label
        self._steps: Generator[Any, None, Any] | None = None
        self._future: Future[Any] = _threads.submit(call)

    def result(self) -> Any:
        self._is_used = True
        return self._future.result()

    def __await__(self) -> Generator[Any, None, Any]:
        import asyncio

        self._is_used = True
        return asyncio.wrap_future(self._future).__await__()

    def send(self, value: Any) -> Any:
        self._steps = self._steps or self.__await__()
        return self._steps.send(value)

    def throw(self, *error: Any) -> Any:
        self._steps = self._steps or self.__await__()
        return self._steps.throw(*error)

    def close(self) -> None:
        self._is_used = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self.result(), name)

    # Tasks are kept in sets before they have a result.
    __hash__ = object.__hash__

    def __del__(self) -> None:
        """Nobody wants the value: as a plain statement, the call has to end before the next one begins."""
        if self._is_used:
            return
        error = self._future.exception()
        if error is not None:
            print(f"{self._label} failed, and its result was not used: {error}", file=sys.stderr)  # noqa: T201


def _forward(use: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, *others: use(self.result(), *others)


def _reflected(use: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, other: use(other, self.result())


def _behave_like_the_value() -> None:
    for use in (len, iter, str, repr, bool, int, float, complex, bytes, format, reversed, abs, round):
        setattr(Pending, f"__{use.__name__}__", _forward(use))
    for name in "getitem setitem delitem contains eq ne lt le gt ge index neg pos invert".split():  # noqa: SIM905
        setattr(Pending, f"__{name}__", _forward(getattr(operator, name)))
    for name in "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift".split():  # noqa: SIM905
        use = getattr(operator, f"__{name}__")
        setattr(Pending, f"__{name}__", _forward(use))
        setattr(Pending, f"__r{name}__", _reflected(use))


def _be_written_as_json() -> None:
    refuse = json.JSONEncoder.default

    def default(encoder: json.JSONEncoder, value: Any) -> Any:
        return value.result() if isinstance(value, Pending) else refuse(encoder, value)

    json.JSONEncoder.default = default  # type: ignore[method-assign, assignment]


_behave_like_the_value()
_be_written_as_json()
