"""What is kept of the engine and the host, for whoever asks."""

import asyncio

import pytest

from orchestrator.domain.sandbox import Finding, Verdict
from orchestrator.service import readiness as readiness_module
from orchestrator.service.readiness import Readiness
from tests.support.fake_engine import FakeEngine
from tests.support.fake_journal import FakeJournal


class Described(FakeEngine):
    def __init__(self):
        super().__init__()
        self.looks = 0
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def describe(self):
        self.looks += 1
        await self.may_answer.wait()
        return [Finding("look", Verdict.OK, str(self.looks))]


@pytest.fixture
def engine():
    return Described()


@pytest.fixture
def readiness(engine):
    return Readiness(engine, FakeJournal())


async def test_the_host_is_looked_at_rarely_and_at_once_when_readiness_changed(engine, readiness):
    for _ in range(3):
        await readiness.look_now_and_then()
    assert engine.looks == 1
    await readiness.check()
    for _ in range(3):
        await readiness.look_now_and_then()
    assert (engine.looks, [finding.detail for finding in readiness.findings]) == (2, ["2"])


async def test_what_is_old_is_looked_at_again(engine, readiness, monkeypatch):
    await readiness.look_now_and_then()
    monkeypatch.setattr(readiness_module, "LOOK_EVERY_SECONDS", 0)
    await readiness.look_now_and_then()
    assert engine.looks == 2


async def test_a_look_that_takes_long_holds_up_neither_the_check_nor_the_old_findings(engine, readiness):
    await readiness.look_now_and_then()
    engine.may_answer.clear()
    await readiness.check()
    looking = asyncio.create_task(readiness.look_now_and_then())
    await asyncio.sleep(0)
    await readiness.check()
    assert (readiness.ready, looking.done(), len(readiness.findings)) == (True, False, 1)
    engine.may_answer.set()
    await looking
