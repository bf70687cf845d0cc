import asyncio
from dataclasses import replace

import pytest

from orchestrator.domain.errors import NotFound
from orchestrator.domain.execution import Filter, Page, State, Stream
from orchestrator.service.records import Records
from orchestrator.service.running import RunningExecution
from tests.support.fake_journal import FakeJournal
from tests.support.samples import ADMIN, DEVELOPER, OTHER_DEVELOPER, execution, record


@pytest.fixture
async def records():
    journal = FakeJournal()
    await journal.open(record(id="own"))
    await journal.open(record(id="other", caller=OTHER_DEVELOPER))
    return Records(journal, lambda execution_id: None)


async def ids(records, caller, wanted=Filter()):  # noqa: B008  (a frozen value)
    return [found.id for found in await records.newest(caller, wanted, 10)]


async def test_a_caller_sees_its_own_and_a_role_that_sees_all_sees_all(records):
    assert await ids(records, DEVELOPER) == ["own"]
    assert await ids(records, ADMIN) == ["other", "own"]
    assert (await records.visible(DEVELOPER, "own")).id == "own"
    assert (await records.visible(ADMIN, "other")).id == "other"


async def test_asking_for_anothers_executions_shows_none(records):
    assert await ids(records, DEVELOPER, Filter(caller=OTHER_DEVELOPER.key_name)) == []
    assert await ids(records, ADMIN, Filter(caller=OTHER_DEVELOPER.key_name)) == ["other"]


async def test_what_one_may_not_see_is_as_if_it_were_not_there(records):
    for execution_id in ("other", "nothing"):
        with pytest.raises(NotFound, match=f"There is no execution {execution_id}."):
            await records.visible(DEVELOPER, execution_id)


async def test_what_a_caller_ran_last_is_its_own_and_never_a_proof():
    journal = FakeJournal()
    for number, (execution_id, skill) in enumerate([("program", None), ("skill", "report@1"), ("proof", "report@")]):
        await journal.open(replace(record(id=execution_id), skill=skill, accepted_at=1000.0 + number))
    await journal.open(replace(record(id="others", caller=ADMIN), accepted_at=2000.0))
    records = Records(journal, lambda execution_id: None)
    newest = [await records.newest_own(DEVELOPER, of_skills=of_skills) for of_skills in (False, True)]
    assert [found and found.id for found in newest] == ["program", "skill"]
    assert await records.newest_own(OTHER_DEVELOPER, of_skills=True) is None


async def test_output_so_far_is_read_while_it_runs(records):
    running = RunningExecution(execution(id="own"), record(id="own", state=State.RUNNING))
    running.receive(Stream.STDOUT, b"0123456789")
    watching = Records(FakeJournal(), {"own": running}.get)
    assert await watching.output(running.record, Stream.STDOUT, 3, 4) == Page(b"3456", 10)
    assert await watching.output(replace(running.record, id="ended"), Stream.STDOUT, 0, 4) == Page(b"", 0)


class SlowLists(FakeJournal):
    """Answers one question when it is let, and tells whose it was."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str | None] = []
        self.go = asyncio.Event()

    async def newest(self, wanted, limit):
        self.asked.append(wanted.caller)
        await self.go.wait()
        return []


async def test_whoever_asks_for_many_lists_waits_for_itself():
    journal = SlowLists()
    records = Records(journal, lambda _: None)
    greedy = [asyncio.create_task(records.newest(DEVELOPER, Filter(), 10)) for _ in range(50)]
    await asyncio.sleep(0)
    honest = asyncio.create_task(records.newest(OTHER_DEVELOPER, Filter(), 10))
    await asyncio.sleep(0)
    journal.go.set()
    await asyncio.gather(honest, *greedy)
    assert journal.asked.index(OTHER_DEVELOPER.key_name) <= 2
