import asyncio
import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from orchestrator.domain.errors import JournalUnavailable
from orchestrator.domain.execution import Filter, Kind, State
from orchestrator.domain.ledger import CallOutcome, CallRecord
from orchestrator.journals import sqlite as journal_module
from orchestrator.journals.sqlite import SqliteJournal
from tests.contract.test_journal import result_of
from tests.support.api import eventually, until
from tests.support.samples import record, refused, tool_call


async def test_the_journal_survives_a_restart(tmp_path):
    file = tmp_path / "journal.sqlite3"
    first = SqliteJournal(file, max_executions=10)
    await first.open(record(id="a"))
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


async def test_calls_are_on_disk_as_soon_as_they_are_recorded(tmp_path):
    killed, next_one = (SqliteJournal(tmp_path / "journal.sqlite3", max_executions=10) for _ in range(2))
    calls = (tool_call(), tool_call(CallOutcome.IN_FLIGHT))
    await killed.open(record(id="a", state=State.RUNNING))
    await killed.record_calls([CallRecord("a", number, call) for number, call in enumerate(calls)])
    assert await next_one.mark_interrupted("") == 1
    assert (await next_one.find("a")).tool_calls == calls
    await next_one.close()
    await killed.close()


async def test_a_call_is_recorded_when_another_writer_has_finished(tmp_path):
    journal = SqliteJournal(tmp_path / "journal.sqlite3", max_executions=10)
    await journal.open(record(id="a", state=State.RUNNING))
    with closing(sqlite3.connect(tmp_path / "journal.sqlite3", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        recording = asyncio.create_task(journal.record_calls([CallRecord("a", 0, tool_call())]))
        await asyncio.sleep(0)
        assert not recording.done()
        other.execute("COMMIT")
    await recording
    assert (await journal.find("a")).tool_calls == (tool_call(),)
    await journal.close()


async def test_after_a_write_that_failed_the_next_one_succeeds(tmp_path):
    journal = SqliteJournal(tmp_path / "journal.sqlite3", max_executions=10)
    await journal.open(record(id="a", state=State.RUNNING))
    with pytest.raises(JournalUnavailable):
        await journal.record_calls([CallRecord("a", 0, tool_call(tool=None))])
    await journal.record_calls([CallRecord("a", 0, tool_call())])
    assert (await journal.find("a")).tool_calls == (tool_call(),)
    await journal.close()


async def test_only_the_newest_executions_are_kept_with_their_output_and_calls(tmp_path):
    journal = SqliteJournal(tmp_path / "journal.sqlite3", max_executions=3)
    for number in range(6):
        await journal.open(record(id=f"e{number}"))
        await journal.finish(result_of(f"e{number}", calls=(tool_call(),)))
    await journal.prune()
    kept = await journal.newest(Filter(), 10)
    assert [found.id for found in kept] == ["e5", "e4", "e3"]
    with sqlite3.connect(tmp_path / "journal.sqlite3") as database:
        assert database.execute("SELECT count(*) FROM outputs").fetchone() == (6,)
        assert database.execute("SELECT count(*) FROM tool_calls").fetchone() == (3,)
    database.close()
    await journal.close()


async def test_refusals_have_a_quota_of_their_own_and_push_no_execution_out(tmp_path, monkeypatch):
    monkeypatch.setattr(journal_module, "MAX_REFUSALS", 5)
    monkeypatch.setattr(journal_module, "PRUNE_EVERY", 10)
    journal = SqliteJournal(tmp_path / "journal.sqlite3", max_executions=2)
    for number in range(2):
        await journal.open(record(id=f"e{number}"))
        await journal.finish(result_of(f"e{number}"))
    for number in range(38):
        await journal.open(refused(f"r{number}"))

    async def only_the_newest_are_left() -> bool:
        kept = [found.id for found in await journal.newest(Filter(), 100)]
        return kept == ["r37", "r36", "r35", "r34", "r33", "e1", "e0"]

    await eventually(only_the_newest_are_left)
    await journal.close()


async def test_removing_many_executions_keeps_no_other_write_waiting_for_all_of_them(tmp_path):
    journal = SqliteJournal(tmp_path / "journal.sqlite3", max_executions=1)
    for number in range(10 * journal_module.REMOVED_AT_ONCE):
        await journal.open(record(id=f"e{number}", state=State.FINISHED))
    pruning, writes = asyncio.create_task(journal.prune()), 0
    await asyncio.sleep(0)
    while not pruning.done():
        await journal.mark_running("another")
        writes += 1
    assert writes > 3, "whoever comes second would have one turn: the one after all was removed"
    assert len(await journal.newest(Filter(), 100)) == 1
    await journal.close()


async def test_a_journal_that_is_closed_while_it_removes_executions_closes(tmp_path, monkeypatch):
    monkeypatch.setattr(journal_module, "PRUNE_EVERY", 100)
    journal = SqliteJournal(tmp_path / "journal.sqlite3", max_executions=1)
    for number in range(100):
        await journal.open(record(id=f"e{number}", state=State.FINISHED))
    await journal.close()
    again = SqliteJournal(tmp_path / "journal.sqlite3", max_executions=1)
    assert (await again.newest(Filter(), 1))[0].id == "e99"
    await again.close()


async def test_single_calls_have_a_quota_of_their_own_and_push_no_program_out(tmp_path, monkeypatch):
    monkeypatch.setattr(journal_module, "MAX_CALLS", 3)
    journal = SqliteJournal(tmp_path / "journal.sqlite3", max_executions=2)
    for number in range(2):
        await journal.open(record(id=f"e{number}", state=State.FINISHED))
    for number in range(20):
        await journal.open(replace(record(id=f"c{number}", state=State.FINISHED), kind=Kind.CALL))
    await journal.prune()
    kept = [found.id for found in await journal.newest(Filter(), 100)]
    assert kept == ["c19", "c18", "c17", "e1", "e0"]
    await journal.close()


async def test_an_execution_is_opened_whether_old_ones_can_be_removed_or_not(tmp_path, monkeypatch):
    monkeypatch.setattr(journal_module, "PRUNE_EVERY", 1)
    monkeypatch.setattr(journal_module, "BEYOND_QUOTA", "no SQL")
    journal = SqliteJournal(tmp_path / "journal.sqlite3", max_executions=2)
    with capture_logs() as logs:
        await journal.open(record(id="a"))
        await until(lambda: logs)
    assert (await journal.find("a")).state is State.QUEUED
    assert [entry["event"] for entry in logs] == ["journal.not_pruned"]
    await journal.close()


async def test_a_journal_of_another_version_is_set_aside_not_lost(tmp_path):
    file = tmp_path / "journal.sqlite3"
    with closing(sqlite3.connect(file)) as database:
        database.execute("CREATE TABLE executions (id TEXT)")
    journal = SqliteJournal(file, max_executions=10)
    await journal.open(record(id="a"))
    assert (await journal.find("a")).id == "a"
    await journal.close()
    assert len(list(tmp_path.glob("journal.before-*.sqlite3"))) == 1


# --- its files are taken away ---


@pytest.fixture
async def journal(tmp_path):
    journal = SqliteJournal(tmp_path / "data" / "journal.sqlite3", max_executions=10)
    await journal.open(record(id="before", state=State.RUNNING))
    yield journal
    await journal.close()


def deleted(directory):
    for file in directory.iterdir():
        file.unlink()


def replaced_by_an_older_copy(directory):
    file = directory / "journal.sqlite3"
    with closing(sqlite3.connect(file)) as source, closing(sqlite3.connect(":memory:")) as copy:
        source.backup(copy)
        copy.execute("UPDATE executions SET id = 'in the copy'")
        copy.commit()
        (directory / "copy").write_bytes(copy.serialize())
    (directory / "copy").replace(file)  # what was written ahead for the old one stays


def replaced_by_an_empty_file(directory):
    (directory / "empty").touch()
    (directory / "empty").replace(directory / "journal.sqlite3")


def moved_away(directory):
    directory.rename(directory.with_name("elsewhere"))


def replaced_with_its_directory(directory):
    moved_away(directory)
    directory.mkdir()


LOSSES = [deleted, replaced_by_an_older_copy, replaced_by_an_empty_file, moved_away, replaced_with_its_directory]


@pytest.mark.parametrize("lose", LOSSES)
async def test_nothing_begins_in_a_journal_that_was_lost_until_another_took_its_place(journal, tmp_path, lose):
    lose(tmp_path / "data")
    with capture_logs() as logs:
        for _ in range(3):
            with pytest.raises(JournalUnavailable, match=r"journal.sqlite3 was (deleted or moved away|replaced) while"):
                await journal.open(record(id="unrecorded"))
        with pytest.raises(JournalUnavailable):
            await journal.find("before")
        assert journal.renewals == 0
        await journal.check()
    assert journal.renewals == 1
    assert [(entry["event"], entry["log_level"]) for entry in logs] == [
        ("journal.lost", "error"),
        ("journal.replaced", "warning"),
    ]
    await journal.open(record(id="after"))
    await journal.close()
    with closing(sqlite3.connect(tmp_path / "data" / "journal.sqlite3")) as database:
        kept = {id for (id,) in database.execute("SELECT id FROM executions")}
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert kept == ({"after", "in the copy"} if lose is replaced_by_an_older_copy else {"after"})


@pytest.mark.parametrize("lose", LOSSES)
async def test_the_check_tells_of_a_loss_before_it_mends_it(journal, tmp_path, lose):
    lose(tmp_path / "data")
    with pytest.raises(JournalUnavailable, match="while it was in use"):
        await journal.check()
    await journal.check()
    await journal.open(record(id="after"))
    assert (await journal.find("after")).id == "after"


@pytest.mark.parametrize("suffix", ["-wal", "-shm"])
async def test_records_outlive_the_files_that_sqlite_keeps_beside_the_journal(journal, tmp_path, suffix):
    (tmp_path / "data" / f"journal.sqlite3{suffix}").unlink()
    with pytest.raises(JournalUnavailable):
        await journal.check()
    await journal.check()
    assert (await journal.find("before")).state is State.RUNNING


async def test_calls_do_not_vanish_into_a_journal_that_was_lost(journal, tmp_path):
    deleted(tmp_path / "data")
    with pytest.raises(JournalUnavailable):
        await journal.record_calls([CallRecord("before", 0, tool_call())])


async def test_a_journal_that_cannot_be_replaced_stays_unavailable_until_it_can(journal, tmp_path):
    moved_away(tmp_path / "data")
    (tmp_path / "data").write_text("in the way")
    for _ in range(3):
        with pytest.raises(JournalUnavailable):
            await journal.check()
    (tmp_path / "data").unlink()
    await journal.check()
    assert journal.renewals == 1


async def test_what_is_lost_twice_is_replaced_twice(journal, tmp_path):
    for number in (1, 2):
        deleted(tmp_path / "data")
        with pytest.raises(JournalUnavailable):
            await journal.check()
        await journal.check()
        assert journal.renewals == number


async def test_another_reader_that_comes_and_goes_is_no_loss(journal, tmp_path):
    for _ in range(3):
        with closing(sqlite3.connect(tmp_path / "data" / "journal.sqlite3")) as other:
            other.execute("SELECT count(*) FROM executions").fetchone()
            other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        await journal.check()
    assert journal.renewals == 0


def modes(directory):
    return {file.name: file.stat().st_mode & 0o777 for file in (directory, *directory.iterdir())}


async def test_nobody_else_reads_the_journal(journal, tmp_path):
    private = {f"journal.sqlite3{suffix}": 0o600 for suffix in ("", "-wal", "-shm")} | {"data": 0o700}
    assert modes(tmp_path / "data") == private
    moved_away(tmp_path / "data")
    with pytest.raises(JournalUnavailable):
        await journal.check()
    await journal.check()
    assert modes(tmp_path / "data") == private


async def test_a_journal_that_others_could_read_is_closed_to_them(tmp_path):
    file = tmp_path / "journal.sqlite3"
    with closing(sqlite3.connect(file)) as other:  # so that SQLite's own files are there, too
        other.execute("PRAGMA journal_mode = WAL")
        other.execute("CREATE TABLE unrelated (id TEXT)").close()
        other.execute("DROP TABLE unrelated").close()
        for each in tmp_path.iterdir():
            each.chmod(0o644)
        journal = SqliteJournal(file, max_executions=10)
        await journal.check()
        assert set(modes(tmp_path).values()) - {tmp_path.stat().st_mode & 0o777} == {0o600}
        await journal.close()


async def test_a_journal_behind_a_link_is_in_its_place(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "real.sqlite3").touch()
    (tmp_path / "journal.sqlite3").symlink_to(tmp_path / "elsewhere" / "real.sqlite3")
    journal = SqliteJournal(tmp_path / "journal.sqlite3", max_executions=10)
    await journal.open(record(id="a"))
    await journal.check()
    assert (await journal.find("a")).id == "a"
    await journal.close()
