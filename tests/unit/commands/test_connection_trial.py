"""What connect sees when it does with an entry what the client would do."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from click.testing import Result
from typer.testing import CliRunner

from orchestrator.commands.cli import app
from orchestrator.commands.connect import trial
from orchestrator.commands.connect.entries import Client
from orchestrator.commands.connect.trial import NotConnected, Surroundings, try_entry
from tests.support.upstream_server import serving

Json = dict[str, Any]
HERE = Surroundings({"PATH": os.environ["PATH"], "CODE_EXECUTOR_KEY": "right"}, typed_key=lambda: "right")


class Daemon:
    """Has two tools for whoever has the right key."""

    def __init__(self) -> None:
        self.sessions: set[str] = set()
        self.url = ""

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_post("/mcp", self.post)
        app.router.add_delete("/mcp", self.delete)
        app.router.add_post("/other", self.something_else)
        return app

    async def post(self, request: web.Request) -> web.Response:
        message = await request.json()
        if request.headers.get("Authorization") != "Bearer right":
            problem = {"detail": "The key is not known.", "hint": "Send the key.", "code": "unauthenticated"}
            return web.json_response(problem, status=401, content_type="application/problem+json")
        if "id" not in message:
            return web.Response(status=202)
        answer = {"jsonrpc": "2.0", "id": message["id"]}
        if message["method"] == "initialize":
            self.sessions.add("s")
            result = {"protocolVersion": message["params"]["protocolVersion"], "capabilities": {}}
            return web.json_response({**answer, "result": result}, headers={"Mcp-Session-Id": "s"})
        assert request.headers["Mcp-Session-Id"] == "s"
        return web.json_response({**answer, "result": {"tools": [{"name": "a"}, {"name": "b"}]}})

    async def delete(self, request: web.Request) -> web.Response:
        self.sessions.discard(request.headers["Mcp-Session-Id"])
        return web.Response()

    async def something_else(self, request: web.Request) -> web.Response:
        return web.Response(text="<html>", content_type="text/html")

    def http(self, **more: Any) -> Json:
        return {"url": f"{self.url}/mcp", **more}


@pytest.fixture
async def daemon() -> AsyncIterator[Daemon]:
    made = Daemon()
    async with serving(made.app()) as url:
        made.url = url
        yield made


async def complaint_of(client: Client, entry: Json, surroundings: Surroundings = HERE) -> str:
    with pytest.raises(NotConnected) as caught:
        await try_entry(client, entry, surroundings)
    return str(caught.value)


def bearer(key: str) -> Json:
    return {"Authorization": f"Bearer {key}"}


@pytest.mark.parametrize(
    ("client", "how"),
    [
        (Client.CLAUDE, {"headersHelper": """echo '{"Authorization": "Bearer right"}'"""}),
        (Client.CLAUDE, {"headers": bearer("${CODE_EXECUTOR_KEY}")}),
        (Client.CLAUDE, {"headers": bearer("${UNSET:-right}")}),
        (Client.CURSOR, {"headers": bearer("${env:CODE_EXECUTOR_KEY}")}),
        (Client.VSCODE, {"headers": bearer("${input:code-executor-key}")}),
        (Client.CODEX, {"bearer_token_env_var": "CODE_EXECUTOR_KEY"}),
        (Client.CODEX, {"http_headers": bearer("right")}),
    ],
)
async def test_the_key_is_found_as_the_client_finds_it(daemon, client, how):
    seen = await try_entry(client, daemon.http(**how), HERE)
    assert str(seen) == f"2 tools, {seen.milliseconds} ms"
    assert not daemon.sessions, "the session was not ended"


@pytest.mark.parametrize(
    ("client", "how"),
    [
        (Client.CLAUDE, {"headers": bearer("${CODE_EXECUTOR_KEY}")}),
        (Client.CURSOR, {"headers": bearer("${env:CODE_EXECUTOR_KEY}")}),
        (Client.CODEX, {"bearer_token_env_var": "CODE_EXECUTOR_KEY"}),
    ],
)
async def test_a_variable_that_is_not_set_is_told_with_how_to_set_it(daemon, client, how):
    complaint = await complaint_of(client, daemon.http(**how), Surroundings({}, typed_key=lambda: "right"))
    assert f"{client.product} reads the key from the variable CODE_EXECUTOR_KEY, which is not set" in complaint
    assert "export CODE_EXECUTOR_KEY=$(cat KEYFILE)" in complaint


async def test_a_key_that_the_daemon_rejects_is_told(daemon):
    complaint = await complaint_of(Client.CLAUDE, daemon.http(headers=bearer("wrong")))
    assert complaint.startswith("The daemon does not know the key")
    assert "'make up'" in complaint


async def test_a_daemon_that_does_not_run_is_told_with_how_to_start_it():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    complaint = await complaint_of(Client.CLAUDE, {"url": f"http://127.0.0.1:{port}/mcp", "headers": bearer("right")})
    assert complaint == f"No daemon answers at http://127.0.0.1:{port}/mcp. Start it with 'make up'."


async def test_something_else_at_the_address_is_told(daemon):
    complaint = await complaint_of(Client.CLAUDE, {"url": f"{daemon.url}/other", "headers": bearer("right")})
    assert "Something other than the daemon answers" in complaint


async def test_the_helpers_own_words_say_why_it_gave_no_key(daemon):
    helper = "echo 'mcp-wrapper: You may not.' >&2; exit 77"
    assert await complaint_of(Client.CLAUDE, daemon.http(headersHelper=helper)) == "You may not."


@pytest.mark.parametrize(("helper", "sentence"), [("exit 3", "exit code 3"), ("echo no", "printed no JSON")])
async def test_a_helper_that_says_nothing_of_use_is_told_by_its_command(daemon, helper, sentence):
    complaint = await complaint_of(Client.CLAUDE, daemon.http(headersHelper=helper))
    assert f"'{helper}'" in complaint
    assert sentence in complaint


async def test_a_helper_that_hangs_is_ended(daemon, monkeypatch):
    monkeypatch.setattr(trial, "HELPER_SECONDS", 0.2)
    assert "gave no key within" in await complaint_of(Client.CLAUDE, daemon.http(headersHelper="sleep 60 | cat"))


async def test_a_helper_sees_only_what_every_client_passes_on(daemon):
    helper = """printf '{"Authorization": "Bearer %s"}' "${CODE_EXECUTOR_KEY:-none}" """
    assert "does not know the key" in await complaint_of(Client.CLAUDE, daemon.http(headersHelper=helper))


SERVER = """
import json, os, sys
print("noise", file=sys.stderr)
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        tools = [{}] * int(os.environ["TOOLS"])
        print(json.dumps({"jsonrpc": "2.0", "method": "notifications/message"}))
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {"tools": tools}}), flush=True)
"""


def command(*arguments: str, **env: str) -> Json:
    return {"command": arguments[0], "args": list(arguments[1:]), "env": env}


async def test_a_command_is_started_with_the_variables_of_its_entry():
    seen = await try_entry(Client.CODEX, command(sys.executable, "-c", SERVER, TOOLS="1"), HERE)
    assert str(seen).startswith("1 tool, ")


@pytest.mark.parametrize(
    ("entry", "sentence"),
    [
        (command("/nowhere/mcp-wrapper.sh"), "/nowhere/mcp-wrapper.sh cannot be started: No such file or directory"),
        (command("sh", "-c", "echo 'mcp-wrapper: You may not.' >&2; exit 77"), "You may not."),
        (command("sh", "-c", "exit 3"), "ended with exit code 3"),
    ],
)
async def test_a_command_that_does_not_serve_is_told_with_its_reason(entry, sentence):
    assert sentence in await complaint_of(Client.CURSOR, entry)


async def test_an_error_of_the_server_is_told_as_it_says_it():
    error = {"jsonrpc": "2.0", "id": 0, "error": {"code": -32000, "message": "No daemon answers."}}
    entry = command("sh", "-c", f"read line; echo {shlex.quote(json.dumps(error))}; cat")
    assert await complaint_of(Client.VSCODE, entry) == "No daemon answers."


async def test_a_command_that_says_nothing_is_given_up_and_ended(monkeypatch):
    monkeypatch.setattr(trial, "TRIAL_SECONDS", 0.2)
    monkeypatch.setattr(trial, "LAST_WORDS_SECONDS", 0.1)
    assert "no answer within" in await complaint_of(Client.CODEX, command("sleep", "60"))


class Desk:
    """Whoever runs the tests, at home in an empty directory, with keys of their own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        (home / "secrets").mkdir()

    def key(self, role: str, text: str) -> None:
        (self.home / "secrets" / f"code-executor-{role}.key").write_text(text)

    async def connect(self, *arguments: str) -> Result:
        arguments = ("connect", *arguments, "--directory", str(self.home))
        return await asyncio.to_thread(CliRunner().invoke, app, arguments)


