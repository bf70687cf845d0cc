"""Who may use what. One resolver serves every list and every call."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from hashlib import sha256

ANY_SERVER = "*"
ANY_ROOM = "*"
CHAT_SERVER = "chat"  # built in: chatRooms decides who sees it, not servers
SKILLS = "skills"  # built in: skills/NAME is for whoever may call every tool that the skill calls, unless it is denied

Paths = tuple[tuple[str, str], ...]  # servers and tools


@dataclass(frozen=True, slots=True)
class Decision:
    allowed: bool
    rule: str


@dataclass(frozen=True, slots=True)
class Role:
    name: str
    servers: frozenset[str]
    allowed_tools: tuple[str, ...] = ()
    denied_tools: tuple[str, ...] = ()
    sees_all_executions: bool = False
    max_timeout_seconds: float | None = None
    max_tool_calls: int | None = None
    chat_rooms: frozenset[str] = frozenset()
    shared_workspaces: tuple[str, ...] = ()  # patterns of names; the others are each key's own
    approves_skills: bool = False

    def decide(self, server: str, tool: str, requires: Paths = ()) -> Decision:
        """Resolve for everything that lists, searches, wraps or calls tools; names are compared exactly.

        What a skill `requires`, the role must be allowed as well.
        """
        path = f"{server}/{tool}"
        if server == SKILLS:
            return self._decide_on_skill(path, requires)
        is_chat, sees_it = server == CHAT_SERVER, self.sees_server(server)
        if not sees_it and is_chat:
            return Decision(False, f"chatRooms of role {self.name} is empty")
        if not sees_it:
            return Decision(False, f"servers of role {self.name} do not include {server}")
        for pattern in self.denied_tools:
            if fnmatchcase(path, pattern):
                return Decision(False, f"tools.deny of role {self.name} has {pattern}")
        if not self.allowed_tools and is_chat:
            return Decision(True, f"chatRooms of role {self.name} is not empty")
        if not self.allowed_tools:
            entry = server if server in self.servers else ANY_SERVER
            return Decision(True, f"servers of role {self.name} include {entry}")
        for pattern in self.allowed_tools:
            if fnmatchcase(path, pattern):
                return Decision(True, f"tools.allow of role {self.name} has {pattern}")
        return Decision(False, f"tools.allow of role {self.name} has nothing for {path}")

    def _decide_on_skill(self, path: str, requires: Paths) -> Decision:
        for pattern in self.denied_tools:
            if fnmatchcase(path, pattern):
                return Decision(False, f"tools.deny of role {self.name} has {pattern}")
        for server, tool in requires:
            if not (decision := self.decide(server, tool)).allowed:
                return Decision(False, f"it calls {server}/{tool}, and {decision.rule}")
        return Decision(True, f"role {self.name} may call every tool that it calls")

    def may_call(self, server: str, tool: str, requires: Paths = ()) -> bool:
        return self.decide(server, tool, requires).allowed

    def sees_server(self, server: str) -> bool:
        if server == CHAT_SERVER:
            return bool(self.chat_rooms)
        return server == SKILLS or ANY_SERVER in self.servers or server in self.servers


@dataclass(frozen=True, slots=True)
class Caller:
    """The authenticated client: the name and the hash of its key, never the key."""

    key_name: str
    role: Role
    key_sha256: str = ""

    def owner_of(self, workspace: str) -> str:
        """Name whose a workspace is: the role's where it is shared, otherwise the key's own."""
        shared = any(fnmatchcase(workspace, pattern) for pattern in self.role.shared_workspaces)
        return f"role/{self.role.name}" if shared else f"key/{self.key_name}"

    @property
    def owners(self) -> tuple[str, str]:
        return f"key/{self.key_name}", f"role/{self.role.name}"

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

    @property
    def live_keys(self) -> frozenset[tuple[str, str]]:
        """Name and hash of the keys that a role has: a key that was rotated keeps its name but is another key."""
        return frozenset(
            (known.key_name, known.sha256_hex) for known in self.key_hashes if known.key_name in self.role_of_key
        )

    def keys_of(self, role_name: str) -> tuple[str, ...]:
        return tuple(key for key, owner in self.role_of_key.items() if owner == role_name)

    def role_now(self, caller: Caller) -> Role | None:
        """Return the caller's role as it stands now: its key may have been given another, and roles change."""
        return self.roles.get(self.role_of_key.get(caller.key_name, caller.role.name))

    def identify(self, presented_key: str) -> Caller | None:
        presented = hash_key(presented_key)
        found: str | None = None
        for known in self.key_hashes:  # no early exit: the time must not tell which key was near
            if hmac.compare_digest(known.sha256_hex, presented):
                found = known.key_name
        role_name = self.role_of_key.get(found) if found is not None else None
        if found is None or role_name is None:
            return None
        return Caller(found, self.roles[role_name], presented)
