"""Looks at everything an execution needs; each finding comes with its fix."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import Sequence
from typing import Any

import aiohttp

from orchestrator.adapters.access_files import RolesFileInvalid, read_book, read_hashes
from orchestrator.commands import keys
from orchestrator.commands.held import NotTold, ask
from orchestrator.daemon import build_engine
from orchestrator.domain.sandbox import Finding, Verdict
from orchestrator.domain.upstream import UpstreamState
from orchestrator.instance import exposed, foreign_files
from orchestrator.launcher import build_launcher
from orchestrator.settings import ENV_FILE, Settings
from orchestrator.settings_in_effect import unknown_settings

LEAST_FREE_BYTES = 1024**3
ENGINE_SECONDS = 10
COMPOSE_PROJECT = "mcp-code-executor"  # what scripts/lib.sh calls it
ENSURE_KEYS = "Run '.venv/bin/code-executor keys ensure'."
RESTORE_PROFILE = "Restore runner-image/seccomp.json from the repository."


def _ok(check: str, detail: str) -> Finding:
    return Finding(check, Verdict.OK, detail)


def _failed(check: str, detail: str, fix: str) -> Finding:
    return Finding(check, Verdict.FAILED, detail, fix)


def _warning(check: str, detail: str, fix: str) -> Finding:
    return Finding(check, Verdict.WARNING, detail, fix)


async def examine(settings: Settings) -> list[Finding]:
    return [
        *await _engine(settings),
        *await _daemon(settings),
        *await _held(settings),
        *await _containers(),
        *_settings(),
        _seccomp(settings),
        _roles(settings),
        *_hashes(settings),
        *_keys(settings),
        *_data(settings),
        _disk(settings),
    ]


async def _engine(settings: Settings) -> Sequence[Finding]:
    """Ask the launcher if there is one, as in the daemon's container; else look as a launcher does."""
    if settings.launcher_socket is not None:
        return await build_engine(settings, owner="doctor").describe()
    try:
        launcher = build_launcher(settings, owner="doctor")
    except OSError as error:
        return [_failed("engine", f"the seccomp profile cannot be read: {error}", RESTORE_PROFILE)]
    try:
        return await asyncio.to_thread(launcher.look)
    finally:
        launcher.close()


async def _daemon(settings: Settings) -> list[Finding]:
    """Ask the daemon how it is; whatever else answers there is told apart from it."""
    health: dict[str, Any] = {}
    problem: dict[str, Any] = {}
    try:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=3)) as session:
            async with session.get(f"{settings.url}/health") as response:
                health = await response.json(content_type=None)
            async with session.get(f"{settings.url}/readyz") as response:
                problem = await response.json(content_type=None) if response.status == 503 else {}
    except (TimeoutError, aiohttp.ClientConnectorError):
        return [_failed("daemon", f"nothing answers at {settings.url}", "Start it with 'make up'.")]
    except (aiohttp.ClientError, ValueError):
        pass
    if not isinstance(health, dict) or "upstreams" not in health:
        fix = "Stop the other program, or publish another port with CODE_EXECUTOR_PUBLISH."
        return [_failed("daemon", f"something else answers at {settings.url}", fix)]
    answers = f"answers at {settings.url}"
    if problem:
        findings = [_failed("daemon", f"{answers}, but is not ready: {problem['detail']}", problem["hint"])]
    else:
        findings = [_ok("daemon", f"{answers}, {health['status']}")]
    for name, state in health["upstreams"].items():
        if state == UpstreamState.CONNECTED:
            count = health.get("toolsByServer", {}).get(name, 0)
            findings.append(_ok(f"server {name}", f"{state}, {count} tools; what they need themselves was not tried"))
        else:
            fix = "Look at the server itself, or correct its entry in servers.json. The daemon keeps trying."
            findings.append(_warning(f"server {name}", state, fix))
    return findings


async def _held(settings: Settings) -> list[Finding]:
    """Compare what the daemon holds with the files here."""
    try:
        held = await ask(settings)
    except NotTold as reason:
        return [_ok("daemon's configuration", f"not compared: {reason}")]
    others = [str(other) for other in held.other_values(settings)]
    if held.is_of_another_directory:
        found = [
            _warning("daemon's directory", f"it was started in {held.started_in}", "'make up' here takes it over.")
        ]
    else:
        found = []
    for check, difference in (
        ("daemon's settings", "; ".join(others) or None),
        ("daemon's roles", held.other_roles(settings.roles_file)),
        ("daemon's servers", held.other_servers(settings)),
    ):
        if difference is None:
            found.append(_ok(check, "as they are here"))
        else:
            found.append(_warning(check, difference, "Correct the file if it has a mistake, then run 'make up'."))
    return found


