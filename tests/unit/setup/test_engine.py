from __future__ import annotations

from tests.unit.setup.machine import Tree, unprivileged

ANSWERS = "exit 0"
SILENT = 'echo "Cannot connect to the Docker daemon" >&2; exit 1'
REFUSES = 'echo "permission denied while trying to connect to the Docker daemon socket" >&2; exit 1'


def machine(tree: Tree, docker: str) -> None:
    tree.command("docker", docker)
    for name in ("dockerd", "apt-get", "systemctl"):
        tree.command(name)


def touched(tree: Tree) -> list[str]:
    return [call for call in tree.calls() if not call.startswith(("docker info", "id"))]


def test_an_engine_that_answers_is_used_and_never_touched(tree: Tree) -> None:
    machine(tree, ANSWERS)
    assert tree.run("scripts/engine.sh").returncode == 0
    assert tree.calls()
    assert touched(tree) == []


def test_a_refused_socket_names_the_group_to_join(tree: Tree) -> None:
    machine(tree, REFUSES)
    ended = tree.run("scripts/engine.sh")
    assert ended.returncode == 1
    assert "usermod -aG docker" in ended.stderr
    assert touched(tree) == []


def test_a_dead_engine_elsewhere_is_not_replaced_by_one_of_ours(tree: Tree) -> None:
    machine(tree, SILENT)
    ended = tree.run("scripts/engine.sh", DOCKER_HOST="tcp://engine.invalid:2375")
    assert ended.returncode == 1
    assert "DOCKER_HOST=tcp://engine.invalid:2375" in ended.stderr
    assert touched(tree) == []


def test_without_root_the_sentence_says_how_to_start_the_engine(tree: Tree) -> None:
    machine(tree, SILENT)
    unprivileged(tree)
    ended = tree.run("scripts/engine.sh")
    assert ended.returncode == 1
    assert "sudo systemctl start docker" in ended.stderr
    assert touched(tree) == []


def test_a_missing_package_without_root_is_one_sentence_with_the_command(tree: Tree) -> None:
    tree.command("apt-get")
    unprivileged(tree)
    ended = tree.run("scripts/apt.sh", "mmdebstrap")
    assert ended.returncode == 1
    assert "sudo apt-get install mmdebstrap" in ended.stderr


def test_a_failing_apt_shows_its_own_words_and_the_fix(tree: Tree) -> None:
    tree.command("apt-get", 'echo "Temporary failure resolving mirror" >&2; exit 100')
    tree.command("id", "echo 0")
    ended = tree.run("scripts/apt.sh", "mmdebstrap")
    assert ended.returncode == 1
    assert "Temporary failure resolving mirror" in ended.stderr
    assert "Make 'apt-get update' work" in ended.stderr


def test_stopping_without_an_engine_says_that_nothing_runs(tree: Tree) -> None:
    machine(tree, SILENT)
    ended = tree.run("scripts/down.sh")
    assert ended.returncode == 0
    assert "there is nothing to stop" in ended.stdout


def test_a_refused_socket_is_not_taken_for_an_engine_that_does_not_run(tree: Tree) -> None:
    machine(tree, REFUSES)
    ended = tree.run("scripts/down.sh")
    assert ended.returncode == 1
    assert "usermod -aG docker" in ended.stderr
    assert "there is nothing to stop" not in ended.stdout
