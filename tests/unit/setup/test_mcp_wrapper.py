"""scripts/mcp-wrapper.sh with a stand-in for docker, and in the hands of a user who is not root."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.setup.machine import PROJECT, Tree

KEY = "0123456789abcdef"
NOBODY = 65534
DOCKER = """\
case $1 in
container) echo ${STATE:-true}; [ "${STATE:-true}" != gone ] || exit 1 ;;
exec) echo "key: $CODE_EXECUTOR_KEY" ;;
esac"""


@pytest.fixture
def host(tree: Tree) -> Tree:
    """Whoever calls is in the group developers, and there is no bridge but that in the container."""
    (tree.path / ".venv" / "bin" / "code-executor").unlink()
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


@pytest.mark.parametrize("groups", ["", "users", "developers-of-other-things"])
def test_who_is_in_neither_group_gets_the_strongest_key_that_they_can_read(host, groups):
    assert host.run("scripts/mcp-wrapper.sh", GROUPS_OF_CALLER=groups).stdout == f"key: admin-{KEY}\n"
    (host.path / "secrets" / "code-executor-admin.key").unlink()
    assert host.run("scripts/mcp-wrapper.sh", GROUPS_OF_CALLER=groups).stdout == f"key: developer-{KEY}\n"


def test_a_developer_who_could_read_the_admins_key_stays_a_developer(host):
    assert os.access(host.path / "secrets" / "code-executor-admin.key", os.R_OK)
    assert host.run("scripts/mcp-wrapper.sh", GROUPS_OF_CALLER="root developers").stdout == f"key: developer-{KEY}\n"
    (host.path / "secrets" / "code-executor-developer.key").unlink()
    done = host.run("scripts/mcp-wrapper.sh", GROUPS_OF_CALLER="root developers")
    assert (done.returncode, done.stdout) == (66, "")


@pytest.mark.parametrize("groups", ["administrators", "developers", "users"])
@pytest.mark.parametrize("role", ["admin", "developer"])
def test_a_role_that_is_named_wins_over_the_group(host, groups, role):
    done = host.run("scripts/mcp-wrapper.sh", GROUPS_OF_CALLER=groups, CODE_EXECUTOR_ROLE=role)
    assert done.stdout == f"key: {role}-{KEY}\n"


def test_a_role_that_is_named_is_never_replaced_by_another(host):
    (host.path / "secrets" / "code-executor-developer.key").unlink()
    done = host.run("scripts/mcp-wrapper.sh", "--headers", CODE_EXECUTOR_ROLE="developer", GROUPS_OF_CALLER="users")
    assert (done.returncode, done.stdout) == (66, "")
    assert "code-executor-developer.key" in done.stderr


def test_a_role_is_a_name_and_no_path(host):
    done = host.run("scripts/mcp-wrapper.sh", "--headers", CODE_EXECUTOR_ROLE="/../../etc/x")
    assert (done.returncode, done.stdout) == (64, "")
    assert "CODE_EXECUTOR_ROLE must be the name of a role" in done.stderr


@pytest.fixture
def venv(host: Tree) -> Tree:
    """The bridge of .venv is there; like the one in the container it tells its key."""
    bridge = host.path / ".venv" / "bin" / "code-executor"
    bridge.write_text('#!/bin/sh\necho "bridge of .venv $*, key: $CODE_EXECUTOR_KEY"\n')
    bridge.chmod(0o755)
    return host


def test_the_bridge_of_venv_is_used_without_asking_the_engine(venv):
    done = venv.run("scripts/mcp-wrapper.sh")
    assert (done.returncode, done.stdout) == (0, f"bridge of .venv mcp, key: developer-{KEY}\n")
    assert calls_of_docker(venv) == []


def test_a_venv_whose_python_is_out_of_reach_is_not_used(venv):
    python = venv.path / ".venv" / "bin" / "python"
    python.unlink()
    python.symlink_to("/nowhere/python")
    assert venv.run("scripts/mcp-wrapper.sh").stdout == f"key: developer-{KEY}\n"


def test_a_container_that_is_named_is_used_although_there_is_a_venv(venv):
    venv.run("scripts/mcp-wrapper.sh", CODE_EXECUTOR_CONTAINER="mine")
    assert " mine code-executor mcp" in calls_of_docker(venv)[-1]


@pytest.mark.parametrize("content", [None, "", 'quote"d'])
def test_a_key_file_without_a_key_is_told_by_its_name(host, content):
    file = host.path / "secrets" / "code-executor-developer.key"
    file.unlink() if content is None else file.write_text(content)
    done = host.run("scripts/mcp-wrapper.sh", "--headers")
    assert (done.returncode, done.stdout) == (66, "")
    assert str(file) in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.fixture
def closed() -> Iterator[Path]:
    """A tree that everybody may enter, with keys that only its owner, the user who runs the tests, may read."""
    if os.geteuid() != 0:
        pytest.skip("only root can become a user who may not read the keys")
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        root.chmod(0o755)  # pytest's own directories are closed to others
        for name in ("scripts", "secrets"):
            (root / name).mkdir(mode=0o755)
        shutil.copy(PROJECT / "scripts" / "mcp-wrapper.sh", root / "scripts")
        for role in ("admin", "developer"):
            (root / "secrets" / f"code-executor-{role}.key").write_text(f"{role}-{KEY}\n")
            (root / "secrets" / f"code-executor-{role}.key").chmod(0o640)
        yield root


def as_nobody(root: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            "setpriv",
            f"--reuid={NOBODY}",
            f"--regid={NOBODY}",
            "--clear-groups",
            root / "scripts" / "mcp-wrapper.sh",
            "--headers",
        ],
        env={"PATH": "/usr/bin:/bin", **environment},
        capture_output=True,
        text=True,
        timeout=30,
    )


def test_the_owner_of_the_keys_needs_no_group(closed):
    for file in closed.glob("secrets/*.key"):
        os.chown(file, NOBODY, 0)
    assert json.loads(as_nobody(closed).stdout) == {"Authorization": f"Bearer admin-{KEY}"}


def test_who_can_read_one_key_only_gets_that_one(closed):
    os.chown(closed / "secrets" / "code-executor-developer.key", 0, NOBODY)
    assert json.loads(as_nobody(closed).stdout) == {"Authorization": f"Bearer developer-{KEY}"}
    refused = as_nobody(closed, CODE_EXECUTOR_ROLE="admin")
    assert (refused.returncode, refused.stdout) == (66, "")


@pytest.mark.parametrize("visible", [True, False])
def test_who_can_read_no_key_is_told_what_an_administrator_must_do(closed, visible):
    (closed / "secrets").chmod(0o755 if visible else 0o700)
    done = as_nobody(closed)
    assert (done.returncode, done.stdout) == (77, "")
    assert "You (nobody) can read no key in" in done.stderr
    file = closed / "secrets" / "code-executor-developer.key"
    assert f"groupadd -f developers; usermod -aG developers nobody; chgrp developers {file}'" in done.stderr
    assert done.stderr.count("\n") == 1


def test_without_any_key_everybody_is_told_how_to_make_them(closed):
    shutil.rmtree(closed / "secrets")
    done = as_nobody(closed)
    assert (done.returncode, done.stdout) == (66, "")
    assert "create it with 'make up'" in done.stderr


def test_a_key_file_that_the_caller_cannot_read_is_told_by_its_name(closed):
    done = as_nobody(closed, CODE_EXECUTOR_DEVELOPER_GROUP="nogroup")
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
