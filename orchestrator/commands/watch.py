"""What happens in the daemon, one line for each fact."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated

import typer
from rich.text import Text

from orchestrator.commands.client import ApiClient, CallFailed, ConnectionLost, Event
from orchestrator.commands.feed import (
    CALLS_UNDER_WAY,
    TOLD_FIRST,
    UNDER_WAY,
    Fact,
    coloured,
    in_one_line,
    is_error,
    taken_up,
    word_of,
)
from orchestrator.commands.terminal import (
    EXIT_BAD_USE,
    EXIT_INTERRUPTED,
    Json,
    api_client,
    err,
    fail,
    fail_to_call,
    out,
    plain,
)
from orchestrator.domain.execution import Kind
from orchestrator.domain.file_words import count_in_words, size_in_words

GAP = "gap"
OF_CALLERS = frozenset({Fact.EXECUTION, Fact.TOOL_CALL})
# Those of tool_call, out_of_memory and typescript, the longest of their columns.
KIND_WIDTH, WORD_WIDTH, WHAT_WIDTH = 9, 13, 10


class Facts(frozenset[Fact]):
    """Some kinds of facts, written with commas between them."""

    OF = Fact

    @classmethod
    def named(cls, text: str) -> Facts:
        try:
            return cls(Fact(word.strip()) for word in text.split(","))
        except ValueError:
            raise typer.BadParameter(
                f"{text!r} must be one or more of {', '.join(Fact)}, separated by commas."
            ) from None


def watch(
    kinds: Annotated[
        list[Facts] | None,
        typer.Option(
            "--kind",
            metavar="KIND[,KIND]",
            parser=Facts.named,
            help="Only facts of these kinds; 'load' also prints every change of the load.",
        ),
    ] = None,
    caller: Annotated[str | None, typer.Option(help="Only executions of the key with this name.")] = None,
    errors: Annotated[bool, typer.Option("--errors", help="Only what failed.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
) -> None:
    """Follow what happens: executions, their tool calls, the servers and the load. Ctrl-C only stops watching."""
    chosen = frozenset[Fact]().union(*kinds) if kinds else None
    if caller is not None:
        if chosen is not None and not chosen <= OF_CALLERS:
            fail("Only executions and tool calls have a caller: leave out --caller, server or load.", EXIT_BAD_USE)
        chosen = chosen or OF_CALLERS
    wanted = Wanted(chosen or frozenset(Fact), caller, errors_only=errors, every_load=chosen is not None)
    client = api_client()
    try:
        asyncio.run(_watch(client, wanted, as_json=as_json))
    except CallFailed as error:
        fail_to_call(error)
    except KeyboardInterrupt:
        raise typer.Exit(EXIT_INTERRUPTED) from None
    except BrokenPipeError:
        _forget_output()


@dataclass(slots=True)
class Wanted:
    """What is to be told, and what must be remembered to know it."""

    kinds: frozenset[Fact]
    caller: str | None = None
    errors_only: bool = False
    every_load: bool = True  # else only whether the daemon is ready: sandboxes come and go all the time
    _theirs: set[str] = field(default_factory=set)  # executions of the caller that are under way
    _last: dict[str, Json] = field(default_factory=dict)  # what a stream tells first is told again when it is taken up

    def includes(self, event: Event) -> bool:
        if event.name == GAP:
            return True
        wanted = event.name in self.kinds and self._is_of_the_caller(event) and self._is_news(event)
        return wanted and (not self.errors_only or is_error(event))

    async def read_those_under_way(self, client: ApiClient) -> None:
        """Learn which of the caller's executions were already under way."""
        if self.caller is None:
            return
        for state in UNDER_WAY:
            found = await client.get("/executions", [("caller", self.caller), ("state", state), ("limit", "500")])
            self._theirs.update(each["executionId"] for each in found["executions"])

    def _is_of_the_caller(self, event: Event) -> bool:
        told = event.fields
        if self.caller is None or event.name not in OF_CALLERS:
            return True
        if event.name == Fact.TOOL_CALL:
            return told["executionId"] in self._theirs
        if told["caller"] != self.caller:
            return False
        (self._theirs.add if told["state"] in UNDER_WAY else self._theirs.discard)(told["executionId"])
        return True

    def _is_news(self, event: Event) -> bool:
        if event.name not in TOLD_FIRST:
            return True
        told, about = event.fields, str(event.fields.get("server", ""))
        if event.name == Fact.LOAD and not self.every_load:
            told = {name: told[name] for name in ("ready", "problem")}
        news = self._last.get(about) != told
        self._last[about] = told
        return news


