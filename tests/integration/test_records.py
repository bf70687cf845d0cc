"""What ran can be found again: filters, who sees what, and calls that no program made."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.support.api import Api
from tests.support.pinging import pinging

CALL = "from servers.postgres import ping\nping()\n"


@pytest.fixture(scope="module")
async def place(tmp_path_factory):
    """A daemon with a tool, in which the admin and a developer have run something."""
    async with pinging(tmp_path_factory.mktemp("records")) as (admin, developer):
        ran = {
            "called": await developer.python(CALL),
            "failed": await developer.python("raise SystemExit(3)"),
            "typescript": await admin.typescript("console.log(1)"),
        }
        assert ran["called"]["outcome"] == "completed", ran["called"]["stderr"]
        yield admin, developer, {name: reply["executionId"] for name, reply in ran.items()}


async def found(api: Api, **filters: str) -> set[str]:
    status, page = await api.get("/executions", params=filters)
    assert status == 200, page
    return {execution["executionId"] for execution in page["executions"]}


async def test_each_filter_narrows_the_list(place):
    admin, _, ran = place
    everything = set(ran.values())
    assert await found(admin) >= everything
    assert await found(admin, outcome="failed") & everything == {ran["failed"]}
    assert await found(admin, language="typescript") & everything == {ran["typescript"]}
    assert await found(admin, tool="postgres/ping") == {ran["called"]}
    assert await found(admin, tool="postgres") == {ran["called"]}
    assert await found(admin, tool="postgres/other") == set()
    assert await found(admin, caller="code-executor-developer") == {ran["called"], ran["failed"]}
    assert await found(admin, kind="call") == set()
    assert await found(admin, state="running") == set()


async def test_times_are_compared_with_their_offset(place):
    admin, _, ran = place
    past = datetime.now(UTC) - timedelta(hours=1)
    assert await found(admin, since=past.isoformat()) >= set(ran.values())
    assert await found(admin, until=past.isoformat()) == set()
    assert await found(admin, since="2020-01-01T00:00:00+02:00", until="2020-01-02T00:00:00Z") == set()


async def test_a_developer_finds_only_its_own_whatever_it_asks_for(place):
    _, developer, ran = place
    assert await found(developer) == {ran["called"], ran["failed"]}
    assert await found(developer, caller="code-executor-admin") == set()
    assert await found(developer, language="typescript") == set()


@pytest.mark.parametrize(
    ("path", "complaint"),
    [
        ("/executions?outcom=failed", "`outcom` is unknown"),
        ("/executions?outcome=lost", "`outcome` must be one of completed"),
        ("/executions?since=yesterday", "`since` must be a time in ISO 8601 with its offset"),
        ("/executions?since=2026-11-16T00:00:00", "`since` must be a time in ISO 8601 with its offset"),
        ("/executions?since=1763300000", "`since` must be a time in ISO 8601 with its offset"),
        ("/executions?tool=/query", "`tool` must be SERVER or SERVER/TOOL."),
        ("/executions?tool=/", "`tool` must be SERVER or SERVER/TOOL."),
        ("/executions?tool=a/b/c", "`tool` must be SERVER or SERVER/TOOL."),
        ("/executions?limit=0", "`limit` must be a whole number from 1 to 500."),
        ("/executions?limit=1&limit=2", "`limit` must be given once."),
        ("/executions/x?ofset=1", "`ofset` is unknown"),
        ("/tools?details=full", "`details` is unknown"),
        ("/tools/search?query=x", "`query` is unknown"),
        ("/tools/info/postgres/ping?x=1", "`x` is unknown; leave it out."),
        ("/whoami?x=1", "`x` is unknown"),
        ("/health?x=1", "`x` is unknown"),
        ("/readyz?x=1", "`x` is unknown"),
        ("/metrics?x=1", "`x` is unknown"),
        ("/openapi.json?x=1", "`x` is unknown"),
        ("/chat/read?rom=x", "`rom` is unknown"),
    ],
)
async def test_a_parameter_that_is_unknown_or_wrong_is_told(place, path, complaint):
    admin, _, _ = place
    status, problem = await admin.get(path)
    assert (status, problem["code"]) == (422, "invalid_request")
    assert complaint in problem["detail"]
