"""The MCP server itself, asked without any sandbox: what a tool call costs where there is nothing in between."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.contestants import Failed, Run
from bench.installation import memory_server
from bench.programs import Program

PROTOCOL = "2025-06-18"


class DirectMcp:
    name = "the MCP server, directly"
    single_use = False
    isolated = False

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._last_id = 0
        client = {"name": "bench", "version": "1"}
        self._ask("initialize", {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": client})
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def call(self) -> Any:
        return self._ask("tools/call", {"name": "read_graph", "arguments": {}})

    def run(self, program: Program) -> Run:
        began = time.perf_counter()
        for _ in range(program.tool_calls):
            result = self.call()
        seconds = time.perf_counter() - began
        return Run(seconds, f"entities {len(result['structuredContent']['entities'])}\n")

    def settle(self) -> None:
        pass

    def _ask(self, method: str, params: dict[str, Any]) -> Any:
        self._last_id += 1
        self._send({"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params})
        assert self._process.stdout is not None
        for line in self._process.stdout:
            answer = json.loads(line)
            if answer.get("id") == self._last_id:
                return answer["result"]
        raise Failed("the MCP server ended")

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()


@contextmanager
def direct_mcp() -> Iterator[DirectMcp]:
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        server: Any = memory_server(Path(directory))
        process = subprocess.Popen(
            [server["command"], *server["args"]],
            env={**os.environ, **server["env"]},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        try:
            yield DirectMcp(process)
        finally:
            process.kill()
            process.communicate()
