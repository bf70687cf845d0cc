"""What a browser gets, and with which policy."""

from __future__ import annotations

import gzip
import re

import aiohttp
import pytest
from yarl import URL

from orchestrator.faces.console.pages import LIBRARIES, POLICY, STATIC, Console
from tests.support.http_face import http_face, services

INDEX = (STATIC / "index.html").read_bytes()
OLD = "/console/assets/0123456789abcdef/"
PAGES = (
    "/",
    "/docs",
    "/console",
    "/console/executions/0123",
    "/console/catalogue/postgres/query",
    "/console/try?from=1",
)


@pytest.fixture
def libraries(tmp_path):
    for name in LIBRARIES:
        (tmp_path / name).write_text(f"/* {name} */")
    return tmp_path


@pytest.fixture
async def console(libraries):
    async with (
        http_face(services(), Console(libraries).routes) as url,
        aiohttp.ClientSession(url, auto_decompress=False) as client,
    ):
        yield client


@pytest.mark.parametrize("path", PAGES)
async def test_every_page_is_the_same_document_and_needs_no_key(console, path):
    async with console.get(path, headers={"Accept-Encoding": "identity"}) as response:
        assert response.status == 200
        assert response.headers["Content-Type"] == "text/html; charset=utf-8"
        assert re.sub(rb"assets/[0-9a-f]{16}/", b"assets/", await response.read()) == INDEX


async def assets_of(console) -> str:
    """Return where the page finds our own files."""
    async with console.get("/", headers={"Accept-Encoding": "identity"}) as response:
        found = re.search(r"/console/assets/[0-9a-f]{16}/", await response.text())
        assert found is not None
        return found[0]


@pytest.mark.parametrize("path", ["/", "main.js", "/console/vendor/htm.js"])
async def test_everything_has_the_policy_and_is_never_guessed_at(console, path):
    async with console.get(path if path.startswith("/") else await assets_of(console) + path) as response:
        assert response.status == 200
        assert response.headers["Content-Security-Policy"] == POLICY
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert response.headers["Referrer-Policy"] == "no-referrer"
        assert "Set-Cookie" not in response.headers


async def test_files_are_sent_packed_to_who_can_unpack_them(console):
    async with console.get(await assets_of(console) + "main.js", headers={"Accept-Encoding": "gzip"}) as response:
        assert response.headers["Content-Encoding"] == "gzip"
        assert gzip.decompress(await response.read()) == (STATIC / "main.js").read_bytes()


async def test_our_own_files_are_asked_for_once_and_the_page_each_time(console):
    assets = await assets_of(console)
    async with console.get(f"{assets}main.js") as response:
        assert "immutable" in response.headers["Cache-Control"]
    async with console.get("/console/assets/0000000000000000/main.js") as response:
        assert (response.status, response.headers["Cache-Control"]) == (200, "no-cache")
    async with console.get("/") as response:
        assert response.headers["Cache-Control"] == "no-cache"


async def test_what_has_not_changed_is_not_sent_again(console):
    async with console.get("/") as response:
        tag = response.headers["ETag"]
    async with console.get("/", headers={"If-None-Match": tag}) as response:
        assert (response.status, await response.read()) == (304, b"")


@pytest.mark.parametrize(
    "path",
    [
        *(f"{OLD}nothing.js", f"{OLD}../pages.py", f"{OLD}%2e%2e/pages.py", f"{OLD}..%2fpages.py"),
        *(
            "/console/assets/main.js",
            f"{OLD}/etc/passwd",
            "/console/vendor/licenses.txt",
            "/console/vendor/..%2fpages.py",
        ),
    ],
)
async def test_nothing_else_is_given_out(console, path):
    async with console.get(URL(path, encoded=True), headers={"Accept-Encoding": "identity"}) as response:
        # A path that is made shorter on its way names a page.
        found = await response.read()
        assert response.status == 404 or re.sub(rb"assets/[0-9a-f]{16}/", b"assets/", found) == INDEX


async def test_the_document_has_no_script_or_style_of_its_own():
    document = (STATIC / "index.html").read_text()
    assert "style=" not in document
    assert "<style" not in document
    assert all("src=" in script for script in document.split("<script")[1:])


async def test_only_get_needs_no_key(console):
    async with console.post("/console/executions") as response:
        assert response.status in (401, 405)


async def test_without_the_libraries_the_page_says_what_to_do(tmp_path):
    async with (
        http_face(services(), Console(tmp_path / "missing").routes) as url,
        aiohttp.ClientSession(url) as client,
        client.get("/") as response,
    ):
        assert response.status == 503
        assert "make image" in await response.text()
