"""README's way to connect a client, as root and as ordinary users, in a clone of their own beside a real daemon."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from tests.support.api import Api
from tests.support.installation import PROJECT, Installation

ROOT, OWNER, DEVELOPER, STRANGER = 0, 61001, 61002, 61003
GROUP_OF_DEVELOPERS = 61010
VERSION = f"python{sys.version_info.major}.{sys.version_info.minor}"
PASSED_ON = {"PATH": "/usr/local/bin:/usr/bin:/bin", "TERM": "dumb"}

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@dataclass(frozen=True)
class Clone:
    """What `make up` leaves in a directory: scripts, .venv and keys."""

    path: Path

    def give_keys_to(self, user: int, group_of_developer_key: int = 0) -> None:
        secrets = self.path / "secrets"
        for file in (secrets, *secrets.iterdir()):
            os.chown(file, user, user)
        os.chown(secrets / "code-executor-developer.key", user, group_of_developer_key)

    async def run(self, user: int, command: str, home: Path, *groups: int) -> subprocess.CompletedProcess[str]:
        """Run a line of README in the clone, as a user in a fresh login; the daemon is in this process and goes on."""
        also = ("--groups", ",".join(map(str, groups))) if groups else ("--clear-groups",)
        return await asyncio.to_thread(
            subprocess.run,
            ["setpriv", f"--reuid={user}", f"--regid={user}", *also, "bash", "-c", command],
            cwd=self.path,
            env={**PASSED_ON, "HOME": str(home)},
            capture_output=True,
            text=True,
            timeout=60,
        )


@pytest.fixture(scope="module")
def clone(api: Api, installation: Installation) -> Iterator[Clone]:
    """The keys are those of the daemon under test, and .env says where it is."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory)
        path.chmod(0o755)  # pytest's own directories are closed to others
        for name in ("orchestrator", "scripts"):
            shutil.copytree(PROJECT / name, path / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(PROJECT / "roles.json", path)
        (path / ".env").write_text(f"CODE_EXECUTOR_URL={api.url}\n")
        _make_venv(path)
        (path / "secrets").mkdir()
        for role, key in installation.keys.items():
            file = path / "secrets" / f"code-executor-{role}.key"
            file.write_text(f"{key}\n")
            file.chmod(0o640)
        yield Clone(path)


def _make_venv(clone: Path) -> None:
    """As `make up` makes it, but of an interpreter that everybody can run, with the packages of the one that tests."""
    python = next((one for one in (sys.executable, f"/usr/bin/{VERSION}") if _everybody_reaches(one)), None)
    if python is None:
        pytest.skip(f"no {VERSION} that other users can run")
    packages, ours = clone / ".venv" / "lib" / VERSION / "site-packages", Path(sysconfig.get_path("purelib"))
    packages.mkdir(parents=True)
    if not _everybody_reaches(ours):
        shutil.copytree(ours, ours := clone / ".venv" / "packages")
    (packages / "clone.pth").write_text(f"{clone}\n{ours}\n")
    commands = clone / ".venv" / "bin"
    commands.mkdir()
    (commands / "python").symlink_to(python)
    (clone / ".venv" / "pyvenv.cfg").write_text(f"home = {Path(python).resolve().parent}\n")
    script = commands / "code-executor"
    script.write_text(f"#!{commands}/python\nfrom orchestrator.commands.cli import main\nmain()\n")
    script.chmod(0o755)


def _everybody_reaches(path: str | Path) -> bool:
    stranger = ("setpriv", f"--reuid={STRANGER}", f"--regid={STRANGER}", "--clear-groups")
    return subprocess.run([*stranger, "test", "-x", path]).returncode == 0


@pytest.fixture
def home(clone: Clone) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as directory:
        (Path(directory) / "my-project").mkdir()
        yield Path(directory)


def at_home(home: Path, user: int) -> Path:
    for place in (home, home / "my-project"):
        os.chown(place, user, user)
    return home


def the_line_of_readme() -> str:
    found = re.search(
        r"^(\.venv/bin/code-executor connect claude --write \S.*?)\s+#", (PROJECT / "README.md").read_text(), re.M
    )
    assert found is not None
    return found[1]


async def tools_seen_by_claude_code(clone: Clone, user: int, home: Path, *groups: int) -> set[str]:
    """Do what Claude Code does with its file, as the user who started it."""
    entry = json.loads((home / "my-project" / ".mcp.json").read_text())["mcpServers"]["code-executor"]
    helper = await clone.run(user, f"cd {home}/my-project && {entry['headersHelper']}", home, *groups)
    assert helper.returncode == 0, helper.stderr
    async with (
        httpx2.AsyncClient(headers=json.loads(helper.stdout), timeout=60) as http,
        Client(streamable_http_client(entry["url"], http_client=http)) as client,
    ):
        return {tool.name for tool in (await client.list_tools()).tools}


def no_key_in(text: str, installation: Installation) -> bool:
    return not any(key in text for key in installation.keys.values())


@pytest.mark.parametrize(
    ("user", "groups", "owner"),
    [(ROOT, (), ROOT), (ROOT, (), OWNER), (OWNER, (), OWNER), (DEVELOPER, (GROUP_OF_DEVELOPERS,), OWNER)],
    ids=["root", "root in another's clone", "the owner of secrets", "a member of the key's group"],
)
async def test_the_line_of_readme_connects_claude_code(clone, home, installation, user, groups, owner):
    clone.give_keys_to(owner, GROUP_OF_DEVELOPERS)
    done = await clone.run(user, the_line_of_readme(), at_home(home, user), *groups)
    file = home / "my-project" / ".mcp.json"
    assert re.fullmatch(rf"wrote {file}; connected: \d+ tools, \d+ ms\n", done.stderr), done.stderr
    assert done.returncode == 0
    assert no_key_in(file.read_text(), installation)
    seen = await tools_seen_by_claude_code(clone, user, home, *groups)
    assert "execute_code" in seen
    assert f"{len(seen)} tools" in done.stderr


@pytest.mark.parametrize("client", ["cursor", "codex", "vscode"])
async def test_other_clients_are_connected_without_a_key_a_variable_or_the_engine(clone, home, installation, client):
    clone.give_keys_to(OWNER)
    line = the_line_of_readme().replace("claude", client)
    done = await clone.run(OWNER, line, at_home(home, OWNER))
    assert re.fullmatch(r"wrote \S+; connected: \d+ tools, \d+ ms\n", done.stderr), done.stderr
    assert done.returncode == 0
    written = [file.read_text() for file in home.rglob("*") if file.is_file()]
    assert written
    assert no_key_in("".join(written), installation)


async def test_the_command_that_is_written_runs_programs(clone, home):
    clone.give_keys_to(ROOT)
    await clone.run(ROOT, the_line_of_readme().replace("claude", "cursor"), home)
    entry: dict[str, Any] = json.loads((home / "my-project" / ".cursor" / "mcp.json").read_text())
    server = StdioServerParameters(**entry["mcpServers"]["code-executor"])
    async with Client(server) as client:
        result = await client.call_tool("execute_code", {"language": "python", "code": "print(6 * 7)"})
    assert "42" in str(result.content)


@pytest.mark.parametrize("client", ["claude", "codex"])
async def test_who_may_read_no_key_is_told_what_to_do(clone, home, client):
    clone.give_keys_to(OWNER)
    done = await clone.run(STRANGER, the_line_of_readme().replace("claude", client), at_home(home, STRANGER))
    assert done.returncode == 69
    assert "but the connection fails: You (" in done.stderr
    assert "usermod -aG developers" in done.stderr
    assert "then log in again" in done.stderr
