"""What the page does when the daemon goes away and comes back."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from tests.console.browser import NARROW, Visit, chromium
from tests.console.conftest import ROLES
from tests.support.daemon_process import DaemonProcess
from tests.support.installation import Installation

PATIENT_MS = 30_000


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def installed(tmp_path: Path) -> Installation:
    (tmp_path / "roles.json").write_text(json.dumps(ROLES))
    return Installation.create(tmp_path, roles_file=tmp_path / "roles.json", port=free_port())


async def test_a_killed_daemon_is_told_and_nothing_that_finished_is_missed(
    installed: Installation, browser: Browser
) -> None:
    async with DaemonProcess.running(installed) as first:
        async with first.api.session.post(f"{first.api.url}/console/codes") as made:
            code = (await made.json())["code"]
        async with Visit.opened(browser, first.api.url) as visit:
            page = visit.page
            await visit.go(f"/#code={code}")
            await expect(page.get_by_role("button", name="Sign out")).to_be_visible()
            before = await first.api.python("print('before')")
            await expect(page.get_by_role("row").filter(has_text=before["executionId"][:8])).to_contain_text(
                "completed"
            )
            first.kill()
            await expect(page.get_by_text("The daemon does not answer")).to_be_visible(timeout=PATIENT_MS)
            async with DaemonProcess.running(installed) as second:
                # These have ended before the page is back, or while it comes back.
                after = [await second.api.python(f"print({number})") for number in range(3)]
                await expect(page.get_by_text("The daemon does not answer")).to_have_count(0, timeout=PATIENT_MS)
                for reply in (before, *after):
                    row = page.get_by_role("row").filter(has_text=reply["executionId"][:8])
                    await expect(row).to_contain_text("completed", timeout=PATIENT_MS)
                # The session was not lost, and what happens now appears again by itself.
                last = await second.api.python("print('again')")
                await expect(page.get_by_role("row").filter(has_text=last["executionId"][:8])).to_have_count(1)


async def test_a_page_that_could_not_be_read_appears_when_the_daemon_is_back(
    installed: Installation, browser: Browser
) -> None:
    async with DaemonProcess.running(installed) as first:
        async with first.api.session.post(f"{first.api.url}/console/codes") as made:
            code = (await made.json())["code"]
        async with Visit.opened(browser, first.api.url) as visit:
            pages = visit.page.get_by_role("navigation", name="Pages")
            figures = visit.page.get_by_text("Nothing was executed in the last 24 hours.")
            await visit.go(f"/#code={code}")
            await pages.get_by_role("link", name="Figures").click()
            await expect(figures).to_be_visible()
            await pages.get_by_role("link", name="Live").click()
            first.kill()
            await expect(visit.page.get_by_text("The daemon does not answer").first).to_be_visible(timeout=PATIENT_MS)
            await pages.get_by_role("link", name="Figures").click()
            await expect(visit.page.get_by_role("main").get_by_role("alert")).to_be_visible()
            async with DaemonProcess.running(installed):
                await expect(figures).to_be_visible(timeout=PATIENT_MS)
                await expect(visit.page.get_by_role("main").get_by_role("alert")).to_have_count(0)


async def test_what_one_sees_first_fits_on_a_telephone(installed: Installation, browser: Browser) -> None:
    async with DaemonProcess.running(installed) as daemon:
        async with daemon.api.session.post(f"{daemon.api.url}/console/codes") as made:
            code = (await made.json())["code"]
        async with Visit.opened(browser, daemon.api.url, size=NARROW) as visit:
            await visit.go("/")
            await expect(visit.page.get_by_role("heading", name="Sign in")).to_be_visible()
            assert await visit.page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]
            await visit.go(f"/#code={code}")
            await expect(visit.page.get_by_text("Nothing has run yet.")).to_be_visible()
            assert await visit.page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]


async def test_a_rotated_key_ends_the_session_on_the_page(installed: Installation, browser: Browser) -> None:
    async with DaemonProcess.running(installed) as daemon:
        async with daemon.api.session.post(f"{daemon.api.url}/console/codes") as made:
            code = (await made.json())["code"]
        async with Visit.opened(browser, daemon.api.url) as visit:
            await visit.go(f"/#code={code}")
            await expect(visit.page.get_by_role("button", name="Sign out")).to_be_visible()
            (installed.settings.keys_dir / "code-executor-admin.sha256").write_text("0" * 64)
            await expect(visit.page.get_by_text("session has ended")).to_be_visible(timeout=PATIENT_MS)


async def test_pages_that_a_browser_keeps_for_going_back_hold_no_connection(installed: Installation) -> None:
    """A browser has six connections to a host, and keeps more pages than that."""
    async with (
        DaemonProcess.running(installed) as daemon,
        chromium(without=["--disable-back-forward-cache"]) as browser,
        Visit.opened(browser, daemon.api.url) as visit,
    ):
        async with daemon.api.session.post(f"{daemon.api.url}/console/codes") as made:
            code = (await made.json())["code"]
        await visit.go(f"/#code={code}")
        await expect(visit.page.get_by_role("button", name="Sign out")).to_be_visible()
        for number in range(9):
            reply = await daemon.api.python(f"print({number})")
            await visit.go(f"/console/executions/{reply['executionId']}")
            await expect(visit.page.get_by_role("region", name="stdout")).to_contain_text(str(number))
        await visit.page.go_back(wait_until="commit")  # what was kept does not load again
        await expect(visit.page.get_by_role("region", name="stdout")).to_contain_text("7")
        shown = await daemon.api.python("print('live again')")
        await visit.page.get_by_role("navigation", name="Pages").get_by_role("link", name="Live").click()
        await expect(visit.page.get_by_role("row").filter(has_text=shown["executionId"][:8])).to_have_count(1)


async def test_a_page_whose_first_script_does_not_come_says_what_to_do(
    installed: Installation, browser: Browser
) -> None:
    async with DaemonProcess.running(installed) as daemon, Visit.opened(browser, daemon.api.url) as visit:
        await visit.page.route("**/main.js", lambda route: route.abort())
        await visit.page.goto(daemon.api.url)
        await expect(visit.page.get_by_text("reload the page")).to_be_visible()
