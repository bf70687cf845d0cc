"""Sessions of the console in memory; the contract suite keeps it honest against SQLite."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.domain.errors import JournalUnavailable
from orchestrator.domain.sign_in import SignIn


class FakeSignIns:
    def __init__(self) -> None:
        self.held: dict[str, SignIn] = {}
        self.broken = False

    async def sign_ins(self) -> Sequence[SignIn]:
        self._require_writable()
        return list(self.held.values())

    async def add_sign_in(self, session: SignIn) -> None:
        self._require_writable()
        self.held[session.token_sha256] = session

    async def drop_sign_in(self, token_sha256: str) -> None:
        self._require_writable()
        self.held.pop(token_sha256, None)

    def _require_writable(self) -> None:
        if self.broken:
            raise JournalUnavailable("The journal cannot be used: disk full (test).")
