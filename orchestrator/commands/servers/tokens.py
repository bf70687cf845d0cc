"""The tokens of servers: files in secrets/, one for each, which entries name as ${VARIABLE} and never hold."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.commands.keys import write_atomically

VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
CONTROL = re.compile(r"[\x00-\x1f\x7f]")
LONGEST_BYTES = 16 * 1024
DAEMONS_GROUP = 10001  # of the user that the daemon is in its container
SHORTEST_HIDDEN = 4  # shorter values are words of everyday text


class BadToken(Exception):
    """The message names the token and what is wrong with it, and never its value."""


Ask = Callable[[str], str]  # by the name of what is asked for


@dataclass(frozen=True, slots=True)
class Tokens:
    """Values by variable, and where they are kept: containers get theirs from compose, the daemon reads its own."""

    of_container: Mapping[str, str] = field(default_factory=dict, repr=False)
    of_daemon: Mapping[str, str] = field(default_factory=dict, repr=False)


class Wallet:
    """Collects the values of one server, each under a variable of its own, whatever other servers call theirs."""

    def __init__(self, server: str, environment: Mapping[str, str], ask: Ask) -> None:
        self._prefix = _prefix(server)
        self._environment = environment
        self._ask = ask
        self._words: dict[str, str] = {}  # by variable
        self.values: dict[str, str] = {}
        self.given_openly: list[str] = []

    def variable(self, word: str) -> str:
        """Return a file name and variable that no other server has: the first two underscores end the server's name."""
        return self._prefix + re.sub(r"[^A-Za-z0-9_]", "_", word)

    def keep(self, word: str, value: str | None) -> str:
        """Keep a value, the one given or else one that is looked up or asked for once; return the reference to it."""
        variable = self.variable(word)
        if self._words.setdefault(variable, word) != word:
            raise BadToken(f"{self._words[variable]} and {word} would be kept under one name. Rename one of the two.")
        if value is not None:
            self.given_openly.append(word)
        elif variable in self.values:
            return f"${{{variable}}}"
        else:
            value = self._environment.get(word) or self._ask(word)
        self.values[variable] = _checked(word, value)
        return f"${{{variable}}}"

    def refer(self, text: str) -> str:
        """Replace each ${NAME} by a reference to the value that NAME has now."""
        return REFERENCE.sub(lambda found: self.keep(found[1], None), text)


def environment_of(wallet: Wallet, options: list[str]) -> dict[str, str]:
    """Read `KEY` or `KEY=value` options into references."""
    env: dict[str, str] = {}
    for option in options:
        key, equals, value = option.partition("=")
        if not VARIABLE.fullmatch(key):
            raise BadToken("--env must be KEY or KEY=value, and KEY the name of a variable, such as API_KEY.")
        env[key] = wallet.keep(key, value if equals else None)
    return env


def headers_of(wallet: Wallet, options: list[str]) -> dict[str, str]:
    """Read `Name: value`, `Name: text with ${VARIABLE}` or `Name` options into references."""
    headers: dict[str, str] = {}
    for option in options:
        name, colon, value = (part.strip() for part in option.partition(":"))
        if not HEADER.fullmatch(name):
            raise BadToken("--header must be 'Name: value', and Name the name of a header, such as Authorization.")
        if REFERENCE.search(value):
            headers[name] = wallet.refer(value)
        else:
            headers[name] = wallet.keep(name, value if colon and value else None)
    return headers


def _prefix(server: str) -> str:
    name = server.upper().replace("-", "_")
    return f"_{name}__" if name[:1].isdigit() else f"{name}__"  # no variable begins with a digit


def _checked(word: str, value: str) -> str:
    value = value.strip()
    if not value:
        raise BadToken(f"The value of {word} must not be empty.")
    if CONTROL.search(value) or "\ufffd" in value:
        raise BadToken(f"The value of {word} must not contain line breaks or other control characters.")
    if len(value.encode("utf-8", "replace")) > LONGEST_BYTES:
        raise BadToken(f"The value of {word} must not be longer than {LONGEST_BYTES} bytes.")
    return value


@dataclass(frozen=True, slots=True)
class TokenFiles:
    """secrets/own, which nobody but its owner enters; the daemon has one of the two directories in it mounted."""

    secrets_dir: Path

    @property
    def _root(self) -> Path:
        return self.secrets_dir / "own"

    def write(self, tokens: Tokens) -> None:
        for name in ("containers", "daemon"):
            (self._root / name).mkdir(parents=True, exist_ok=True)
        self._root.chmod(0o700)
        (self._root / "daemon").chmod(0o755)
        for variable, value in tokens.of_container.items():
            write_atomically(self._root / "containers" / variable, f"{value}\n", 0o600)
        for variable, value in tokens.of_daemon.items():
            self._write_for_daemon(self._root / "daemon" / variable, value)

    def of(self, server: str) -> Tokens:
        """Return what is kept for a server, to put it back if what comes instead cannot be finished."""
        held: dict[str, dict[str, str]] = {"containers": {}, "daemon": {}}
        for file in self._files():
            if file.name.startswith(_prefix(server)):
                held[file.parent.name][file.name] = file.read_text().strip()
        return Tokens(of_container=held["containers"], of_daemon=held["daemon"])

    def remove(self, server: str, keep: Tokens | None = None) -> list[str]:
        """Remove the tokens of a server but those to keep, each where it is kept; return their names."""
        kept = {"containers": keep.of_container, "daemon": keep.of_daemon} if keep is not None else {}
        own = [file for file in self._files() if file.name.startswith(_prefix(server))]
        gone = [file for file in own if file.name not in kept.get(file.parent.name, ())]
        for file in gone:
            file.unlink(missing_ok=True)
        return [file.name for file in gone]

    def hide(self, text: str) -> str:
        """Return the text without the value of any token of any server."""
        values = []
        for file in self._files():
            with suppress(OSError, UnicodeDecodeError):
                values.append(file.read_text().strip())
        for value in sorted(values, key=len, reverse=True):
            if len(value) >= SHORTEST_HIDDEN:
                text = text.replace(value, "***")
        return text

    def _files(self) -> list[Path]:
        found = [*self._root.glob("containers/*"), *self._root.glob("daemon/*")]
        return [file for file in found if VARIABLE.fullmatch(file.name)]

    def _write_for_daemon(self, path: Path, value: str) -> None:
        # The daemon is another user. Root makes the file its group's; who is not root cannot, and then it is the
        # directory around, closed to everybody else, that keeps it.
        mode = 0o640 if os.geteuid() == 0 else 0o644
        write_atomically(path, f"{value}\n", mode)
        if os.geteuid() == 0:
            os.chown(path, -1, DAEMONS_GROUP)
