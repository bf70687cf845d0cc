"""The servers of /config/config.json at /{server}/mcp, for whoever has the token. One call after the other."""

import json
import os
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

CONFIG = json.loads(Path("/config/config.json").read_text())
TOKEN = os.environ["MCP_PROXY_TOKEN"]


class Backend:
    def __init__(self, entry: dict[str, Any]) -> None:
        command = [entry["command"], *entry["args"]]
        environment = {"PATH": os.environ["PATH"], **entry["env"]}
        self._turn = threading.Lock()
        self._process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, message: bytes) -> bytes:
        wanted = json.loads(message).get("id")
        with self._turn:
            self._process.stdin.write(message.replace(b"\n", b" ") + b"\n")
            self._process.stdin.flush()
            while wanted is not None:
                line = self._process.stdout.readline()
                if not line or json.loads(line).get("id") == wanted:
                    return line
        return b""


BACKENDS = {name: Backend(entry) for name, entry in CONFIG["mcpServers"].items()}


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        name, _, rest = self.path.strip("/").partition("/")
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self.send_error(401)
        elif rest != "mcp" or name not in BACKENDS:
            self.send_error(404)
        else:
            answer = BACKENDS[name].ask(body)
            self.send_response(200 if answer else 202)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)


ThreadingHTTPServer(("", 9090), Handler).serve_forever()
