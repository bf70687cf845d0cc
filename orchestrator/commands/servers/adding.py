"""Adding and removing: what cannot be finished is taken back, so that nothing stays half-made."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from orchestrator.commands.servers.entries import (
    BadEntry,
    Container,
    Json,
    ServersDirectory,
    entry_of_address,
    entry_of_container,
)
from orchestrator.commands.servers.host import Host, HostFailed
from orchestrator.commands.servers.packages import (
    Launch,
    NotRunnable,
    Runner,
    command_of,
    parse,
    pin,
    without_install_scripts,
    write_wish,
)
from orchestrator.commands.servers.tokens import TokenFiles
from orchestrator.commands.servers.wishes import Address, Program, Wish
from orchestrator.commands.terminal import err, plain


@dataclass(frozen=True, slots=True)
class Yard:
    """Where the user's own servers are: their entries and locks, their tokens, and the machine that they run on."""

    directory: ServersDirectory
    tokens: TokenFiles
    machine: Host

    def add(self, wish: Wish, *, replace_it: bool) -> Json:
        """Add a server and start it; return its entry. One that is there already only gets its tokens again."""
        previous = self._previous(wish.name, replace_it)
        if isinstance(wish.server, Address):
            return self._add_address(wish, wish.server, previous, replace_it)
        return self._add_program(wish, wish.server, previous, replace_it)

    def remove(self, name: str) -> bool:
        """Remove everything of a server, the entry first; return whether there was anything."""
        try:
            entry = self.directory.entry(name)
        except BadEntry:
            entry = None
        existed = self.directory.remove(name)
        had_tokens = self.tokens.remove(name)
        runs_here = entry is None or "container" in entry or self.machine.fetched(name).exists()
        if runs_here and (existed or had_tokens or self.machine.fetched(name).exists()):
            self.machine.script("remove", name)
        self._take_up_host(entry, None)
        return existed or bool(had_tokens)

    def _add_address(self, wish: Wish, server: Address, previous: Json | None, replace_it: bool) -> Json:
        entry = entry_of_address(server.url, server.kind, server.headers, wish.options)
        _refuse_another(wish.name, previous, entry, replace_it)
        with self._taking_back(wish.name, previous):
            if previous is not None and "container" in previous:
                self.machine.script("remove", wish.name)
                shutil.rmtree(self.directory.locks(wish.name), ignore_errors=True)
            self._write(wish, entry)
            self._take_up_host(previous, entry)
        return entry

    def _add_program(self, wish: Wish, server: Program, previous: Json | None, replace_it: bool) -> Json:
        running = _running(previous, server.launch) if self.directory.locks(wish.name).is_dir() else None
        if running is None:
            return self._fetch_and_add(wish, server, previous, replace_it)
        version, command = running
        entry = self._entry(wish, server, version, (*command, *server.arguments))
        _refuse_another(wish.name, previous, entry, replace_it)
        with self._taking_back(wish.name, previous):
            self._write(wish, entry)
            self.machine.script("start", wish.name)
        return entry

    def _fetch_and_add(self, wish: Wish, server: Program, previous: Json | None, replace_it: bool) -> Json:
        if previous is not None and not replace_it:
            raise _another(wish.name)
        launch = server.launch
        with self.machine.workshop(wish.name) as place:
            locks, fetched = place / "locks", place / "fetched"
            write_wish(launch, locks)
            self.machine.script("lock", str(locks))
            version = pin(launch, locks)
            self.machine.script("fetch", str(locks), str(fetched))
            command = command_of(launch, fetched)
            entry = self._entry(wish, server, version, (*command, *server.arguments))
            if unbuilt := without_install_scripts(launch, locks):
                err.print(plain(f"Install scripts are never run, and these packages have one: {', '.join(unbuilt)}."))
            with self._taking_back(wish.name, previous):
                self.directory.keep_locks(wish.name, locks)
                shutil.rmtree(self.machine.fetched(wish.name), ignore_errors=True)
                fetched.rename(self.machine.fetched(wish.name))
                self._write(wish, entry)
                self.machine.script("start", wish.name)
                # What was on the host's side of an address that this replaces.
                self._take_up_host(previous, entry)
        return entry

    def _entry(self, wish: Wish, server: Program, version: str, command: tuple[str, ...]) -> Json:
        run = _words(replace(server.launch, version=version))
        container = Container(run, command, server.env, server.network, self.directory.user_for(wish.name))
        return entry_of_container(wish.name, container, wish.options)

    @contextmanager
    def _taking_back(self, name: str, previous: Json | None) -> Iterator[None]:
        """Leave things as they were if what is done inside fails or is interrupted."""
        kept, tokens = self.machine.fetched(f".{name}.old"), self.tokens.of(name)
        shutil.rmtree(kept, ignore_errors=True)
        if previous is not None and self.directory.locks(name).is_dir():
            shutil.copytree(self.directory.locks(name), kept)
        try:
            yield
        except BaseException:
            err.print(plain(f"Taking back what was done for {name} …"))
            if previous is None:
                with suppress(HostFailed):
                    self.remove(name)
            else:
                self.tokens.write(tokens)
                self.tokens.remove(name, keep=tokens)
                self.directory.write(name, previous)
                if kept.is_dir():
                    self.directory.keep_locks(name, kept)
                elif "container" not in previous:
                    shutil.rmtree(self.directory.locks(name), ignore_errors=True)
                    with suppress(HostFailed):
                        self.machine.script("remove", name)
                err.print(plain(f"The entry of {name} is as it was; 'make up' starts it again."))
            raise
        finally:
            shutil.rmtree(kept, ignore_errors=True)

    def _previous(self, name: str, replace_it: bool) -> Json | None:
        try:
            return self.directory.entry(name)
        except BadEntry:
            if not replace_it:
                raise
            return None

    def _write(self, wish: Wish, entry: Json) -> None:
        """Write the tokens, then the entry that names them; those of an earlier entry go."""
        self.tokens.write(wish.tokens)
        self.tokens.remove(wish.name, keep=wish.tokens)
        self.directory.write(wish.name, entry)

    def _take_up_host(self, previous: Json | None, entry: Json | None) -> None:
        """Have the daemon's container made again where it gets, or loses, the name of this machine."""
        if _is_on_host(previous) != _is_on_host(entry) and self.machine.daemon_runs():
            self.machine.script("restart-daemon")


