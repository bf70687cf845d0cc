"""Calls skills: those in Python in this process, the others through the gateway, in a sandbox of their own."""

from __future__ import annotations

import json
import os
from base64 import b64decode, b64encode
from collections.abc import Mapping
from contextlib import suppress
from contextvars import ContextVar, copy_context
from importlib import import_module
from typing import Any

from ._arguments import Rule
from ._client import Tool, ask, result_or_awaitable
from .errors import SkillError, SkillStale

MAX_DEPTH = 3
OUT = "/workspace/out"
MOST_LEFT, MOST_LEFT_BYTES = 100, 768 * 1024  # what the gateway takes

# The skills that are being run, the outermost first: those that wait for this sandbox, then those in this process.
_around: ContextVar[tuple[str, ...]] = ContextVar(
    "_around", default=tuple(os.environ.get("CODE_EXECUTOR_SKILLS_AROUND", "").split())
)
_told: set[tuple[str, bool]] = set()


class Skill(Tool):
    """One skill, as its wrapper describes it."""

    def __init__(
        self,
        *,
        server: str,
        name: str,
        signature: str,
        rule: Rule,
        aliases: Mapping[str, str],
        is_here: bool = False,
    ) -> None:
        super().__init__(server=server, name=name, signature=signature, rule=rule, aliases=aliases)
        self._name = name
        self._is_here = is_here

    def call(self, arguments: Any, named: Mapping[str, Any]) -> Any:
        """Check the arguments, then run the skill: its result, or in async code an awaitable of it."""
        if not self._is_here:
            _require_end((*_around.get(), self._name))
            return super().call(arguments, named)
        given = self._checked(arguments, named)
        # In async code it runs in a thread: there the tools that it calls are called as in any other program.
        context = copy_context()
        return result_or_awaitable(lambda: context.run(_counted, self._name, given))

    def _taken(self, result: dict[str, Any]) -> dict[str, Any]:
        """Put the files that the skill left where it left them in its own sandbox."""
        if result.get("isError"):
            return result
        others = []
        for each in result.get("content") or ():
            if each.get("type") == "resource":
                try:
                    _keep(each["resource"])
                except OSError as error:
                    raise SkillError(f"A file that it left cannot be kept: {error}", **self._about) from None
            else:
                others.append(each)
        return {**result, "content": others}


def refuse(name: str, version: str, drift: list[str]) -> None:
    """Raise that a skill cannot be used, because the tools have changed under it."""
    raise SkillStale(f"The tools changed since it was proven: {' '.join(drift)}", server="skills", tool=name)


def answer(name: str, given: str) -> None:
    """Run a skill as the whole program: its result is printed, or handed back to whoever called it."""
    result = _run(name, json.loads(given))
    if wanted := os.environ.get("CODE_EXECUTOR_RETURNS"):
        files = json.dumps(_left(name)) if wanted == "with files" else "{}"
        ask("/return", f'{{"value": {_as_json(name, result)}, "files": {files}}}', "skills", name)
    elif isinstance(result, str):
        print(result)  # noqa: T201
    elif result is not None:
        print(_as_json(name, result))  # noqa: T201


def _left(name: str) -> dict[str, str]:
    """Return the files in /workspace/out, as base64 by their path there."""
    files: dict[str, str] = {}
    size = 0
    for folder, _, names in os.walk(OUT):
        for path in (os.path.join(folder, each) for each in names):
            if os.path.islink(path) or not os.path.isfile(path):
                continue
            size += os.path.getsize(path)
            if size > MOST_LEFT_BYTES or len(files) == MOST_LEFT:
                most = f"{MOST_LEFT} files or {MOST_LEFT_BYTES // 1024} KiB"
                message = f"It leaves more than {most} in {OUT}: too much for a program in another language."
                raise SkillError(message, server="skills", tool=name)
            with open(path, "rb") as file:
                files[os.path.relpath(path, OUT)] = b64encode(file.read()).decode()
    return files


def _keep(resource: Mapping[str, str]) -> None:
    from urllib.parse import unquote

    path = unquote(resource["uri"].removeprefix("file://"))
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(b64decode(resource["blob"]))


def _counted(name: str, given: Any) -> Any:
    _tell(name, failed=False)
    try:
        # The caller gets its own copy, with what JSON makes of it, as from a skill in the other language.
        return json.loads(_as_json(name, _run(name, given)))
    except Exception:
        _tell(name, failed=True)
        raise


def _run(name: str, given: Any) -> Any:
    around = (*_around.get(), name)
    _require_end(around)
    entered = _around.set(around)
    try:
        run = import_module(f"skills._code.{name}").run
        # What it is given is its own: it may change it.
        result = run(json.loads(_as_json(name, given)))
        return _awaited(result) if hasattr(result, "__await__") else result
    except SystemExit as end:
        message = "The skill ended its program instead of returning a result."
        raise SkillError(message, server="skills", tool=name) from end
    finally:
        _around.reset(entered)


def _awaited(result: Any) -> Any:
    import asyncio  # a program without it does not wait for it to load

    async def wait() -> Any:
        return await result

    return asyncio.run(wait())


def _require_end(around: tuple[str, ...]) -> None:
    *outer, name = around
    way = " → ".join(around)
    if name in outer:
        raise SkillError(f"Skills must not call themselves: {way}.", server="skills", tool=name)
    if len(around) > MAX_DEPTH:
        raise SkillError(f"Skills may be at most {MAX_DEPTH} deep: {way}.", server="skills", tool=name)


def _tell(name: str, *, failed: bool) -> None:
    """Count the use of a skill, once in each program; a gateway that does not answer changes nothing."""
    if (name, failed) in _told:
        return
    _told.add((name, failed))
    with suppress(Exception):
        ask("/used", json.dumps({"skill": name, "failed": failed}), "skills", name)


def _as_json(name: str, value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        message = f"What a skill is given and returns must be JSON: {error}"
        raise SkillError(message, server="skills", tool=name) from None
