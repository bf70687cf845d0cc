"""The token of the metrics, on a socket: what it opens, and what it does not."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from orchestrator.domain.access import hash_key
from orchestrator.faces.http.routes import ROUTES
from tests.support.api import Api
from tests.support.http_face import http_face, services
from tests.support.samples import ADMIN, DEVELOPER

TOKEN = "a-token-of-the-metrics"
LARGE = b"# " + b"x" * 1_000_000 + b"\n"
OTHERS = sorted({(route.method, route.path) for route in ROUTES if not route.public} - {("GET", "/metrics")})


@asynccontextmanager
async def caller(key: str | None, token: str | None = TOKEN, render: Callable[[], bytes] = bytes) -> AsyncIterator[Api]:
    sha256 = hash_key(token) if token is not None else None
    made_up = services(ADMIN, render_metrics=render, metrics_token_sha256=sha256)
    async with http_face(made_up) as url, Api.connect(url, key) as api:
        yield api


async def status(api: Api, method: str, path: str) -> int:
    async with api.session.request(method, f"{api.url}{path}") as response:
        await response.read()
        return response.status


async def test_the_token_opens_the_metrics() -> None:
    async with caller(TOKEN, render=lambda: LARGE) as api, api.session.get(f"{api.url}/metrics") as response:
        assert (response.status, await response.read()) == (200, LARGE)


async def test_a_key_opens_the_metrics_with_and_without_a_token() -> None:
    for token in (TOKEN, None):
        async with caller(ADMIN.key_name, token) as api:
            assert await status(api, "GET", "/metrics") == 200


async def test_a_key_that_sees_its_own_executions_only_does_not_open_them() -> None:
    made_up = services(ADMIN, DEVELOPER, render_metrics=bytes, metrics_token_sha256=None)
    async with http_face(made_up) as url, Api.connect(url, DEVELOPER.key_name) as api:
        assert await status(api, "GET", "/metrics") == 403


@pytest.mark.parametrize("presented", [None, "", "wrong", TOKEN[:-1], f"{TOKEN}x", hash_key(TOKEN)])
async def test_nothing_else_opens_them(presented: str | None) -> None:
    async with caller(presented) as api:
        assert await status(api, "GET", "/metrics") == 401


async def test_without_a_token_in_the_settings_none_is_taken() -> None:
    async with caller("None", token=None) as api:
        assert await status(api, "GET", "/metrics") == 401


@pytest.mark.parametrize(("method", "path"), OTHERS)
async def test_the_token_opens_nothing_else(method: str, path: str) -> None:
    async with caller(TOKEN) as api:
        assert await status(api, method, path) == 401


@pytest.mark.parametrize("path", ["/metrics/", "//metrics", "/metrics/../whoami", "/metrics%2f..%2fwhoami", "/mcp"])
async def test_no_spelling_of_the_path_makes_more_of_it(path: str) -> None:
    async with caller(TOKEN) as api:
        assert await status(api, "GET", path) in (401, 404)
