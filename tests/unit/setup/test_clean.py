from __future__ import annotations

import re

import pytest

from tests.unit.setup.machine import PROJECT, Tree


@pytest.fixture
def used(tree: Tree) -> Tree:
    tree.command("docker")
    (tree.path / "secrets").mkdir()
    (tree.path / ".build").mkdir()
    return tree


def removals(tree: Tree) -> list[str]:
    return [call for call in tree.calls() if call.startswith(("docker volume rm", "docker image rm"))]


def test_nothing_is_removed_before_the_answer_is_yes(used: Tree) -> None:
    ended = used.run("scripts/clean.sh")
    assert ended.returncode == 1
    assert "Nothing was removed" in ended.stderr
    assert (used.path / "secrets").exists()
    assert removals(used) == []


def test_cleaning_removes_data_keys_images_and_what_was_built(used: Tree) -> None:
    used.command("docker", 'case "$*" in "image ls "*) printf "mcp-code-executor/%s\\n" base runner ;; esac')
    assert used.run("scripts/clean.sh", FORCE="1").returncode == 0
    assert not [name for name in ("secrets", ".build", ".venv") if (used.path / name).exists()]
    volumes = ("data", "workspace", "memory", "postgres", "s3", "arango", "images")
    assert removals(used) == [
        " ".join(["docker volume rm --force", *(f"mcp-code-executor-{name}" for name in volumes)]),
        "docker image rm --force mcp-code-executor/base",
        "docker image rm --force mcp-code-executor/runner",
    ]


def test_cleaning_removes_every_volume_that_compose_makes(used: Tree) -> None:
    assert used.run("scripts/clean.sh", FORCE="1").returncode == 0
    made = re.findall(r"^    name: .*?(mcp-code-executor-\w+)\"?$", compose_section("volumes"), re.MULTILINE)
    assert len(made) == 7
    assert removals(used)[0].split()[4:] == made


def compose_section(name: str) -> str:
    return (PROJECT / "compose.yaml").read_text().partition(f"\n{name}:\n")[2]


def test_stopping_keeps_data_keys_and_images(used: Tree) -> None:
    assert used.run("scripts/down.sh").returncode == 0
    assert (used.path / "secrets").exists()
    assert not [call for call in used.calls() if call.startswith(("docker volume", "docker image"))]


def test_stopping_removes_every_labelled_container_and_network(used: Tree) -> None:
    used.command(
        "docker",
        f"""
case "$1 $*" in
*"container ls"*) [ -e {used.path}/gone ] || echo sandbox1 ;;
*"network ls"*label=*) echo net1 ;;
"rm "*sandbox1*) touch {used.path}/gone ;;
esac""",
    )
    assert used.run("scripts/down.sh").returncode == 0
    assert "docker rm --force --volumes sandbox1" in used.calls()
    assert "docker network rm net1" in used.calls()


def test_stopping_ends_the_servers_and_removes_their_networks(used: Tree) -> None:
    used.command(
        "docker",
        """
case "$*" in
"ps --all"*) printf "orchestrator d1\\nmcp-proxy p1\\nmcp-postgres q1\\n" ;;
"network ls"*mcp-backend*) echo backend1 ;;
esac""",
    )
    assert used.run("scripts/down.sh").returncode == 0
    assert "docker stop --time 5 p1 q1" in used.calls()
    assert "docker rm --force p1 q1" in used.calls()
    assert "docker network rm backend1" in used.calls()
