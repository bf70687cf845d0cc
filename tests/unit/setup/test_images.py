from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.support.packages import (
    CHECKERS,
    CONSOLE,
    LOCKS,
    PROGRAMS,
    pinned_modules,
    pinned_wheels,
    wanted_modules,
    wanted_wheels,
)
from tests.unit.setup.machine import PROJECT, Tree, unprivileged

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


# --- what the runner image is made of ---

ENGINE_WITHOUT_IMAGES = """case "$*" in
"info "*Root*) echo / ;;
"info "*) echo x86_64 ;;
"image inspect"*a-base) echo an-id ;;
"image inspect"*) exit 1 ;;
esac"""
# Stands in for the real one: says what it was asked for, and makes what staging needs.
FETCH = """#!/bin/bash
echo "fetch $1" >>calls
case $1 in
base) echo a-base >.build/base-image ;;
node) mkdir -p .build/node/bin && echo node@1 >.build/node/package && echo binary >.build/node/bin/node ;;
daemon) mkdir -p .build/site-packages ;;
console) mkdir -p .build/console && touch .build/console/{htm.js,editor.js} ;;
checkers) mkdir -p .build/checkers/bin .build/checkers/node_modules && echo ty >.build/checkers/bin/ty ;;
python)
    mkdir -p .build/python-packages/numpy/{tests,include}
    touch .build/python-packages/numpy/{__init__.py,core.pxd,include/numpy.h,tests/test_numpy.py} ;;
typescript)
    mkdir -p .build/typescript-packages/node_modules/zod
    touch .build/typescript-packages/node_modules/zod/index.{js,js.map} ;;
esac
"""


@pytest.fixture
def buildable(tree: Tree) -> Tree:
    tree.command("docker", ENGINE_WITHOUT_IMAGES)
    tree.command("npm")
    (tree.path / "scripts" / "fetch.sh").write_text(FETCH)
    for name in ("orchestrator", "runner-image"):
        shutil.copytree(PROJECT / name, tree.path / name, ignore=shutil.ignore_patterns("__pycache__"))
    return tree


def fetched(tree: Tree) -> set[str]:
    return {call.split()[1] for call in tree.calls() if call.startswith("fetch ")}


def files_below(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()}


def test_the_runner_image_gets_packages_without_what_no_program_can_use(buildable: Tree) -> None:
    ended = buildable.run("scripts/images.sh")
    assert ended.returncode == 0, ended.stderr
    assert fetched(buildable) == {"base", "node", "daemon", "checkers", "console", "python", "typescript"}
    context = buildable.path / ".build" / "context" / "runner"
    assert files_below(context / "python") == {"numpy/__init__.py"}
    assert files_below(context / "node_modules") == {"zod/index.js"}
    assert files_below(context / "check") == {"ty"}
    assert (buildable.path / ".build" / "python-packages" / "numpy" / "core.pxd").exists()


def test_the_daemons_image_gets_what_browsers_load_without_what_it_was_made_from(buildable: Tree) -> None:
    assert buildable.run("scripts/images.sh").returncode == 0
    app = buildable.path / ".build" / "context" / "orchestrator" / "app"
    assert files_below(app / "console") == {"htm.js", "editor.js"}
    staged = {path.name for path in (app / "orchestrator" / "faces" / "console").iterdir()}
    assert "static" in staged
    assert not staged & {"packages", "editor"}


@pytest.mark.parametrize("no", ["false", "0", "No", "off"])
def test_the_packages_can_be_left_out_but_not_the_checkers(buildable: Tree, no: str) -> None:
    ended = buildable.run("scripts/images.sh", CODE_EXECUTOR_RUNNER_PACKAGES=no)
    assert ended.returncode == 0, ended.stderr
    assert fetched(buildable) == {"base", "node", "daemon", "checkers", "console"}
    context = buildable.path / ".build" / "context" / "runner"
    assert (context / "python").is_dir()
    assert files_below(context / "python") == set()
    assert files_below(context / "check") == {"ty"}


def test_leaving_the_packages_out_can_be_set_in_the_settings_file(buildable: Tree) -> None:
    (buildable.path / ".env").write_text("CODE_EXECUTOR_RUNNER_PACKAGES=false\n")
    assert buildable.run("scripts/images.sh").returncode == 0
    assert "python" not in fetched(buildable)


def test_a_word_that_is_neither_yes_nor_no_is_refused(buildable: Tree) -> None:
    ended = buildable.run("scripts/images.sh", CODE_EXECUTOR_RUNNER_PACKAGES="some")
    assert ended.returncode == 1
    assert "use true or false" in ended.stderr
    assert not fetched(buildable)


