from __future__ import annotations

import fcntl
import os
import re
import subprocess

import pytest

from tests.unit.setup.machine import PROJECT, Tree

OWNER = "0123456789abcdef"
NO_DAEMON = 'case "$*" in *"inspect "*|"exec "*) exit 1 ;; esac\n'


@pytest.fixture
def used(tree: Tree) -> Tree:
    """Where `make up` was run once."""
    tree.command("docker", NO_DAEMON)
    (tree.path / "secrets").mkdir()
    (tree.path / "mcp_code_executor.egg-info").mkdir()
    (tree.path / ".build").mkdir()
    (tree.path / ".build" / "owner").write_text(f"{OWNER}\n")
    return tree


def sandboxes_of(owner: str, tree: Tree) -> str:
    """An engine with a sandbox and a network of the owner, beside those of others."""
    gone = tree.path / "gone"
    return f"""
case "$*" in
"container ls"*"label=mcp-code-executor.owner={owner}") [ -e {gone} ] || echo sandbox1 ;;
"network ls"*"label=mcp-code-executor.owner={owner}") echo net1 ;;
"container ls"* | "network ls"*"label=mcp-code-executor.owner="*) echo of-others ;;
"rm "*sandbox1*) touch {gone} ;;
esac"""


def started_in(directory: object) -> str:
    return f'case "$*" in "container inspect "*) echo "{directory}" ;; esac\n'


def removals(tree: Tree) -> list[str]:
    return [call for call in tree.calls() if call.startswith(("docker volume rm", "docker image rm"))]


def test_nothing_is_removed_before_the_answer_is_yes(used: Tree) -> None:
    ended = used.run("scripts/clean.sh")
    assert ended.returncode == 1
    assert "Nothing was removed" in ended.stderr
    assert (used.path / "secrets").exists()
    assert removals(used) == []


def test_cleaning_removes_data_keys_images_and_what_was_built(used: Tree) -> None:
    images = 'case "$*" in "image ls "*) printf "mcp-code-executor/%s\\n" base runner ;; esac'
    used.command("docker", NO_DAEMON + images)
    ended = used.run("scripts/clean.sh", FORCE="1")
    assert ended.stdout.splitlines()[-1] == "Everything is removed."
    made = ("secrets", ".build", ".venv", "mcp_code_executor.egg-info")
    assert not [name for name in made if (used.path / name).exists()]
    volumes = (
        *("data", "launcher", "roles", "workspace", "memory", "postgres", "timescale", "s3", "arango", "n8n"),
        *("images", "prometheus", "grafana"),
    )
    assert removals(used) == [
        " ".join(["docker volume rm --force", *(f"mcp-code-executor-{name}" for name in volumes)]),
        "docker image rm --force mcp-code-executor/base",
        "docker image rm --force mcp-code-executor/runner",
    ]


def test_cleaning_removes_the_users_own_servers_but_not_from_a_directory_that_was_named(used: Tree) -> None:
    elsewhere = used.path / "elsewhere"
    for directory in (used.path / "servers.d", elsewhere):
        directory.mkdir()
        (directory / "clock.json").write_text("{}")
    ended = used.run("scripts/clean.sh", FORCE="1", CODE_EXECUTOR_SERVERS_DIR=str(elsewhere))
    assert f"The servers in {elsewhere} stay" in ended.stdout
    assert (elsewhere / "clock.json").exists()
    assert not (used.path / "servers.d").exists()


def test_cleaning_removes_every_volume_that_compose_makes(used: Tree) -> None:
    assert used.run("scripts/clean.sh", FORCE="1").returncode == 0
    made = re.findall(r"^    name: .*?(mcp-code-executor-\w+)\"?$", compose_section("volumes"), re.MULTILINE)
    assert len(made) == 13
    assert sorted(removals(used)[0].split()[4:]) == sorted(made)


def compose_section(name: str) -> str:
    return (PROJECT / "compose.yaml").read_text().partition(f"\n{name}:\n")[2]


