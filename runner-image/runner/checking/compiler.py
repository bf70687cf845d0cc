"""Runs the compilers on the program; what is loaded here delays every check."""

from __future__ import annotations

import os
import sys
from _collections_abc import Mapping

NODE = os.environ.get("CODE_EXECUTOR_NODE", "/usr/local/bin/node")
RUNNER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

_MAX_BYTES = 16 * 1024 * 1024
_TSC = os.environ.get("CODE_EXECUTOR_TSC", "/opt/check/typescript/tsc")
# Without strictness: what may be null or is of no declared type may well be right. Without the types of Node.js and of
# packages, which take longer to read than the program: all of their names may be anything.
_TSC_OPTIONS = (
    *("--ignoreConfig", "--noEmit", "--pretty", "false", "--strict", "false", "--noImplicitAny", "--skipLibCheck"),
    *("--singleThreaded", "--target", "esnext", "--lib", "esnext", "--types", "", "--moduleDetection", "force"),
    *("--module", "esnext", "--moduleResolution", "bundler", "--allowImportingTsExtensions"),
)
_TY = os.environ.get("CODE_EXECUTOR_TY", "/opt/check/ty")
_TY_OPTIONS = ("--output-format", "concise", "--color", "never", "--no-progress")
_PACKAGES = os.environ.get("CODE_EXECUTOR_PACKAGES") or f"/usr/local/lib/python3.{sys.version_info.minor}/dist-packages"


class Compiler:
    """One run of a compiler, which goes on while its caller does something else; one that is not there says nothing."""

    def __init__(self, command: list[str], environment: Mapping[str, str]) -> None:
        self._output, end = os.pipe()
        actions = [(os.POSIX_SPAWN_DUP2, end, 1), (os.POSIX_SPAWN_CLOSE, self._output)]
        self._pid: int | None
        try:
            self._pid = os.posix_spawn(command[0], command, environment, file_actions=actions)
        except OSError:
            self._pid = None
        os.close(end)

    def said(self) -> str:
        """Wait for the compiler, and return what it printed."""
        with os.fdopen(self._output, "rb") as output:
            said = output.read(_MAX_BYTES)
        if self._pid is not None:
            os.waitpid(self._pid, 0)
        return said.decode(errors="replace")


def tsc(path: str) -> Compiler:
    return Compiler([_TSC, *_TSC_OPTIONS, path, f"{RUNNER}/checking/sandbox.d.ts"], {"GOGC": "400"})


def ty(workspace: str, path: str) -> Compiler:
    # Reading the types of pandas takes longer than all the rest, and what a program does with it is its own affair.
    # The types of the standard library, and so those of the tools, are told in terms of `typing_extensions`.
    unread = [name for name in packages() if name != "typing_extensions"]
    ignored = ", ".join(f'"{name}", "{name}.**"' for name in unread)
    command = [_TY, "check", *_TY_OPTIONS, "--python-version", f"3.{sys.version_info.minor}", "--project", workspace]
    command += ["--config", f"analysis.replace-imports-with-any=[{ignored}]", path]
    return Compiler(command, {"TY_MAX_PARALLELISM": "1", "HOME": workspace})


def packages() -> list[str]:
    """Name what can be imported besides the standard library."""
    return modules_in(_PACKAGES)


def modules_in(folder: str) -> list[str]:
    try:
        found = (name.partition(".") for name in os.listdir(folder))
    except OSError:
        return []
    names = {name for name, _, suffix in found if not suffix or suffix.endswith(("py", "so"))}
    return sorted(name for name in names if name.isidentifier())


def parses_as_typescript(path: str) -> bool:
    """Ask Node.js, whose word counts: the compiler objects to more than what keeps a program from running."""
    return not Compiler([NODE, f"{RUNNER}/typescript/parses.mjs", path], {}).said()
