"""stdin and stdout of this process, for the bridge."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import suppress

from orchestrator.commands.bridge import Bridge

STDIN = 0


async def speak_mcp(url: str, key: str) -> None:
    """Bridge this process's stdin and stdout to the daemon until stdin ends."""
    # Whatever a library prints must not get between the messages: our stdout is kept aside, theirs goes to stderr.
    messages = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8", newline="\n")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def write(line: str) -> None:
        messages.write(f"{line}\n")
        messages.flush()

    def complain(line: str) -> None:
        print(line, file=sys.stderr, flush=True)  # noqa: T201

    await Bridge(url, key, write, complain).run(_lines())


async def _lines() -> AsyncIterator[bytes]:
    """Read on a thread: stdin may be a file, which an event loop cannot watch. It must not hold up the exit either."""
    loop, lines = asyncio.get_running_loop(), asyncio.Queue[bytes]()

    def read() -> None:
        stdin = os.fdopen(STDIN, "rb", closefd=False)
        line = b" "
        with suppress(RuntimeError):  # the loop has ended before stdin did
            while line:
                line = stdin.readline()
                loop.call_soon_threadsafe(lines.put_nowait, line)

    threading.Thread(target=read, name="stdin", daemon=True).start()
    while line := await lines.get():
        yield line