def test_stopping_keeps_data_keys_and_images(used: Tree) -> None:
    assert used.run("scripts/down.sh").returncode == 0
    assert (used.path / "secrets").exists()
    assert not [call for call in used.calls() if call.startswith(("docker volume", "docker image"))]


def test_stopping_what_does_not_run_is_no_error_though_a_volume_has_the_name_of_a_container(used: Tree) -> None:
    nothing = '"container inspect "*|"exec "*|"stop "*|"rm "*) exit 1 ;;'
    used.command("docker", f'case "$*" in {nothing} "inspect "*) echo volume ;; esac')
    assert used.run("scripts/down.sh").returncode == 0
    assert not [call for call in used.calls() if call.startswith(("docker stop", "docker rm"))]


def test_stopping_removes_the_sandboxes_and_the_network_of_this_installation_only(used: Tree) -> None:
    used.command("docker", NO_DAEMON + sandboxes_of(OWNER, used))
    assert used.run("scripts/down.sh").returncode == 0
    assert "docker rm --force --volumes sandbox1" in used.calls()
    assert "docker network rm net1" in used.calls()
    assert not [call for call in used.calls() if "of-others" in call]


def test_the_daemon_is_asked_for_its_sandboxes_before_it_is_stopped(used: Tree) -> None:
    (used.path / ".build" / "owner").unlink()
    used.command("docker", 'case "$1" in exec) echo asked ;; esac\n' + sandboxes_of("asked", used))
    assert used.run("scripts/down.sh").returncode == 0
    assert "docker rm --force --volumes sandbox1" in used.calls()


def test_stopping_removes_what_was_made_under_an_earlier_id_too(used: Tree) -> None:
    """After an upgrade the launcher has an id of its own; the network of the version before has the daemon's."""
    launcher = 'case "$*" in "exec "*) echo of-the-launcher ;; *.owner=of-the-launcher) exit ;; esac\n'
    used.command("docker", launcher + sandboxes_of(OWNER, used))
    for _ in range(2):
        assert used.run("scripts/down.sh").returncode == 0
    assert "docker rm --force --volumes sandbox1" in used.calls()
    assert "docker network rm net1" in used.calls()
    assert (used.path / ".build" / "owner").read_text() == f"{OWNER}\nof-the-launcher\n"


def test_where_nothing_was_started_the_sandboxes_of_others_are_left_alone(used: Tree) -> None:
    (used.path / ".build" / "owner").unlink()
    used.command("docker", NO_DAEMON + sandboxes_of(OWNER, used))
    assert used.run("scripts/down.sh").returncode == 0
    assert not [call for call in used.calls() if call.startswith(("docker rm", "docker network rm"))]


def test_sandboxes_that_cannot_be_removed_are_named(used: Tree) -> None:
    used.command("docker", NO_DAEMON + 'case "$*" in "container ls"*) echo stuck1 ;; esac')
    ended = used.run("scripts/down.sh")
    assert ended.returncode == 1
    assert "could not be removed: stuck1" in ended.stderr


@pytest.mark.parametrize("command", ["scripts/down.sh", "scripts/clean.sh"])
@pytest.mark.parametrize(
    "docker",
    [
        started_in("/srv/other"),
        'case "$*" in "container inspect "*) echo; exit 1 ;; "ps "*working_dir*) echo /srv/other ;; esac',
    ],
    ids=["daemon", "servers without a daemon"],
)
def test_what_another_directory_started_is_neither_stopped_nor_removed(used: Tree, command: str, docker: str) -> None:
    used.command("docker", docker)
    ended = used.run(command, FORCE="1")
    assert ended.returncode == 1
    assert "were started in /srv/other, not here; run 'make down' there" in ended.stderr
    assert not [call for call in used.calls() if re.search(r" (stop|rm|prune) ", call)]
    assert (used.path / "secrets").exists()


