"""One suite for the sessions of the console in memory and for those in SQLite."""

import pytest

from orchestrator.domain.sign_in import SignIn
from orchestrator.journals.sign_ins import SqliteSignIns
from orchestrator.journals.sqlite import SqliteJournal
from tests.support.fake_sign_ins import FakeSignIns

SESSION = SignIn("0" * 64, "ops", "a" * 64, "admin", 1234.5)
OTHER = SignIn("1" * 64, "ops", "a" * 64, "admin", 99.0)


@pytest.fixture(params=["memory", "sqlite"])
async def store(request, tmp_path):
    if request.param == "memory":
        yield FakeSignIns()
        return
    journal = SqliteJournal(tmp_path / "journal.sqlite3", max_executions=10)
    yield SqliteSignIns(journal)
    await journal.close()


async def test_a_session_comes_back_as_it_was_given(store):
    await store.add_sign_in(SESSION)
    await store.add_sign_in(OTHER)
    assert sorted(await store.sign_ins(), key=lambda each: each.token_sha256) == [SESSION, OTHER]


async def test_adding_it_twice_keeps_one(store):
    await store.add_sign_in(SESSION)
    await store.add_sign_in(SESSION)
    assert await store.sign_ins() == [SESSION]


async def test_one_is_dropped_and_what_is_not_there_does_no_harm(store):
    await store.add_sign_in(SESSION)
    await store.drop_sign_in("f" * 64)
    await store.drop_sign_in(SESSION.token_sha256)
    assert await store.sign_ins() == []
