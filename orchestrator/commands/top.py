"""The daemon at a glance, kept up to date on the screen."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import aclosing, contextmanager, suppress
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.console import Console, Group
from rich.live import Live

from orchestrator.commands.client import ApiClient, CallFailed, ConnectionLost, Refused
from orchestrator.commands.feed import TOLD_FIRST, taken_up
from orchestrator.commands.overview import Overview, lines_of
from orchestrator.commands.terminal import (
    EXIT_INTERRUPTED,
    AsJson,
    api_client,
    call_daemon,
    fail_to_call,
    out,
    print_json,
)
from orchestrator.domain.errors import NotForYourRole, Unauthenticated

LEAST_SECONDS, MOST_SECONDS = 0.5, 3600.0
AGES_SECONDS = 1.0
# A key that is not known any more, or may not ask this.
FINAL_REFUSALS = (Unauthenticated.code, NotForYourRole.code)
# However much happens, nobody reads faster.
FRAME_SECONDS = 0.1


def _within_limits(seconds: float) -> float:
    if not LEAST_SECONDS <= seconds <= MOST_SECONDS:  # which "nan" is not, either
        raise typer.BadParameter(f"it must be from {LEAST_SECONDS:g} to {MOST_SECONDS:g} seconds.")
    return seconds


def top(
    once: Annotated[bool, typer.Option("--once", help="Print it once and exit, as without a terminal.")] = False,
    interval: Annotated[
        float, typer.Option(metavar="SECONDS", callback=_within_limits, help="How often the figures are read.")
    ] = 2.0,
    as_json: AsJson = False,
) -> None:
    """Show what runs, what ran and how the servers are, as it changes; q or Ctrl-C quits."""
    overview = Overview()
    if once or as_json or not out.is_terminal or out.is_dumb_terminal:
        call_daemon(overview.read)
        if as_json:
            print_json(overview.document())
            return
        for line in lines_of(overview, datetime.now(UTC), out.width if out.is_terminal else None):
            out.print(line, highlight=False)
        return
    client = api_client()
    try:
        asyncio.run(show_live(client, overview, out, interval))
    except CallFailed as error:
        fail_to_call(error)
    except KeyboardInterrupt:
        raise typer.Exit(EXIT_INTERRUPTED) from None


async def show_live(client: ApiClient, overview: Overview, console: Console, interval: float) -> None:
    """Keep an overview on the screen until somebody quits, or the daemon stays away."""
    await overview.read(client)  # before there is a screen: a daemon that is not there is told in a line
    changed, quit_asked = asyncio.Event(), asyncio.Event()
    with _quits(quit_asked.set), Live(console=console, screen=True, auto_refresh=False) as live:
        work = [
            asyncio.ensure_future(each)
            for each in (
                listen(client, overview, changed),
                _read_figures(client, overview, changed, interval),
                _draw(live, overview, changed),
                quit_asked.wait(),
            )
        ]
        try:
            done, _ = await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in work:
                task.cancel()
            await asyncio.wait(work)
    for task in done:
        task.result()


async def listen(client: ApiClient, overview: Overview, changed: asyncio.Event) -> None:
    """Keep an overview up to date, and say in it when that does not work."""

    def tell_loss(error: ConnectionLost) -> None:
        overview.disconnected = f"{error} Trying again."
        changed.set()

    first = True
    async with aclosing(taken_up(client.events, TOLD_FIRST, tell_loss)) as events:
        async for event in events:
            overview.disconnected = None
            if first or event.name == "gap":
                # What happened since it was read, and before the stream began, nobody has told.
                with _passing(overview):
                    await overview.read(client)
            first = False
            overview.take(event)
            changed.set()


async def _read_figures(client: ApiClient, overview: Overview, changed: asyncio.Event, interval: float) -> None:
    while True:
        await asyncio.sleep(interval)
        with _passing(overview):
            await overview.read_figures(client)
        changed.set()


@contextmanager
def _passing(overview: Overview) -> Iterator[None]:
    """Go on after what may be over soon: a lost connection, which the stream tells, or a journal that is busy."""
    try:
        yield
    except ConnectionLost:
        pass
    except Refused as error:
        if error.code in FINAL_REFUSALS:
            raise
        overview.disconnected = str(error)


async def _draw(live: Live, overview: Overview, changed: asyncio.Event) -> None:
    """Draw it when it has changed, and as its ages grow."""
    while True:
        changed.clear()
        width, height = live.console.size
        live.update(Group(*lines_of(overview, datetime.now(UTC), width, height)), refresh=True)
        await asyncio.sleep(FRAME_SECONDS)
        with suppress(TimeoutError):
            await asyncio.wait_for(changed.wait(), AGES_SECONDS)


@contextmanager
def _quits(ask: Callable[[], None]) -> Iterator[None]:
    """Call `ask` at a press of q, at the end of the input, and at SIGTERM, which would leave the terminal as it is."""
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, ask)
    terminal = sys.stdin.fileno() if sys.stdin.isatty() else None
    before = termios.tcgetattr(terminal) if terminal is not None else None
    try:
        if terminal is not None:
            tty.setcbreak(terminal)
            loop.add_reader(terminal, _ask_at_q, terminal, ask)
        yield
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
        if terminal is not None and before is not None:
            loop.remove_reader(terminal)
            termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def _ask_at_q(terminal: int, ask: Callable[[], None]) -> None:
    keys = os.read(terminal, 100)
    if not keys or b"q" in keys.lower():
        ask()
