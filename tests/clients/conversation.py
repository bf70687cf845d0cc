"""A client that runs programs, and what became of each reply."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from base64 import b64decode
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.clients.clients import Client, Place
from tests.clients.programs import Program
from tests.clients.scripted_model.script import Call, Picture, Say, Sent
from tests.clients.scripted_model.server import ScriptedModel, scripted_model

END = "All programs have run."
TIMEOUT_SECONDS = 240


@dataclass(frozen=True)
class Reply:
    """What a model was sent for one program, and the whole of what it was sent then."""

    sent: Sent
    wire: str


@dataclass
class Conversation:
    """What a client's model was sent for each program; clients without a model hand it to their caller."""

    client: Client
    output: str = ""
    attempts: list[str] = field(default_factory=list)  # to leave this machine
    replies: dict[str, Reply] = field(default_factory=dict)

    def reply(self, program: Program) -> Reply:
        assert program.name in self.replies, f"no reply reached the model; the client printed:\n{self.output[-3000:]}"
        return self.replies[program.name]


@asynccontextmanager
async def started(client: Client, place: Place, *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """The client as a process; it is gone afterwards."""
    start = client.start(place)
    process = await asyncio.create_subprocess_exec(
        *start.command,
        *arguments,
        cwd=place.home,
        env={**place.environment, **start.environment},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
        # Whoever runs the tests in the background may ignore it, and a client would, too.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        yield process
    finally:
        send(signal.SIGKILL, process)
        await process.communicate()


def send(number: signal.Signals, process: asyncio.subprocess.Process) -> None:
    """Send a signal as a terminal does: to the client and to the processes that it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)


async def run(client: Client, place: Place) -> tuple[str, str]:
    """Run the client to its end; what it printed to stdout and stderr."""
    async with started(client, place) as process:
        stdout, stderr = await asyncio.wait_for(process.communicate(), TIMEOUT_SECONDS)
        return stdout.decode(), stderr.decode()


@asynccontextmanager
async def dead_end(attempts: list[str]) -> AsyncIterator[str]:
    """A proxy that notes who is asked for and leads nowhere."""

    async def note(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        attempts.append((await reader.readline()).decode(errors="replace").strip())
        writer.close()

    async with await asyncio.start_server(note, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def converse(client: Client, programs: Sequence[Program], home: Path, mcp_url: str, key: str) -> Conversation:
    """Have the client run the programs, one after the other in one conversation if it has a model."""
    conversation = Conversation(client)
    async with (
        dead_end(conversation.attempts) as proxy_url,
        scripted_model(*(Call(program.arguments) for program in programs), Say(END)) as model,
    ):
        place = Place(home, mcp_url, key, model.url, {}, proxy_url)
        if client.has_model:
            conversation.output = "".join(await run(client, place))
            conversation.replies |= _replies(model, programs)
            return conversation
        for program in programs:
            stdout, stderr = await run(client, replace(place, arguments=program.arguments))
            conversation.output += stdout + stderr
            if stdout:
                conversation.replies[program.name] = Reply(_handed_over(json.loads(stdout)), stdout)
        return conversation


def _replies(model: ScriptedModel, programs: Sequence[Program]) -> list[tuple[str, Reply]]:
    asked = [(program.name, model.asked_after(calls)) for calls, program in enumerate(programs, 1)]
    return [(name, Reply(turn.sent, turn.wire)) for name, turn in asked if turn is not None]


def _handed_over(printed: dict[str, Any]) -> Sent:
    result = printed.get("result", printed)
    sent = Sent(marked_as_error=result["isError"])
    for block in result["content"]:
        match block["type"]:
            case "text":
                sent.texts.append(block["text"])
            case "image":
                sent.pictures.append(Picture(block["mimeType"], b64decode(block["data"])))
            case other:
                sent.others.append(other)
    return sent
