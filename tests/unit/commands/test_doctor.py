"""What the doctor finds beside the engine, and how it exits."""

import json
import os

import pytest
from aiohttp import web
from typer.testing import CliRunner

from bench.testbed.installation import Installation
from orchestrator.commands import doctor
from orchestrator.commands.cli import app
from orchestrator.domain.sandbox import Finding, Verdict
from tests.support.upstream_server import serving


@pytest.fixture
def place(tmp_path):
    return Installation.create(tmp_path).settings


@pytest.mark.parametrize(
    ("verdicts", "exit_code"),
    [
        ([Verdict.OK], 0),
        ([Verdict.OK, Verdict.WARNING], 0),
        ([Verdict.OK, Verdict.WARNING, Verdict.FAILED], 1),
    ],
)
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_it_exits_with_a_failure_if_a_check_failed(monkeypatch, verdicts, exit_code, options):
    async def examine(settings):
        return [Finding("check", verdict, "detail", "fix") for verdict in verdicts]

    monkeypatch.setattr(doctor, "examine", examine)
    assert CliRunner().invoke(app, ["doctor", *options]).exit_code == exit_code


async def test_a_daemon_that_does_not_answer_is_a_failure(place):
    (finding,) = await doctor._daemon(place.model_copy(update={"url": "http://127.0.0.1:9"}))
    assert (finding.verdict, "nothing answers" in finding.detail) == (Verdict.FAILED, True)


@pytest.mark.parametrize(("status", "verdict"), [(200, Verdict.OK), (503, Verdict.FAILED)])
async def test_a_daemon_that_is_not_ready_is_a_failure_with_its_reason(place, status, verdict):
    async def health(request):
        return web.json_response({"status": "degraded", "upstreams": {}})

    async def readyz(request):
        return web.json_response({"detail": "The journal is gone.", "hint": "Look for it."}, status=status)

    daemon = web.Application()
    daemon.add_routes([web.get("/health", health), web.get("/readyz", readyz)])
    async with serving(daemon) as url:
        (finding,) = await doctor._daemon(place.model_copy(update={"url": url}))
    assert finding.verdict is verdict
    assert ("The journal is gone." in finding.detail, finding.fix == "Look for it.") == (status == 503,) * 2


def test_a_hash_that_the_daemon_refuses_is_told(place):
    assert doctor._hashes(place) == []
    hash_file = place.keys_dir / "code-executor-developer.sha256"
    hash_file.unlink()
    os.mkfifo(hash_file)
    (finding,) = doctor._hashes(place)
    assert (finding.verdict, hash_file.name in finding.detail) == (Verdict.FAILED, True)


def test_who_else_may_read_the_journal_is_told(place):
    directory = place.data_dir

    def told():
        (finding,) = doctor._data(place)
        return finding.verdict, finding.detail

    assert told()[0] is Verdict.OK
    directory.mkdir(mode=0o700)
    place.journal_file.touch(mode=0o600)
    assert told() == (Verdict.OK, "nobody else may enter it")
    place.journal_file.chmod(0o644)
    assert told() == (Verdict.WARNING, "others may read journal.sqlite3")
    place.journal_file.chmod(0o600)
    directory.chmod(0o755)
    assert told() == (Verdict.WARNING, "mode 0755: others may enter it")
    (directory / "of somebody else").touch()
    assert "shared with of somebody else" in told()[1]


async def test_every_check_has_a_finding_that_can_be_printed(place):
    nowhere = place.model_copy(update={"docker_host": "unix:///nowhere", "url": "http://127.0.0.1:9"})
    found = await doctor.examine(nowhere)
    assert {"engine socket", "daemon", "seccomp profile", "roles", "data directory", "disk"} <= {
        finding.check for finding in found
    }
    json.dumps([finding.detail for finding in found])


async def test_beside_a_launcher_the_doctor_asks_it_and_not_the_engine(place, tmp_path):
    (finding,) = await doctor._engine(place.model_copy(update={"launcher_socket": tmp_path / "nobody.sock"}))
    assert (finding.check, finding.verdict) == ("launcher", Verdict.FAILED)
