"""servers.d: files of one server each, beside servers.json."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from orchestrator.upstreams.entries import HttpServer, ServerEntry, UnusableServer
from orchestrator.upstreams.servers_directory import MAX_FILE_BYTES, read_all_servers
from orchestrator.upstreams.servers_file import ServersFileInvalid
from orchestrator.upstreams.variables import Variables
from orchestrator.upstreams.watched_file import WatchedServersFile
from tests.support.upstream_server import ScriptedProxy, serving
from tests.support.upstreams import problem, running, status, until_connected, until_down


class Place:
    def __init__(self, path: Path) -> None:
        self.file = path / "servers.json"
        self.directory = path / "servers.d"
        self.directory.mkdir()
        self.main()

    def main(self, **servers: Any) -> None:
        self.file.write_text(json.dumps({"mcpServers": servers}))

    def own(self, name: str, text: str | None = None, **entry: Any) -> Path:
        file = self.directory / f"{name}.json"
        file.write_text(text if text is not None else json.dumps({"mcpServers": {name: entry}}))
        return file

    def read(self, **environment: str) -> dict[str, ServerEntry]:
        return {entry.name: entry for entry in read_all_servers(self.file, self.directory, environment)}

    def problem(self, name: str) -> str:
        entry = self.read()[name]
        assert isinstance(entry, UnusableServer)
        return entry.problem


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_servers_of_the_directory_stand_beside_those_of_the_file(place: Place):
    place.main(files={"url": "http://files/mcp"})
    place.own("weather", url="http://weather/mcp")
    assert list(place.read()) == ["files", "weather"]


def test_a_directory_that_is_not_there_names_no_servers(tmp_path: Path):
    assert read_all_servers(tmp_path / "servers.json", tmp_path / "servers.d", {}) == ()


def test_a_broken_file_costs_its_own_server_and_says_where_it_is_broken(place: Place):
    place.own("good", url="http://good/mcp")
    place.own("bad", text='{"mcpServers": {\n  "bad": {"url": }\n}}')
    assert place.problem("bad") == "bad.json, line 2: Expecting value"
    assert isinstance(place.read()["good"], HttpServer)


def test_two_files_that_name_the_same_server_are_told_and_neither_is_used(place: Place):
    place.own("a", text='{"mcpServers": {"weather": {"url": "http://one/mcp"}}}')
    place.own("b", text='{"mcpServers": {"weather": {"url": "http://two/mcp"}}}')
    assert place.problem("weather") == "both a.json and b.json in servers.d name it. Remove one of the two"


def test_a_file_never_takes_the_name_of_a_server_that_comes_with_the_stack(place: Place):
    place.main(files={"url": "http://files/mcp"})
    place.own("files", url="http://evil/mcp")
    with capture_logs() as logs:
        (entry,) = place.read().values()
    assert isinstance(entry, HttpServer)
    assert entry.url == "http://files/mcp"
    assert [log["event"] for log in logs] == ["servers_directory.name_taken"]


def test_what_is_hidden_or_no_plain_file_is_passed_over(place: Place):
    os.mkfifo(place.directory / "pipe.json")  # would hold up whoever reads it
    (place.directory / "weather").mkdir()
    place.own(".half", url="http://half/mcp")
    assert place.read() == {}


def test_a_file_that_is_too_large_is_not_read(place: Place):
    place.own("large", text=" " * (MAX_FILE_BYTES + 1))
    assert "is larger than" in place.problem("large")


def test_what_a_container_needs_is_not_for_the_daemon_and_not_complained_about(place: Place):
    place.own("clock", url="http://mcp-own-clock/mcp", container={"env": {"KEY": "${CLOCK__KEY}"}})
    with capture_logs() as logs:
        assert isinstance(place.read()["clock"], HttpServer)
    assert logs == []


def test_only_an_entry_that_says_so_may_be_on_this_machine(place: Place):
    place.own("mine", url="http://host.docker.internal:8000/mcp")
    assert 'add "host": true' in place.problem("mine")
    place.own("mine", url="http://host.docker.internal:8000/mcp", host=True)
    assert isinstance(place.read()["mine"], HttpServer)


def test_a_main_file_that_is_wrong_is_told_as_ever(place: Place):
    place.file.write_text("{")
    with pytest.raises(ServersFileInvalid):
        place.read()


class TestVariables:
    def test_a_token_is_read_from_its_file_and_the_environment_goes_first(self, tmp_path: Path):
        (tmp_path / "WEATHER__KEY").write_text("from the file\n")
        assert Variables({}, tmp_path)["WEATHER__KEY"] == "from the file"
        assert Variables({"WEATHER__KEY": "given"}, tmp_path)["WEATHER__KEY"] == "given"
        assert sorted(Variables({"A": "1"}, tmp_path)) == ["A", "WEATHER__KEY"]

    @pytest.mark.parametrize("name", ["../secret", "a/b", "", ".", "NOT_THERE"])
    def test_nothing_but_a_file_of_the_directory_can_be_named(self, tmp_path: Path, name: str):
        (tmp_path / "secret").write_text("s")
        inside = tmp_path / "inside"
        inside.mkdir()
        assert name not in Variables({}, inside)

    def test_a_file_that_cannot_be_read_is_a_variable_that_is_not_set(self, tmp_path: Path):
        (tmp_path / "KEY").mkdir()
        (tmp_path / "BINARY").write_bytes(b"\xff\xfe")
        variables = Variables({}, tmp_path)
        assert "KEY" not in variables
        assert "BINARY" not in variables


async def test_files_are_taken_up_while_the_daemon_runs_and_a_broken_one_takes_nobody_else_away(place: Place):
    async with serving(ScriptedProxy("one", "two", token="right").app()) as url, running() as upstreams:
        tokens = place.file.parent / "tokens"
        tokens.mkdir()
        watched = WatchedServersFile(place.file, Variables({}, tokens), upstreams, place.directory)
        headers = {"Authorization": "Bearer ${OWN__TOKEN}"}
        (tokens / "OWN__TOKEN").write_text("right\n")
        place.own("one", url=f"{url}/one/mcp", headers=headers)
        place.own("two", url=f"{url}/two/mcp", headers=headers)
        await watched.take_up_changes()
        await until_connected(upstreams, "one", "two")
        since = status(upstreams, "one").since
        place.own("two", text="{")
        await watched.take_up_changes()
        await until_down(upstreams, "two")
        assert problem(upstreams, "two").startswith("two.json, line 1")
        assert status(upstreams, "one").since == since
        (place.directory / "two.json").unlink()
        await watched.take_up_changes()
        assert list(upstreams.tools()) == ["one"]


async def test_a_new_token_is_taken_up_when_its_entry_is_written_again(place: Place):
    async with serving(ScriptedProxy("one", token="right").app()) as url, running() as upstreams:
        tokens = place.file.parent / "tokens"
        tokens.mkdir()
        watched = WatchedServersFile(place.file, Variables({}, tokens), upstreams, place.directory)
        for token in ("wrong", "right"):
            (tokens / "OWN__TOKEN").write_text(token)
            fresh = place.own(f".{token}", url="")
            fresh.write_text(
                json.dumps(
                    {
                        "mcpServers": {
                            "one": {"url": f"{url}/one/mcp", "headers": {"Authorization": "Bearer ${OWN__TOKEN}"}}
                        }
                    }
                )
            )
            fresh.rename(place.directory / "one.json")
            await watched.take_up_changes()
            await (until_down if token == "wrong" else until_connected)(upstreams, "one")
