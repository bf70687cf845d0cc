"""Runs one Python program, given on the control pipe, as `__main__`."""

from __future__ import annotations

import atexit
import gc
import io
import os
import select
import sys
from _ast import PyCF_ALLOW_TOP_LEVEL_AWAIT
from types import FunctionType, ModuleType, TracebackType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec

MAIN = os.path.join(os.getcwd(), "main.py")

_HERE = os.path.dirname(os.path.abspath(__file__))
_CONTROL_FD = 3
_READY_FD = 4
_CO_COROUTINE = 0x80
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


def _runtime(name: str) -> ModuleType:
    """Load a module of ours, whose directory is not on the program's path."""
    sys.path.insert(0, _HERE)
    try:
        return __import__(f"_runtime.{name}", fromlist=(name,))
    finally:
        sys.path.remove(_HERE)


def _show_failures_of(path: str) -> None:
    """Show an uncaught error with the program's own frames, and with what to do about it where that is known."""

    def show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        # The frames above the program's own are ours, or asyncio's when it awaits at the top level.
        while trace is not None and trace.tb_frame.f_code.co_filename != path:
            trace = trace.tb_next
        stderr, sys.stderr = sys.stderr, io.StringIO()
        try:
            sys.__excepthook__(kind, error.with_traceback(trace), trace)
        finally:
            text, sys.stderr = sys.stderr.getvalue(), stderr
        try:
            # After an interrupt, loading modules would make the interpreter forget how it has to end.
            if isinstance(error, Exception):
                text = _runtime("failures").shortened(text, os.path.dirname(path))
                text += _runtime("hints").hint(error, trace, path)
        except Exception:  # noqa: S110 - a program may break what this needs; its error is shown all the same
            pass
        stderr.write(text)  # in one piece: unbuffered, a trace would be written in a hundred

    sys.excepthook = show


class _WatchForMatplotlib:
    """Sees when the program loads matplotlib, so that its figures can be shown as pictures."""

    @classmethod
    def find_spec(
        cls, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != "matplotlib.backend_bases":
            return None
        sys.meta_path.remove(cls)
        from importlib.machinery import PathFinder

        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def load_and_show(module: ModuleType) -> None:
                load(module)
                _runtime("figures").show_figures_of(module, os.path.dirname(MAIN))

            spec.loader.exec_module = load_and_show  # type: ignore[method-assign]
        return spec


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
    _show_failures_of(MAIN)
    sys.meta_path.insert(0, _WatchForMatplotlib)
    _exit_quickly(_run(code))


if __name__ == "__main__":
    main()
