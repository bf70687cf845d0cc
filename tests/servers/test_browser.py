"""The MCP server `playwright` with a real browser. A page is a data: URL, so nothing has to be served."""

from __future__ import annotations

import asyncio
import base64
import tomllib
from urllib.parse import quote

import pytest

from tests.support.api import Api
from tests.support.stack import SOURCES

SERVERS = ("playwright",)
ENTRY = tomllib.loads((SOURCES / "servers.toml").read_text())["servers"]["playwright"]
PNG = b"\x89PNG\r\n\x1a\n"
PROGRAM_SECONDS = 60
# Whether pages are a caller's own is for servers.toml to say. It has to: without this setting they are everybody's.
apart = pytest.mark.skipif(
    ENTRY.get("session") != "execution", reason='playwright has no `session = "execution"` in servers.toml yet'
)


def page(title: str, body: str = "") -> str:
    return f"data:text/html,{quote(f'<title>{title}</title><h1>{title}</h1>{body}')}"


async def test_a_page_is_opened_read_and_used(api: Api) -> None:
    button = "<button onclick=\"document.title='pressed'\">Press</button>"
    code = f"""
from servers.playwright import browser_click, browser_evaluate, browser_navigate, browser_snapshot
import re
browser_navigate(url={page("A form", button)!r})
seen = str(browser_snapshot())
browser_click(element="the button", target=re.search(r'button "Press"[^\\n]*\\[ref=(\\w+)\\]', seen)[1])
print('heading "A form"' in seen, "pressed" in str(browser_evaluate(function="() => document.title")))
"""
    result = await api.python(code, PROGRAM_SECONDS)
    assert result["output"] == "True True\n", result["stderr"]


async def test_a_screenshot_is_shown_to_the_caller(api: Api) -> None:
    code = f"""
from servers.output import emit_image
from servers.playwright import browser_navigate, browser_take_screenshot
browser_navigate(url={page("Pictured")!r})
emit_image(next(part for part in browser_take_screenshot(type="png", scale="css") if not isinstance(part, str)))
"""
    result = await api.python(code, PROGRAM_SECONDS)
    assert result["outcome"] == "completed", result["stderr"]
    (picture,) = result["images"]
    assert base64.b64decode(picture["data"]).startswith(PNG)


LOOK = """
from servers.playwright import browser_navigate, browser_tabs, browser_wait_for
browser_navigate(url={url!r})
browser_wait_for(time=3)
print(browser_tabs(action="list"))
"""


@apart
async def test_two_executions_at_once_do_not_see_each_others_tabs(api: Api) -> None:
    titles = ("Of-Ada", "Of-Grace")
    ended = await asyncio.gather(
        *(api.python(LOOK.format(url=page(title)), PROGRAM_SECONDS) for title in titles),
    )
    for own, other, result in zip(titles, reversed(titles), ended, strict=True):
        assert result["outcome"] == "completed", result["stderr"]
        assert own in result["output"]
        assert other not in result["output"]


@apart
async def test_an_execution_finds_nothing_of_the_one_before(api: Api) -> None:
    left = f"""
from servers.playwright import browser_evaluate, browser_navigate
browser_navigate(url={page("Left-behind")!r})
"""
    assert (await api.python(left, PROGRAM_SECONDS))["outcome"] == "completed"
    result = await api.python(
        "from servers.playwright import browser_tabs\nprint(browser_tabs(action='list'))", PROGRAM_SECONDS
    )
    assert result["outcome"] == "completed", result["stderr"]
    assert "Left-behind" not in result["output"]
