"""Lets people into the console without a cookie: a key makes a code, the code makes a session, each for a short time.

A code is in a link, and works once. A session's token is kept by the page, and stands for the key that the code was
made with: it can do what that key can do, until it ends.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import structlog

from orchestrator.domain.access import Caller, hash_key
from orchestrator.domain.errors import JournalUnavailable, SignInCodeInvalid
from orchestrator.domain.sign_in import SignIn
from orchestrator.service.ports import Access, SignInStore

log = structlog.get_logger()

TOKEN_PREFIX = "console-"  # noqa: S105  (what tells a session's token from a key)
CODE_SECONDS = 60.0
SESSION_SECONDS = 8 * 3600.0
# Of one key; the oldest makes room.
MOST_CODES = 8
MOST_SESSIONS = 32


@dataclass(frozen=True, slots=True)
class _Code:
    caller: Caller
    expires_at: float  # of the monotonic clock


@dataclass(frozen=True, slots=True)
class Opened:
    """A session that was just opened; its token is told once."""

    token: str
    caller: Caller
    expires_at: float


class SignIns:
    def __init__(self, access: Access, store: SignInStore, now: Callable[[], float] = time.time) -> None:
        self._access = access
        self._store = store
        self._now = now
        self._codes: dict[str, _Code] = {}  # by hash; the oldest first
        self._sessions: dict[str, SignIn] = {}  # by the token's hash; the oldest first
        self._left_in_store: set[str] = set()  # hashes of what has ended, and could not be dropped there yet

    async def load(self) -> None:
        """Take up the sessions of an earlier start, so that a restart of the daemon signs nobody out."""
        with suppress(JournalUnavailable):
            found = await self._store.sign_ins()
            self._sessions = {each.token_sha256: each for each in sorted(found, key=lambda each: each.expires_at)}

    def new_code(self, caller: Caller) -> str:
        self._drop_old_codes()
        own = [digest for digest, known in self._codes.items() if known.caller.key_name == caller.key_name]
        for digest in own[: max(0, len(own) - MOST_CODES + 1)]:
            del self._codes[digest]
        code = secrets.token_urlsafe(24)
        self._codes[hash_key(code)] = _Code(caller, time.monotonic() + CODE_SECONDS)
        return code

    async def redeem(self, code: str) -> Opened:
        """Open a session for whoever made the code, which is worth nothing any more."""
        self._drop_old_codes()
        known = self._codes.pop(hash_key(code), None)
        if known is None or not self._is_live(known.caller.key_name, known.caller.key_sha256):
            raise SignInCodeInvalid("The link was used before, or is older than 60 s.")
        return await self.open(known.caller)

    async def open(self, caller: Caller) -> Opened:
        token = TOKEN_PREFIX + secrets.token_urlsafe(32)
        session = SignIn(
            hash_key(token), caller.key_name, caller.key_sha256, caller.role.name, self._now() + SESSION_SECONDS
        )
        own = [digest for digest, known in self._sessions.items() if known.key_name == caller.key_name]
        for digest in own[: max(0, len(own) - MOST_SESSIONS + 1)]:
            await self._drop(digest)
        self._sessions[session.token_sha256] = session
        with suppress(JournalUnavailable):  # then it ends with the daemon
            await self._store.add_sign_in(session)
        log.info("console.signed_in", caller=caller.key_name)
        return Opened(token, caller, session.expires_at)

    def find(self, token: str) -> SignIn | None:
        """Return the session of a token, as long as it lasts."""
        session = self._sessions.get(hash_key(token))
        return session if session is not None and self._holds(session) else None

    def caller_of(self, session: SignIn) -> Caller:
        return Caller(session.key_name, self._access.book.roles[session.role], session.key_sha256)

    async def close(self, token: str) -> None:
        await self._drop(hash_key(token))

    async def drop_ended(self) -> None:
        ended = [digest for digest, session in self._sessions.items() if not self._holds(session)]
        for digest in (*ended, *self._left_in_store):
            await self._drop(digest)

    def _holds(self, session: SignIn) -> bool:
        book = self._access.book
        return (
            session.expires_at > self._now()
            and self._is_live(session.key_name, session.key_sha256)
            and book.role_of_key.get(session.key_name) == session.role
        )

    def _is_live(self, key_name: str, key_sha256: str) -> bool:
        return (key_name, key_sha256) in self._access.book.live_keys

    async def _drop(self, digest: str) -> None:
        self._sessions.pop(digest, None)
        self._left_in_store.add(digest)  # until it is gone: otherwise a restart of the daemon would take it up again
        with suppress(JournalUnavailable):
            await self._store.drop_sign_in(digest)
            self._left_in_store.discard(digest)

    def _drop_old_codes(self) -> None:
        now = time.monotonic()
        self._codes = {digest: code for digest, code in self._codes.items() if code.expires_at > now}
