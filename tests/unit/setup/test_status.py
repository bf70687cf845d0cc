from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

from tests.unit.setup.machine import Tree

RUNNING = """
case "$*" in
"ps --all --filter name="*) echo "mcp-code-executor: Up 2 minutes" ;;
"ps --all --filter label="*) printf "mcp-code-executor: Up\\nmcp-memory: Up\\n" ;;
"ps --quiet "*) printf "one\\ntwo\\n" ;;
esac"""


class Unready(BaseHTTPRequestHandler):
    """A daemon that says so is still a daemon that answers."""

    def do_GET(self) -> None:
        self.send_response(503)
        self.end_headers()
        self.wfile.write(json.dumps({"status": "degraded", "totalTools": 3, "asked": self.path}).encode())

    def log_message(self, format: str, *arguments: object) -> None: ...


@contextmanager
def daemon() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Unready) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_the_status_shows_containers_sandboxes_and_health_past_any_proxy(tree: Tree) -> None:
    tree.command("docker", RUNNING)
    with daemon() as address:
        ended = tree.run("scripts/status.sh", CODE_EXECUTOR_PUBLISH=address, http_proxy="http://proxy.invalid:1")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines() == [
        "mcp-code-executor: Up 2 minutes",
        "mcp-memory: Up",
        "sandboxes: 2",
        "  status: degraded",
        "  totalTools: 3",
        "  asked: /health",
    ]


def test_a_daemon_that_does_not_answer_is_told(tree: Tree) -> None:
    tree.command("docker", RUNNING)
    with daemon() as address:
        pass
    ended = tree.run("scripts/status.sh", CODE_EXECUTOR_PUBLISH=address)
    assert ended.returncode == 1
    assert f"There is no answer at http://{address}" in ended.stderr
    assert "The daemon does not answer; see 'make logs'." in ended.stderr


def test_a_daemon_that_does_not_run_is_told(tree: Tree) -> None:
    tree.command("docker")
    ended = tree.run("scripts/status.sh")
    assert ended.returncode == 1
    assert "The daemon is not running; start it with 'make up'." in ended.stderr
