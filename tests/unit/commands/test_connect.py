from __future__ import annotations

import json
import stat
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from orchestrator.commands.cli import app
from orchestrator.commands.connect import CannotMerge, Client, Connection, configuration
from orchestrator.commands.connect.entries import NoWrapper

WRAPPER = Path("/opt/executor/scripts/mcp-wrapper.sh")
HTTP = Connection("http://127.0.0.1:9091", WRAPPER)
FILES = {
    Client.CLAUDE: ".mcp.json",
    Client.CURSOR: ".cursor/mcp.json",
    Client.VSCODE: ".vscode/mcp.json",
    Client.CODEX: ".codex/config.toml",
}
SECTION = {Client.CLAUDE: "mcpServers", Client.CURSOR: "mcpServers", Client.VSCODE: "servers"}
each_client = pytest.mark.parametrize("client", list(Client))
each_json_client = pytest.mark.parametrize("client", list(SECTION))


def written(client: Client, directory: Path, connection: Connection = HTTP) -> bool:
    return configuration(client, connection, directory, directory).write(connection)


def entry(client: Client, directory: Path) -> dict[str, object]:
    text = (directory / FILES[client]).read_text()
    if client is Client.CODEX:
        return tomllib.loads(text)["mcp_servers"]["code-executor"]
    return json.loads(text)[SECTION[client]]["code-executor"]


@each_client
def test_the_file_is_written_where_the_client_looks_and_a_second_time_it_stays(client, tmp_path):
    assert written(client, tmp_path)
    before = (tmp_path / FILES[client]).read_bytes()
    assert not written(client, tmp_path)
    assert (tmp_path / FILES[client]).read_bytes() == before
    assert entry(client, tmp_path)["url"] == "http://127.0.0.1:9091/mcp"


@each_client
def test_no_key_gets_into_a_file_unless_it_is_asked_for(client, tmp_path):
    written(client, tmp_path)
    assert "secret-key" not in (tmp_path / FILES[client]).read_text()
    written(client, tmp_path, Connection("http://127.0.0.1:9091", WRAPPER, inline_key="secret-key"))
    path = tmp_path / FILES[client]
    assert "Bearer secret-key" in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_claude_asks_the_wrapper_for_the_headers(tmp_path):
    written(Client.CLAUDE, tmp_path)
    assert entry(Client.CLAUDE, tmp_path)["headersHelper"] == f"{WRAPPER} --headers"


def test_what_the_wrapper_must_be_told_is_part_of_the_entry(tmp_path):
    variables = {"CODE_EXECUTOR_ROLE": "developer", "CODE_EXECUTOR_SECRETS_DIR": "/with space"}
    written(Client.CLAUDE, tmp_path, Connection("http://127.0.0.1:9091", WRAPPER, variables=variables))
    helper = entry(Client.CLAUDE, tmp_path)["headersHelper"]
    assert helper == f"env CODE_EXECUTOR_ROLE=developer 'CODE_EXECUTOR_SECRETS_DIR=/with space' {WRAPPER} --headers"
    for client in Client:
        written(client, tmp_path, Connection("http://x:1", WRAPPER, over_stdio=True, variables=variables))
        assert entry(client, tmp_path)["env"] == {"CODE_EXECUTOR_URL": "http://x:1", **variables}


@pytest.mark.parametrize("over_stdio", [True, False])
def test_claude_is_told_to_show_the_tools_to_the_model_at_once(over_stdio, tmp_path):
    written(Client.CLAUDE, tmp_path, Connection("http://127.0.0.1:9091", WRAPPER, over_stdio=over_stdio))
    assert entry(Client.CLAUDE, tmp_path)["alwaysLoad"] is True


