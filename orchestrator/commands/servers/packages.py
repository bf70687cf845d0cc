"""What `npx …` or `uvx …` would run, told from its words alone, and what it is once its packages are here.

npx and uvx fetch when a server starts, whatever is newest then. Here the packages are fetched once and pinned, so the
words are taken apart: which package, which command of it, which arguments. Nothing of a package is run for that.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

NPM_NAME = re.compile(r"(?:@[a-z0-9][a-z0-9._~-]*/)?[a-z0-9][a-z0-9._~-]*")
NPM_VERSION = re.compile(r"[~^]?[0-9A-Za-z][0-9A-Za-z.+_-]*")
PYTHON_NAME = re.compile(r"(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)(?P<extras>\[[A-Za-z0-9._,-]+\])?")
PYTHON_VERSION = re.compile(r"[0-9][0-9A-Za-z.+!-]*")
COMMAND = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
NODE_PROGRAM = re.compile(rb"#!\s*\S*(?:/node|env\s+(?:-S\s+)?node)\b")
APP = "/app"


class NotRunnable(Exception):
    """The message says what of the command or of the package cannot be used, and what can."""


class Runner(StrEnum):
    NPX = "npx"
    UVX = "uvx"

    @property
    def registry(self) -> str:
        return "npm" if self is Runner.NPX else "PyPI"


@dataclass(frozen=True, slots=True)
class Launch:
    """A package, as exactly as the user named it, the command of it that is meant, and its arguments."""

    runner: Runner
    package: str
    version: str  # empty for the newest there is
    extras: str  # as pip writes them, with their brackets
    command: str  # empty for the package's own
    arguments: tuple[str, ...]

    @property
    def requirement(self) -> str:
        if self.runner is Runner.NPX:
            return f"{self.package}@{self.version}" if self.version else self.package
        return f"{self.package}{self.extras}{'==' if self.version else ''}{self.version}"


def parse(words: Sequence[str]) -> Launch:
    """Take `npx -y package@1.2.3 …` or `uvx package==1.2 …` apart; what could fetch from elsewhere is refused."""
    match words:
        case ["npx", *rest]:
            return _npx(rest)
        case ["uvx", *rest] | ["uv", "tool", "run", *rest]:
            return _uvx(rest)
        case ["npx.cmd" | "bunx" | "pnpm" | "yarn" as word, *_]:
            raise NotRunnable(f"{word} is not known here; write npx and the package.")
        case [word, *_]:
            raise NotRunnable(
                f"The command must begin with npx or uvx, not {word!r}: a server is made from a package of npm or "
                "PyPI. For one that runs already, give its address with --url."
            )
        case _:
            raise NotRunnable("Write what runs the server after --, as in '-- npx -y some-server@1.2.3', or --url.")


def _npx(words: Sequence[str]) -> Launch:
    rest, package = list(words), ""
    while rest and rest[0].startswith("-"):
        option, _, value = rest.pop(0).partition("=")
        match option:
            case "-y" | "--yes":
                continue
            case "--":
                break
            case "-p" | "--package" if not package:
                package = value or (rest.pop(0) if rest else "")
            case _:
                raise NotRunnable(_refused(Runner.NPX, option, "-y and --package"))
    command = ""
    if package:
        if not rest or not COMMAND.fullmatch(rest[0]):
            raise NotRunnable("After npx --package PACKAGE comes the command of it that is to run.")
        command = rest.pop(0)
    elif rest:
        package = rest.pop(0)
    name, _, version = package[1:].partition("@") if package.startswith("@") else package.partition("@")
    name = f"@{name}" if package.startswith("@") else name
    if not NPM_NAME.fullmatch(name) or (version and not NPM_VERSION.fullmatch(version)):
        raise NotRunnable(_bad_package(Runner.NPX, package, "some-server@1.2.3 or @scope/server"))
    return Launch(Runner.NPX, name, "" if version == "latest" else version, "", command, tuple(rest))


def _uvx(words: Sequence[str]) -> Launch:
    rest, source = list(words), ""
    while rest and rest[0].startswith("-"):
        option, _, value = rest.pop(0).partition("=")
        match option:
            case "--":
                break
            case "--from" if not source:
                source = value or (rest.pop(0) if rest else "")
            case _:
                raise NotRunnable(_refused(Runner.UVX, option, "--from"))
    command = ""
    if source:
        if not rest or not COMMAND.fullmatch(rest[0]):
            raise NotRunnable("After uvx --from PACKAGE comes the command of it that is to run.")
        command = rest.pop(0)
    elif rest:
        source = rest.pop(0)
    name, _, version = source.partition("==") if "==" in source else source.partition("@")
    found = PYTHON_NAME.fullmatch(name)
    version = "" if version == "latest" else version
    if found is None or (version and not PYTHON_VERSION.fullmatch(version)):
        raise NotRunnable(_bad_package(Runner.UVX, source, "some-server==1.2 or some-server[extra]@1.2"))
    return Launch(Runner.UVX, found["name"], version, found["extras"] or "", command, tuple(rest))


def _refused(runner: Runner, option: str, known: str) -> str:
    return (
        f"{runner} {option} is not taken over here, only {known}. Where packages come from is the configuration of "
        f"{'npm' if runner is Runner.NPX else 'pip'} on this machine; options of the server go after the package."
    )


def _bad_package(runner: Runner, package: str, example: str) -> str:
    return (
        f"{package!r} must be the name of a package on {runner.registry}, such as {example}. Addresses, git and files "
        "are refused, because nothing says tomorrow that they are what they were today."
    )


def write_wish(launch: Launch, directory: Path) -> None:
    """Write what is to be pinned, for the scripts that ask npm or pip."""
    if launch.runner is Runner.NPX:
        document = {"private": True, "dependencies": {launch.package: launch.version or "latest"}}
        (directory / "package.json").write_text(json.dumps(document, indent=2) + "\n")
    else:
        (directory / "requirements.in").write_text(f"{launch.requirement}\n")


def pin(launch: Launch, directory: Path) -> str:
    """Check that the lock names nothing but packages of the registry by their digests; return the version it chose."""
    if launch.runner is Runner.UVX:
        name = _normalized(launch.package)
        for line in (directory / "requirements.txt").read_text().splitlines():
            pinned, _, version = line.partition("==")
            if _normalized(pinned) == name:
                return version.split()[0]
        raise NotRunnable(f"pip has not pinned {launch.package}. Run this again.")
    manifest, lock = directory / "package.json", directory / "package-lock.json"
    locked = json.loads(lock.read_text())
    for path, package in locked["packages"].items():
        if path and not _is_from_registry(package):
            raise NotRunnable(
                f"{launch.package} needs {path.rpartition('node_modules/')[2]}, which is not from the npm registry "
                "but from git, a file or an address. Such a package cannot be pinned; choose another version or server."
            )
    version = str(locked["packages"][f"node_modules/{launch.package}"]["version"])
    locked["packages"][""]["dependencies"] = {launch.package: version}
    document = {"private": True, "dependencies": {launch.package: version}}
    manifest.write_text(json.dumps(document, indent=2) + "\n")
    lock.write_text(json.dumps(locked, indent=2) + "\n")
    return version


def without_install_scripts(launch: Launch, directory: Path) -> list[str]:
    """Return the packages whose install scripts were not run: they may lack something that those would have made."""
    if launch.runner is Runner.UVX:
        return []
    packages = json.loads((directory / "package-lock.json").read_text())["packages"]
    return sorted(
        {path.rpartition("node_modules/")[2] for path, package in packages.items() if package.get("hasInstallScript")}
    )


def _is_from_registry(package: dict[str, Any]) -> bool:
    """Tell by the lock: it is made without the addresses of what the registry has, so an address is another's."""
    if package.get("inBundle"):
        return True
    return not package.get("link") and "integrity" in package and "resolved" not in package


