from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.unit.setup.machine import Tree

OLD_COMPOSE_ONLY = 'case "$1" in compose) exit 1 ;; *) exit 0 ;; esac'


def settings_of_daemon(tree: Tree) -> list[str]:
    return (tree.path / ".build" / "daemon.env").read_text().splitlines()


def test_the_daemon_gets_settings_from_the_file_and_then_from_the_environment(tree: Tree) -> None:
    tree.command("docker")
    (tree.path / ".env").write_text("CODE_EXECUTOR_LOG_LEVEL=debug\nUNRELATED=1\n")
    assert tree.run("scripts/compose.sh", "ps", CODE_EXECUTOR_MAX_RUNNING="3").returncode == 0
    assert settings_of_daemon(tree) == ["CODE_EXECUTOR_LOG_LEVEL=debug", "CODE_EXECUTOR_MAX_RUNNING=3"]


def test_a_key_and_paths_of_this_machine_do_not_reach_the_daemon(tree: Tree) -> None:
    tree.command("docker")
    private = {"KEY": "k", "URL": "u", "SECRETS_DIR": "/s", "DOCKER_HOST": "unix:///d", "PUBLISH": "9191"}
    variables = {f"CODE_EXECUTOR_{name}": value for name, value in private.items()}
    assert tree.run("scripts/compose.sh", "ps", CODE_EXECUTOR_TEST_NODE="/n", **variables).returncode == 0
    assert settings_of_daemon(tree) == []


def test_the_settings_of_the_daemon_are_for_their_owner_only(tree: Tree) -> None:
    tree.command("docker")
    tree.run("scripts/compose.sh", "ps")
    assert (tree.path / ".build" / "daemon.env").stat().st_mode & 0o777 == 0o600


def test_the_compose_plugin_is_used_when_it_is_there(tree: Tree) -> None:
    tree.command("docker")
    tree.command("docker-compose")
    tree.run("scripts/compose.sh", "ps")
    assert tree.calls()[-1] == "docker compose --project-name mcp-code-executor ps"


def test_the_older_compose_is_used_without_the_plugin(tree: Tree) -> None:
    tree.command("docker", OLD_COMPOSE_ONLY)
    tree.command("docker-compose")
    tree.run("scripts/compose.sh", "ps")
    assert tree.calls()[-1] == "docker-compose --project-name mcp-code-executor ps"


def test_an_engine_on_another_machine_is_refused_because_the_daemon_needs_its_socket(tree: Tree) -> None:
    tree.command("docker")
    ended = tree.run("scripts/compose.sh", "up", DOCKER_HOST="tcp://engine.invalid:2375")
    assert ended.returncode == 1
    assert "needs its socket on this machine" in ended.stderr


def test_a_taken_port_is_refused_with_another_to_choose(tree: Tree) -> None:
    tree.command("docker", "exit 1")
    tree.command("ss", """echo 'LISTEN 0 5 127.0.0.1:1 0.0.0.0:* users:(("nginx",pid=42,fd=3))'""")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ended = tree.run("scripts/up.sh", CODE_EXECUTOR_PUBLISH=f"127.0.0.1:{taken.getsockname()[1]}")
    assert ended.returncode == 1
    assert "is taken by nginx (pid 42)" in ended.stderr
    assert "CODE_EXECUTOR_PUBLISH=" in ended.stderr


def test_an_address_of_another_machine_cannot_be_published(tree: Tree) -> None:
    tree.command("docker", "exit 1")
    ended = tree.run("scripts/up.sh", CODE_EXECUTOR_PUBLISH="192.0.2.1:9091")
    assert ended.returncode == 1
    assert "192.0.2.1:9091 cannot be published here" in ended.stderr


def test_a_role_file_that_the_daemon_cannot_read_is_refused(tree: Tree) -> None:
    (tree.path / "roles.json").chmod(0o600)
    ended = tree.run("scripts/up.sh")
    assert ended.returncode == 1
    assert "chmod a+r roles.json" in ended.stderr


def test_a_daemon_that_ends_at_once_shows_its_last_words(tree: Tree) -> None:
    tree.command(
        "docker",
        'case "$1" in inspect) echo exited ;; logs) echo "roles.json: not JSON" ;; port) exit 1 ;; run) echo 0 ;; esac',
    )
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    ended = tree.run("scripts/up.sh", CODE_EXECUTOR_PUBLISH=f"127.0.0.1:{port}", DOCKER_HOST="unix:///run/d.sock")
    assert ended.returncode == 1
    assert "The daemon is exited" in ended.stderr
    assert "roles.json: not JSON" in ended.stderr


@pytest.mark.parametrize(
    ("publish", "url"),
    [
        ("127.0.0.1:9091", "http://127.0.0.1:9091"),
        ("0.0.0.0:9191", "http://127.0.0.1:9191"),
        ("9191", "http://127.0.0.1:9191"),
        ("[::1]:9091", "http://[::1]:9091"),
        ("10.0.0.7:80", "http://10.0.0.7:80"),
    ],
)
def test_the_published_address_is_reached_from_this_machine(tree: Tree, publish: str, url: str) -> None:
    assert tree.bash("api_url", CODE_EXECUTOR_PUBLISH=publish).stdout == url


def test_a_setting_comes_from_the_environment_before_the_file_before_the_default(tree: Tree) -> None:
    ask = "configured CODE_EXECUTOR_PUBLISH default"
    assert tree.bash(ask).stdout == "default"
    Path(tree.path / ".env").write_text('CODE_EXECUTOR_PUBLISH="file"\n')
    assert tree.bash(ask).stdout == "file"
    assert tree.bash(ask, CODE_EXECUTOR_PUBLISH="environment").stdout == "environment"
