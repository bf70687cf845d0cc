"""Files that last from one execution to the next, through the API of a whole daemon."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from itertools import count
from typing import Any

import pytest

from tests.support.api import Api, eventually
from tests.support.installation import Installation

APPEND = "with open('/workspace/files/log.txt', 'a') as log: log.write({line!r})"
SHOW = "print(open('/workspace/files/log.txt').read())"
NAMES = (f"w{number}" for number in count())


@pytest.fixture(scope="module")
async def place(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Api, Api]]:
    installation = Installation.create(tmp_path_factory.mktemp("workspaces"), workspace_versions=3)
    async with installation.run() as admin, admin.as_caller(installation.keys["developer"]) as developer:
        yield admin, developer


@pytest.fixture
def api(place: tuple[Api, Api]) -> Api:
    return place[1]


@pytest.fixture
def name() -> str:
    return next(NAMES)


async def ran(api: Api, name: str, code: str, **fields: Any) -> dict[str, Any]:
    body = {"code": code, "language": "python", "timeoutSeconds": 30, "workspace": name, **fields}
    status, reply = await api.post("/execute", body)
    assert status == 200, reply
    return reply


async def appended(api: Api, name: str, line: str) -> dict[str, Any]:
    reply = await ran(api, name, APPEND.format(line=line))
    assert (reply["outcome"], reply["workspace"]["kept"]) == ("completed", True), reply
    return reply


async def content(api: Api, name: str, query: str = "") -> str:
    async with api.session.get(f"{api.url}/workspaces/{name}/files/log.txt{query}") as response:
        return await response.text()


async def test_the_next_program_goes_on_where_the_last_one_ended(api, name):
    first = await appended(api, name, "one ")
    second = await appended(api, name, "two ")
    assert (await ran(api, name, SHOW))["output"] == "one two \n"
    assert second["workspace"]["version"] == second["executionId"]
    _, shown = await api.get(f"/workspaces/{name}")
    assert [version["version"] for version in shown["versions"]] == [second["executionId"], first["executionId"]]
    assert [(file["name"], file["bytes"]) for file in shown["files"]] == [("log.txt", 8)]


async def test_a_program_that_fails_leaves_the_old_version_unless_it_is_told_otherwise(api, name):
    await appended(api, name, "good ")
    bad = APPEND.format(line="bad ") + "\nraise SystemExit(1)"
    reply = await ran(api, name, bad)
    assert (reply["workspace"]["kept"], reply["workspace"]["whyNot"]) == (False, "The execution ended as failed.")
    assert await content(api, name) == "good "
    assert (await ran(api, name, bad, keep="always"))["workspace"]["kept"]
    assert await content(api, name) == "good bad "


async def test_an_earlier_version_is_read_and_restored(api, name):
    first = await appended(api, name, "one ")
    second = await appended(api, name, "two ")
    assert await content(api, name, f"?version={first['executionId']}") == "one "
    status, now = await api.post(f"/workspaces/{name}/restore", {"version": first["executionId"]})
    assert (status, now["version"]) == (200, first["executionId"])
    assert await content(api, name) == "one "
    await api.post(f"/workspaces/{name}/restore", {"version": second["executionId"]})
    assert await content(api, name) == "one two "


async def test_only_the_last_versions_are_kept(api, name):
    made = [(await appended(api, name, f"{number} "))["executionId"] for number in range(5)]
    _, shown = await api.get(f"/workspaces/{name}")
    assert [version["version"] for version in shown["versions"]] == made[:1:-1]
    status, problem = await api.post(f"/workspaces/{name}/restore", {"version": made[0]})
    assert (status, problem["code"]) == (404, "file_not_found")


async def test_the_second_waits_or_is_refused(api, name):
    wait = "import time\nwhile True: time.sleep(0.1)"
    first = asyncio.create_task(ran(api, name, wait))

    async def busy() -> bool:
        status, problem = await api.post("/execute", {"code": "1", "workspace": name, "wait": False})
        return (status, problem.get("code")) == (409, "workspace_busy")

    await eventually(busy)
    assert (await api.delete(f"/workspaces/{name}"))[1]["code"] == "workspace_busy"
    second = asyncio.create_task(appended(api, name, "second "))
    _, listed = await api.get("/executions", params={"state": "running", "kind": "program"})
    for running in listed["executions"]:
        await api.delete(f"/executions/{running['executionId']}")
        break
    assert (await first)["outcome"] == "cancelled"
    await second
    assert await content(api, name) == "second "


async def test_nobody_reaches_anothers_workspace(place, name):
    admin, developer = place
    made = await appended(developer, name, "secret ")
    assert name not in [each["name"] for each in (await admin.get("/workspaces"))[1]["workspaces"]]
    for path in (f"/workspaces/{name}", f"/workspaces/{name}/files/log.txt"):
        assert (await admin.get(path))[0] == 404
    assert (await admin.delete(f"/workspaces/{name}"))[0] == 404
    assert (await admin.post(f"/workspaces/{name}/restore", {"version": made["executionId"]}))[0] == 404
    given = {"x": {"from": {"workspace": name, "name": "log.txt"}}}
    assert (await admin.post("/execute", {"code": "1", "files": given}))[1]["code"] == "workspace_not_found"
    own = await ran(admin, name, "import os; print(os.listdir('/workspace/files'))")
    assert own["output"] == "[]\n"
    # The control: its owner has it, also after all that.
    assert await content(developer, name) == "secret "


async def test_a_file_of_a_workspace_is_an_input(api, name):
    await appended(api, name, "one ")
    files = {"old.txt": {"from": {"workspace": name, "name": "log.txt"}}}
    status, reply = await api.post(
        "/execute", {"code": "print(open('/workspace/in/old.txt').read())", "language": "python", "files": files}
    )
    assert (status, reply["output"]) == (200, "one \n")


async def test_a_workspace_is_deleted_with_its_versions(api, name):
    await appended(api, name, "one ")
    await appended(api, name, "two ")
    assert await api.delete(f"/workspaces/{name}") == (200, {"deleted": 2})
    assert (await api.get(f"/workspaces/{name}"))[1]["code"] == "workspace_not_found"
    assert (await ran(api, name, "import os; print(os.listdir('/workspace/files'))"))["output"] == "[]\n"
