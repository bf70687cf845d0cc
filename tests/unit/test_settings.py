import json
import os
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from orchestrator.commands import cli, terminal
from orchestrator.settings import PREFIX, PROJECT, Settings
from orchestrator.settings_in_effect import unknown_settings


@pytest.fixture(autouse=True)
def no_settings_of_the_developer(monkeypatch):
    for name in [name for name in os.environ if name.startswith(PREFIX)]:
        monkeypatch.delenv(name)


@pytest.fixture
def env_file(tmp_path, monkeypatch) -> Path:
    file = tmp_path / ".env"
    monkeypatch.setattr(terminal.load_settings, "__defaults__", (file,))
    return file


def shown() -> dict[str, object]:
    ended = CliRunner().invoke(cli.app, ["config", "--json"])
    assert ended.exit_code == 0, ended.output
    return dict(json.loads(ended.stdout))


@pytest.mark.parametrize(
    ("publish", "url"),
    [
        ("127.0.0.1:9091", "http://127.0.0.1:9091"),
        ("0.0.0.0:9191", "http://127.0.0.1:9191"),
        ("[::]:9191", "http://127.0.0.1:9191"),
        ("[::1]:9091", "http://[::1]:9091"),
        ("10.0.0.7:80", "http://10.0.0.7:80"),
    ],
)
def test_the_daemon_is_found_where_it_is_published(publish, url):
    assert Settings(publish=publish).url == url
    assert Settings(publish=publish, url="http://other").url == "http://other"


def test_the_hashes_are_beside_the_keys_unless_they_are_elsewhere(tmp_path):
    assert Settings(secrets_dir=tmp_path).keys_dir == tmp_path / "hashes"
    assert Settings(secrets_dir=tmp_path, keys_dir="/k").keys_dir == Path("/k")


def test_a_command_sees_what_make_sees_the_environment_and_then_the_file(env_file, monkeypatch):
    env_file.write_text(f'{PREFIX}PUBLISH="0.0.0.0:9191"\n{PREFIX}SECRETS_DIR=/elsewhere\nUNRELATED=1\n')
    monkeypatch.setenv(f"{PREFIX}SECRETS_DIR", "/nearer")
    settings = shown()
    assert (settings["url"], settings["keys_dir"]) == ("http://127.0.0.1:9191", "/nearer/hashes")


def test_without_the_file_or_with_one_for_other_eyes_the_environment_is_enough(env_file, monkeypatch):
    assert shown()["publish"] == "127.0.0.1:9091"
    env_file.write_text(f"{PREFIX}PUBLISH=9191\n")
    monkeypatch.setattr(terminal.os, "access", lambda *_: False)  # the tests may run as root, who reads everything
    assert shown()["publish"] == "127.0.0.1:9091"


def test_the_daemon_itself_reads_no_file(env_file):
    env_file.write_text(f"{PREFIX}PUBLISH=9191\n")
    assert terminal.load_settings(env_file=None).publish == "127.0.0.1:9091"


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("MAX_RUNNING", "abc", "CODE_EXECUTOR_MAX_RUNNING must be a whole number from 1 to 256."),
        ("LOG_LEVEL", "loud", "CODE_EXECUTOR_LOG_LEVEL must be one of debug, info, warning, error."),
        (
            "PUBLISH",
            "127.0.0.1:99999",
            "CODE_EXECUTOR_PUBLISH must be an address of this machine and a port up to 65535",
        ),
        ("PUBLISH", "127.0.0.1:", "CODE_EXECUTOR_PUBLISH must be an address"),
        ("PUBLISH", "here:9091", "CODE_EXECUTOR_PUBLISH must be an address"),
        ("PUBLISH", "9091", "CODE_EXECUTOR_PUBLISH must be an address"),
        ("MATRIX_HOMESERVER", "x", "CODE_EXECUTOR_MATRIX_HOMESERVER: String should match pattern"),
    ],
)
def test_a_wrong_setting_is_told_with_what_it_must_be(monkeypatch, name, value, complaint):
    monkeypatch.setenv(f"CODE_EXECUTOR_{name}", value)
    ended = CliRunner().invoke(cli.app, ["config"])
    assert ended.exit_code == 78
    assert complaint in ended.stderr


def test_a_misspelt_setting_is_told_with_the_one_that_was_meant(env_file, monkeypatch):
    env_file.write_text(f"{PREFIX}MAX_RUNING=3\n{PREFIX}PUBLISH=127.0.0.1:9191\nUNRELATED=1\n")
    monkeypatch.setenv(f"{PREFIX}RUNTIM", "runsc")
    monkeypatch.setenv(f"{PREFIX}TEST_NODE", "/n")
    ended = CliRunner().invoke(cli.app, ["config", "--json"])
    assert ended.exit_code == 0
    assert ended.stderr.splitlines() == [
        f"code-executor: warning: {PREFIX}MAX_RUNING in .env is not a setting and has no effect; "
        f"did you mean {PREFIX}MAX_RUNNING?",
        f"code-executor: warning: {PREFIX}RUNTIM in the environment is not a setting and has no effect; "
        f"did you mean {PREFIX}RUNTIME?",
    ]


def test_a_setting_unlike_any_other_is_told_without_a_guess(env_file, monkeypatch):
    monkeypatch.setenv(f"{PREFIX}COFFEE", "yes")
    ended = CliRunner().invoke(cli.app, ["config", "--json"])
    assert (
        f"{PREFIX}COFFEE in the environment is not a setting and has no effect; docs/configuration.md" in ended.stderr
    )


def test_every_name_that_a_script_reads_is_known():
    scripts = [*PROJECT.glob("scripts/*.sh"), *PROJECT.glob("scripts/*.yaml"), PROJECT / "compose.yaml"]
    names = {name for file in scripts for name in re.findall(rf"{PREFIX}[A-Z_]+[A-Z]\b", file.read_text())}
    assert names
    assert unknown_settings(environment=dict.fromkeys(names, "1")) == []
