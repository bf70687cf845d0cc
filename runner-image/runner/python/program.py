"""Runs one Python program, given on the control pipe, as `__main__`."""

from __future__ import annotations

import gc
import io
import json
import os
import sys
from _ast import PyCF_ALLOW_TOP_LEVEL_AWAIT
from collections.abc import Callable
from types import CodeType, FunctionType, ModuleType, TracebackType

_CONTROL_FD = 3
_READY_FD = 4
_CO_COROUTINE = 0x80
_PREPARED = b'{"type": "prepared"}\n'
_CLIENT_LIBRARY = ("asyncio", "http.client", "encodings.idna", "servers._client", "servers._lazy")


def _receive() -> tuple[str, dict[str, str]]:
    # What is loaded by now stays to the end: the collections of an ordinary exit need not look at it (2 ms less).
    gc.freeze()
    os.write(_READY_FD, b"\n")
    os.close(_READY_FD)
    with open(_CONTROL_FD, "rb") as control:
        while (head := control.read(len(_PREPARED))) == _PREPARED:
            _load_client_library()
        message = json.loads(head + control.read())
    return message["code"], message["environment"]


def _load_client_library() -> None:
    """What the first call of a tool needs is loaded now, when nobody waits for it."""
    sys.path.insert(0, os.getcwd())
    try:
        for module in _CLIENT_LIBRARY:
            __import__(module)
    except Exception:  # noqa: S110 - the program that needs it will see the error itself
        pass
    finally:
        del sys.path[0]
        sys.path_importer_cache.pop(os.getcwd(), None)
        gc.freeze()


def _save(path: str, code: str) -> None:
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.write(code)


def _become_main(path: str) -> ModuleType:
    module = ModuleType("__main__")
    module.__file__ = path
    module.__dict__["__builtins__"] = sys.modules["builtins"]
    sys.modules["__main__"] = module
    sys.argv = [os.path.basename(path)]
    sys.path.insert(0, os.path.dirname(path))
    return module


def _print_at_once(display: Callable[[], None]) -> None:
    """Unbuffered, a traceback would be written in a hundred pieces."""
    stderr, sys.stderr = sys.stderr, io.StringIO()
    try:
        display()
    finally:
        text, sys.stderr = sys.stderr.getvalue(), stderr
        stderr.write(text)


def _show_only_frames_from(path: str) -> None:
    """The frames above the program's own are ours, or asyncio's when it awaits at the top level."""

    def show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        while trace is not None and trace.tb_frame.f_code.co_filename != path:
            trace = trace.tb_next
        _print_at_once(lambda: sys.__excepthook__(kind, error.with_traceback(trace), trace))

    sys.excepthook = show


def _execute(code: CodeType, module: ModuleType) -> None:
    if code.co_flags & _CO_COROUTINE:
        import asyncio

        asyncio.run(FunctionType(code, module.__dict__)())
    else:
        exec(code, module.__dict__)  # noqa: S102 - running the given program is the purpose


def main() -> None:
    code, environment = _receive()
    os.environ.update(environment)
    path = os.path.join(os.getcwd(), "main.py")
    module = _become_main(path)
    _show_only_frames_from(path)
    _save(path, code)
    compiled = compile(code, path, "exec", flags=PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    _execute(compiled, module)


if __name__ == "__main__":
    main()