def test_a_package_that_cannot_be_fetched_fails_the_build_with_the_fix(buildable: Tree) -> None:
    shutil.copy(PROJECT / "scripts" / "fetch.sh", buildable.path / "scripts" / "real-fetch.sh")
    refuse = "#!/bin/bash\ncase $1 in python) exec scripts/real-fetch.sh python ;; esac\n"
    (buildable.path / "scripts" / "fetch.sh").write_text(refuse)
    python = buildable.path / ".venv" / "bin" / "python"
    python.unlink()
    python.write_text('#!/bin/sh\necho "no such host" >&2\nexit 1\n')
    python.chmod(0o755)
    ended = buildable.run("scripts/images.sh", CODE_EXECUTOR_RUNNER_PACKAGES="true")
    assert ended.returncode == 1
    assert "fetching Python packages for programs                failed after" in ended.stdout
    assert "no such host" in ended.stderr
    assert "Make 'pip download pandas' work on this machine" in ended.stderr
    assert not any(call.startswith("docker build ") for call in buildable.calls())


def test_an_npm_that_cannot_fetch_for_the_engines_platform_is_told(tree: Tree) -> None:
    shutil.copytree(LOCKS, tree.path / "runner-image" / "packages")
    tree.command("docker", "echo aarch64")
    tree.command("npm", 'if [ "$1" = --version ]; then echo 9.2.0; fi')
    (tree.path / ".venv" / "bin" / "python").unlink()
    (tree.path / ".venv" / "bin" / "python").symlink_to("/bin/true")
    ended = tree.run("scripts/fetch.sh", "checkers")
    assert ended.returncode == 1
    assert "npm 9.2.0 has left out the compiler" in ended.stderr
    assert any("--os=linux --cpu=arm64" in call for call in tree.calls())


@pytest.mark.parametrize("name", ["usr/local/lib/any.pth", "usr/local/lib/sitecustomize.py", "usr/bin/npm"])
def test_an_image_with_what_it_must_not_hold_is_not_built(tree: Tree, name: str) -> None:
    root = tree.path / "root"
    (root / name).parent.mkdir(parents=True)
    assert tree.run("sh", "scripts/image/verify_root.sh", str(root)).returncode == 0
    (root / name).touch(mode=0o644)
    ended = tree.run("sh", "scripts/image/verify_root.sh", str(root))
    assert ended.returncode == 1
    assert Path(name).name in ended.stderr


# --- its locks ---


@pytest.mark.parametrize("directory", [PROGRAMS, CHECKERS], ids=lambda directory: directory.name)
def test_every_package_of_the_runner_image_is_pinned_with_its_hashes(directory: Path) -> None:
    assert set(wanted_wheels(directory)) <= set(pinned_wheels(directory))
    pins = (directory / "requirements.txt").read_text().split("==")[1:]
    assert all("--hash=sha256:" in pin for pin in pins)
    assert set(wanted_modules(directory)) <= set(pinned_modules(directory))
    locked = json.loads((directory / "package-lock.json").read_text())["packages"]
    assert all("integrity" in entry and "resolved" not in entry for path, entry in locked.items() if path)


def test_every_package_of_the_console_is_pinned_with_its_hash_and_without_an_address() -> None:
    assert set(wanted_modules(CONSOLE)) <= set(pinned_modules(CONSOLE))
    locked = json.loads((CONSOLE / "package-lock.json").read_text())["packages"]
    assert all("integrity" in entry and "resolved" not in entry for path, entry in locked.items() if path)


def test_the_console_is_made_of_packages_for_every_platform() -> None:
    """They are fetched for the engine's platform but run on this one."""
    locked = json.loads((CONSOLE / "package-lock.json").read_text())["packages"]
    assert not any({"os", "cpu"} & entry.keys() for entry in locked.values())


def test_both_platforms_get_the_same_compiler_as_the_tests() -> None:
    pins = pinned_modules(CHECKERS)
    version = pins["@typescript/typescript-linux-x64"]
    assert pins["@typescript/typescript-linux-arm64"] == version
    assert f"typescript@{version} @types/node@{pins['@types/node']}" in (PROJECT / "scripts" / "tsc.sh").read_text()


def test_the_packages_of_both_locks_lie_in_one_folder_without_conflict() -> None:
    """The packages for programs are laid over those of the checkers."""
    programs = pinned_modules(PROGRAMS)
    shared = {
        name: version for name, version in pinned_modules(CHECKERS).items() if not name.startswith("@typescript/")
    }
    assert shared.items() <= programs.items()


def report(tree: Tree, name: str, version: str, digest: str) -> str:
    wheel = {
        "metadata": {"name": "Tool", "version": version},
        "download_info": {"archive_info": {"hashes": {"sha256": digest}}},
    }
    (tree.path / name).write_text(json.dumps({"install": [wheel]}))
    return name


def test_the_wheels_of_all_platforms_are_pinned(tree: Tree) -> None:
    reports = [report(tree, "one.json", "1.0", "aa"), report(tree, "two.json", "1.0", "bb")]
    ended = tree.run(".venv/bin/python", "scripts/wheel_hashes.py", *reports)
    assert ended.stdout == "tool==1.0 \\\n    --hash=sha256:aa \\\n    --hash=sha256:bb\n"


def test_platforms_that_would_get_different_versions_are_refused(tree: Tree) -> None:
    reports = [report(tree, "one.json", "1.0", "aa"), report(tree, "two.json", "1.1", "bb")]
    ended = tree.run(".venv/bin/python", "scripts/wheel_hashes.py", *reports)
    assert ended.returncode == 1
    assert "different versions of tool" in ended.stderr
