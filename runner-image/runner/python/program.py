"""Runs one Python program, given on the control pipe, as `__main__`."""

from __future__ import annotations

import atexit
import gc
import io
import os
import select
import sys
from _ast import PyCF_ALLOW_TOP_LEVEL_AWAIT
from _collections_abc import Callable
from types import CodeType, FunctionType, ModuleType, TracebackType

MAIN = os.path.join(os.getcwd(), "main.py")

_CONTROL_FD = 3
_READY_FD = 4
_CO_COROUTINE = 0x80
_NO_LOCKS = "A sandbox has no shared memory for process pools and multiprocessing locks: use threads or subprocess."
_PRELOAD = b"L"
# What calling tools and awaiting need, in steps of some milliseconds each.
_PRELOADED = (
    *("json", "socket", "datetime", "servers._client", "servers._lazy"),
    *("logging", "ssl", "subprocess", "inspect", "asyncio"),
)


def _receive() -> tuple[str, dict[str, str]]:
    # What is loaded by now stays to the end: the collections of an ordinary exit need not look at it (2 ms less).
    gc.freeze()
    os.write(_READY_FD, b"\n")
    while os.read(_CONTROL_FD, 1) == _PRELOAD:
        _preload()
        os.write(_READY_FD, b"\n")
    os.close(_READY_FD)
    with open(_CONTROL_FD, "rb") as control:
        environment = control.read(int.from_bytes(control.read(4), "big")).decode()
        code = control.read().decode()
    return code, dict(entry.split("=", 1) for entry in environment.split("\0")[:-1])


def _preload() -> None:
    """Loads what a program may need while nobody waits for it; a program that comes meanwhile goes first."""
    sys.path.insert(0, os.getcwd())
    try:
        for module in _PRELOADED:
            if select.select((_CONTROL_FD,), (), (), 0)[0]:
                break
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


def _explain(error: BaseException, trace: TracebackType | None) -> None:
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is not None and trace.tb_frame.f_code.co_filename.endswith("/multiprocessing/synchronize.py"):
        error.add_note(_NO_LOCKS)


def _show_only_frames_from(path: str) -> None:
    """The frames above the program's own are ours, or asyncio's when it awaits at the top level."""

    def show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        while trace is not None and trace.tb_frame.f_code.co_filename != path:
            trace = trace.tb_next
        _explain(error, trace)
        _print_at_once(lambda: sys.__excepthook__(kind, error.with_traceback(trace), trace))

    sys.excepthook = show


def _execute(code: CodeType, module: ModuleType) -> None:
    if code.co_flags & _CO_COROUTINE:
        import asyncio

        asyncio.run(FunctionType(code, module.__dict__)())
    else:
        exec(code, module.__dict__)  # noqa: S102 - running the given program is the purpose


def _forget_modules_of(workspace: str) -> None:
    for name, module in tuple(sys.modules.items()):
        if isinstance(module, ModuleType) and str(vars(module).get("__file__")).startswith(workspace):
            del sys.modules[name]


def _exit_quickly(status: int) -> None:
    """What an ordinary exit does for the program, without taking the interpreter apart."""
    if threading := sys.modules.get("threading"):
        threading._shutdown()
    atexit._run_exitfuncs()
    pending = sys.modules.get("servers._pending")
    _forget_modules_of(os.path.dirname(MAIN))
    gc.collect()  # now what the program's modules held is finalized
    status = status or getattr(pending, "exit_status", 0)
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except Exception:
        sys.exit(status)  # the ordinary exit, which now follows, tells
    os._exit(status)


def _exit_status_of(code: str) -> int:
    """Of a program that ends in order; otherwise the interpreter has to tell how it ended."""
    module = _become_main(MAIN)
    # The byte order mark stays in the file; Python takes it from a file, but not from text.
    compiled = compile(code.removeprefix("\ufeff"), MAIN, "exec", flags=PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    try:
        _execute(compiled, module)
    except SystemExit as end:
        if end.code is None or type(end.code) is int:
            return (end.code or 0) & 0xFF
        raise
    return 0


def main() -> None:
    code, environment = _receive()
    os.environ.update(environment)
    _show_only_frames_from(MAIN)
    _save(MAIN, code)
    _exit_quickly(_exit_status_of(code))


if __name__ == "__main__":
    main()