def _words(launch: Launch) -> str:
    """Return what the user wrote, with the version that was chosen."""
    is_npx = launch.runner is Runner.NPX
    words = ["npx", "-y"] if is_npx else ["uvx"]
    if launch.command:
        words += ["--package" if is_npx else "--from", launch.requirement, launch.command]
    else:
        words.append(launch.requirement)
    return shlex.join([*words, *launch.arguments])


def _running(previous: Json | None, launch: Launch) -> tuple[str, tuple[str, ...]] | None:
    """Return version and command of what runs, if it is what is asked for; the newest is the one chosen back then."""
    container = (previous or {}).get("container")
    if not isinstance(container, dict):
        return None
    try:
        before = parse(shlex.split(str(container["run"])))
        command = tuple(str(word) for word in container["command"])
    except (NotRunnable, KeyError, TypeError, ValueError):
        return None
    wanted = launch if launch.version else replace(launch, version=before.version)
    if before != wanted:
        return None
    return before.version, command[: len(command) - len(before.arguments)]


def _is_on_host(entry: Json | None) -> bool:
    return entry is not None and entry.get("host") is True and "container" not in entry


def _refuse_another(name: str, previous: Json | None, entry: Json, replace_it: bool) -> None:
    if previous is not None and previous != entry and not replace_it:
        raise _another(name)


def _another(name: str) -> BadEntry:
    return BadEntry(f"There is a server {name} already, and it is another. Add --replace to replace it.")
