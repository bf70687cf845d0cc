"""What the engine refuses for reasons that nobody expected."""

from functools import partial

import docker.errors
import pytest

from orchestrator.domain.errors import EngineUnavailable
from orchestrator.domain.execution import Language, Recipe
from orchestrator.domain.sandbox import SandboxSpec, Verdict
from orchestrator.engines.docker.engine import DockerEngine
from orchestrator.engines.docker.lockdown import Confinement, Identity
from orchestrator.service.readiness import Readiness
from orchestrator.service.reaper import Reaper
from tests.support.fake_journal import FakeJournal
from tests.support.samples import limits

REASON = "could not find an available address pool"


class Refusing:
    """The SDK's client of an engine that answers everything with the status 500, except what a test replaces."""

    def __getattr__(self, name):
        def refuse(*arguments, **options):
            raise docker.errors.APIError("500 Server Error", explanation=REASON)

        return refuse

    def close(self):
        pass


@pytest.fixture
async def engine():
    policy = Confinement(image="image", network="network", seccomp_profile='{"syscalls": []}', runtime="runc")
    engine = DockerEngine("unix:///nowhere", policy, Identity("o", "e"), max_calls=2)
    engine._client = Refusing()
    yield engine
    await engine.close()


async def test_each_is_an_error_of_ours_that_names_the_reason(engine):
    spec = SandboxSpec(Recipe(Language.PYTHON), limits(), "e", lifetime_seconds=30)
    create = partial(engine.create_sandbox, spec, lambda sandbox_id: None)
    for ask in (engine.prepare, create, engine.list_owned, partial(engine.remove, "id")):
        with pytest.raises(EngineUnavailable, match=REASON):
            await ask()


async def test_what_it_refuses_is_a_finding_of_the_doctor(engine, tmp_path):
    engine._docker_host = "tcp://127.0.0.1:1"
    failed = [finding for finding in await engine.describe() if finding.verdict is Verdict.FAILED]
    assert [REASON in finding.detail for finding in failed] == [True]
    assert all(finding.fix for finding in failed)


async def test_the_daemon_says_why_it_is_not_ready(engine):
    readiness = Readiness(engine, FakeJournal())
    await readiness.check()
    assert REASON in readiness.problem.message


async def test_one_container_that_cannot_be_removed_does_not_keep_the_others(engine, monkeypatch):
    removed = []

    def remove(container_id, **options):
        if container_id == "stuck":
            raise docker.errors.APIError("500 Server Error", explanation="device or resource busy")
        removed.append(container_id)

    labels = {"mcp-code-executor": "sandbox", "mcp-code-executor.owner": "o", "mcp-code-executor.epoch": "before"}
    listed = [{"Id": name, "Labels": labels, "Created": 1.0} for name in ("stuck", "a", "b")]
    monkeypatch.setattr(engine._client, "containers", lambda **options: listed, raising=False)
    monkeypatch.setattr(engine._client, "remove_container", remove, raising=False)
    assert await Reaper(engine, frozenset, stray_after_seconds=60).remove_orphans() == 2
    assert removed == ["a", "b"]


@pytest.mark.parametrize(("deadline", "lifetime"), [("1060", 60.0), ("0", None), ("900", 0.0)])
async def test_a_lifetime_is_told_by_the_labels(engine, monkeypatch, deadline, lifetime):
    labels = {"mcp-code-executor": "sandbox", "mcp-code-executor.deadline": deadline}
    listed = [{"Id": "a", "Labels": labels, "Created": 1000}]
    monkeypatch.setattr(engine._client, "containers", lambda **options: listed, raising=False)
    assert [owned.lifetime_seconds for owned in await engine.list_owned()] == [lifetime]
