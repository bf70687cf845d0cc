"""servers.d as the command line keeps it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deploy.stack import own as stack
from orchestrator.commands.servers import entries
from orchestrator.commands.servers.entries import (
    BadEntry,
    Container,
    Network,
    Options,
    ServersDirectory,
    check_name,
    entry_of_address,
    entry_of_container,
)
from orchestrator.settings import PROJECT
from orchestrator.upstreams.entries import HttpServer
from orchestrator.upstreams.servers_directory import read_all_servers

CLOCK = Container("uvx clock==1", ("python3", "clock"), {"KEY": "${CLOCK__KEY}"}, Network.BACKEND, 11001)


@pytest.fixture
def directory(tmp_path: Path) -> ServersDirectory:
    return ServersDirectory(tmp_path / "servers.d")


def check(name: str, directory: ServersDirectory) -> None:
    check_name(name, directory, PROJECT, directory.path.parent / "servers.json")


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "../x",
        "a/b",
        "/etc/x",
        "a\\b",
        "A",
        "a_b",
        "a.b",
        "-a",
        "a-",
        "a--b",
        "a b",
        "a\n",
        "é",
        "a" * 33,
        "a\0",
    ],
)
def test_a_name_that_is_no_plain_word_is_refused(directory: ServersDirectory, name: str):
    with pytest.raises(BadEntry, match="NAME must be"):
        check(name, directory)


@pytest.mark.parametrize("name", ["chat", "postgres", "filesystem", "gemini-image", "arangodb"])
def test_a_name_that_comes_with_the_product_is_taken(directory: ServersDirectory, name: str):
    with pytest.raises(BadEntry, match="is taken"):
        check(name, directory)


def test_a_name_of_servers_json_or_of_another_file_is_taken_also_if_only_programs_confuse_them(
    directory: ServersDirectory,
):
    (directory.path.parent / "servers.json").write_text(
        '{"mcpServers": {"jira": {}, "my_wiki": {}}, "proxy": {"servers": ["x1"]}}'
    )
    for name in ("jira", "my-wiki", "x1"):
        with pytest.raises(BadEntry, match="is taken"):
            check(name, directory)
    directory.write("mine", entry_of_address("http://x/mcp", "http", {}, Options()))
    check("mine", directory)  # which may be added again


def test_what_is_written_is_read_by_the_daemon_and_by_the_stack(directory: ServersDirectory):
    options = Options(lists_contents=True)
    directory.write("clock", entry_of_container("clock", CLOCK, options))
    directory.write("far", entry_of_address("https://far/mcp", "http", {"X": "${FAR__X}"}, Options()))
    daemon = read_all_servers(directory.path / "none.json", directory.path, {"FAR__X": "x"})
    assert [(entry.name, type(entry), entry.lists_contents) for entry in daemon] == [
        ("clock", HttpServer, True),
        ("far", HttpServer, False),
    ]
    own = stack.OwnServers.read(directory.path)
    assert own.sorted_out() == (
        [stack.OwnServer("clock", CLOCK.command, CLOCK.env, stack.Network.BACKEND, 11001, host=False)],
        [],
    )
    assert own.references_of_daemon() == ["FAR__X"]


def test_both_sides_agree_on_names_and_users_and_networks():
    assert (entries.NAME.pattern, entries.LONGEST_NAME) == (stack.NAME.pattern, stack.LONGEST_NAME)
    assert range(entries.FIRST_USER, entries.LAST_USER + 1) == stack.USERS
    assert [network.value for network in entries.Network] == [network.value for network in stack.Network]


def test_options_are_written_only_where_they_were_chosen(directory: ServersDirectory):
    url = "http://host.docker.internal:80/mcp"
    assert entry_of_address(url, "sse", {}, Options(session="execution", host=True)) == {
        "type": "sse",
        "url": url,
        "session": "execution",
        "host": True,
    }


def test_each_server_is_another_user_and_keeps_it(directory: ServersDirectory):
    for name, user in (("a", 11001), ("b", 11002)):
        assert directory.user_for(name) == user
        container = Container("npx x", ("node",), {}, Network.NONE, user)
        directory.write(name, entry_of_container(name, container, Options()))
    assert directory.user_for("a") == 11001
    directory.remove("a")
    assert (directory.user_for("b"), directory.user_for("c")) == (11002, 11001)


def test_locks_are_replaced_as_a_whole(directory: ServersDirectory, tmp_path: Path):
    for number in ("1", "2"):
        made = tmp_path / number
        made.mkdir()
        (made / f"lock{number}").write_text(number)
        directory.keep_locks("clock", made)
    assert [file.name for file in directory.locks("clock").iterdir()] == ["lock2"]
    assert directory.names() == []


def test_removing_takes_entry_and_locks_and_twice_is_no_mistake(directory: ServersDirectory, tmp_path: Path):
    (tmp_path / "locks").mkdir()
    directory.keep_locks("clock", tmp_path / "locks")
    directory.write("clock", entry_of_container("clock", CLOCK, Options()))
    assert directory.remove("clock")
    assert list(directory.path.iterdir()) == []
    assert not directory.remove("clock")


@pytest.mark.parametrize("text", ["{", "[]", '{"mcpServers": {"other": {}}}', '{"mcpServers": {"clock": []}}'])
def test_an_entry_that_is_broken_is_told_with_its_file(directory: ServersDirectory, text: str):
    directory.path.mkdir()
    directory.file("clock").write_text(text)
    with pytest.raises(BadEntry, match=r"clock\.json"):
        directory.entry("clock")


def test_the_stack_leaves_out_what_is_wrong_and_says_why(directory: ServersDirectory):
    good = entry_of_container("good", CLOCK, Options())
    directory.write("good", good)
    for name, change in {
        "same": {},
        "root": {"user": 0},
        "wide": {"network": "host"},
        "words": {"command": "node"},
        "envs": {"env": {"A B": "x"}},
    }.items():
        directory.write(name, {**good, "container": {**good["container"], "user": 11009, **change}})
    directory.write("same", good)
    (directory.path / "broken.json").write_text("{")
    (directory.path / "x.json").write_text(json.dumps({"mcpServers": {"../x": good}}))
    servers, complaints = stack.OwnServers.read(directory.path).sorted_out()
    assert [server.name for server in servers] == ["good"]
    assert len(complaints) == 7
    assert any("container.user is that of good" in complaint for complaint in complaints)
