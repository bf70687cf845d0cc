"""Files on their way into a sandbox and out of it, through the API of a whole daemon."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from base64 import b64encode
from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from yarl import URL

from tests.support.api import Api
from tests.support.installation import PROJECT, Installation
from tests.support.mcp_clients import MODERN, http_client

LEAVE = """
import os
os.makedirs("/workspace/out/d", exist_ok=True)
for name, content in {files!r}.items():
    with open("/workspace/out/" + name, "wb") as file:
        file.write(content)
"""
SHOW = "print({name: open(f'/workspace/in/{name}', 'rb').read() for name in {names!r}})"


@pytest.fixture(scope="module")
async def place(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Api, Api, Installation]]:
    """A daemon with small limits, and two callers of it: an admin and a developer."""
    installation = Installation.create(
        tmp_path_factory.mktemp("files"),
        max_file_bytes=100_000,
        max_files_bytes=300_000,
        max_files=20,
        max_upload_bytes=250_000,
    )
    async with installation.run() as admin, admin.as_caller(installation.keys["developer"]) as developer:
        yield admin, developer, installation


@pytest.fixture
def admin(place: tuple[Api, Api, Installation]) -> Api:
    return place[0]


@pytest.fixture
def developer(place: tuple[Api, Api, Installation]) -> Api:
    return place[1]


async def ran(api: Api, code: str, **fields: Any) -> dict[str, Any]:
    status, reply = await api.post("/execute", {"code": code, "language": "python", "timeoutSeconds": 30, **fields})
    assert status == 200, reply
    return reply


async def left(api: Api, **files: bytes) -> dict[str, Any]:
    return await ran(api, LEAVE.format(files=files))


async def fetched(api: Api, path: str, method: str = "GET", **headers: str) -> tuple[aiohttp.ClientResponse, bytes]:
    async with api.session.request(method, URL(f"{api.url}{path}", encoded=True), headers=headers) as response:
        return response, await response.read()


async def sent(api: Api, content: bytes) -> dict[str, Any]:
    async with api.session.post(f"{api.url}/files", data=content) as response:
        reply: dict[str, Any] = await response.json(content_type=None)
        assert response.status == 201, reply
        return reply


@pytest.mark.parametrize(
    ("language", "code"),
    [
        ("python", "import json\nopen('result.csv', 'w').write('1,2')\nprint(json.dumps([]))"),
        ("typescript", "import { writeFileSync } from 'node:fs';\nwriteFileSync('result.csv', '1,2');"),
    ],
)
async def test_a_file_that_was_left_beside_the_folder_is_named(developer, language, code):
    reply = await ran(developer, code, language=language)
    assert (reply["files"], reply["filesLeftOut"]) == ([], [{"name": "result.csv", "bytes": 3, "why": "elsewhere"}])


async def test_what_a_program_leaves_can_be_read_and_given_to_the_next(developer):
    reply = await left(developer, **{"d/a b.csv": b"1,2\n", "chart.png": b"\x89PNG\r\n\x1a\n"})
    assert reply["outcome"] == "completed", reply["stderr"]
    found = {file["name"]: file for file in reply["files"]}
    assert set(found) == {"d/a b.csv", "chart.png"}
    assert found["d/a b.csv"]["sha256"] == sha256(b"1,2\n").hexdigest()
    response, content = await fetched(developer, found["d/a b.csv"]["url"])
    assert (response.status, content, response.content_type) == (200, b"1,2\n", "text/csv")
    kept = {"from": {"execution": reply["executionId"], "name": "d/a b.csv"}}
    following = await ran(developer, SHOW.replace("{names!r}", "['x/y.csv']"), files={"x/y.csv": kept})
    assert following["output"] == "{'x/y.csv': b'1,2\\n'}\n"


async def test_files_come_with_the_request_or_by_their_hash(developer):
    content = bytes(range(256)) * 300
    upload = await sent(developer, content)
    assert (await fetched(developer, upload["url"], "HEAD"))[0].status == 200
    code = "import hashlib\nfor name in ('a.txt', 'b.bin', 'c.bin'):\n"
    code += "    print(hashlib.sha256(open('/workspace/in/' + name, 'rb').read()).hexdigest())"
    given = {
        "a.txt": {"text": "héllo"},
        "b.bin": {"base64": b64encode(b"\0\xff").decode()},
        "c.bin": {"sha256": upload["sha256"]},
    }
    reply = await ran(developer, code, files=given)
    expected = [sha256(each).hexdigest() for each in ("héllo".encode(), b"\0\xff", content)]
    assert reply["output"].split() == expected


async def test_a_failed_program_leaves_its_files_all_the_same(developer):
    reply = await ran(developer, LEAVE.format(files={"a.txt": b"1"}) + "\nraise SystemExit(3)")
    assert (reply["outcome"], [file["name"] for file in reply["files"]]) == ("failed", ["a.txt"])


async def test_what_is_over_a_limit_is_named(developer):
    reply = await left(developer, **{"big.bin": bytes(100_001), "small.bin": b"1"})
    assert [file["name"] for file in reply["files"]] == ["small.bin"]
    assert reply["filesLeftOut"] == [{"name": "big.bin", "bytes": 100_001, "why": "too_large"}]
    assert reply["filesLeftOutCount"] == 1
    _, read = await developer.get(f"/executions/{reply['executionId']}")
    assert (read["files"], read["filesLeftOut"]) == (reply["files"], reply["filesLeftOut"])


async def test_hostile_content_is_sent_as_mere_bytes(developer):
    page = b"<script>fetch('/executions').then(alert)</script>"
    reply = await left(developer, **{"page.html": page, "picture.svg": b"<svg onload='alert(1)'/>"})
    for file in reply["files"]:
        response, _ = await fetched(developer, file["url"])
        assert response.headers["Content-Type"] == "application/octet-stream"
        assert response.headers["Content-Disposition"].startswith("attachment; ")
        assert response.headers["Content-Security-Policy"] == "sandbox; default-src 'none'"
        assert response.headers["X-Content-Type-Options"] == "nosniff"


async def test_hostile_names_stay_names(developer):
    names = ['a";x=y.html', "b\r\nSet-Cookie: c=d", "報告.csv", "..%2f..%2fetc", "\\..\\e"]
    reply = await left(developer, **dict.fromkeys(names, b"content"))
    assert reply["outcome"] == "completed", reply["stderr"]
    kept = {file["name"]: file for file in reply["files"]}
    refused = {each["name"] for each in reply["filesLeftOut"]}
    assert not [name for name in (*kept, *refused) if "\n" in name or "\r" in name]
    assert len(kept) + len(refused) == len(names)
    for file in kept.values():
        response, content = await fetched(developer, file["url"])
        assert (response.status, content) == (200, b"content"), file
        assert "Set-Cookie" not in response.headers


async def test_nobody_reaches_anothers_files(admin, developer):
    mine = await left(admin, **{"a.txt": b"secret"})
    upload = await sent(admin, b"secret upload")
    path = f"/executions/{mine['executionId']}/files"
    for target in (path, f"{path}/a.txt", upload["url"]):
        for method in ("GET", "HEAD", "DELETE"):
            assert (await fetched(developer, target, method))[0].status == 404
    for given in (
        {"from": {"execution": mine["executionId"], "name": "a.txt"}},
        {"sha256": upload["sha256"]},
    ):
        status, problem = await developer.post("/execute", {"code": "1", "files": {"x": given}})
        assert status == 404, problem
    # The control: they are there for the one who has them, also after all that.
    assert (await fetched(admin, f"{path}/a.txt"))[1] == b"secret"


@pytest.mark.parametrize(
    "name", ["..%2f..%2fhealth", "../../../health", "%2e%2e%2f", "a.txt%00", "/etc/passwd", "d/../a.txt", "%0d%0aX:y"]
)
async def test_a_path_that_leaves_the_execution_leads_nowhere(developer, name):
    reply = await left(developer, **{"a.txt": b"secret"})
    response, content = await fetched(developer, f"/executions/{reply['executionId']}/files/{name}")
    assert response.status in (400, 404)
    assert b"secret" not in content


async def test_ranges_and_tags_work_on_what_is_stored(developer):
    content = bytes(range(256)) * 300
    reply = await left(developer, **{"a.bin": content})
    url, tag = reply["files"][0]["url"], f'"{reply["files"][0]["sha256"]}"'
    part, got = await fetched(developer, url, Range="bytes=1000-1999")
    assert (part.status, got) == (206, content[1000:2000])
    assert part.headers["Content-Range"] == f"bytes 1000-1999/{len(content)}"
    assert (await fetched(developer, url, Range=f"bytes={len(content)}-"))[0].status == 416
    assert (await fetched(developer, url, **{"If-None-Match": tag}))[0].status == 304


async def test_files_are_gone_when_they_are_deleted(developer):
    reply = await left(developer, **{"a.txt": b"1", "b.txt": b"2"})
    path = f"/executions/{reply['executionId']}/files"
    assert (await fetched(developer, f"{path}/a.txt", "DELETE"))[0].status == 200
    assert (await fetched(developer, f"{path}/a.txt"))[0].status == 404
    assert [file["name"] for file in (await developer.get(path))[1]["files"]] == ["b.txt"]
    assert await developer.delete(path) == (200, {"deleted": 1})


@pytest.mark.parametrize(
    ("files", "code"),
    [
        ({"a": {"sha256": "0" * 64}}, "file_not_found"),
        ({"a": {"from": {"execution": "0" * 32, "name": "a"}}}, "not_found"),
        ({"a": {"from": {"workspace": "none", "name": "a"}}}, "workspace_not_found"),
        ({"../a": {"text": ""}}, "invalid_request"),
        ({"a": {"text": ""}, "a/b": {"text": ""}}, "invalid_request"),
        ({str(number): {"text": ""} for number in range(21)}, "invalid_request"),
        ({"a": {"text": "x" * 301_000}}, "file_too_large"),
    ],
)
async def test_what_cannot_be_given_is_refused_and_nothing_is_run(developer, files, code):
    _, problem = await developer.post("/execute", {"code": "1", "files": files})
    assert problem["code"] == code


async def test_an_upload_over_the_limit_leaves_nothing(developer):
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(10):
            yield bytes(30_000)

    before = (await developer.get("/files"))[1]
    async with developer.session.post(f"{developer.url}/files", data=pieces()) as response:
        assert (response.status, json.loads(await response.read())["code"]) == (413, "file_too_large")
    assert (await developer.get("/files"))[1] == before


async def test_an_upload_with_another_hash_is_refused(developer):
    url = f"{developer.url}/files?sha256={'0' * 64}"
    async with developer.session.post(url, data=b"content of another hash") as response:
        assert (response.status, (await response.json(content_type=None))["code"]) == (422, "digest_mismatch")
    digest = sha256(b"content of another hash").hexdigest()
    assert (await fetched(developer, f"/files/{digest}", "HEAD"))[0].status == 404


# --- the same for models ---


def text_of(result: Any) -> str:
    return str(result.content[0].text)


async def test_a_model_gives_files_reads_what_was_left_and_uses_a_workspace(place):
    admin, _, installation = place
    code = (
        "import shutil\nshutil.copy('/workspace/in/a.txt', '/workspace/out/b.txt')\n"
        "open('/workspace/out/chart.png', 'wb').write(b'\\x89PNG\\r\\n\\x1a\\n')\n"
        "open('/workspace/files/note.txt', 'a').write('note ')"
    )
    order = {"code": code, "language": "python", "workspace": "of-a-model"}
    async with http_client(admin.url, installation.keys["admin"], MODERN) as client:
        told = text_of(await client.call_tool("execute_code", {**order, "files": [{"name": "a.txt", "text": "hello"}]}))
        first, *lines = told.splitlines()
        assert lines == [
            *("Files, which get_execution reads:", "- b.txt, 5 bytes", "- chart.png, 8 bytes"),
            "Workspace of-a-model (new): 1 file, 5 bytes",
        ]
        execution = first.rpartition(" ")[2]
        read = await client.call_tool("get_execution", {"executionId": execution, "file": "b.txt"})
        assert text_of(read).endswith("\n\nhello")
        picture = await client.call_tool("get_execution", {"file": "chart.png"})
        assert picture.content[1].mime_type == "image/png"
        resource = await client.read_resource(f"execution://{execution}/files/b.txt")
        assert resource.contents[0].text == "hello"
        assert f"execution://{execution}/files/b.txt" in [
            str(each.uri) for each in (await client.list_resources()).resources
        ]
        again = [{"name": "a.txt", "from": {"execution": execution, "name": "b.txt"}}]
        told = text_of(await client.call_tool("execute_code", {**order, "files": again}))
        assert "b.txt, 5 bytes" in told
        assert told.endswith("Workspace of-a-model: 1 file, 10 bytes")
        listed = text_of(await client.call_tool("list_workspaces", {"name": "of-a-model"}))
        assert "- note.txt, 10 bytes" in listed
        missing = await client.call_tool("get_execution", {"executionId": execution, "file": "c.txt"})
        assert missing.is_error
        assert "(file_not_found)" in text_of(missing)


# --- the same on the command line ---


async def commanded(place: tuple[Api, Api, Installation], *arguments: str, cwd: Path) -> tuple[int | None, str, str]:
    admin, _, installation = place
    environment = {
        **os.environ,
        "CODE_EXECUTOR_URL": admin.url,
        "CODE_EXECUTOR_KEY": installation.keys["admin"],
        "PYTHONPATH": str(PROJECT),
    }
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "orchestrator", *arguments),
        env=environment,
        cwd=cwd,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(60):
        output, errors = await process.communicate()
    return process.returncode, output.decode(), errors.decode()


async def test_the_command_line_takes_files_there_and_back(place, tmp_path):
    large = os.urandom(90_000)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "large.bin").write_bytes(large)
    (tmp_path / "small.txt").write_text("small")
    (tmp_path / "program.py").write_text(
        "import os, shutil\nos.makedirs('/workspace/out/d')\n"
        "shutil.copy('/workspace/in/data/large.bin', '/workspace/out/d/large.bin')\n"
        "shutil.copy('/workspace/in/x.txt', '/workspace/files/x.txt')\n"
        "os.symlink('/etc/passwd', '/workspace/out/link')\nprint('done')"
    )
    arguments = (
        "run",
        "program.py",
        "--in",
        "data",
        "--in",
        "x.txt=small.txt",
        "--out",
        "results",
        "--workspace",
        "cli",
    )
    code, output, errors = await commanded(place, *arguments, cwd=tmp_path)
    assert (code, output) == (0, "done\n"), errors
    assert errors.splitlines() == [
        "code-executor: 1 file (87.9 KiB) in results",
        "code-executor: not kept: link: not a file, but a link or the like",
    ]
    assert (tmp_path / "results" / "d" / "large.bin").read_bytes() == large
    assert os.listdir(tmp_path / "results") == ["d"]
    code, output, _ = await commanded(place, "files", "--json", cwd=tmp_path)
    assert (code, [file["name"] for file in json.loads(output)["files"]]) == (0, ["d/large.bin"])
    code, output, _ = await commanded(place, "workspaces", "get", "cli", "x.txt", "-o", "-", cwd=tmp_path)
    assert (code, output) == (0, "small")
    code, _, errors = await commanded(place, "workspaces", "delete", "cli", "--yes", cwd=tmp_path)
    assert (code, errors) == (0, "code-executor: deleted cli with 1 version\n")
