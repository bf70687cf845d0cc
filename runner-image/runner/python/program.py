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
from types import FunctionType, ModuleType, TracebackType

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
    """Wait for the program, and return its code and its environment."""
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
    """Load what a program may need while nobody waits for it, and stop when a program arrives."""
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


def _become_main(path: str) -> ModuleType:
    """Make the program the main module, as `python3 main.py` would."""
    module = ModuleType("__main__")
    module.__file__ = path
    module.__dict__["__builtins__"] = sys.modules["builtins"]
    sys.modules["__main__"] = module
    sys.argv = [os.path.basename(path)]
    sys.path.insert(0, os.path.dirname(path))
    return module


def _print_at_once(display: Callable[[], None]) -> None:
    """Print in one piece: unbuffered, a traceback would be written in a hundred."""
    stderr, sys.stderr = sys.stderr, io.StringIO()
    try:
        display()
    finally:
        text, sys.stderr = sys.stderr.getvalue(), stderr
        stderr.write(text)


def _explain(error: BaseException, trace: TracebackType | None) -> None:
    """Add a note to an error whose cause is the sandbox."""
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is not None and trace.tb_frame.f_code.co_filename.endswith("/multiprocessing/synchronize.py"):
        error.add_note(_NO_LOCKS)


def _show_only_frames_from(path: str) -> None:
    """Leave out the frames above the program's own: they are ours, or asyncio's when it awaits at the top level."""

    def show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        while trace is not None and trace.tb_frame.f_code.co_filename != path:
            trace = trace.tb_next
        _explain(error, trace)
        _print_at_once(lambda: sys.__excepthook__(kind, error.with_traceback(trace), trace))

    sys.excepthook = show


def _run(code: str) -> int:
    """Run the program and return its exit status; leave an ending with a message to the interpreter."""
    module = _become_main(MAIN)
    # The byte order mark stays in the file; Python takes it from a file, but not from text.
    compiled = compile(code.removeprefix("\ufeff"), MAIN, "exec", flags=PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    try:
        if compiled.co_flags & _CO_COROUTINE:
            import asyncio

            asyncio.run(FunctionType(compiled, module.__dict__)())
        else:
            exec(compiled, module.__dict__)  # noqa: S102 - running the given program is the purpose
    except SystemExit as end:
        if end.code is None or type(end.code) is int:
            return (end.code or 0) & 0xFF
        raise
    return 0


def _forget_modules_of(workspace: str) -> None:
    for name, module in tuple(sys.modules.items()):
        if isinstance(module, ModuleType) and str(vars(module).get("__file__")).startswith(workspace):
            del sys.modules[name]


def _exit_quickly(status: int) -> None:
    """Do what an ordinary exit does for the program, without taking the interpreter apart."""
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
        sys.exit(status)  # the ordinary exit, which now follows, reports the failure
    os._exit(status)


def main() -> None:
    code, environment = _receive()
    os.environ.update(environment)
    _show_only_frames_from(MAIN)
    _exit_quickly(_run(code))


if __name__ == "__main__":
    main()
