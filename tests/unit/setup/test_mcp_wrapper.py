"""scripts/mcp-wrapper.sh with a stand-in for docker."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.unit.setup.machine import PROJECT, Tree

KEY = "0123456789abcdef"
DOCKER = """\
case $1 in
container) echo ${STATE:-true}; [ "${STATE:-true}" != gone ] || exit 1 ;;
exec) echo "key: $CODE_EXECUTOR_KEY" ;;
esac"""


@pytest.fixture
def host(tree: Tree) -> Tree:
    """Whoever calls is in the group developers."""
    tree.command("docker", DOCKER)
    tree.command("id", 'case $1 in -Gn) echo "${GROUPS_OF_CALLER-users developers}" ;; -un) echo jane ;; esac')
    (tree.path / "secrets").mkdir()
    for role in ("admin", "developer"):
        (tree.path / "secrets" / f"code-executor-{role}.key").write_text(f"{role}-{KEY}\n")
    return tree


def calls_of_docker(host: Tree) -> list[str]:
    return [call for call in host.calls() if call.startswith("docker ")]


def test_the_key_goes_in_by_the_environment_and_never_on_the_command_line(host):
    done = host.run("scripts/mcp-wrapper.sh")
    assert (done.returncode, done.stdout) == (0, f"key: developer-{KEY}\n")
    assert calls_of_docker(host)[-1] == "docker exec -i -e CODE_EXECUTOR_KEY mcp-code-executor code-executor mcp"
    assert KEY not in "".join(host.calls())


@pytest.mark.parametrize(
    ("groups", "role"),
    [("administrators", "admin"), ("developers administrators", "admin"), ("developers", "developer")],
)
def test_the_group_decides_about_the_role(host, groups, role):
    done = host.run("scripts/mcp-wrapper.sh", GROUPS_OF_CALLER=groups)
    assert done.stdout == f"key: {role}-{KEY}\n"


def test_groups_container_and_directory_can_be_named(host):
    (host.path / "secrets").rename(host.path / "elsewhere")
    done = host.run(
        "scripts/mcp-wrapper.sh",
        GROUPS_OF_CALLER="staff",
        CODE_EXECUTOR_DEVELOPER_GROUP="staff",
        CODE_EXECUTOR_CONTAINER="mine",
        CODE_EXECUTOR_SECRETS_DIR=str(host.path / "elsewhere"),
    )
    assert done.stdout == f"key: developer-{KEY}\n"
    assert " mine code-executor mcp" in calls_of_docker(host)[-1]


def test_it_can_be_linked_to_from_elsewhere(host):
    link = host.path / "commands" / "executor-mcp"
    os.symlink(host.path / "scripts" / "mcp-wrapper.sh", link)
    assert host.run(str(link)).stdout == f"key: developer-{KEY}\n"


def test_headers_are_json_for_the_client_and_need_no_engine(host):
    done = host.run("scripts/mcp-wrapper.sh", "--headers")
    assert json.loads(done.stdout) == {"Authorization": f"Bearer developer-{KEY}"}
    assert calls_of_docker(host) == []


@pytest.mark.parametrize("arguments", [[], ["--headers"]])
@pytest.mark.parametrize("groups", ["", "users", "developers-of-other-things"])
def test_who_is_in_neither_group_is_told_so(host, groups, arguments):
    done = host.run("scripts/mcp-wrapper.sh", *arguments, GROUPS_OF_CALLER=groups)
    assert (done.returncode, done.stdout) == (77, "")
    neither = "You (jane) are in neither the group administrators nor the group developers;"
    assert done.stderr.startswith(f"mcp-wrapper: {neither}")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("content", [None, "", 'quote"d'])
def test_a_key_file_without_a_key_is_told_by_its_name(host, content):
    file = host.path / "secrets" / "code-executor-developer.key"
    file.unlink() if content is None else file.write_text(content)
    done = host.run("scripts/mcp-wrapper.sh", "--headers")
    assert (done.returncode, done.stdout) == (66, "")
    assert str(file) in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become a user who may not read the file")
def test_a_key_file_that_the_caller_cannot_read_is_told_by_its_name():
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        root.chmod(0o755)  # pytest's own directories are closed to others
        for name in ("scripts", "secrets"):
            (root / name).mkdir(mode=0o755)
        shutil.copy(PROJECT / "scripts" / "mcp-wrapper.sh", root / "scripts")
        (root / "secrets" / "code-executor-developer.key").write_text(KEY)
        (root / "secrets" / "code-executor-developer.key").chmod(0o600)
        done = subprocess.run(
            [
                "setpriv",
                "--reuid=65534",
                "--regid=65534",
                "--clear-groups",
                root / "scripts" / "mcp-wrapper.sh",
                "--headers",
            ],
            env={"PATH": "/usr/bin:/bin", "CODE_EXECUTOR_DEVELOPER_GROUP": "nogroup"},
            capture_output=True,
            text=True,
            timeout=30,
        )
    assert (done.returncode, done.stdout) == (66, "")
    assert "You (nobody) cannot read the key file" in done.stderr


@pytest.mark.parametrize(
    ("state", "code", "sentence"),
    [
        ("false", 69, "is not running; start it with 'make up'"),
        ("gone", 69, "The container engine does not answer"),
    ],
)
def test_a_container_that_is_down_is_told_with_what_to_do(host, state, code, sentence):
    done = host.run("scripts/mcp-wrapper.sh", STATE=state)
    assert (done.returncode, done.stdout) == (code, "")
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("said", "code", "sentence"),
    [
        ("Error: No such container: mcp-code-executor", 69, "There is no container mcp-code-executor"),
        (
            "permission denied while trying to connect to the Docker daemon socket",
            77,
            "may not use the container engine",
        ),
        ("Cannot connect to the Docker daemon", 69, "The container engine does not answer"),
    ],
)
def test_what_docker_says_becomes_one_sentence(host, said, code, sentence):
    host.command("docker", f'echo "{said}" >&2; exit 1')
    done = host.run("scripts/mcp-wrapper.sh")
    assert (done.returncode, done.stdout) == (code, "")
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_unknown_option_is_told(host):
    done = host.run("scripts/mcp-wrapper.sh", "--help-me")
    assert done.returncode == 64
    assert "--headers" in done.stderr
