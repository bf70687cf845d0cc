"""An installation as make makes it, beside any other here: an older journal, replaced roles, backup, restore."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from bench.testbed.engine import engine_is_there
from orchestrator.journals.schema import migrations
from tests.support.api import Api, eventually, until_ready
from tests.support.clone import Clone, cloned

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clone]:
    if not engine_is_there():
        pytest.fail("No container engine answers: 'make test' starts one, or start yours first.")
    with cloned(tmp_path_factory.mktemp("clone")) as made:
        yield made


def older_journal(file: Path) -> Path:
    """A journal of the first version, with an execution that ended and one that was cut off."""
    (number, statements), *_ = migrations()
    with closing(sqlite3.connect(file, isolation_level=None)) as database:
        for statement in statements:
            database.execute(statement)
        database.execute(f"PRAGMA user_version = {number}")
        for name, state, outcome in (("ended", "finished", "completed"), ("cut-off", "running", None)):
            database.execute(
                "INSERT INTO executions (id, caller, role, state, accepted_at, language, outcome, exit_code, limits,"
                " timings, usage) VALUES (?, 'code-executor-admin', 'admin', ?, ?, 'python', ?, 0, '{}', '{}', '{}')",
                (name, state, time.time() - 60, outcome),
            )
        database.execute("INSERT INTO outputs VALUES ('ended', 'stdout', ?)", (b"of an older version\n",))
    return file


@pytest.fixture(scope="module")
async def api(clone: Clone, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Api]:
    """The daemon, started over the data of an older version."""
    place = tmp_path_factory.mktemp("older")
    (place / "instance-id").write_text("0123456789abcdef")
    clone.do("bash", "-c", ". scripts/lib.sh; . scripts/data.sh; ensure_volume")
    for file in (older_journal(place / "journal.sqlite3"), place / "instance-id"):
        clone.seed(file, file.name)
    assert "ready at" in clone.do("scripts/up.sh")
    async with Api.connect(f"http://{clone.address}", clone.key) as connected:
        yield connected


async def records(api: Api) -> dict[str, Any]:
    _, listed = await api.get("/executions")
    return {record["executionId"]: record for record in listed["executions"]}


async def test_a_start_over_an_older_version_keeps_what_it_recorded(api: Api, clone: Clone) -> None:
    found = await records(api)
    assert (found["ended"]["outcome"], found["cut-off"]["state"]) == ("completed", "interrupted")
    _, ended = await api.get("/executions/ended")
    assert ended["output"] == "of an older version\n"
    assert (await api.python("print(6 * 7)"))["output"] == "42\n"
    key = clone.key
    clone.do("scripts/up.sh")
    assert clone.key == key, "a second start changes no key"
    assert "started in: " + str(clone.path) in clone.do("scripts/status.sh")


async def test_roles_that_are_replaced_are_seen_by_the_daemon_in_its_container(api: Api, clone: Clone) -> None:
    roles = clone.path / "roles.json"

    async def holds(servers: list[str]) -> bool:
        _, told = await api.get("/config")
        return bool(told["roles"]["developer"]["servers"] == servers)

    def changed(servers: list[str]) -> str:
        document = json.loads(roles.read_text())
        document["roles"]["developer"]["servers"] = servers
        return json.dumps(document)

    new = clone.path / "new"
    new.write_text(changed(["memory"]))
    clone.do("mv", "new", "roles.json")
    await eventually(lambda: holds(["memory"]))
    clone.do("sed", "-i", 's/"memory"/"postgres"/', "roles.json")
    await eventually(lambda: holds(["postgres"]))
    roles.rename(clone.path / "roles.json~")
    roles.write_text((clone.path / "roles.json~").read_text().replace('"postgres"', '"minio"'))
    await eventually(lambda: holds(["minio"]))


async def test_the_daemon_sees_neither_the_keys_nor_the_directory_of_the_roles(api: Api, clone: Clone) -> None:
    seen = clone.do("docker", "exec", clone.daemon, "/usr/bin/python3", "-ISc", "print(open('/proc/mounts').read())")
    mounted = [line.split()[1] for line in seen.splitlines() if line]
    assert "/etc/code-executor/roles" in mounted, "the control"
    assert "/source" not in mounted
    listing = "import os; print(sorted(os.listdir('/etc/code-executor/roles')))"
    assert clone.do("docker", "exec", clone.daemon, "/usr/bin/python3", "-ISc", listing) == "['roles.json']\n"
    steal = "print(open('/source/secrets/code-executor-admin.key').read())"
    stolen = clone.run("docker", "exec", f"{clone.daemon}-roles", "/usr/bin/python3", "-ISc", steal)
    assert "PermissionError" in stolen.stderr, "who hands on the roles is a user who may not read the keys"


async def test_a_backup_of_a_running_daemon_is_restored_and_newer_data_is_not_lost_by_mistake(
    api: Api, clone: Clone
) -> None:
    kept = (await api.python("print('kept')"))["executionId"]
    assert "executions" in clone.do("scripts/backup.sh", FILE="mine.tar.gz")
    later = (await api.python("print('later')"))["executionId"]
    refused = clone.run("scripts/restore.sh", FILE="mine.tar.gz")
    assert (refused.returncode, "There is newer data" in refused.stderr) == (1, True)
    assert later in await records(api), "the daemon runs on"
    assert "restored" in clone.do("scripts/restore.sh", FILE="mine.tar.gz", FORCE="1")
    await until_ready(api)
    found = await records(api)
    assert (kept in found, later in found) == (True, False)
    assert (await api.get(f"/executions/{kept}"))[1]["output"] == "kept\n"
    assert (await api.python("print('again')"))["output"] == "again\n"
