"""The journal's files are deleted, moved or replaced under a running daemon."""

import shutil
import sqlite3
from contextlib import closing

import pytest

from tests.support.api import eventually, until_ready
from tests.support.installation import Installation
from tests.support.programs import held

HELLO = {"code": "print(1)", "language": "python"}


def deleted(installation):
    shutil.rmtree(installation.settings.data_dir)


def moved_away(installation):
    installation.settings.data_dir.rename(installation.settings.data_dir.with_name("elsewhere"))


def journal_deleted(installation):
    for file in installation.settings.data_dir.glob("journal.sqlite3*"):
        file.unlink()


@pytest.fixture
def place(tmp_path):
    return Installation.create(tmp_path, check_seconds=5)  # as long as it can be seen to be unready


async def is_unready(api):
    status, problem = await api.get("/readyz")
    return status == 503 and problem["code"] == "journal_unavailable" and "while it was in use" in problem["detail"]


@pytest.mark.parametrize("lose", [deleted, moved_away, journal_deleted])
async def test_a_lost_journal_is_told_and_replaced_and_what_runs_is_not_lost_with_it(place, lose):
    async with place.run() as api:
        owner = place.owner
        async with held(api) as program:
            lose(place)
            await eventually(lambda: is_unready(api))
            await until_ready(api)
            _, record = await api.get(f"/executions/{program.execution_id}")
            assert record["state"] == "running"
            after = await api.python("print('recorded')")
            _, ended = await api.delete(f"/executions/{program.execution_id}")
            assert ended["output"] == "running\n"
        assert place.owner == owner
    async with place.run() as api:
        _, record = await api.get(f"/executions/{program.execution_id}")
        assert (record["outcome"], record["output"]) == ("cancelled", "running\n")
        _, record = await api.get(f"/executions/{after['executionId']}")
        assert (record["outcome"], record["output"]) == ("completed", "recorded\n")


async def test_nothing_runs_between_the_loss_and_its_discovery(tmp_path):
    place = Installation.create(tmp_path, check_seconds=600)
    async with place.run() as api:
        assert (await api.get("/readyz"))[0] == 200
        journal_deleted(place)
        for _ in range(2):
            status, problem = await api.post("/execute", HELLO)
            assert (status, problem["code"]) == (503, "journal_unavailable")
        status, problem = await api.get("/readyz")
        assert (status, problem["code"]) == (503, "journal_unavailable")


async def test_nobody_else_reads_what_programs_printed(place):
    place.settings.data_dir.mkdir(mode=0o755, parents=True)
    async with place.run() as api:
        await api.python("print('secret')")
        directory = place.settings.data_dir
        modes = {file.name: file.stat().st_mode & 0o777 for file in (directory, *directory.glob("journal*"))}
        assert modes == {"data": 0o700, **{f"journal.sqlite3{end}": 0o600 for end in ("", "-wal", "-shm")}}
        with closing(sqlite3.connect(place.settings.journal_file)) as database:  # the control: it is in there
            assert database.execute("SELECT count(*) FROM outputs WHERE data = ?", (b"secret\n",)).fetchone() == (1,)


async def test_a_directory_that_holds_something_else_is_not_locked(place):
    directory = place.settings.data_dir
    directory.mkdir(mode=0o755, parents=True)
    (directory / "of somebody else").touch()
    async with place.run():
        assert directory.stat().st_mode & 0o777 == 0o755
        assert place.settings.journal_file.stat().st_mode & 0o777 == 0o600
