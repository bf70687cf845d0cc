from __future__ import annotations

import pytest

from tests.unit.setup.machine import Tree, unprivileged

IN_ENGINE = "exit 0"
PULLABLE = 'case "$1" in pull) exit 0 ;; *) exit 1 ;; esac'
NO_REGISTRY = 'echo "no such host" >&2; exit 1'


def chosen_base(tree: Tree) -> str:
    return (tree.path / ".build" / "base-image").read_text().strip()


def test_a_base_image_that_the_engine_has_is_not_pulled(tree: Tree) -> None:
    tree.command("docker", IN_ENGINE)
    assert tree.run("scripts/base.sh").returncode == 0
    assert chosen_base(tree) == "debian:bookworm-slim"
    assert not any(call.startswith("docker pull") for call in tree.calls())


def test_a_registry_that_answers_gives_the_base_image(tree: Tree) -> None:
    tree.command("docker", PULLABLE)
    assert tree.run("scripts/base.sh", BASE_IMAGE_NAME="mirror.invalid/debian:12").returncode == 0
    assert chosen_base(tree) == "mirror.invalid/debian:12"
    assert "docker pull mirror.invalid/debian:12" in tree.calls()


def test_refreshing_pulls_a_base_image_that_is_already_there(tree: Tree) -> None:
    tree.command("docker", IN_ENGINE)
    assert tree.run("scripts/base.sh", REFRESH="1").returncode == 0
    assert "docker pull debian:bookworm-slim" in tree.calls()


def test_without_registry_and_root_the_sentence_names_the_ways_out(tree: Tree) -> None:
    tree.command("docker", NO_REGISTRY)
    unprivileged(tree)
    ended = tree.run("scripts/base.sh")
    assert ended.returncode == 1
    assert "no such host" in ended.stderr
    assert "BASE_IMAGE_NAME" in ended.stderr


def test_an_unknown_way_to_a_base_image_is_refused(tree: Tree) -> None:
    ended = tree.run("scripts/base.sh", BASE="magic")
    assert ended.returncode == 1
    assert "auto, pull or bootstrap" in ended.stderr


def test_a_first_build_on_a_full_disk_is_refused_before_anything_is_fetched(tree: Tree) -> None:
    tree.command("docker", 'case "$*" in "info "*) echo / ;; *) exit 1 ;; esac')
    tree.command("df", r'printf "Filesystem\n/dev/x 9000 8500 500 95%% /\n"')
    ended = tree.run("scripts/images.sh")
    assert ended.returncode == 1
    assert "Only 500 MB are free" in ended.stderr
    assert not any(call.startswith("docker pull") for call in tree.calls())


def test_stress_ng_is_added_to_a_runner_image_only_when_there_is_one(tree: Tree) -> None:
    tree.command("docker", "exit 1")
    ended = tree.run("scripts/stress.sh")
    assert ended.returncode == 1
    assert "make image" in ended.stderr
    assert not any(call.startswith("docker build ") for call in tree.calls())


@pytest.mark.parametrize(
    ("change", "differs"),
    [
        ("echo more >>things/a", True),
        ("chmod 700 things/a", True),
        ("mv things/a things/b", True),
        ("touch -d 2001-01-01 things/a", False),
        ("mkdir things/__pycache__; touch things/__pycache__/a.pyc", False),
    ],
)
def test_an_image_is_rebuilt_for_a_change_of_content_mode_or_name_only(tree: Tree, change: str, differs: bool) -> None:
    (tree.path / "things").mkdir()
    (tree.path / "things" / "a").write_text("text")
    before = tree.bash("fingerprint things").stdout
    after = tree.bash(f"{change}; fingerprint things").stdout
    assert before
    assert (before != after) is differs
