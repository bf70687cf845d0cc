"""What the daemon tells while it happens: streams that outlast a lost connection, and what a fact of them means."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import aclosing
from enum import StrEnum

from rich.text import Text

from orchestrator.commands.client import ConnectionLost, Event
from orchestrator.commands.terminal import Json, plain
from orchestrator.domain.execution import Outcome, State
from orchestrator.domain.ledger import CallOutcome
from orchestrator.domain.upstream import UpstreamState

# Together a minute: a daemon that is restarted is back by then.
PAUSES_SECONDS = (0.5, 1, 2, 4, 8, 15, 30)

UNDER_WAY = (State.QUEUED, State.RUNNING)
NO_FAILURES = (None, Outcome.COMPLETED, Outcome.CANCELLED)
CALLS_UNDER_WAY = (CallOutcome.NEVER_SENT, CallOutcome.IN_FLIGHT)
COLOURS: dict[str, str] = {
    **dict.fromkeys((Outcome.COMPLETED, CallOutcome.DONE, UpstreamState.CONNECTED, "ready"), "green"),
    **dict.fromkeys((Outcome.FAILED, CallOutcome.TOOL_ERROR, UpstreamState.CONNECTING, "missed"), "yellow"),
    **dict.fromkeys((Outcome.CANCELLED, State.QUEUED, *CALLS_UNDER_WAY), "dim"),
    State.RUNNING: "cyan",
}


class Fact(StrEnum):
    EXECUTION = "execution"
    TOOL_CALL = "tool_call"
    SERVER = "server"
    LOAD = "load"


# Every stream of events begins with these.
TOLD_FIRST = (Fact.LOAD, Fact.SERVER, "gap")


async def taken_up(
    stream: Callable[[str], AsyncGenerator[Event, None]],
    told_first: Collection[str],
    on_loss: Callable[[ConnectionLost], None] = lambda _: None,
) -> AsyncGenerator[Event, None]:
    """Yield what a stream tells, taking it up after its last event whenever it breaks off. Close it.

    A daemon that stays away, or tells nothing but what it tells first, is given up.
    """
    last_id, pauses = "", iter(PAUSES_SECONDS)
    while True:
        try:
            async with aclosing(stream(last_id)) as events:
                async for event in events:
                    last_id = event.id or last_id
                    if event.name not in told_first:
                        pauses = iter(PAUSES_SECONDS)
                    yield event
            lost = ConnectionLost("The daemon ended the stream too early.")
        except ConnectionLost as error:
            lost = error
        on_loss(lost)
        pause = next(pauses, None)
        if pause is None:
            raise lost
        await asyncio.sleep(pause)


def word_of(execution: Json) -> str:
    """Return how an execution ended, or where it stands."""
    # An interrupted execution has an outcome as well, but what befell the daemon explains more.
    state, outcome = str(execution["state"]), execution["outcome"]
    return state if state == State.INTERRUPTED or outcome is None else str(outcome)


def coloured(word: str) -> Text:
    """Return an outcome or a state in the colour that tells whether it is a good one."""
    return plain(in_one_line(word), COLOURS.get(word, "red"))


def in_one_line(text: str) -> str:
    """Replace what would begin a new line or leave the column; spaces stay, for they align."""
    return re.sub(r"[^\S ]+", " ", text)


def is_error(event: Event) -> bool:
    """Tell whether somebody should look at a fact."""
    told = event.fields
    match event.name:
        case Fact.EXECUTION:
            return told["state"] in (State.REFUSED, State.INTERRUPTED) or told["outcome"] not in NO_FAILURES
        case Fact.TOOL_CALL:
            return told["outcome"] not in (CallOutcome.DONE, CallOutcome.REPLAYED, *CALLS_UNDER_WAY)
        case Fact.SERVER:
            return bool(told["state"] == UpstreamState.DOWN)
        case Fact.LOAD:
            return not told["ready"]
        case _:
            return False
