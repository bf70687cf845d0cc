"""The routes for files and workspaces, on a socket and on services in memory."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from contextlib import asynccontextmanager
from dataclasses import replace
from hashlib import sha256

import aiohttp
import pytest
from yarl import URL

from orchestrator.domain.errors import QuotaExceeded, WorkspaceBusy
from orchestrator.domain.execution import Ending, ExecutionResult, Outcome
from orchestrator.domain.files import (
    FromExecution,
    FromUpload,
    FromWorkspace,
    Given,
    Keep,
    LeftOut,
    Why,
    WorkspaceEnd,
    WorkspaceUse,
)
from orchestrator.faces.http.downloads import PIECE_BYTES
from tests.support.api import Api, until
from tests.support.fake_files import FakeExecutions, FakeFiles, FakeWorkspaces
from tests.support.http_face import MIB, http_face, services
from tests.support.samples import ADMIN, DEVELOPER, OTHER_DEVELOPER, record

HOSTILE = {
    "page.html": b"<script>alert(1)</script>",
    "picture.svg": b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>",
    "feed.xml": b"<?xml-stylesheet href='x.xsl'?><x/>",
    "code.js": b"alert(1)",
    "page.xhtml": b"<html xmlns='http://www.w3.org/1999/xhtml'/>",
    "paper.pdf": b"%PDF-1.7",
    "page.mht": b"MIME-Version: 1.0",
    "no-ending": b"<html><script>alert(1)</script>",
}
HASH = sha256(b"content").hexdigest()


class Place:
    """Three callers of one API."""

    def __init__(self, url: str, files: FakeFiles, workspaces: FakeWorkspaces, executions: FakeExecutions) -> None:
        self.url, self.files, self.workspaces, self.executions = url, files, workspaces, executions

    def caller(self, caller):
        return Api.connect(self.url, caller.key_name)


@pytest.fixture(scope="module")
async def face():
    files, executions = FakeFiles(max_upload_bytes=MIB), FakeExecutions()
    workspaces = FakeWorkspaces(files.contents)
    made_up = services(ADMIN, DEVELOPER, OTHER_DEVELOPER, files=files, workspaces=workspaces, executions=executions)
    async with http_face(made_up) as url:
        yield Place(url, files, workspaces, executions)


@pytest.fixture
def place(face):
    for fake in (face.files, face.workspaces, face.files.contents, face.executions):
        fake.forget()
    return face


@pytest.fixture
async def api(place):
    async with place.caller(DEVELOPER) as api:
        yield api


async def fetched(api: Api, path: str, method: str = "GET", **headers: str) -> tuple[aiohttp.ClientResponse, bytes]:
    # As it is: a client that tidies a path up would attack nothing.
    url = URL(f"{api.url}{path}", encoded=True)
    async with api.session.request(method, url, headers=headers) as response:
        return response, await response.read()


# --- what executions left ---


async def test_files_are_listed_with_where_to_read_them(place, api):
    place.files.leave(DEVELOPER, "e1", {"out/a b.csv": b"1,2"})
    status, listed = await api.get("/executions/e1/files")
    assert status == 200
    assert listed["files"] == [
        {
            "name": "out/a b.csv",
            "bytes": 3,
            "mediaType": "text/csv",
            "sha256": sha256(b"1,2").hexdigest(),
            "url": "/executions/e1/files/out/a%20b.csv",
        }
    ]
    _, content = await fetched(api, listed["files"][0]["url"])
    assert content == b"1,2"


@pytest.mark.parametrize("name", HOSTILE)
async def test_nothing_of_a_hostile_file_runs_in_a_browser(place, api, name):
    place.files.leave(DEVELOPER, "e1", HOSTILE)
    response, content = await fetched(api, f"/executions/e1/files/{name}")
    assert (response.status, content) == (200, HOSTILE[name])
    headers = response.headers
    assert headers["Content-Type"] == "application/octet-stream"
    assert headers["Content-Disposition"] == f'attachment; filename="{name}"'
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Content-Security-Policy"] == "sandbox; default-src 'none'"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert headers["Cache-Control"] == "private"


@pytest.mark.parametrize(
    ("name", "media_type"),
    [("a.csv", "text/csv"), ("a.png", "image/png"), ("a.json", "application/json"), ("a.log", "text/plain")],
)
async def test_what_is_harmless_is_sent_as_what_it_is(place, api, name, media_type):
    place.files.leave(DEVELOPER, "e1", {name: b"x"})
    response, _ = await fetched(api, f"/executions/e1/files/{name}")
    assert response.content_type == media_type
    assert response.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("name", ['x".html', "a;b.txt", "報告 1.csv", "c%2fd", "%41", "a?b#c", "\\..\\x", "a'b", "🎈"])
async def test_a_file_is_found_under_its_own_name_however_odd(place, api, name):
    (file,) = place.files.leave(DEVELOPER, "e1", {f"d/{name}": name.encode()})
    _, listed = await api.get("/executions/e1/files")
    response, content = await fetched(api, listed["files"][0]["url"])
    assert (response.status, content.decode()) == (200, name)
    assert response.headers["ETag"] == f'"{file.sha256}"'
    assert len(response.headers.getall("Content-Disposition")) == 1


@pytest.mark.parametrize(
    "path",
    [
        *("../../../health", "..%2f..%2fhealth", "%2e%2e/%2e%2e/health", "..%5c..%5cx", "%2fetc%2fpasswd", "/etc/x"),
        *("a.txt%00.png", "a.txt%0d%0aX: y", "a.txt%0a", "./a.txt", "a.txt/", "a.txt/.", "x/../a.txt", "%ff"),
        *("%c0%ae%c0%ae",),
        *("A.TXT", "a.txt%20", "x" * 600, "%252e%252e%252fa.txt"),
    ],
)  # fmt: skip
async def test_a_path_that_leaves_the_execution_leads_nowhere(place, api, path):
    place.files.leave(DEVELOPER, "e1", {"a.txt": b"secret"})
    response, content = await fetched(api, f"/executions/e1/files/{path}")
    assert response.status in (400, 404)
    assert b"secret" not in content
    assert response.content_type in ("application/problem+json", "text/plain", "application/octet-stream")


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE"])
async def test_another_callers_files_are_as_if_they_were_not_there(place, method):
    place.files.leave(DEVELOPER, "e1", {"a.txt": b"secret"})
    async with place.caller(OTHER_DEVELOPER) as other, place.caller(ADMIN) as admin:
        for path in ("/executions/e1/files", "/executions/e1/files/a.txt"):
            there, _ = await fetched(other, path, method)
            not_there, _ = await fetched(other, path.replace("e1", "e2"), method)
            assert there.status == not_there.status == 404
        # The control: a role that sees all executions does.
        assert (await fetched(admin, "/executions/e1/files/a.txt"))[0].status == 200


async def test_files_need_a_key(place):
    place.files.leave(DEVELOPER, "e1", {"a.txt": b"secret"})
    async with Api.connect(place.url, None) as stranger:
        for path in ("/executions/e1/files/a.txt", "/files", f"/files/{HASH}", "/workspaces", "/workspaces/w"):
            assert (await fetched(stranger, path))[0].status == 401


@pytest.mark.parametrize(
    ("asked", "status", "content", "content_range"),
    [
        ("bytes=0-3", 206, b"0123", "bytes 0-3/10"),
        ("bytes=7-", 206, b"789", "bytes 7-9/10"),
        ("bytes=-2", 206, b"89", "bytes 8-9/10"),
        ("bytes=3-999999", 206, b"3456789", "bytes 3-9/10"),
        ("lines=1-2", 200, b"0123456789", None),
        ("bytes=5-2", 200, b"0123456789", None),
        ("bytes=0-1,3-4", 200, b"0123456789", None),
    ],
)
async def test_a_range_of_a_file_can_be_read(place, api, asked, status, content, content_range):
    place.files.leave(DEVELOPER, "e1", {"a.txt": b"0123456789"})
    response, got = await fetched(api, "/executions/e1/files/a.txt", Range=asked)
    assert (response.status, got, response.headers.get("Content-Range")) == (status, content, content_range)


@pytest.mark.parametrize("asked", ["bytes=10-", "bytes=-0", "bytes=9999999999999999999-"])
async def test_a_range_after_the_end_says_how_long_the_file_is(place, api, asked):
    place.files.leave(DEVELOPER, "e1", {"a.txt": b"0123456789"})
    response, got = await fetched(api, "/executions/e1/files/a.txt", Range=asked)
    assert (response.status, json.loads(got)["code"]) == (416, "range_not_satisfiable")
    assert response.headers["Content-Range"] == "bytes */10"


async def test_a_client_that_has_the_file_does_not_get_it_again(place, api):
    (file,) = place.files.leave(DEVELOPER, "e1", {"a.txt": b"0123456789"})
    path = "/executions/e1/files/a.txt"
    for tag in (f'"{file.sha256}"', f'W/"{file.sha256}"', f'"x", "{file.sha256}"', "*"):
        response, got = await fetched(api, path, **{"If-None-Match": tag})
        assert (response.status, got, response.headers["ETag"]) == (304, b"", f'"{file.sha256}"')
    assert (await fetched(api, path, **{"If-None-Match": '"other"'}))[0].status == 200


async def test_a_download_goes_on_only_in_the_same_file(place, api):
    (file,) = place.files.leave(DEVELOPER, "e1", {"a.txt": b"0123456789"})
    path, rest = "/executions/e1/files/a.txt", {"Range": "bytes=4-"}
    same, got = await fetched(api, path, **rest, **{"If-Range": f'"{file.sha256}"'})
    assert (same.status, got) == (206, b"456789")
    for condition in ('"other"', "Tue, 17 Nov 2026 10:00:00 GMT"):
        other, got = await fetched(api, path, **rest, **{"If-Range": condition})
        assert (other.status, got) == (200, b"0123456789")


async def test_head_tells_all_but_the_content(place, api):
    place.files.leave(DEVELOPER, "e1", {"a.txt": b"0123456789"})
    response, got = await fetched(api, "/executions/e1/files/a.txt", "HEAD", Range="bytes=0-1")
    assert (response.status, got, response.headers["Content-Length"]) == (200, b"", "10")
    assert not place.files.contents.reads


async def test_a_large_file_is_read_in_pieces(place, api):
    content = bytes(range(256)) * (4 * PIECE_BYTES // 256) + b"end"
    place.files.leave(DEVELOPER, "e1", {"large.bin": content, "empty": b""})
    _, got = await fetched(api, "/executions/e1/files/large.bin")
    assert got == content
    assert max(length for _, length in place.files.contents.reads) == PIECE_BYTES
    response, got = await fetched(api, "/executions/e1/files/empty")
    assert (response.status, got) == (200, b"")


async def test_a_client_that_does_not_read_gets_no_more_pieces(place, api):
    place.files.leave(DEVELOPER, "e1", {"large.bin": bytes(200 * PIECE_BYTES)})
    async with api.session.get(f"{api.url}/executions/e1/files/large.bin") as response:
        await response.content.read(1)
        seen = -1
        while seen != len(place.files.contents.reads):  # until no more are asked for
            seen = len(place.files.contents.reads)
            await asyncio.sleep(0.1)
        assert seen < 100


async def test_a_file_that_is_deleted_meanwhile_is_not_taken_for_whole(place, api):
    place.files.leave(DEVELOPER, "e1", {"large.bin": bytes(4 * PIECE_BYTES)})
    place.files.contents.fail_after = 2
    with pytest.raises(aiohttp.ClientError):
        await fetched(api, "/executions/e1/files/large.bin")


async def test_a_file_whose_content_is_gone_is_a_proper_refusal(place, api):
    place.files.leave(DEVELOPER, "e1", {"large.bin": b"x"})
    place.files.contents.fail_after = 0
    response, got = await fetched(api, "/executions/e1/files/large.bin")
    assert (response.status, json.loads(got)["code"]) == (404, "not_found")


async def test_files_are_deleted_one_by_one_or_all(place, api):
    place.files.leave(DEVELOPER, "e1", {"d/a": b"1", "b": b"2", "c": b"3"})
    assert await api.delete("/executions/e1/files/d/a") == (200, {"deleted": 1})
    assert (await api.delete("/executions/e1/files/d/a"))[1]["code"] == "file_not_found"
    assert await api.delete("/executions/e1/files") == (200, {"deleted": 2})
    assert (await api.get("/executions/e1/files"))[1] == {"files": []}


# --- what callers send in advance ---


async def sent(api: Api, content: bytes = b"content", path: str = "/files", **headers: str):
    async with api.session.post(api.url + path, data=content, headers=headers) as response:
        return response.status, await response.json(content_type=None), response.headers


@asynccontextmanager
async def talking(place: Place, size: int):
    """The headers of an upload are sent; what is sent or received then is up to the test."""
    host, port = place.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    key = DEVELOPER.key_name
    writer.write(f"POST /files HTTP/1.1\r\nHost: {host}\r\nX-API-Key: {key}\r\nContent-Length: {size}\r\n\r\n".encode())
    await writer.drain()
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def test_a_file_is_sent_once_and_found_by_its_hash(api):
    assert (await fetched(api, f"/files/{HASH}", "HEAD"))[0].status == 404
    status, reply, headers = await sent(api)
    assert (status, reply["sha256"], reply["bytes"]) == (201, HASH, 7)
    assert headers["Location"] == reply["url"] == f"/files/{HASH}"
    assert (await fetched(api, f"/files/{HASH}", "HEAD"))[0].status == 200
    assert (await api.get(reply["url"]))[1] == reply == (await api.get("/files"))[1]["files"][0]
    assert await api.delete(reply["url"]) == (200, {"deleted": 1})
    assert (await api.get(reply["url"]))[1]["code"] == "file_not_found"


async def test_what_another_caller_has_sent_is_as_if_it_were_not_there(place, api):
    await sent(api)
    async with place.caller(OTHER_DEVELOPER) as other, place.caller(ADMIN) as admin:
        for caller in (other, admin):
            assert (await caller.get(f"/files/{HASH}"))[1]["code"] == "file_not_found"
            assert (await caller.delete(f"/files/{HASH}"))[0] == 404
            assert (await caller.get("/files"))[1] == {"files": [], "next": None}


async def test_what_was_sent_is_listed_in_pages(api):
    for number in range(5):
        await sent(api, b"%d" % number)
    _, whole = await api.get("/files")
    assert (len(whole["files"]), whole["next"]) == (5, None)
    pages, before = [], {}
    while True:
        _, page = await api.get("/files", params={"limit": "2", **before})
        pages.append(page["files"])
        if page["next"] is None:
            break
        before = {"before": page["next"]}
    assert [len(page) for page in pages] == [2, 2, 1]
    assert [file for page in pages for file in page] == whole["files"]


@pytest.mark.parametrize(
    ("asked", "complaint"),
    [
        ({"limit": "0"}, "`limit` must be a whole number from 1 to 500."),
        ({"before": "7"}, "`before` must be the `next` of the previous page."),
        ({"before": f"1e5-{HASH}"}, "`before` must be the `next` of the previous page."),
    ],
)
async def test_a_page_that_cannot_be_is_refused(api, asked, complaint):
    status, problem = await api.get("/files", params=asked)
    assert (status, problem["detail"]) == (422, complaint)
    assert "run" not in problem["hint"]


async def test_a_quota_that_is_used_up_is_a_conflict_that_says_what_to_delete(place, api):
    place.files.refusal = QuotaExceeded("There is no room for this upload.")
    status, problem, headers = await sent(api)
    assert (status, problem["code"], "Retry-After" in headers) == (409, "quota_exceeded", False)
    assert "DELETE /files/{sha256}" in problem["hint"]


def digest(content: bytes, algorithm: str = "sha-256") -> str:
    return f"{algorithm}=:{b64encode(sha256(content).digest()).decode()}:"


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        (f"/files?sha256={HASH}", {}),
        ("/files", {"Content-Digest": digest(b"content")}),
        ("/files", {"Repr-Digest": f"{digest(b'?', 'sha-512')}, {digest(b'content')}"}),
        (f"/files?sha256={HASH}", {"Content-Digest": digest(b"content")}),
        ("/files", {"Content-Digest": digest(b"?", "sha-512")}),
    ],
)
async def test_what_has_the_hash_that_was_announced_is_taken(api, path, headers):
    assert (await sent(api, path=path, **headers))[0] == 201


@pytest.mark.parametrize(
    ("path", "headers", "code"),
    [
        (f"/files?sha256={'0' * 64}", {}, "digest_mismatch"),
        ("/files", {"Content-Digest": digest(b"other")}, "digest_mismatch"),
        ("/files", {"Repr-Digest": digest(b"other")}, "digest_mismatch"),
        (f"/files?sha256={HASH}", {"Content-Digest": digest(b"other")}, "invalid_request"),
        ("/files", {"Content-Digest": "sha-256=:AAAA:"}, "invalid_request"),
        ("/files?sha256=abc", {}, "invalid_request"),
        (f"/files?sha256={HASH.upper()}", {}, "invalid_request"),
    ],
)
async def test_what_has_another_hash_is_refused(place, api, path, headers, code):
    status, problem, _ = await sent(api, path=path, **headers)
    assert (status, problem["code"]) == (422, code)
    assert not place.files.sent[DEVELOPER.key_name]


@pytest.mark.parametrize("headers", [{"Content-Type": "multipart/form-data; boundary=x"}, {"Content-Encoding": "gzip"}])
async def test_a_file_is_sent_as_it_is(api, headers):
    status, problem, _ = await sent(api, **headers)
    assert (status, problem["code"]) == (415, "unsupported_content_type")
    assert "as it is" in problem["detail"]


async def test_a_file_that_is_too_large_is_refused_before_it_is_read(place):
    """By a client that waits for the answer before it sends the file."""
    async with talking(place, MIB + 1) as (reader, _):
        assert (await reader.readline()).startswith(b"HTTP/1.1 413 ")
        assert b'"file_too_large"' in await reader.readuntil(b"}")
    assert place.files.broken_off == 0


async def test_a_file_that_does_not_say_how_large_it_is_is_stopped_at_the_limit(place, api):
    async def pieces():
        for _ in range(40):
            yield bytes(MIB // 32)

    status, problem, _ = await sent(api, pieces())
    assert (status, problem["code"], place.files.broken_off) == (413, "file_too_large", 1)


async def test_a_connection_that_is_cut_leaves_nothing(place):
    async with talking(place, 1000) as (_, writer):
        writer.write(b"x" * 500)
        await writer.drain()
    await until(lambda: place.files.broken_off == 1, seconds=5)
    assert not place.files.sent[DEVELOPER.key_name]


# --- workspaces ---


async def test_workspaces_are_listed_with_what_they_hold(place, api):
    place.workspaces.keep(DEVELOPER, "notes", "e1", {"a.txt": b"1"}, at=1)
    place.workspaces.keep(DEVELOPER, "notes", "e2", {"a.txt": b"12", "d/b.txt": b"3"}, at=2)
    place.workspaces.keep(OTHER_DEVELOPER, "secret", "e3", {"a.txt": b"1"})
    _, listed = await api.get("/workspaces")
    assert [(each["name"], each["version"], each["fileCount"], each["bytes"]) for each in listed["workspaces"]] == [
        ("notes", "e2", 2, 3)
    ]
    _, notes = await api.get("/workspaces/notes")
    assert [version["version"] for version in notes["versions"]] == ["e2", "e1"]
    assert (notes["version"], [file["name"] for file in notes["files"]]) == ("e2", ["a.txt", "d/b.txt"])
    _, content = await fetched(api, notes["files"][1]["url"])
    assert content == b"3"
    _, earlier = await api.get("/workspaces/notes", params={"version": "e1"})
    _, content = await fetched(api, earlier["files"][0]["url"])
    assert content == b"1"


async def test_a_file_of_a_workspace_is_as_harmless_as_any(place, api):
    place.workspaces.keep(DEVELOPER, "notes", "e1", {"page.html": b"<script>"})
    response, content = await fetched(api, "/workspaces/notes/files/page.html", Range="bytes=0-2")
    assert (response.status, content, response.content_type) == (206, b"<sc", "application/octet-stream")
    assert response.headers["Content-Security-Policy"].startswith("sandbox")
    for path in ("..%2fpage.html", "../notes/files/page.html", "page.html%00"):
        assert (await fetched(api, f"/workspaces/notes/files/{path}"))[0].status in (400, 404)


async def test_an_earlier_version_becomes_the_newest(place, api):
    for number in (1, 2):
        place.workspaces.keep(DEVELOPER, "notes", f"e{number}", {"a.txt": str(number).encode()}, at=number)
    status, restored = await api.post("/workspaces/notes/restore", {"version": "e1"})
    assert (status, restored["name"], restored["version"]) == (200, "notes", "e1")
    assert (await fetched(api, "/workspaces/notes/files/a.txt"))[1] == b"1"
    assert (await fetched(api, "/workspaces/notes/files/a.txt?version=e2"))[1] == b"2"
    assert (await api.post("/workspaces/notes/restore", {"version": "e9"}))[1]["code"] == "file_not_found"
    assert (await api.post("/workspaces/notes/restore", {"version": 1}))[0] == 422
    place.workspaces.busy.add("notes")
    assert (await api.post("/workspaces/notes/restore", {"version": "e2"}))[0] == 409


async def test_a_workspace_is_deleted_unless_it_is_in_use(place, api):
    place.workspaces.keep(DEVELOPER, "notes", "e1", {"a.txt": b"1"})
    place.workspaces.busy.add("notes")
    assert (await api.delete("/workspaces/notes"))[1]["code"] == "workspace_busy"
    place.workspaces.busy.clear()
    assert await api.delete("/workspaces/notes") == (200, {"deleted": 1})
    assert (await api.get("/workspaces/notes"))[1]["code"] == "workspace_not_found"


async def test_another_callers_workspace_is_as_if_it_were_not_there(place):
    place.workspaces.keep(DEVELOPER, "notes", "e1", {"a.txt": b"1"})
    async with place.caller(OTHER_DEVELOPER) as other:
        for path in ("/workspaces/notes", "/workspaces/notes/files/a.txt"):
            assert (await fetched(other, path))[0].status == 404
        assert (await other.delete("/workspaces/notes"))[0] == 404
        assert (await other.post("/workspaces/notes/restore", {"version": "e1"}))[0] == 404
    assert place.workspaces.kept


@pytest.mark.parametrize("name", ["..%2f..", "%2e%2e%2fx", ".x", "a%00b", "a%20b", "x" * 65, "%C3%A9"])
async def test_a_workspace_of_no_proper_name_is_refused(api, name):
    assert (await fetched(api, f"/workspaces/{name}"))[0].status in (404, 422)


# --- running a program ---


def completed(**changes) -> ExecutionResult:
    return ExecutionResult(replace(record().ended(Ending(Outcome.COMPLETED, exit_code=0), 2.0), **changes))


async def test_a_program_is_given_files_and_a_workspace(place, api):
    place.executions.result = completed()
    body = {
        "code": "1",
        "files": {
            "a.txt": {"text": "hello"},
            "b.bin": {"base64": "AP8="},
            "c.csv": {"sha256": HASH},
            "d/e.csv": {"from": {"execution": "e1", "name": "out.csv"}},
            "f.csv": {"from": {"workspace": "notes", "name": "f.csv"}},
        },
        "workspace": "notes",
        "wait": False,
        "keep": "always",
    }
    status, _ = await api.post("/execute", body)
    assert status == 200
    (asked,) = place.executions.asked
    assert asked.files == {
        "a.txt": Given(b"hello"),
        "b.bin": Given(b"\x00\xff"),
        "c.csv": FromUpload(HASH),
        "d/e.csv": FromExecution("e1", "out.csv"),
        "f.csv": FromWorkspace("notes", "f.csv"),
    }
    assert asked.workspace == WorkspaceUse("notes", wait=False, keep=Keep.ALWAYS)


async def test_the_reply_tells_what_was_kept_and_what_was_not(place, api):
    (file,) = place.files.leave(DEVELOPER, "e1", {"a b.csv": b"1,2"})
    left_out = (LeftOut("big.bin", Why.TOO_LARGE, 10**9),)
    end = WorkspaceEnd("notes", kept=False, version="e0", files=2, bytes=7, why_not="It failed.", left_out=left_out)
    end = replace(end, left_out_count=4)
    place.executions.result = completed(files=(file,), left_out=left_out, left_out_count=3, workspace=end)
    _, reply = await api.post("/execute", {"code": "1"})
    assert [(each["name"], each["url"]) for each in reply["files"]] == [("a b.csv", "/executions/e1/files/a%20b.csv")]
    assert reply["filesLeftOut"] == [{"name": "big.bin", "bytes": 10**9, "why": "too_large"}]
    assert reply["filesLeftOutCount"] == 3
    assert reply["workspace"] == {
        "name": "notes",
        "kept": False,
        "version": "e0",
        "files": 2,
        "bytes": 7,
        "whyNot": "It failed.",
        "leftOut": reply["filesLeftOut"],
        "leftOutCount": 4,
    }


async def test_a_workspace_in_use_is_a_conflict_for_one_who_does_not_wait(place, api):
    place.executions.refusal = WorkspaceBusy("Execution e1 has the workspace.", execution_id="e1")
    status, problem = await api.post("/execute", {"code": "1", "workspace": "notes", "wait": False})
    assert (status, problem["code"], problem["executionId"]) == (409, "workspace_busy", "e1")


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"files": {"../x": {"text": ""}}}, "'../x' is no name for a file."),
        ({"files": {"a": {}}}, "The file `a` must have one of"),
        ({"files": {"a": {"text": "", "sha256": HASH}}}, "it has `text` and `sha256`."),
        ({"files": {"a.csv": {"path": "/etc/passwd"}}}, "`files.a.csv.path` is unknown; known are `text`, `base64`,"),
        ({"files": {"a": {"text": 5}}}, "`files.a.text` must be a string."),
        ({"files": {"a": {"from": 5}}}, "`files.a.from` must be an object."),
        ({"files": {"a": {"from": {"name": "b", "x": 1}}}}, "known are `execution`, `workspace`, `version`, `name`"),
        ({"files": {"a": {"from": {"execution": "e"}}}}, "`files.a.from.name` is missing."),
        ({"files": []}, "`files` must be an object of names."),
        ({"files": {"a": "x"}}, "`files.a` must be an object with one of `text`, `base64`, `sha256` or `from`."),
        ({"workspace": "a/b"}, "`workspace` must have 1 to 64 letters"),
        ({"workspace": "a", "keep": "never"}, "`keep` must be one of success, always."),
        ({"wait": False}, "Name it in `workspace`."),
        ({"workspace": "a", "wait": "no"}, "`wait` must be true or false."),
    ],
)  # fmt: skip
async def test_what_is_wrong_with_a_request_is_told(place, api, fields, complaint):
    status, problem = await api.post("/execute", {"code": "1", **fields})
    assert (status, problem["code"]) == (422, "invalid_request")
    assert complaint in problem["detail"]
    assert not place.executions.asked


@pytest.mark.parametrize(
    "body",
    [
        b'{"code": "1", "files": {"a": {"text": ""}, "a": {"text": ""}}}',
        b'{"code": "1", "files": {"a": {"text": "", "text": ""}}}',
        b'{"code": "1", "files": {' + b",".join(b'"%d":{}' % number for number in range(10_000)) + b"}}",
        b'{"code": "1", "files": ' + b'{"a":' * 5000 + b"1" + b"}" * 5000 + b"}",
    ],
    ids=["a file twice", "a content twice", "very many files", "very deep"],
)
async def test_a_body_that_is_made_to_do_harm_is_refused(place, api, body):
    async with api.session.post(
        f"{api.url}/execute", data=body, headers={"Content-Type": "application/json"}
    ) as response:
        assert response.status in (400, 422)
    assert not place.executions.asked