def command_of(launch: Launch, fetched: Path) -> tuple[str, ...]:
    """Return how the server is started in its container, without its arguments."""
    return _node_command(launch, fetched) if launch.runner is Runner.NPX else _python_command(launch, fetched)


def _node_command(launch: Launch, fetched: Path) -> tuple[str, ...]:
    place = fetched / "node_modules" / launch.package
    manifest = json.loads((place / "package.json").read_text(encoding="utf-8"))
    own_name = launch.package.rpartition("/")[2]
    bins = manifest.get("bin") or {}
    bins = {own_name: bins} if isinstance(bins, str) else bins
    if not isinstance(bins, dict) or not bins:
        raise NotRunnable(f"{launch.package} has no command that could run: it is a library, not a server.")
    wanted = launch.command or (own_name if own_name in bins else next(iter(bins)) if len(bins) == 1 else "")
    if wanted not in bins:
        raise NotRunnable(
            f"{launch.package} has the commands {', '.join(sorted(bins))}: choose one with "
            f"'npx --package {launch.requirement} COMMAND'."
        )
    program = (place / str(bins[wanted])).resolve()
    if not program.is_relative_to(place.resolve()) or not program.is_file():
        raise NotRunnable(f"The command {wanted} of {launch.package} is not in the package.")
    with program.open("rb") as file:
        begins = file.read(128)
    if program.suffix not in (".js", ".mjs", ".cjs") and not NODE_PROGRAM.match(begins):
        raise NotRunnable(f"The command {wanted} of {launch.package} is not a program for Node.js.")
    return ("node", f"{APP}/node_modules/{launch.package}/{_plain(launch, program.relative_to(place.resolve()))}")


def _plain(launch: Launch, word: object) -> str:
    """Return a word that the package has chosen; in its container, ${NAME} would stand for a secret of anybody."""
    if "$" in str(word):
        raise NotRunnable(f"The command of {launch.package} has a $ in its name, which is refused.")
    return str(word)


def _python_command(launch: Launch, fetched: Path) -> tuple[str, ...]:
    site_packages = fetched / "site-packages"
    commands = _console_scripts(launch.package, site_packages)
    wanted = launch.command or (
        launch.package if launch.package in commands else next(iter(commands)) if len(commands) == 1 else launch.package
    )
    if wanted in commands:
        return ("python3", "-P", f"{APP}/entry_point.py", _plain(launch, wanted), _plain(launch, commands[wanted]))
    if COMMAND.fullmatch(wanted) and (site_packages / "bin" / wanted).is_file():
        return (f"{APP}/site-packages/bin/{wanted}",)
    known = f"has the commands {', '.join(sorted(commands))}" if commands else "has no command that could run"
    raise NotRunnable(f"{launch.package} {known}: choose one with 'uvx --from {launch.requirement} COMMAND'.")


def _console_scripts(package: str, site_packages: Path) -> dict[str, str]:
    found: list[Distribution] = [
        each
        for each in distributions(path=[str(site_packages)])
        if _normalized(each.metadata["Name"]) == _normalized(package)
    ]
    return {
        script.name: f"{script.module}:{script.attr}"
        for each in found
        for script in each.entry_points.select(group="console_scripts")
    }


def _normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name.strip()).lower()