async def _watch(client: ApiClient, wanted: Wanted, *, as_json: bool) -> None:
    connected = lost = False

    def tell_loss(error: ConnectionLost) -> None:
        nonlocal lost
        if not connected:
            raise error
        if not lost:
            err.print(plain(f"code-executor: {error} Trying again."))
        lost = True

    async with _while_somebody_reads(), aclosing(taken_up(client.events, TOLD_FIRST, tell_loss)) as events:
        async for event in events:
            if lost:
                err.print("code-executor: connected again")
            if not connected or event.name == GAP:
                await wanted.read_those_under_way(client)
            connected, lost = True, False
            if wanted.includes(event):
                _write(_json_of(event) if as_json else _with_colours(line_of(event, datetime.now())))


def line_of(event: Event, now: datetime) -> Text:
    """Tell a fact in one line: when, of what kind, how it stands, and what it is about."""
    told = event.fields
    match event.name:
        case Fact.EXECUTION:
            moment = datetime.fromisoformat(told["finishedAt"]).astimezone() if told["finishedAt"] else now
            return _aligned(moment, event.name, word_of(told), *_about_execution(told))
        case Fact.TOOL_CALL:
            return _aligned(now, event.name, told["outcome"], *_about_call(told))
        case Fact.SERVER:
            about = (told["server"], count_in_words(told["tools"], "tool"), told["problem"])
            return _aligned(now, event.name, told["state"], *about)
        case Fact.LOAD:
            load = "{running} running, {waiting} waiting, {warm} of {sandboxes} sandboxes warm".format(**told)
            return _aligned(now, event.name, "ready" if told["ready"] else "not ready", load, told["problem"])
        case _:
            return _aligned(now, event.name, "missed", "some events; 'code-executor executions' lists what ran")


def _about_execution(told: Json) -> list[str | None]:
    what = "tool call" if told["kind"] == Kind.CALL else told["language"] or "program"
    about = [told["executionId"], f"{what:{WHAT_WIDTH}}", told["caller"]]
    if told["executionTime"] is not None:
        about.append(f"{told['executionTime']} ms")
    if told["state"] not in UNDER_WAY:
        about.append(count_in_words(told["toolCallCount"], "tool call"))
    return [*about, f"{told['error']['detail']} ({told['error']['code']})" if told["error"] else None]


def _about_call(told: Json) -> list[str | None]:
    number = f"#{told['number'] + 1}"
    about = [told["executionId"], f"{number:{WHAT_WIDTH}}", f"{told['server']}/{told['tool']}"]
    if told["outcome"] not in CALLS_UNDER_WAY:
        sizes = f"{size_in_words(told['requestBytes'])} sent, {size_in_words(told['resultBytes'])} received"
        about += [f"{told['durationMs']:.0f} ms", sizes]
    return [*about, told["detail"]]


def _aligned(moment: datetime, kind: str, word: str, *about: str | None) -> Text:
    state = coloured(word)
    state.pad_right(max(0, WORD_WIDTH - state.cell_len))
    rest = plain("  ".join(in_one_line(part) for part in about if part))
    return Text.assemble(plain(f"{moment:%H:%M:%S}  {kind:{KIND_WIDTH}}  ", "dim"), state, "  ", rest)


def _json_of(event: Event) -> str:
    return json.dumps({"name": event.name, "id": event.id, "data": event.fields})


def _with_colours(line: Text) -> str:
    """Return a line as `out` would print it, which would end the command by itself when nobody reads."""
    with out.capture() as captured:
        out.print(line, highlight=False)
    return captured.get().removesuffix("\n")


def _write(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


@asynccontextmanager
async def _while_somebody_reads() -> AsyncIterator[None]:
    """Raise BrokenPipeError as soon as the reader of a pipe is gone; writing raises it too, but after the next fact."""
    loop, task, gone = asyncio.get_running_loop(), asyncio.current_task(), False
    pipe = None
    with suppress(OSError, ValueError):  # in a test it is no file
        pipe = sys.stdout.fileno() if stat.S_ISFIFO(os.fstat(sys.stdout.fileno()).st_mode) else None
    if pipe is None or task is None:
        yield
        return

    def end() -> None:
        nonlocal gone
        gone = True
        loop.remove_reader(pipe)
        task.cancel()

    loop.add_reader(pipe, end)  # the writing end is never readable, but for this; asyncio does so for its own pipes
    try:
        yield
    except asyncio.CancelledError:
        if not gone:
            raise
        task.uncancel()
        raise BrokenPipeError from None
    finally:
        loop.remove_reader(pipe)


def _forget_output() -> None:
    """Let Python flush at its end into nothing, as its documentation says of SIGPIPE."""
    with suppress(OSError, ValueError):
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, sys.stdout.fileno())
        os.close(nothing)
