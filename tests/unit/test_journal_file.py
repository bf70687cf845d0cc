import sqlite3
from contextlib import closing

import pytest

from orchestrator.adapters.journal import SqliteJournal
from orchestrator.domain.errors import JournalUnavailable
from tests.contract.test_journal import result_of
from tests.support.samples import execution


async def test_the_journal_survives_a_restart(tmp_path):
    file = tmp_path / "journal.sqlite3"
    first = SqliteJournal(file, max_executions=10)
    await first.open(execution(id="a"))
    await first.finish(result_of("a"))
    await first.close()
    second = SqliteJournal(file, max_executions=10)
    assert (await second.find("a")).exit_code == 3
    await second.close()


async def test_it_writes_ahead(tmp_path):
    journal = SqliteJournal(tmp_path / "journal.sqlite3", max_executions=10)
    await journal.check()
    with sqlite3.connect(tmp_path / "journal.sqlite3") as database:
        assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    database.close()
    await journal.close()


async def test_a_place_that_cannot_be_written_is_a_clear_error(tmp_path):
    (tmp_path / "file").write_text("in the way")
    journal = SqliteJournal(tmp_path / "file" / "journal.sqlite3", max_executions=10)
    with pytest.raises(JournalUnavailable) as caught:
        await journal.check()
    assert "disk space" in caught.value.hint
    await journal.close()


async def test_only_the_newest_executions_are_kept_with_their_output(tmp_path):
    journal = SqliteJournal(tmp_path / "journal.sqlite3", max_executions=3)
    for number in range(6):
        await journal.open(execution(id=f"e{number}"))
        await journal.finish(result_of(f"e{number}"))
    await journal.prune()
    kept = await journal.newest(caller=None, limit=10, before=None)
    assert [record.id for record in kept] == ["e5", "e4", "e3"]
    with sqlite3.connect(tmp_path / "journal.sqlite3") as database:
        assert database.execute("SELECT count(*) FROM outputs").fetchone() == (6,)
    database.close()
    await journal.close()


async def test_a_journal_of_another_version_is_set_aside_not_lost(tmp_path):
    file = tmp_path / "journal.sqlite3"
    with closing(sqlite3.connect(file)) as database:
        database.execute("CREATE TABLE executions (id TEXT)")
    journal = SqliteJournal(file, max_executions=10)
    await journal.open(execution(id="a"))
    assert (await journal.find("a")).id == "a"
    await journal.close()
    assert len(list(tmp_path.glob("journal.before-*.sqlite3"))) == 1
