"""A real daemon with servers behind it, and a real browser in front of it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.async_api import Browser

from bench.testbed.engine import engine_is_there
from tests.console.browser import WIDE, Theme, Visit, chromium
from tests.console.demo import EXAMPLES, Demo
from tests.console.demo_skills import fill
from tests.support.api import Api, eventually
from tests.support.installation import PROJECT, Installation
from tests.support.upstream_server import serving

ROLES = {
    "roles": {
        "admin": {
            "servers": ["*"],
            "seesAllExecutions": True,
            "approvesSkills": True,
            "keys": ["code-executor-admin"],
        },
        "developer": {"servers": ["postgres", "crm"], "keys": ["code-executor-developer"]},
    }
}


@dataclass(frozen=True)
class Place:
    """A daemon in use."""

    installation: Installation
    api: Api
    demo: Demo
    browser: Browser

    async def code(self, role: str = "admin") -> str:
        async with self.api.as_caller(self.installation.keys[role]) as caller:
            status, made = await caller.post("/console/codes", None)
            assert status == 201
            return str(made["code"])

    @asynccontextmanager
    async def visit(
        self, path: str = "/", role: str = "admin", size: dict[str, int] = WIDE, theme: Theme = "light"
    ) -> AsyncIterator[Visit]:
        """Open a page as somebody who followed a link, and expect that nothing goes wrong on it."""
        async with Visit.opened(self.browser, self.api.url, size, theme) as visit:
            await visit.go(f"/#code={await self.code(role)}")
            await visit.page.get_by_role("button", name="Sign out").wait_for()
            if path != "/":
                await visit.go(path)
            yield visit
            assert visit.complaints == []
            assert visit.foreign_requests == []


@pytest.fixture(scope="session")
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as browser:
        yield browser


@asynccontextmanager
async def place_in(directory: Path, browser: Browser) -> AsyncIterator[Place]:
    (directory / "roles.json").write_text(json.dumps(ROLES))
    demo = Demo()
    async with serving(demo.app()) as url:
        servers = {name: {"url": f"{url}/{name}/mcp"} for name in demo.tools}
        servers["calendar"] = {"url": "http://127.0.0.1:9/mcp"}  # a server that is down
        (directory / "servers.json").write_text(json.dumps({"mcpServers": servers}))
        installation = Installation.create(
            directory,
            roles_file=directory / "roles.json",
            servers_file=directory / "servers.json",
            relist_seconds=2,
            max_output_bytes=10 * 1024 * 1024,
            flood_bytes=64 * 1024 * 1024,
        )
        async with installation.run() as api:
            await eventually(lambda: _are_listed(api, set(demo.tools)), seconds=30)
            yield Place(installation, api, demo, browser)


@pytest.fixture(scope="session")
async def place(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> AsyncIterator[Place]:
    """A daemon that the whole run shares, in which an agent has done a few things."""
    if not engine_is_there():
        pytest.fail("No container engine answers: 'make test-console' starts one, or start yours first.")
    assert (PROJECT / ".build" / "console" / "editor.js").exists(), "'make image' fetches the console's libraries."
    async with place_in(tmp_path_factory.mktemp("console"), browser) as place:
        for language, code in EXAMPLES:
            await place.api.execute(code, language, 60)
        async with place.api.as_caller(place.installation.keys["developer"]) as developer:
            await developer.python("print('the developer was here')")
            await fill(place.api, developer)
        yield place


async def _are_listed(api: Api, servers: set[str]) -> bool:
    by_server = (await api.get("/health"))[1]["toolsByServer"]
    return {name for name, tools in by_server.items() if tools} >= servers
