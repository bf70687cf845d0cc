"""`why`, `config` and `doctor` ask the daemon what it holds, and say where the files here differ."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from orchestrator.adapters.access_files import RoleEntry, read_role_book
from orchestrator.commands import doctor, held, terminal
from orchestrator.commands.cli import app
from orchestrator.domain.access import AccessBook
from orchestrator.domain.configuration import FileInForce, HeldConfiguration, HeldSetting
from orchestrator.domain.sandbox import Verdict
from orchestrator.faces.http.configuration import Configuration, RoleBody
from orchestrator.settings import PREFIX, PROJECT, Settings
from orchestrator.settings_in_effect import MASK, in_effect
from tests.unit.commands.conftest import FakeDaemon

ROLES: dict[str, Any] = {
    "admin": {"servers": ["*"], "seesAllExecutions": True, "keys": ["a"]},
    "developer": {
        "servers": ["postgres"],
        "tools": {"deny": ["postgres/drop_*"]},
        "limits": {"timeoutSeconds": 30},
        "keys": ["d"],
    },
}


def write(file: Path, roles: dict[str, Any]) -> Path:
    file.write_text(json.dumps({"roles": roles}))
    return file


class Place:
    """A role file and a servers file here, and a daemon that holds what a test says."""

    def __init__(self, directory: Path, daemon: FakeDaemon) -> None:
        self.daemon = daemon
        self.roles_file = write(directory / "roles.json", ROLES)
        self.servers_file = directory / "servers.json"
        self.servers_file.write_text("{}")
        self.in_force = write(directory / "in-force.json", ROLES)

    def tell(self, started_in: str = str(PROJECT), roles_problem: str | None = None, **settings: Any) -> None:
        book = read_role_book(self.in_force)
        values = {each.field: HeldSetting(each.value, is_given=False) for each in in_effect(terminal.load_settings())}
        configuration = HeldConfiguration(
            settings=values | {name: HeldSetting(value, is_given=True) for name, value in settings.items()},
            started_in=started_in,
            roles_file=FileInForce(book.sha256, roles_problem),
            book=AccessBook(book.roles, book.role_of_key, ()),
            servers_file=FileInForce(sha256(b"{}").hexdigest()),
            servers=("postgres",),
        )
        self.daemon.answer(json.loads(Configuration.of(configuration, "1").model_dump_json(by_alias=True)))


@pytest.fixture
def place(tmp_path: Path, daemon: FakeDaemon, monkeypatch: pytest.MonkeyPatch) -> Place:
    made = Place(tmp_path, daemon)
    monkeypatch.setenv(f"{PREFIX}ROLES_FILE", str(made.roles_file))
    monkeypatch.setenv(f"{PREFIX}SERVERS_FILE", str(made.servers_file))
    return made


def test_the_api_tells_a_role_with_every_field_that_the_file_can_have() -> None:
    in_file = {field.alias or name for name, field in RoleEntry.model_fields.items()}
    assert {field.alias for field in RoleBody.model_fields.values()} == in_file


def test_what_the_daemon_holds_decides_and_the_same_file_is_no_news(place: Place) -> None:
    place.tell()
    ended = place.daemon.run("why", "developer", "postgres/drop_table")
    assert (ended.exit_code, ended.stderr) == (1, "")
    assert ended.stdout == "denied: tools.deny of role developer has postgres/drop_*\n"
    assert place.daemon.asked == ["/config"]


def test_a_file_that_the_daemon_did_not_take_up_is_told_and_does_not_decide(place: Place) -> None:
    write(place.roles_file, {**ROLES, "developer": {"servers": ["*"], "keys": ["d"]}, "guest": {"servers": []}})
    place.tell()
    ended = place.daemon.run("why", "developer", "memory/read")
    assert ended.exit_code == 1
    assert ended.stdout == "denied: servers of role developer do not include memory\n"
    assert f"the daemon holds other roles than {place.roles_file}: the role guest is here only; " in ended.stderr
    assert "the role developer differs" in ended.stderr


def test_a_mistake_in_the_file_is_told_with_what_the_daemon_keeps(place: Place) -> None:
    place.roles_file.write_text("{")
    place.tell(roles_problem="line 1: broken")
    ended = place.daemon.run("why", "admin", "memory/read")
    assert (ended.exit_code, ended.stdout) == (0, "allowed: servers of role admin include *\n")
    assert "the daemon keeps older roles, because of a mistake" in ended.stderr


def test_the_key_of_a_role_that_may_ask_is_taken_first_and_any_key_where_the_file_is_broken(
    place: Place, tmp_path: Path
) -> None:
    for name in ("a", "d"):
        (tmp_path / f"{name}.key").write_text(f"key of {name}\n")
    here = Settings(roles_file=place.roles_file, secrets_dir=tmp_path, key=None)
    write(place.roles_file, dict(reversed(ROLES.items())))
    assert held._key(here) == "key of a"
    place.roles_file.write_text("{")
    assert held._key(here) == "key of a"
    (tmp_path / "a.key").unlink()
    assert held._key(here) == "key of d"
    (tmp_path / "d.key").unlink()
    assert held._key(here) is None


def test_a_key_that_was_given_another_role_is_told(place: Place) -> None:
    write(place.roles_file, {**ROLES, "admin": {**ROLES["admin"], "keys": ["a", "d"]}, "developer": {"servers": []}})
    place.tell()
    ended = place.daemon.run("why", "admin", "memory/read")
    assert "the key d has the role admin here and developer there" in ended.stderr


def test_without_a_daemon_the_file_answers_and_that_is_said(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"{PREFIX}URL", "http://127.0.0.1:9")
    ended = CliRunner().invoke(app, ["why", "admin", "memory/read"])
    assert (ended.exit_code, ended.stdout) == (0, "allowed: servers of role admin include *\n")
    assert f"from {place.roles_file}, for the daemon was not asked: No daemon answers" in ended.stderr


def test_a_role_that_may_not_ask_gets_the_answer_of_the_file(place: Place) -> None:
    place.daemon.refuse(403, "The role developer may not.", "Use another.", "not_for_your_role")
    ended = place.daemon.run("why", "developer", "postgres/query")
    assert ended.exit_code == 0
    assert "The role developer may not. Use another. (not_for_your_role)" in ended.stderr


def test_an_older_daemon_that_does_not_tell_is_no_traceback(place: Place) -> None:
    place.daemon.answer({"status": "healthy"})
    ended = place.daemon.run("why", "admin", "memory/read")
    assert ended.exit_code == 0
    assert "does not tell its configuration; it may be older" in ended.stderr


def test_the_settings_show_where_they_come_from_and_what_the_daemon_has_instead(place: Place) -> None:
    place.tell(started_in="/srv/other", max_running=3)
    ended = place.daemon.run("config")
    assert ended.exit_code == 0
    (running,) = [line for line in ended.stdout.splitlines() if f"{PREFIX}MAX_RUNNING " in line]
    assert running.split() == [f"{PREFIX}MAX_RUNNING", "8", "default", "3"]
    (roles,) = [line for line in ended.stdout.splitlines() if f"{PREFIX}ROLES_FILE" in line]
    assert roles.split()[2] == "environment"
    assert "the daemon was started in /srv/other" in ended.stderr
    assert "the daemon runs with other settings" in ended.stderr


def test_settings_for_scripts_say_the_same(place: Place) -> None:
    place.servers_file.write_text('{"mcpServers": {}}')
    place.tell(max_running=3)
    shown = json.loads(place.daemon.run("config", "--json").stdout)
    assert (shown["max_running"], shown["sources"]["max_running"]) == (8, "default")
    assert shown["key"] == MASK
    assert shown["daemon"]["settings"] == {"max_running": 3}
    assert shown["daemon"]["roles"] is None
    assert shown["daemon"]["servers"] == f"{place.servers_file} is not what the daemon took up"


def test_without_a_daemon_the_settings_say_so(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"{PREFIX}URL", "http://127.0.0.1:9")
    ended = CliRunner().invoke(app, ["config"])
    assert ended.exit_code == 0
    assert "These are the settings here; the daemon was not asked: No daemon answers" in ended.stderr


async def test_the_doctor_warns_of_each_difference_with_its_fix(place: Place) -> None:
    write(place.roles_file, {"admin": ROLES["admin"]})
    place.servers_file.write_text("other")
    place.tell(started_in="/srv/other", runtime="runsc")
    found = {finding.check: finding for finding in await doctor._held(terminal.load_settings())}
    assert set(found) == {"daemon's directory", "daemon's settings", "daemon's roles", "daemon's servers"}
    assert all(finding.verdict is Verdict.WARNING and finding.fix for finding in found.values())
    assert f'{PREFIX}RUNTIME is "runsc" there and "runc" here' in found["daemon's settings"].detail
    assert "the role developer is in the daemon only" in found["daemon's roles"].detail


async def test_the_doctor_finds_nothing_where_all_is_alike(place: Place) -> None:
    place.tell()
    assert {finding.verdict for finding in await doctor._held(terminal.load_settings())} == {Verdict.OK}


async def test_secrets_and_paths_of_one_side_are_not_compared(place: Place) -> None:
    place.tell(data_dir="/var/lib/elsewhere", key=None, url="http://there")
    told = await held.ask(terminal.load_settings())
    assert told.other_values(Settings()) == []


def test_no_path_is_compared_because_those_of_the_daemons_container_are_others() -> None:
    paths = {each.field for each in in_effect(Settings()) if isinstance(getattr(Settings(), each.field), Path)}
    assert {each.field for each in in_effect(Settings()) if not each.is_of_one_side} & paths == set()
    assert {"servers_dir", "server_secrets_dir"} <= paths


async def test_the_same_directory_under_another_path_is_no_other(place: Place, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(PROJECT)
    place.tell(started_in=str(tmp_path / "link"))
    assert not (await held.ask(terminal.load_settings())).is_of_another_directory


DOCKER = """#!/bin/sh
printf 'mcp-memory\\trunning\\tUp 2 minutes\\n'
printf 'mcp-postgres\\texited\\tExited (137) 3 seconds ago\\n'
printf 'mcp-s3\\trunning\\tUp 2 minutes (unhealthy)\\n'
"""


@pytest.mark.processes
async def test_the_doctor_sees_a_database_that_ended_behind_its_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in = tmp_path / "docker"
    stand_in.write_text(DOCKER)
    stand_in.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    found = await doctor._containers()
    assert [(finding.check, finding.verdict) for finding in found] == [
        ("container mcp-postgres", Verdict.WARNING),
        ("container mcp-s3", Verdict.WARNING),
    ]
    assert "Exited (137)" in found[0].detail
    assert all("make up" in finding.fix for finding in found)