@pytest.fixture
def desk(daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    for name in [name for name in os.environ if name.startswith("CODE_EXECUTOR_") or name == "SUDO_USER"]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CODE_EXECUTOR_URL", daemon.url)
    monkeypatch.setenv("CODE_EXECUTOR_SECRETS_DIR", str(tmp_path / "secrets"))
    made = Desk(tmp_path)
    made.key("admin", "right")
    return made


async def test_writing_tells_what_the_client_will_see(desk):
    done = await desk.connect("claude", "--write")
    assert done.exit_code == 0, done.output
    assert done.stderr.startswith(f"wrote {desk.home / '.mcp.json'}; connected: 2 tools, ")
    again = await desk.connect("claude", "--write")
    assert again.stderr.startswith(f"unchanged: {desk.home / '.mcp.json'}; connected: 2 tools, ")


async def test_a_connection_that_fails_is_told_and_the_file_stays(desk):
    desk.key("admin", "wrong")
    done = await desk.connect("claude", "--write")
    assert done.exit_code == 69
    told = f"code-executor: wrote {desk.home / '.mcp.json'}, but the connection fails: The daemon does not know the key"
    assert done.stderr.startswith(told)
    assert (desk.home / ".mcp.json").exists()


@pytest.mark.parametrize("arguments", [("--write", "--no-test"), ()])
async def test_nothing_is_tried_unless_it_is_written_and_may_be_tried(desk, arguments):
    desk.key("admin", "wrong")
    done = await desk.connect("claude", *arguments)
    assert done.exit_code == 0
    assert "connected" not in done.stderr


async def test_the_role_that_was_asked_for_is_used_by_the_client_too(desk):
    desk.key("admin", "wrong")
    desk.key("developer", "right")
    done = await desk.connect("claude", "--write", "--role", "developer")
    assert done.exit_code == 0, done.output
    assert "CODE_EXECUTOR_ROLE=developer" in (desk.home / ".mcp.json").read_text()


async def test_a_key_in_the_file_is_tried_too(desk, monkeypatch):
    monkeypatch.setenv("CODE_EXECUTOR_KEY", "right")
    done = await desk.connect("cursor", "--write", "--inline-key")
    assert done.exit_code == 0, done.output
    assert "Bearer right" in (desk.home / ".cursor" / "mcp.json").read_text()


@pytest.mark.parametrize("option", [("--stdio",), ("--role", "admin")])
async def test_a_key_in_the_file_goes_with_neither_a_command_nor_a_role(desk, option):
    done = await desk.connect("cursor", "--write", "--inline-key", *option)
    assert done.exit_code == 64
    assert not (desk.home / ".cursor").exists()


async def test_vscode_over_http_is_tried_with_the_key_that_it_will_ask_for(desk, monkeypatch):
    monkeypatch.setenv("CODE_EXECUTOR_KEY", "right")
    done = await desk.connect("vscode", "--write", "--http")
    assert done.exit_code == 0, done.output
    assert "VS Code will ask for the key once" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root is told so")
async def test_who_uses_sudo_is_told_that_it_was_tried_as_root(desk, monkeypatch):
    monkeypatch.setenv("SUDO_USER", "jane")
    done = await desk.connect("claude", "--write")
    assert "Run this without sudo to see whether it works for jane." in done.stderr
