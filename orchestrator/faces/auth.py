"""Finds the caller behind the key, or the session's token, that a request carries; shared by every face."""

from __future__ import annotations

import re
from collections.abc import Mapping

from orchestrator.domain.access import Caller
from orchestrator.domain.errors import Unauthenticated
from orchestrator.service.ports import Access
from orchestrator.service.sign_ins import TOKEN_PREFIX, SignIns

BEARER = "bearer "
# What a client sends when it did not fill in a variable of its configuration: ${NAME}, ${env:NAME}, $NAME, {{NAME}}.
UNFILLED = re.compile(r"\$\{[^}]*\}|\$[A-Z_][A-Z0-9_]*|\{\{[^}]*\}\}")


class Authenticator:
    def __init__(self, access: Access, sign_ins: SignIns) -> None:
        self._access = access
        self._sign_ins = sign_ins

    def authenticate(self, headers: Mapping[str, str]) -> Caller:
        key = presented_key(headers)
        if key is None:
            raise Unauthenticated("The request carries no key.")
        if unfilled := UNFILLED.fullmatch(key):
            raise Unauthenticated(
                f"The key is the text {unfilled[0][:80]}, because the client did not fill the variable in. "
                "Set it in the environment that starts the client."
            )
        if key.startswith(TOKEN_PREFIX):
            session = self._sign_ins.find(key)
            if session is None:
                raise Unauthenticated("The session has ended.")
            return self._sign_ins.caller_of(session)
        caller = self._access.book.identify(key)
        if caller is None:
            raise Unauthenticated("The key is not known.")
        return caller


def presented_key(headers: Mapping[str, str]) -> str | None:
    authorization = headers.get("Authorization", "")
    if authorization[: len(BEARER)].lower() == BEARER:
        return authorization[len(BEARER) :].strip() or None
    return headers.get("X-API-Key", "").strip() or None
