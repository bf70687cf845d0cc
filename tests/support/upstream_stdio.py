"""A stdio server to be run as a program: `python upstream_stdio.py [noisy]`. Each tool is one way to behave."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from typing import Any

TOOLS = ["echo", "environment", "descriptors", "called", "huge", "malformed"]
TOOLS += ["die", "child", "wait", "cancelled", "batch", "count"]
write_lock = threading.Lock()
called: list[str] = []
cancelled: list[Any] = []


def write(text: str) -> None:
    with write_lock:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()


def answer(message: dict[str, Any], result: Any) -> None:
    # The id comes last, as the TypeScript SDK writes it.
    write(json.dumps({"result": result, "jsonrpc": "2.0", "id": message["id"]}))


def text(value: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": value if isinstance(value, str) else json.dumps(value)}]}


def inherited() -> list[str]:
    """What is open here beside stdin, stdout and stderr, of which uvloop leaves copies."""
    found = {}
    for fd in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # that of the listing itself
            found[int(fd)] = os.readlink(f"/proc/self/fd/{fd}")
    ordinary = {found[0], found[1], found[2]}
    return [place for place in found.values() if place not in ordinary]


def call(message: dict[str, Any]) -> None:
    arguments = message["params"]["arguments"]
    called.append(message["params"]["name"])
    match message["params"]["name"]:
        case "echo":
            answer(message, text(arguments))
        case "environment":
            answer(message, text(dict(os.environ)))
        case "descriptors":
            answer(message, text(inherited()))
        case "count":
            answer(message, text(str(called.count("count"))))
        case "called":
            answer(message, text(called))
        case "huge":
            answer(message, text("x" * arguments["bytes"]))
        case "malformed":
            write(f'{{"result": {{oops, "jsonrpc": "2.0", "id": {message["id"]}}}')
        case "die":
            os.kill(os.getpid(), signal.SIGKILL)
        case "child":
            child = subprocess.Popen(["sleep", "1000"], stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
            answer(message, text({"pid": os.getpid(), "child": child.pid}))
        case "wait":
            pass  # never answered; what was cancelled is told by "cancelled"
        case "cancelled":
            answer(message, text(cancelled))
        case "batch":
            write(json.dumps([{"jsonrpc": "2.0", "id": message["id"], "result": text("batched")}]))


def main() -> None:
    if "noisy" in sys.argv:
        write("Server starting up ...")
        write("[1, 2")
        write("")
        print("a secret on stderr: hunter2-hunter2", file=sys.stderr)
    # As the Python SDK reads: CR ends a line too, and what is not a message is passed over.
    for line in io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8"):
        try:
            message = json.loads(line)
        except ValueError:
            continue
        match message.get("method"):
            case "initialize":
                answer(message, {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}})
            case "tools/list":
                answer(message, {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]})
            case "tools/call":
                call(message)
            case "notifications/cancelled":
                cancelled.append(message["params"]["requestId"])


if __name__ == "__main__":
    main()
