"""Who gets into the console, for how long, and what ends it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from orchestrator.domain.access import AccessBook, Caller, KeyHash, Role
from orchestrator.domain.errors import SignInCodeInvalid
from orchestrator.service import sign_ins
from orchestrator.service.sign_ins import MOST_CODES, MOST_SESSIONS, SESSION_SECONDS, TOKEN_PREFIX, SignIns
from tests.support.fake_sign_ins import FakeSignIns

ADMIN = Role("admin", frozenset({"*"}), sees_all_executions=True)
READER = Role("reader", frozenset())
CALLER = Caller("ops", ADMIN, "a" * 64)


class Keys:
    def __init__(self) -> None:
        self.book = AccessBook({"admin": ADMIN, "reader": READER}, {"ops": "admin"}, (KeyHash("ops", "a" * 64),))


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def keys():
    return Keys()


@pytest.fixture
def store():
    return FakeSignIns()


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def door(keys, store, clock):
    return SignIns(keys, store, clock)


async def test_a_code_opens_one_session(door):
    opened = await door.redeem(door.new_code(CALLER))
    session = door.find(opened.token)
    assert door.caller_of(session) == CALLER
    assert opened.token.startswith(TOKEN_PREFIX)


async def test_one_that_could_not_be_forgotten_does_not_come_back(door, keys, store, clock):
    opened = await door.open(CALLER)
    store.broken = True
    await door.close(opened.token)
    assert door.find(opened.token) is None
    store.broken = False
    await door.drop_ended()
    after_restart = SignIns(keys, store, clock)
    await after_restart.load()
    assert after_restart.find(opened.token) is None


async def test_a_code_works_once(door):
    code = door.new_code(CALLER)
    await door.redeem(code)
    with pytest.raises(SignInCodeInvalid, match="used before"):
        await door.redeem(code)


async def test_a_code_is_worth_nothing_after_a_minute(door, monkeypatch):
    code, then = door.new_code(CALLER), sign_ins.time.monotonic()
    monkeypatch.setattr(sign_ins.time, "monotonic", lambda: then + 61)
    with pytest.raises(SignInCodeInvalid):
        await door.redeem(code)


@pytest.mark.parametrize("code", ["", "guess", "x" * 10_000, "\ud800"])
async def test_what_is_no_code_opens_nothing(door, code):
    door.new_code(CALLER)
    with pytest.raises(SignInCodeInvalid):
        await door.redeem(code)


async def test_a_code_of_a_key_that_is_gone_opens_nothing(door, keys):
    code = door.new_code(CALLER)
    keys.book = replace(keys.book, key_hashes=(KeyHash("ops", "b" * 64),))
    with pytest.raises(SignInCodeInvalid):
        await door.redeem(code)


async def test_a_session_ends_after_eight_hours(door, clock):
    token = (await door.open(CALLER)).token
    clock.now += SESSION_SECONDS - 1
    assert door.find(token) is not None
    clock.now += 2
    assert door.find(token) is None


async def test_a_rotated_key_ends_its_sessions(door, keys, store):
    token = (await door.open(CALLER)).token
    keys.book = replace(keys.book, key_hashes=(KeyHash("ops", "b" * 64),))
    assert door.find(token) is None
    await door.drop_ended()
    assert store.held == {}


async def test_a_key_that_gets_another_role_ends_its_sessions(door, keys):
    token = (await door.open(CALLER)).token
    keys.book = replace(keys.book, role_of_key={"ops": "reader"})
    assert door.find(token) is None


async def test_a_role_that_changes_holds_at_once_for_its_sessions(door, keys):
    session = door.find((await door.open(CALLER)).token)
    narrower = replace(ADMIN, sees_all_executions=False)
    keys.book = replace(keys.book, roles={"admin": narrower})
    assert door.caller_of(session).role is narrower


async def test_signing_out_ends_the_session_and_no_other(door, store):
    one, other = (await door.open(CALLER)).token, (await door.open(CALLER)).token
    await door.close(one)
    assert door.find(one) is None
    assert door.find(other) is not None
    assert len(store.held) == 1


async def test_sessions_outlast_the_daemon(door, keys, store, clock):
    token = (await door.open(CALLER)).token
    later = SignIns(keys, store, clock)
    assert later.find(token) is None
    await later.load()
    assert door.find(token) == later.find(token) is not None


async def test_the_store_never_has_a_token(door, store):
    token = (await door.open(CALLER)).token
    assert token not in repr(store.held)


async def test_a_store_that_fails_keeps_nobody_out(door, store):
    store.broken = True
    token = (await door.open(CALLER)).token
    assert door.find(token) is not None
    await door.close(token)
    assert door.find(token) is None
    await door.load()


async def test_the_oldest_codes_and_sessions_make_room(door):
    codes = [door.new_code(CALLER) for _ in range(MOST_CODES + 1)]
    with pytest.raises(SignInCodeInvalid):
        await door.redeem(codes[0])
    tokens = [(await door.redeem(code)).token for code in codes[1:]]
    tokens += [(await door.open(CALLER)).token for _ in range(MOST_SESSIONS)]
    live = [token for token in tokens if door.find(token) is not None]
    assert live == tokens[-MOST_SESSIONS:]


async def test_another_keys_sessions_do_not_make_room(door, keys):
    keys.book = AccessBook(
        {"admin": ADMIN}, {"ops": "admin", "other": "admin"}, (KeyHash("ops", "a" * 64), KeyHash("other", "c" * 64))
    )
    token = (await door.open(CALLER)).token
    for _ in range(MOST_SESSIONS + 1):
        await door.open(Caller("other", ADMIN, "c" * 64))
    assert door.find(token) is not None
