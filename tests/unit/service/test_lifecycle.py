"""Any order of starts, cancellations, faults and refills: one terminal state and one destruction each."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine
from itertools import pairwise
from typing import Any, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule
from hypothesis.strategies import integers, sampled_from

from orchestrator.domain.errors import EngineUnavailable, OrchestratorError
from orchestrator.domain.execution import ExecutionResult, Language, Recipe, State
from orchestrator.domain.sandbox import PoolSize
from orchestrator.service.admission import Admission
from orchestrator.service.executions import Executions, ProgramRequest, ProgramRules, new_execution_id
from orchestrator.service.readiness import Readiness
from orchestrator.service.reaper import Reaper
from orchestrator.service.running import RunningExecution
from orchestrator.service.sandboxes import Sandboxes
from orchestrator.service.warm_pool import WarmPool
from tests.support.fake_engine import EXIT_3, FOREVER, HELLO, FakeEngine, FakeSandbox
from tests.support.fake_journal import FakeJournal
from tests.support.fake_storage import FakeStorage
from tests.support.fake_tool_calls import FakeProvisions, FakeToolCalls
from tests.support.samples import ADMIN, DEVELOPER, limits

T = TypeVar("T")
AFTER = {State.QUEUED: {State.RUNNING, State.FINISHED}, State.RUNNING: {State.FINISHED}, State.FINISHED: set()}


class WatchedJournal(FakeJournal):
    """Notes every state that a record was given."""

    def __init__(self) -> None:
        super().__init__()
        self.states: dict[str, list[State]] = {}

    async def open(self, record, idempotency_key=None, program=None):
        await super().open(record, idempotency_key, program)
        self.states.setdefault(record.id, []).append(record.state)

    async def mark_running(self, execution_id):
        await super().mark_running(execution_id)
        self.states[execution_id].append(State.RUNNING)

    async def finish(self, result, idempotency_key=None):
        await super().finish(result, idempotency_key)
        self.states[result.execution_id].append(State.FINISHED)


class Lifecycle(RuleBasedStateMachine):
    running = Bundle("running")

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.started: list[RunningExecution] = []
        self.finished: Counter[str] = Counter()
        self.cancelling: list[asyncio.Task[Any]] = []
        self.refilling: list[asyncio.Task[Any]] = []
        self.journal_was_broken = False
        self.run(self._build())

    async def _build(self) -> None:
        self.engine = FakeEngine()
        self.journal = WatchedJournal()
        self.sandboxes = Sandboxes(self.engine, accept=lambda sandbox_id: asyncio.Protocol())
        self.tool_calls = FakeToolCalls()
        self.pool = WarmPool(
            self.sandboxes, lambda: {Recipe(Language.PYTHON): {}}, limits(), PoolSize(1, 2, 2**30, max_age_seconds=60)
        )
        admission = Admission(max_running=2, max_waiting=3, max_running_per_caller=2, max_waiting_per_caller=2)
        readiness = Readiness(self.engine, self.journal)
        readiness.problem = None
        storage = FakeStorage(self.journal)
        self.executions = Executions(
            ProgramRules(1024 * 1024, 300, limits),
            admission,
            self.pool,
            FakeProvisions(),
            self.tool_calls,
            self.journal,
            readiness,
            storage.files,
            storage.workspaces,
            on_finished=self._note,
        )
        self.reaper = Reaper(self.engine, lambda: self.sandboxes.ids, stray_after_seconds=-1)

    def _note(self, result: ExecutionResult) -> None:
        self.finished[result.execution_id] += 1

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(asyncio.wait_for(work, 10))

    async def _ticks(self, count: int) -> None:
        for _ in range(count):
            await asyncio.sleep(0)

    # --- what happens ---

    @rule(target=running, code=sampled_from([HELLO, EXIT_3, FOREVER]), caller=sampled_from([ADMIN, DEVELOPER]))
    def start(self, code, caller):
        try:
            asked = ProgramRequest(Language.PYTHON, code, 60)
            execution = self.run(self.executions.start(caller, asked, new_execution_id()))
        except OrchestratorError:
            return multiple()
        self.started.append(execution)
        return execution

    @rule(execution=consumes(running))
    def cancel(self, execution):
        cancelling = self.executions.cancel(ADMIN, execution.execution.id)
        self.cancelling.append(self.loop.create_task(cancelling))

    @rule(execution=running)
    def lose_the_caller(self, execution):
        with execution.watched():
            pass

    @rule(count=integers(1, 20))
    def let_time_pass(self, count):
        self.run(self._ticks(count))

    @rule()
    def refill_the_pool(self):
        self.refilling.append(self.loop.create_task(self.pool.refill_once()))

    @rule()
    def kill_idle_sandboxes(self):
        for sandbox in self.engine.sandboxes:
            if not sandbox.runs:
                sandbox.alive = False

    @rule(held=sampled_from([True, False]))
    def hold_starts(self, held):
        (self.engine.may_start.clear if held else self.engine.may_start.set)()

    @rule(broken=sampled_from([True, False]))
    def break_the_engine(self, broken):
        self.engine.fault = EngineUnavailable("gone (test)") if broken else None

    @rule(broken=sampled_from([True, False]))
    def break_removal(self, broken):
        self.engine.removal_fault = EngineUnavailable("gone (test)") if broken else None

    @rule(broken=sampled_from([True, False]))
    def break_the_journal(self, broken):
        self.journal.broken = broken
        self.journal_was_broken |= broken

    # --- what always holds ---

    @invariant()
    def no_sandbox_runs_two_programs_or_is_destroyed_twice(self):
        for sandbox in self._sandboxes_made():
            assert sandbox.runs <= 1
            assert sandbox.destructions <= 1

    @invariant()
    def states_only_go_forward(self):
        for states in self.journal.states.values():
            for earlier, later in pairwise(states):
                assert later in AFTER[earlier], states

    @invariant()
    def nothing_ends_twice(self):
        assert all(count == 1 for count in self.finished.values())

    def _sandboxes_made(self) -> list[FakeSandbox]:
        return self.engine.made

    # --- at the end ---

    def teardown(self):
        try:
            self.run(self._end())
        finally:
            self.loop.close()

    async def _end(self) -> None:
        self.engine.fault = self.engine.removal_fault = None
        self.engine.may_start.set()
        self.journal.broken = False
        await self.executions.drain(0)
        for refill in self.refilling:  # as the daemon ends its loops before it closes the pool
            refill.cancel()
        await asyncio.gather(*self.refilling, return_exceptions=True)
        self.pool.close()
        await self.sandboxes.all_destroyed()
        await asyncio.gather(*self.cancelling, return_exceptions=True)
        await self.reaper.remove_orphans()
        self._assert_everything_ended()

    def _assert_everything_ended(self) -> None:
        assert all(execution.finished for execution in self.started)
        assert self.finished == Counter(execution.execution.id for execution in self.started)
        assert not self.engine.sandboxes
        assert all(made.destructions == 1 for made in self._sandboxes_made())
        assert not any(grant.open for grant in self.tool_calls.grants)
        if not self.journal_was_broken:
            assert {states[-1] for states in self.journal.states.values()} <= {State.FINISHED}


TestLifecycle = Lifecycle.TestCase
TestLifecycle.settings = settings(
    max_examples=100, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
