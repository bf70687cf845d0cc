from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

from tests.unit.setup.machine import Tree, until

RUNNING = """
case "$*" in
"container inspect "*) pwd ;;
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
        f"started in: {tree.path}",
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


def test_a_daemon_of_another_directory_is_told_and_asked_where_it_is_published(tree: Tree) -> None:
    with daemon() as address:
        elsewhere = f'"container inspect "*) echo /srv/other ;;\n"port "*) echo "{address}" ;;\n'
        tree.command("docker", RUNNING.replace('"container inspect "*) pwd ;;\n', elsewhere))
        ended = tree.run("scripts/status.sh", CODE_EXECUTOR_PUBLISH="127.0.0.1:9")
    assert ended.returncode == 0, ended.stderr
    assert "started in: /srv/other, which is not this directory" in ended.stdout
    assert "'make up' here takes the daemon over" in ended.stdout
    assert "  status: degraded" in ended.stdout


def test_a_status_that_nobody_reads_to_its_end_complains_of_nothing(tree: Tree) -> None:
    tree.command("docker", RUNNING)
    with daemon() as address:
        ended = tree.bash("set +o pipefail; scripts/status.sh | true", CODE_EXECUTOR_PUBLISH=address)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_port_that_no_machine_has_is_no_traceback(tree: Tree) -> None:
    tree.command("docker", RUNNING)
    ended = tree.run("scripts/status.sh", CODE_EXECUTOR_PUBLISH="127.0.0.1:99999")
    assert ended.returncode == 1
    assert "There is no answer at http://127.0.0.1:99999" in ended.stderr
    assert "Traceback" not in ended.stderr


LOG = r"""
case "$1" in logs)
    echo 'Traceback (most recent call last):' >&2
    echo '{"event": "daemon.listening"}' >&2
    echo '{"event": "execution.finished"}'
    echo '"a word"'
    [ "$2" != --follow ] || { touch following; exec sleep 30; }
esac"""


def test_the_log_has_json_on_stdout_and_everything_else_on_stderr(tree: Tree) -> None:
    tree.command("docker", LOG)
    ended = tree.run("scripts/logs.sh", FOLLOW="0")
    assert ended.returncode == 0
    assert ended.stdout.splitlines() == ['{"event": "daemon.listening"}', '{"event": "execution.finished"}']
    assert ended.stderr.splitlines() == ["Traceback (most recent call last):", '"a word"']


def test_a_log_that_is_followed_ends_when_nobody_reads_it_any_more(tree: Tree) -> None:
    tree.command("docker", LOG)
    with tree.start("scripts/logs.sh") as following:
        assert following.stdout is not None
        assert following.stderr is not None
        assert following.stdout.readline() == '{"event": "daemon.listening"}\n'
        until((tree.path / "following").exists)
        following.stdout.close()
        assert following.wait(10) == 0
        assert "Broken" not in following.stderr.read()
