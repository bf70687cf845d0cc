"""What the settings allow, the launcher can do: sandboxes that live as long, and room for all that run."""

from __future__ import annotations

import os

import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from orchestrator.commands import cli
from orchestrator.domain.execution import Language, Recipe
from orchestrator.engines.docker.engine import DockerEngine
from orchestrator.service.warm_pool import WarmPool
from orchestrator.settings import MIB, PREFIX, Settings


@pytest.fixture(autouse=True)
def no_settings_of_the_developer(monkeypatch):
    for name in [name for name in os.environ if name.startswith(PREFIX)]:
        monkeypatch.delenv(name)


def test_the_oldest_warm_sandbox_that_settings_allow_can_be_ordered():
    settings = Settings(warm_max_age_seconds=86_400)
    pool = WarmPool(None, dict, settings.limits(None), settings.pool_size)
    spec = pool._spec(Recipe(Language.PYTHON), {}, "execution")
    assert DockerEngine(None, "epoch", None)._order(spec).lifetime_seconds > 86_400
    with pytest.raises(ValidationError, match="warm_max_age_seconds"):
        Settings(warm_max_age_seconds=86_401)


@pytest.mark.parametrize(("running", "sandboxes"), [("8", "15"), ("250", "256")])
def test_fewer_sandboxes_than_executions_need_are_refused_with_what_to_set(monkeypatch, running, sandboxes):
    monkeypatch.setenv(f"{PREFIX}MAX_RUNNING", running)
    monkeypatch.setenv(f"{PREFIX}MAX_SANDBOXES", sandboxes)
    ended = CliRunner().invoke(cli.app, ["config"])
    assert ended.exit_code == 78
    said = (
        "CODE_EXECUTOR_MAX_SANDBOXES must be a whole number up to 4096 "
        "that is greater than CODE_EXECUTOR_MAX_RUNNING by at least 8."
    )
    assert said in ended.stderr
    monkeypatch.setenv(f"{PREFIX}MAX_SANDBOXES", str(int(running) + 8))
    assert CliRunner().invoke(cli.app, ["config"]).exit_code == 0


def test_warm_sandboxes_are_only_as_many_as_leave_room_for_those_that_run():
    assert Settings().pool_size.memory_bytes == Settings().warm_memory_bytes
    assert Settings(max_running=8, max_sandboxes=16 + 3 * 4 + 4).pool_size.memory_bytes == 4 * 30 * MIB
    assert Settings(max_running=8, max_sandboxes=16 + 3 * 4).pool_size.memory_bytes == 0
    assert Settings(max_running=8, max_sandboxes=16, max_nested=1).pool_size.memory_bytes == 0
    assert Settings(max_running=8, max_sandboxes=16 + 3 + 4, max_nested=1).pool_size.memory_bytes == 4 * 30 * MIB
