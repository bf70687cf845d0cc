"""What servers and tools are called inside a program: identifiers that are valid in TypeScript and in Python.

Every tool has one identifier, which is also its file name. Tools whose identifiers would be the same are disabled, so
each identifier that is left leads back to exactly one original name.
"""

from __future__ import annotations

import hashlib
import keyword
import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from orchestrator.domain.tools import Tool

# A file name may have 255 bytes, and a character up to 4.
_MAX_LENGTH = 60


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_JAVASCRIPT_WORDS = _words(
    """
    arguments await break case catch class const continue debugger default delete do else enum eval export extends
    false finally for function if implements import in instanceof interface let new null package private protected
    public return static super switch this throw true try typeof undefined var void while with yield
    """
)
# Allowed as names, but with a meaning for the language: a module that exports `then` is called when it is awaited.
_JAVASCRIPT_TRAPS = _words("constructor exports globalThis Object Promise prototype require then __proto__")
# What a generated Python module uses itself.
_WRAPPER_WORDS = _words(
    "Any Literal NotRequired TypeAlias TypedDict Unpack annotations builtins overload TYPE_CHECKING _Tool _tool"
)
_RESERVED = frozenset(keyword.kwlist) | _JAVASCRIPT_WORDS | _JAVASCRIPT_TRAPS | _WRAPPER_WORDS

# The modules that stand beside the generated ones.
_SERVER_FILES = _words(
    "discovery errors content output _arguments _client _discovery _http _lazy _names _paths _pending _skills"
)
_TOOL_FILES = _words("index")

# Characters that are allowed in identifiers but cannot be seen: variation selectors, fillers, joiners.
_INVISIBLE = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")


def server_identifier(name: str) -> str:
    return _beside(_SERVER_FILES, _identifier(name))


def tool_identifier(name: str) -> str:
    return _beside(_TOOL_FILES, _identifier(name))


def _beside(files: frozenset[str], identifier: str) -> str:
    return f"{identifier}_" if identifier.casefold() in files else identifier


def _identifier(name: str) -> str:
    # Python compares identifiers after this normalisation, JavaScript does not.
    visible = _INVISIBLE.sub("_", unicodedata.normalize("NFKC", name))
    spelled = "".join(character if f"a{character}".isidentifier() else "_" for character in visible)
    if not spelled.isidentifier():  # its first character may be a digit, or there may be none
        spelled = f"_{spelled}"
    if len(spelled) > _MAX_LENGTH:
        digest = hashlib.sha256(spelled.encode()).hexdigest()[:8]
        spelled = f"{spelled[: _MAX_LENGTH - 9]}_{digest}"
    is_python_magic = spelled.startswith("__") and spelled.endswith("__")
    return f"{spelled}_" if spelled in _RESERVED or is_python_magic else spelled


@dataclass(frozen=True, slots=True)
class Collision:
    """Names that cannot be told apart as identifiers; `server` is None when they are names of servers."""

    identifier: str
    names: tuple[str, ...]
    server: str | None = None

    @property
    def message(self) -> str:
        names = " and ".join(f"'{name}'" for name in self.names)
        which = f"The servers {names}" if self.server is None else f"The tools {names} of the server '{self.server}'"
        return f"{which} would all be called '{self.identifier}', so none of them is available. Rename all but one."


@dataclass(frozen=True, slots=True)
class Names:
    """The identifiers of a set of tools, and the way back."""

    tools: Mapping[str, Mapping[str, Tool]]
    collisions: tuple[Collision, ...]

    @classmethod
    def of(cls, tools: Iterable[Tool]) -> Names:
        by_server: dict[str, dict[str, Tool]] = defaultdict(dict)
        for tool in tools:
            by_server[tool.server].setdefault(tool.name, tool)
        servers, collisions = _distinct(by_server, server_identifier, server=None)
        named = {}
        for server, original in servers.items():
            found, clashes = _distinct(by_server[original], tool_identifier, server=original)
            named[server] = {name: by_server[original][tool] for name, tool in found.items()}
            collisions += clashes
        return cls(named, tuple(collisions))

    def find(self, server: str, tool: str) -> Tool | None:
        """Return the tool that a program calls by these identifiers."""
        return self.tools.get(server, {}).get(tool)


def _distinct(
    names: Iterable[str], spell: Callable[[str], str], *, server: str | None
) -> tuple[dict[str, str], list[Collision]]:
    alike: dict[str, list[str]] = defaultdict(list)
    for name in sorted(names):
        # Where the wrappers are copied to, file names may not be case sensitive.
        alike[spell(name).casefold()].append(name)
    distinct = {spell(group[0]): group[0] for group in alike.values() if len(group) == 1}
    clashes = [Collision(spell(group[0]), tuple(group), server) for group in alike.values() if len(group) > 1]
    return dict(sorted(distinct.items())), clashes