@each_client
def test_by_default_no_client_needs_a_key_or_a_variable(client, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    shown = CliRunner().invoke(app, ["connect", client, "--directory", str(tmp_path)])
    assert shown.exit_code == 0, shown.output
    assert "mcp-wrapper.sh" in shown.stdout
    assert "CODE_EXECUTOR_KEY" not in shown.output
    assert "code-executor-key" not in shown.output
    assert not (tmp_path / FILES[client]).exists()


@pytest.mark.parametrize("client", [Client.CURSOR, Client.CODEX])
def test_over_http_other_clients_are_told_of_the_variable(client, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    shown = CliRunner().invoke(app, ["connect", client, "--http", "--directory", str(tmp_path)])
    assert "export CODE_EXECUTOR_KEY=$(cat KEYFILE)" in shown.stderr


def test_claude_without_the_wrapper_reads_the_variable(tmp_path):
    written(Client.CLAUDE, tmp_path, Connection("http://127.0.0.1:9091"))
    assert entry(Client.CLAUDE, tmp_path)["headers"] == {"Authorization": "Bearer ${CODE_EXECUTOR_KEY}"}


@each_client
def test_over_stdio_the_client_starts_the_wrapper(client, tmp_path):
    written(client, tmp_path, Connection("http://127.0.0.1:9091", WRAPPER, over_stdio=True))
    found = entry(client, tmp_path)
    assert found["command"] == str(WRAPPER)
    assert "url" not in found


def test_over_stdio_there_must_be_a_wrapper(tmp_path):
    with pytest.raises(NoWrapper, match="mcp-wrapper"):
        written(Client.CURSOR, tmp_path, Connection("http://127.0.0.1:9091", over_stdio=True))


@each_json_client
def test_other_entries_of_a_json_file_stay(client, tmp_path):
    path = tmp_path / FILES[client]
    path.parent.mkdir(exist_ok=True)
    other = {"command": "other"}
    mine = {"inputs": [{"id": "mine"}], SECTION[client]: {"other": other, "code-executor": {"url": "old"}}}
    path.write_text(json.dumps(mine))
    path.chmod(0o640)
    assert written(client, tmp_path)
    after = json.loads(path.read_text())
    assert after[SECTION[client]]["other"] == other
    assert after[SECTION[client]]["code-executor"]["url"] != "old"
    assert after["inputs"][0] == {"id": "mine"}
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_the_question_for_the_key_is_asked_once_in_vscode(tmp_path):
    written(Client.VSCODE, tmp_path)
    written(Client.VSCODE, tmp_path, Connection("http://127.0.0.1:1", WRAPPER))
    inputs = json.loads((tmp_path / FILES[Client.VSCODE]).read_text())["inputs"]
    assert [item["id"] for item in inputs] == ["code-executor-key"]


@each_json_client
@pytest.mark.parametrize("content", ['{ // a comment\n "servers": {} }', "[]", '{"servers": 1, "mcpServers": 1}'])
def test_a_file_that_cannot_be_merged_is_left_alone(client, content, tmp_path):
    path = tmp_path / FILES[client]
    path.parent.mkdir(exist_ok=True)
    path.write_text(content)
    with pytest.raises(CannotMerge, match=path.name):
        written(client, tmp_path)
    assert path.read_text() == content


CODEX = """\
model = "gpt" # mine

[mcp_servers.code-executor]
url = "http://old/mcp"

[mcp_servers.code-executor.env]
A = "b"

[mcp_servers.other]
command = "x"
args = ["[not a table]"]
"""


def test_other_tables_and_comments_of_the_codex_file_stay(tmp_path):
    path = tmp_path / FILES[Client.CODEX]
    path.parent.mkdir()
    path.write_text(CODEX)
    assert written(Client.CODEX, tmp_path)
    assert not written(Client.CODEX, tmp_path)
    after = tomllib.loads(path.read_text())
    assert path.read_text().startswith('model = "gpt" # mine\n')
    assert after["mcp_servers"]["other"] == {"command": "x", "args": ["[not a table]"]}
    assert after["mcp_servers"]["code-executor"] == {
        "url": "http://127.0.0.1:9091/mcp",
        "bearer_token_env_var": "CODE_EXECUTOR_KEY",
    }


@pytest.mark.parametrize("content", ["mcp_servers = { other = { command = 'x' } }\n", "no toml at all ]["])
def test_a_codex_file_that_cannot_be_extended_safely_is_left_alone(content, tmp_path):
    path = tmp_path / FILES[Client.CODEX]
    path.parent.mkdir()
    path.write_text(content)
    with pytest.raises(CannotMerge, match=r"config\.toml"):
        written(Client.CODEX, tmp_path)
    assert path.read_text() == content


def test_what_is_shown_is_what_a_new_file_would_hold(tmp_path):
    shown = configuration(Client.CURSOR, HTTP, tmp_path, tmp_path)
    shown.write(HTTP)
    assert (tmp_path / FILES[Client.CURSOR]).read_text() == shown.text
