"""The orchestrator image, started through testcontainers, executes programs on the engine it was given."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer

from bench.testbed.engine import containers_of, engine_is_there
from tests.support.api import Api, until_ready
from tests.support.installation import PROJECT, Installation

SOCKET = "/var/run/docker.sock"
IMAGE = "mcp-code-executor/orchestrator:latest"

# The reaper sidecar would have to be pulled from a registry; the fixture below removes everything itself.
testcontainers_config.ryuk_disabled = True


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Installation:
    if not engine_is_there():
        pytest.fail("No container engine answers: 'make test' starts one, or start yours first.")
    directory = tmp_path_factory.mktemp("image")
    for parent in (directory, *directory.parents):
        if parent.stat().st_mode & stat.S_IXOTH == 0 and parent.owner() == Path("/tmp").owner():
            parent.chmod(parent.stat().st_mode | stat.S_IXOTH)  # the daemon in the container is another user
    return Installation.create(directory)


@pytest.fixture(scope="module")
def daemon(place: Installation):
    container = (
        DockerContainer(IMAGE)
        .with_exposed_ports(9091)
        .with_env("CODE_EXECUTOR_HOST", "0.0.0.0")
        .with_env("CODE_EXECUTOR_DATA_DIR", "/var/lib/code-executor")
        .with_env("CODE_EXECUTOR_ROLES_FILE", "/etc/code-executor/roles.json")
        .with_env("CODE_EXECUTOR_KEYS_DIR", "/etc/code-executor/keys")
        .with_volume_mapping(SOCKET, SOCKET, "rw")
        .with_volume_mapping(str(PROJECT / "roles.json"), "/etc/code-executor/roles.json", "ro")
        .with_volume_mapping(str(place.settings.keys_dir), "/etc/code-executor/keys", "ro")
        .with_tmpfs_mount("/tmp", "size=64m")
        .with_tmpfs_mount("/var/lib/code-executor", "size=2g,uid=10001,gid=10001")
        .with_kwargs(
            user="10001:10001",
            group_add=[os.stat(SOCKET).st_gid],
            read_only=True,
            cap_drop=["ALL"],
            security_opt=["no-new-privileges:true"],
        )
    )
    try:
        container.start()
        yield container
        owner = python_in(container, "print(open('/var/lib/code-executor/instance-id').read())")
        assert containers_of(owner)
        container.get_wrapped_container().stop(timeout=30)
        assert not containers_of(owner)
    finally:
        container.stop()


@pytest.fixture
async def api(daemon: DockerContainer, place: Installation):
    url = f"http://127.0.0.1:{daemon.get_exposed_port(9091)}"
    async with Api.connect(url, place.keys["admin"]) as api:
        await until_ready(api, seconds=60)
        yield api


# The hashes prove that the search finds what is there.
FIND_IN_FILES = """
import os
wanted = {wanted}
for place in ("/app", "/etc", "/var", "/tmp"):
    for directory, _, names in os.walk(place):
        for name in names:
            try:
                content = open(os.path.join(directory, name), "rb").read()
            except OSError:
                continue
            for text in wanted:
                if text.encode() in content:
                    print(text)
"""


def python_in(container: DockerContainer, code: str) -> str:
    exit_code, output = container.get_wrapped_container().exec_run(["python3", "-c", code])
    assert exit_code == 0, output.decode()
    return output.decode().strip()


async def test_the_image_executes_typescript(api):
    result = await api.typescript("enum Answer { Yes = 4 } console.log(await Promise.resolve(Answer.Yes))")
    assert (result["outcome"], result["output"], result["exitCode"]) == ("completed", "4\n", 0)


async def test_the_image_executes_python(api):
    result = await api.python("import sys; print(2 + 2); sys.exit(3)")
    assert (result["outcome"], result["output"], result["exitCode"]) == ("failed", "4\n", 3)


async def test_the_daemon_in_the_image_finds_itself_healthy(api):
    status, health = await api.get("/health")
    assert (status, health["status"]) == (200, "healthy")


def test_the_doctor_in_the_image_finds_nothing_wrong(daemon):
    exit_code, output = daemon.get_wrapped_container().exec_run(["code-executor", "doctor", "--json"])
    assert exit_code == 0, output.decode()


def test_no_key_is_in_the_container(daemon, place):
    hashes = [file.read_text().strip() for file in place.settings.keys_dir.iterdir()]
    found = python_in(daemon, FIND_IN_FILES.format(wanted=[*place.keys.values(), *hashes]))
    assert set(found.split()) == set(hashes)


def test_no_key_is_in_the_log(daemon, place):
    stdout, stderr = daemon.get_logs()
    assert place.keys["admin"].encode() not in stdout + stderr