def test_this_directory_by_another_path_is_still_this_directory(used: Tree) -> None:
    link = used.path / "link"
    os.symlink(used.path, link)
    used.command("docker", started_in(link))
    assert used.run("scripts/down.sh").returncode == 0
    assert "docker stop --time 30 mcp-code-executor" in used.calls()


def test_stopping_ends_the_servers_and_removes_their_networks(used: Tree) -> None:
    used.command(
        "docker",
        """
case "$*" in
"ps --all"*) printf "orchestrator d1\\nmcp-memory p1\\nmcp-postgres q1\\n" ;;
"network ls"*"label=com.docker.compose.project=mcp-code-executor") echo backend1 ;;
esac""",
    )
    assert used.run("scripts/down.sh").returncode == 0
    assert "docker stop --time 5 p1 q1" in used.calls()
    assert "docker rm --force p1 q1" in used.calls()
    assert "docker network rm backend1" in used.calls()


def test_cleaning_leaves_the_data_of_another_clone(used: Tree) -> None:
    (used.path / ".build" / "owner").unlink()
    used.command("docker", 'case "$*" in "volume inspect "*) printf "a\\nb\\n"; exit 1 ;; esac\n' + NO_DAEMON)
    ended = used.run("scripts/clean.sh", FORCE="1")
    assert ended.returncode == 0
    assert "if no other directory needs it, run: docker volume rm a b" in ended.stdout
    assert ended.stdout.splitlines()[-1] == "Everything else is removed."
    assert removals(used) == []


def test_cleaning_without_an_engine_says_that_images_and_data_stay(used: Tree) -> None:
    used.command("docker", "exit 1")
    ended = used.run("scripts/clean.sh", FORCE="1")
    assert "the images and the volume mcp-code-executor-data stay" in ended.stdout
    assert ended.stdout.splitlines()[-1] == "Everything else is removed."
    assert not (used.path / ".build").exists()


def test_keys_in_a_directory_of_your_own_stay_and_are_named(used: Tree) -> None:
    keys = used.path / "own" / "keys"
    keys.mkdir(parents=True)
    (used.path / ".env").write_text(f"CODE_EXECUTOR_SECRETS_DIR='{keys}' # on another disk\n")
    ended = used.run("scripts/clean.sh", FORCE="1")
    assert f"The keys in {keys} stay" in ended.stdout
    assert ended.stdout.splitlines()[-1] == "Everything else is removed."
    assert keys.exists()


def test_an_engine_that_make_started_is_named_and_keeps_its_log(used: Tree) -> None:
    used.command("dockerd", "read -r _")
    with subprocess.Popen([used.commands / "dockerd"], stdin=subprocess.PIPE) as engine:
        (used.path / ".build" / "dockerd.pid").write_text(f"{engine.pid}\n")
        ended = used.run("scripts/clean.sh", FORCE="1")
        engine.communicate(b"\n")
    assert f"'kill {engine.pid}' stops it" in ended.stdout
    assert (used.path / ".build" / "dockerd.pid").exists()


def test_a_process_that_got_the_number_of_an_ended_engine_is_left_alone(used: Tree) -> None:
    (used.path / ".build" / "dockerd.pid").write_text(f"{os.getpid()}\n")
    ended = used.run("scripts/clean.sh", FORCE="1")
    assert "kill" not in ended.stdout
    assert not (used.path / ".build").exists()


def test_cleaning_waits_until_no_other_make_works_in_the_tree(used: Tree) -> None:
    with (used.path / ".build" / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with used.start("scripts/clean.sh", FORCE="1") as cleaning:
            assert cleaning.stdout is not None
            assert "waiting for another make" in cleaning.stdout.readline()
            assert (used.path / "secrets").exists()
            assert removals(used) == []
            fcntl.flock(lock, fcntl.LOCK_UN)
            cleaning.communicate(timeout=20)
    assert not (used.path / "secrets").exists()
