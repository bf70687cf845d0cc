"""Who may use what. One resolver serves every list and every call."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256

ANY_SERVER = "*"


@dataclass(frozen=True, slots=True)
class Role:
    name: str
    servers: frozenset[str]
    sees_all_executions: bool = False

    def may_use(self, server: str) -> bool:
        return ANY_SERVER in self.servers or server in self.servers


@dataclass(frozen=True, slots=True)
class Caller:
    """The authenticated client: the name of its key, never the key."""

    key_name: str
    role: Role

    def may_see(self, owner_key_name: str) -> bool:
        return self.role.sees_all_executions or owner_key_name == self.key_name


@dataclass(frozen=True, slots=True)
class KeyHash:
    key_name: str
    sha256_hex: str


def hash_key(key: str) -> str:
    return sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class AccessBook:
    """Roles and the hashes of their keys, as they stood when the files were last read."""

    roles: Mapping[str, Role]
    role_of_key: Mapping[str, str]
    key_hashes: tuple[KeyHash, ...]

    def identify(self, presented_key: str) -> Caller | None:
        presented = hash_key(presented_key)
        found: str | None = None
        for known in self.key_hashes:  # no early exit: the time must not tell which key was near
            if hmac.compare_digest(known.sha256_hex, presented):
                found = known.key_name
        role_name = self.role_of_key.get(found) if found is not None else None
        if found is None or role_name is None:
            return None
        return Caller(found, self.roles[role_name])
