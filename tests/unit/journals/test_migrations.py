"""A journal of every earlier version is opened, and nothing in it is lost."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from orchestrator.domain.errors import JournalUnavailable
from orchestrator.domain.execution import (
    ExecutionRecord,
    Filter,
    Kind,
    Language,
    Outcome,
    Page,
    State,
    Stream,
    Timings,
    Usage,
)
from orchestrator.domain.files import File
from orchestrator.domain.sign_in import SignIn
from orchestrator.domain.skills import SkillUse
from orchestrator.journals.file_index import SqliteFileIndex
from orchestrator.journals.schema import migrations
from orchestrator.journals.sign_ins import SqliteSignIns
from orchestrator.journals.skills import SqliteSkills
from orchestrator.journals.sqlite import SqliteJournal
from tests.support.samples import limits, record, tool_call
from tests.support.skills import skill

LIMITS_THEN = limits(timeout_seconds=5)
PROGRAM_THEN = "import sys; sys.exit(3)"
SIGNED_IN_THEN = SignIn("b" * 64, "key-a", "c" * 64, "admin", 200.0)
KEPT_THEN = File("report.csv", 12, "a" * 64, "text/csv")
WITH_FILES = ("4", "5")
EARLIER = sorted((Path(__file__).parent / "earlier").glob("*.sql"))


def test_a_journal_of_the_version_before_is_among_them():
    assert int(EARLIER[-1].stem) == migrations()[-1][0] - 1


@pytest.fixture(params=EARLIER, ids=lambda file: file.stem)
async def earlier(request, tmp_path):
    file = tmp_path / "journal.sqlite3"
    with closing(sqlite3.connect(file)) as database:
        database.executescript(request.param.read_text())
    journal = SqliteJournal(file, max_executions=100)
    journal.name = request.param.stem
    yield journal
    await journal.close()
    assert not list(tmp_path.glob("*.before-*"))


async def test_what_was_finished_is_told_as_before(earlier):
    has_calls = earlier.name != "0_without_calls"
    assert await earlier.find("finished") == ExecutionRecord(
        id="finished",
        caller="key-a",
        role="admin",
        state=State.FINISHED,
        accepted_at=100.5,
        kind=Kind.PROGRAM,
        sequence=1,
        language=Language.PYTHON,
        code_sha256="abc",
        code_bytes=12,
        finished_at=103.5,
        outcome=Outcome.FAILED,
        exit_code=3,
        stdout_bytes=4,
        limits=LIMITS_THEN,
        timings=Timings(0.1, 0.2, 0.3),
        usage=Usage(0.5, 1024),
        tool_calls=(tool_call(),) if has_calls else (),
        files=(KEPT_THEN,) if earlier.name in WITH_FILES else (),
        file_count=1 if earlier.name in WITH_FILES else 0,
        program_kept=earlier.name == "5",
    )
    assert await earlier.output("finished", Stream.STDOUT, 0, 10) == Page(b"out\n", 4)


@pytest.mark.parametrize("text", ["FINISHED", "out"])
async def test_what_was_finished_is_found_by_its_id_and_by_what_it_printed(earlier, text):
    assert [each.id for each in await earlier.newest(Filter(text=text), 10)] == ["finished"]


async def test_uploads_and_workspaces_stay(earlier):
    had_files = earlier.name in WITH_FILES
    index = SqliteFileIndex(earlier)
    assert (await index.upload("key-a", KEPT_THEN.sha256) is not None) == had_files
    assert [version.files for version in await index.versions("key-a", "shop")] == [(KEPT_THEN,)] * had_files


async def test_kept_programs_and_those_who_are_signed_in_stay(earlier):
    was_there = earlier.name == "5"
    assert await earlier.program("finished") == (PROGRAM_THEN if was_there else None)
    assert bool(await earlier.newest(Filter(text="SYS.EXIT(3)"), 10)) == was_there
    assert await SqliteSignIns(earlier).sign_ins() == [SIGNED_IN_THEN] * was_there


async def test_skills_can_be_saved_and_their_uses_counted(earlier):
    store, saved = SqliteSkills(earlier), skill()
    assert (await store.all(), await store.built_in_uses()) == ([], {})
    await store.save(saved, b"recording")
    await store.count_uses([SkillUse("table_profile", None, "", 1, 0, 5.0)])
    assert await store.all() == [saved]
    assert (await store.built_in_uses())["table_profile"].uses == 1


async def test_refusals_and_the_order_stay(earlier):
    assert [found.id for found in await earlier.newest(Filter(), 10)] == ["running", "refused", "finished"]
    found = await earlier.find("refused")
    assert (found.state, found.error_code, found.detail) == (State.REFUSED, "queue_full", "full")


async def test_what_was_running_is_told_as_interrupted_by_the_next_start(earlier):
    assert await earlier.mark_interrupted("this daemon") == 1
    found = await earlier.find("running")
    assert (found.state, found.language, found.limits) == (State.INTERRUPTED, Language.TYPESCRIPT, LIMITS_THEN)


async def test_an_idempotency_key_still_finds_its_execution(earlier):
    found = await earlier.find_by_key("key-a", "once")
    assert (found is None) == earlier.name.startswith("0")
    assert found is None or found.id == "finished"


async def test_it_goes_on_from_there(earlier):
    await earlier.open(record(id="new"), "fresh")
    assert (await earlier.find("new")).sequence == 4
    with closing(sqlite3.connect(earlier._path)) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (migrations()[-1][0],)
        assert database.execute("PRAGMA foreign_key_check").fetchall() == []


async def test_a_migration_that_fails_leaves_the_journal_as_it_was(tmp_path, monkeypatch):
    file = tmp_path / "journal.sqlite3"
    with closing(sqlite3.connect(file)) as database:
        database.executescript(EARLIER[-1].read_text())
    *done, (newest, _) = migrations()
    broken = (*done, (newest, ("ALTER TABLE executions ADD COLUMN later TEXT", "no SQL")))
    monkeypatch.setattr("orchestrator.journals.schema.migrations", lambda: broken)
    journal = SqliteJournal(file, max_executions=10)
    with pytest.raises(JournalUnavailable):
        await journal.check()
    await journal.close()
    with closing(sqlite3.connect(file)) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (newest - 1,)
        assert "later" not in {row[1] for row in database.execute("PRAGMA table_info(executions)")}
    monkeypatch.undo()
    mended = SqliteJournal(file, max_executions=10)
    assert (await mended.find("finished")).exit_code == 3
    await mended.close()


async def test_a_journal_of_a_newer_version_is_left_alone_and_told(tmp_path):
    file = tmp_path / "journal.sqlite3"
    journal = SqliteJournal(file, max_executions=10)
    await journal.check()
    await journal.close()
    with closing(sqlite3.connect(file)) as database:
        database.execute("PRAGMA user_version = 1000")
    older = SqliteJournal(file, max_executions=10)
    with pytest.raises(JournalUnavailable, match="version 1000"):
        await older.check()
    await older.close()
    assert list(tmp_path.glob("journal*")) == [file]


async def test_a_record_that_a_newer_daemon_wrote_is_read_as_far_as_it_is_known(tmp_path):
    file = tmp_path / "journal.sqlite3"
    journal = SqliteJournal(file, max_executions=10)
    await journal.open(record(id="a"))
    with closing(sqlite3.connect(file)) as database:
        database.execute(
            "UPDATE executions SET document = json_set(document, '$.novelty', 1, '$.limits.novelty', 2, '$.usage.x', 3)"
        )
        database.commit()
    assert (await journal.find("a")).limits == limits()
    await journal.close()


async def test_a_record_without_a_limit_that_is_known_today_is_read_all_the_same(tmp_path):
    file = tmp_path / "journal.sqlite3"
    journal = SqliteJournal(file, max_executions=10)
    await journal.open(record(id="a"))
    with closing(sqlite3.connect(file)) as database:
        database.execute("UPDATE executions SET document = json_remove(document, '$.limits.cpus', '$.warm')")
        database.commit()
    found = await journal.find("a")
    assert (found.id, found.limits, found.warm) == ("a", None, False)
    await journal.close()


async def test_a_new_journal_is_made_without_a_word(tmp_path):
    journal = SqliteJournal(tmp_path / "journal.sqlite3", max_executions=10)
    with capture_logs() as logs:
        await journal.check()
    assert logs == []
    await journal.close()