async def _containers() -> list[Finding]:
    """Look for a container of ours that ended: the daemon sees the server before a database, not the database."""
    template = "{{.Names}}\t{{.State}}\t{{.Status}}"
    label = f"label=com.docker.compose.project={COMPOSE_PROJECT}"
    try:
        listing = await asyncio.create_subprocess_exec(
            *("docker", "ps", "--all", "--filter", label, "--format", template),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        async with asyncio.timeout(ENGINE_SECONDS):
            told, _ = await listing.communicate()
    except (OSError, TimeoutError):
        return []  # what is the matter with the engine is told where it is looked at
    rows = [line.split("\t") for line in told.decode().splitlines()]
    ended = [(name, status) for name, state, status in rows if state != "running" or "(unhealthy)" in status]
    if rows and not ended:
        return [_ok("containers", f"{len(rows)} run")]
    fix = "See its log with 'docker logs', then start it with 'make up'."
    return [
        _warning(f"container {name}", status, f"{fix} One that was stopped by hand stays so.") for name, status in ended
    ]


def _settings() -> list[Finding]:
    fix = "Correct or remove it."
    return [_warning("settings", str(unknown), fix) for unknown in unknown_settings(ENV_FILE)]


def _seccomp(settings: Settings) -> Finding:
    try:
        profile = json.loads(settings.seccomp_file.read_text())
    except (OSError, ValueError) as error:
        return _failed("seccomp profile", str(error), RESTORE_PROFILE)
    return _ok("seccomp profile", f"{settings.seccomp_file.name}, default {profile.get('defaultAction')}")


def _roles(settings: Settings) -> Finding:
    try:
        book = read_book(settings.roles_file, settings.keys_dir)
    except (RolesFileInvalid, OSError) as error:
        return _failed("roles", str(error), "Correct the file. Until then the daemon keeps the last valid roles.")
    without = sorted(set(book.role_of_key) - {known.key_name for known in book.key_hashes})
    if without:
        return _failed("roles", f"no hash for {', '.join(without)}", ENSURE_KEYS)
    return _ok("roles", f"{', '.join(sorted(book.roles))}; {len(book.key_hashes)} keys")


def _hashes(settings: Settings) -> list[Finding]:
    fix = f"{ENSURE_KEYS} The daemon must be able to read {settings.keys_dir}."
    return [_failed("key hashes", f"{name} {reason}", fix) for name, reason in read_hashes(settings.keys_dir).refused]


def _keys(settings: Settings) -> list[Finding]:
    if not settings.secrets_dir.is_dir():
        return [_ok("key files", "not visible from here (the daemon sees only hashes)")]
    try:
        return [_key(file) for file in keys.key_files(settings.roles_file, settings.secrets_dir)]
    except RolesFileInvalid:
        return []  # told where the roles are looked at


def _key(file: keys.KeyFile) -> Finding:
    check = f"key {file.name}"
    if not file.exists:
        return _failed(check, f"{file.path.name} is missing", ENSURE_KEYS)
    if file.mode & 0o137:
        return _failed(check, f"{file.path.name} has mode {file.mode:04o}", f"chmod 0640 {file.path}")
    if not os.access(file.path, os.R_OK):
        return _ok(check, f"{file.path.name}, mode {file.mode:04o} (not readable by you)")
    if not file.hash_matches:
        return _failed(check, "its hash does not match", ENSURE_KEYS)
    return _ok(check, f"{file.path.name}, mode {file.mode:04o}")


def _data(settings: Settings) -> list[Finding]:
    """Look at who else may read what programs printed."""
    directory, check = settings.journal_file.parent, "data directory"
    try:
        if not directory.exists():
            return [_ok(check, "not visible from here, or not made yet")]
        mode = f"{directory.stat().st_mode & 0o777:04o}"
        journals = list(directory.glob(f"{settings.journal_file.name}*"))
        open_to_others = [file.name for file in journals if file.stat().st_mode & 0o077]
        strangers = sorted(foreign_files(directory))
    except OSError as error:
        return [_ok(check, f"not visible to you ({error.strerror})")]
    if open_to_others:
        fix = f"chmod 600 {directory}/{settings.journal_file.name}*"
        return [_warning(check, f"others may read {', '.join(open_to_others)}", fix)]
    if exposed(directory) and strangers:
        meaning = f"mode {mode}, shared with {strangers[0]}: others may enter it, and the daemon does not lock it"
        return [_warning(check, meaning, "Name a directory of its own with CODE_EXECUTOR_DATA_DIR.")]
    if exposed(directory):
        return [_warning(check, f"mode {mode}: others may enter it", f"chmod 700 {directory}")]
    return [_ok(check, "nobody else may enter it")]


def _disk(settings: Settings) -> Finding:
    place = settings.data_dir.expanduser()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    if free < LEAST_FREE_BYTES:
        return _failed("disk", f"{free // 1024**2} MiB free", "Free space, or move CODE_EXECUTOR_DATA_DIR.")
    return _ok("disk", f"{free / 1024**3:.1f} GiB free")
