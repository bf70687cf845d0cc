"""Somebody who is signed in to the console."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SignIn:
    """A session: it ends with its time, and when the key that it was opened with is rotated or changes its role."""

    token_sha256: str
    key_name: str
    key_sha256: str
    role: str
    expires_at: float
