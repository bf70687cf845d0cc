import asyncio

import pytest

from orchestrator.domain.access import Caller, Role
from orchestrator.domain.errors import GrantInvalid, LimitExceeded
from orchestrator.domain.execution import GatewayLimits, RoomLimits
from orchestrator.domain.ledger import CallOutcome
from orchestrator.service.call_recorder import Recorder
from orchestrator.service.grants import Grants
from orchestrator.service.rooms import Rooms
from tests.support.fake_journal import FakeJournal
from tests.support.samples import record

LIMITS = GatewayLimits(
    max_calls=3,
    max_concurrent_calls=1,
    max_request_bytes=100,
    max_total_bytes=100,
    call_timeout_seconds=5,
)
CALLER = Caller("key", Role("developer", frozenset({"postgres"})), "hash")


@pytest.fixture
async def grants():
    journal = FakeJournal()
    await journal.open(record(id="execution"))
    recorder = Recorder(journal)
    yield Grants(LIMITS, recorder, Rooms(RoomLimits()))
    await recorder.finish()


def issue(grants: Grants, sandbox: str | None = "sandbox", caller: Caller = CALLER):
    return grants.issue(caller, "execution", lambda call: None, sandbox)


async def test_a_grant_holds_in_its_own_sandbox_until_it_is_revoked(grants):
    grant = issue(grants)
    assert grants.find(grant.token, "sandbox") is grant
    with pytest.raises(GrantInvalid):
        grants.find(grant.token, "other sandbox")
    grant.revoke()
    with pytest.raises(GrantInvalid):
        grants.find(grant.token, "sandbox")


async def test_a_grant_without_a_sandbox_cannot_be_presented_but_is_lost_with_its_key(grants):
    grant = issue(grants, None)
    for sandbox in ("", "None", "sandbox"):
        with pytest.raises(GrantInvalid):
            grants.find(grant.token, sandbox)
    assert grants.revoke_unless(frozenset()) == 1
    assert grant.revoked


async def test_tokens_are_long_and_never_repeat(grants):
    tokens = {issue(grants, f"sandbox {number}").token for number in range(100)}
    assert len(tokens) == 100
    assert min(map(len, tokens)) >= 43


async def test_the_next_execution_in_a_sandbox_ends_the_grant_before_it(grants):
    first, second = issue(grants), issue(grants)
    with pytest.raises(GrantInvalid):
        grants.find(first.token, "sandbox")
    assert grants.find(second.token, "sandbox") is second


async def test_a_rotated_key_loses_its_grants_and_others_keep_theirs(grants):
    rotated, kept = issue(grants, "a"), issue(grants, "b", Caller("other", CALLER.role, "its hash"))
    live = frozenset({("key", "another hash"), ("other", "its hash")})
    assert grants.revoke_unless(live) == 1
    assert (rotated.revoked, kept.revoked) == (True, False)
    assert grants.revoke_unless(live) == 0


async def test_revoking_ends_the_calls_under_way_and_the_ledger_says_how_far_they_came(grants):
    grant = issue(grants)
    sent, waiting = grant.ledger.begin("s", "sent", 1), grant.ledger.begin("s", "waiting", 1)
    sent.sent()
    call = asyncio.create_task(grant.within(asyncio.Event().wait()))
    await asyncio.sleep(0)
    grant.revoke()
    with pytest.raises(GrantInvalid):
        await call
    assert [call.outcome for call in grant.calls()] == [CallOutcome.IN_FLIGHT, CallOutcome.NEVER_SENT]
    await waiting.finish(CallOutcome.DONE)
    await waiting.finish(CallOutcome.DENIED)
    assert grant.calls()[1].outcome is CallOutcome.DONE


async def test_calls_and_bytes_are_counted(grants):
    grant = issue(grants)
    for _ in range(3):
        grant.ledger.begin("s", "t", 1)
        grant.require_calls_left()
    grant.ledger.begin("s", "t", 1)
    with pytest.raises(LimitExceeded):
        grant.require_calls_left()
    grant.count_bytes(100)
    with pytest.raises(LimitExceeded):
        grant.count_bytes(1)


async def test_a_role_may_have_fewer_calls_than_the_others(grants):
    grant = issue(grants, caller=Caller("key", Role("r", frozenset(), max_tool_calls=0)))
    grant.ledger.begin("s", "t", 1)
    with pytest.raises(LimitExceeded, match="0 tool calls"):
        grant.require_calls_left()
