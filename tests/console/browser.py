"""Debian's Chromium, driven by Playwright: a page that remembers what it did wrong."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

from playwright.async_api import Browser, ConsoleMessage, Error, Page, Request, async_playwright, expect

CHROMIUM = "/usr/bin/chromium"
AXE = Path(__file__).resolve().parents[2] / ".build" / "axe" / "node_modules" / "axe-core" / "axe.min.js"
WIDE = {"width": 1280, "height": 900}
NARROW = {"width": 390, "height": 844}

# A name of somebody else that was made to point here.
REBOUND = "--host-resolver-rules=MAP rebound.example.com 127.0.0.1"

# What a page has to show, it may show late on a busy machine; unless told otherwise, Playwright waits five seconds.
expect.set_options(timeout=30_000)

Theme = Literal["light", "dark"]


@asynccontextmanager
async def chromium(without: Sequence[str] = ()) -> AsyncIterator[Browser]:
    """Start a browser as Playwright does, but for some of its options."""
    async with async_playwright() as playwright:
        # As root there is no sandbox; what is shown here comes from our own daemon.
        browser = await playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", REBOUND], ignore_default_args=list(without)
        )
        try:
            yield browser
        finally:
            await browser.close()


class Visit:
    """A page of the console, with every request that it made and everything that its console said."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.url = url
        self.requests: list[str] = []
        self.complaints: list[str] = []
        page.on("request", self._note_request)
        page.on("console", self._note_message)
        page.on("pageerror", self._note_error)

    @classmethod
    @asynccontextmanager
    async def opened(
        cls, browser: Browser, url: str, size: dict[str, int] = WIDE, theme: Theme = "light", **options: Any
    ) -> AsyncIterator[Visit]:
        context = await browser.new_context(
            viewport=size, color_scheme=theme, reduced_motion="reduce", locale="en-GB", timezone_id="UTC", **options
        )
        try:
            yield cls(await context.new_page(), url)
        finally:
            await context.close()

    async def go(self, path: str) -> None:
        await self.page.goto(f"{self.url}{path}")

    def _note_request(self, request: Request) -> None:
        self.requests.append(request.url)

    def _note_message(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def _note_error(self, error: Error) -> None:
        self.complaints.append(str(error))

    @property
    def foreign_requests(self) -> list[str]:
        return [url for url in self.requests if not url.startswith((self.url + "/", "blob:"))]

    async def serious_faults(self) -> list[str]:
        """Return what axe-core finds that keeps people from using the page."""
        await self.page.evaluate(AXE.read_text())
        found = await self.page.evaluate("async () => (await axe.run(document)).violations")
        return [
            f"{each['id']}: {each['help']} ({node['target']})"
            for each in found
            if each["impact"] in ("serious", "critical")
            for node in each["nodes"]
        ]
