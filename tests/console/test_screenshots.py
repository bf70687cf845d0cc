"""Pictures of every page, light and dark, wide and narrow: `make screenshots` keeps them, to be looked at."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.console.browser import NARROW, WIDE, Theme, Visit
from tests.console.conftest import Place
from tests.console.demo import REPORT
from tests.console.test_pages import NAMES, paths_of, settled

SIZES = {"wide": WIDE, "narrow": NARROW}


@pytest.fixture
def album(tmp_path: Path) -> Path:
    directory = Path(os.environ.get("SCREENSHOTS") or tmp_path)
    directory.mkdir(parents=True, exist_ok=True)
    return directory


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_screenshot_for_the_readme(place: Place, album: Path, theme: Theme) -> None:
    """Of the second run, which finds a warm sandbox."""
    reply = await place.api.python(REPORT)
    path = f"/console/executions/{reply['executionId']}"
    async with place.visit(path, size={"width": 1180, "height": 900}, theme=theme) as visit:
        await settled(visit.page)
        await visit.page.screenshot(path=album / f"readme-{theme}.png")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
async def test_screenshots_of_every_page(place: Place, album: Path, size: str, theme: Theme) -> None:
    paths = await paths_of(place)
    for name in NAMES:
        async with place.visit(paths[name], size=SIZES[size], theme=theme) as visit:
            await settled(visit.page)
            await visit.page.wait_for_timeout(300)  # the charts draw after their data is there
            picture = album / f"{name.replace(' ', '-')}-{size}-{theme}.png"
            await visit.page.screenshot(path=picture, full_page=True)
            assert picture.stat().st_size > 10_000
    async with Visit.opened(place.browser, place.api.url, SIZES[size], theme) as visit:
        await visit.go("/")
        await settled(visit.page)
        await visit.page.screenshot(path=album / f"sign-in-{size}-{theme}.png", full_page=True)
