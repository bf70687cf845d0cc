"""Getting into the console, and what keeps others out."""

from __future__ import annotations

import pytest
from aiohttp import web
from playwright.async_api import expect

from orchestrator.service import sign_ins
from tests.console.browser import Visit
from tests.console.conftest import Place
from tests.support.api import until
from tests.support.upstream_server import serving

SIGNED_IN = "Sign out"


async def test_the_link_signs_in_once_and_leaves_the_address(place: Place) -> None:
    code = await place.code()
    async with Visit.opened(place.browser, place.api.url) as visit:
        await visit.go(f"/#code={code}")
        await expect(visit.page.get_by_role("button", name=SIGNED_IN)).to_be_visible()
        assert code not in visit.page.url
        assert not any(code in url for url in visit.requests)
        assert await visit.page.context.cookies() == []
    async with Visit.opened(place.browser, place.api.url) as visit:
        await visit.go(f"/#code={code}")
        await expect(visit.page.get_by_text("has already been used or has expired")).to_be_visible()
        await expect(visit.page.get_by_role("button", name=SIGNED_IN)).to_have_count(0)


async def test_a_link_is_worth_nothing_when_its_minute_is_over(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sign_ins, "CODE_SECONDS", 0.0)
    code = await place.code()
    async with Visit.opened(place.browser, place.api.url) as visit:
        await visit.go(f"/#code={code}")
        await expect(visit.page.get_by_text("has already been used or has expired")).to_be_visible()


async def test_a_pasted_key_signs_in_and_is_kept_nowhere(place: Place) -> None:
    key = place.installation.keys["admin"]
    async with Visit.opened(place.browser, place.api.url) as visit:
        await visit.go("/console/figures")
        await visit.page.get_by_label("Key").fill(key)
        await visit.page.get_by_role("button", name="Sign in").click()
        await expect(visit.page.get_by_role("heading", name="Figures")).to_be_focused()
        stored = await visit.page.evaluate("JSON.stringify([{...sessionStorage}, {...localStorage}])")
        assert key not in stored
        assert visit.complaints == []


async def test_a_wrong_key_is_told_and_opens_nothing(place: Place) -> None:
    async with Visit.opened(place.browser, place.api.url) as visit:
        await visit.go("/")
        await visit.page.get_by_label("Key").fill("wrong")
        await visit.page.get_by_role("button", name="Sign in").click()
        await expect(visit.page.get_by_role("alert")).to_contain_text("does not know this key")


@pytest.mark.parametrize("key", ["schlüssel", "k" * 20_000])
async def test_a_key_that_no_header_can_carry_is_told_as_a_wrong_one(place: Place, key: str) -> None:
    async with Visit.opened(place.browser, place.api.url) as visit:
        await visit.go("/")
        await visit.page.get_by_label("Key").fill(key)
        await visit.page.get_by_role("button", name="Sign in").click()
        await expect(visit.page.get_by_role("alert")).to_contain_text("does not know this key")


async def test_a_link_pasted_into_an_open_tab_signs_in_there_and_in_the_tabs_beside_it(place: Place) -> None:
    async with Visit.opened(place.browser, place.api.url) as visit:
        await visit.go("/console/figures")
        other = await visit.page.context.new_page()
        await other.goto(f"{place.api.url}/console/catalogue")
        await expect(other.get_by_role("heading", name="Sign in")).to_be_visible()
        code = await place.code()
        await visit.page.evaluate("(code) => (location.hash = `code=${code}`)", code)
        await expect(visit.page.get_by_role("heading", name="Figures")).to_be_visible()
        assert code not in visit.page.url
        await expect(other.get_by_role("heading", name="Catalogue")).to_be_visible()


async def test_a_used_link_leaves_the_session_as_it_is(place: Place) -> None:
    code = await place.code()
    async with Visit.opened(place.browser, place.api.url) as visit:
        await visit.go(f"/#code={code}")
        await expect(visit.page.get_by_role("button", name=SIGNED_IN)).to_be_visible()
        await visit.page.evaluate("(code) => (location.hash = `code=${code}`)", code)
        await expect(visit.page.get_by_text("You are still signed in.")).to_be_visible()
        other = await visit.page.context.new_page()
        await other.goto(f"{place.api.url}/#code={code}")
        await expect(other.get_by_text("You are still signed in.")).to_be_visible()
        await expect(other.get_by_role("button", name=SIGNED_IN)).to_be_visible()


async def test_signing_out_ends_the_session_in_every_tab(place: Place) -> None:
    async with place.visit() as visit:
        other = await visit.page.context.new_page()
        await other.goto(place.api.url)
        await expect(other.get_by_role("button", name=SIGNED_IN)).to_be_visible()
        token = await visit.page.evaluate("Object.values(sessionStorage).join()")
        await visit.page.get_by_role("button", name=SIGNED_IN).click()
        await expect(visit.page.get_by_role("heading", name="Sign in")).to_be_focused()
        await expect(visit.page.get_by_role("status").filter(has_text="You have signed out.")).to_be_visible()
        assert token not in await visit.page.evaluate("Object.values(sessionStorage).join()")
        await expect(other.get_by_role("heading", name="Sign in")).to_be_visible()


async def test_a_session_that_has_ended_says_so_and_comes_back_to_the_same_page(place: Place) -> None:
    async with Visit.opened(place.browser, place.api.url) as visit:
        await visit.go(f"/#code={await place.code()}")
        await expect(visit.page.get_by_role("button", name=SIGNED_IN)).to_be_visible()
        await visit.go("/console/figures")
        await expect(visit.page.get_by_role("heading", name="Figures")).to_be_visible()
        token = await visit.page.evaluate("JSON.parse(Object.values(sessionStorage)[0]).token")
        async with place.api.as_caller(token) as session, session.session.delete(f"{session.url}/console/sessions"):
            pass
        await expect(visit.page.get_by_text("session has ended")).to_be_visible()
        await visit.page.get_by_label("Key").fill(place.installation.keys["admin"])
        await visit.page.get_by_role("button", name="Sign in").click()
        await expect(visit.page.get_by_role("heading", name="Figures")).to_be_visible()


ATTACK = """<!doctype html><title>evil</title><script>
const tried = async (path, options) => {
  try {
    const answer = await fetch('%URL%' + path, options);
    return answer.status + ' ' + (await answer.text()).slice(0, 300);
  } catch (error) { return 'blocked'; }
};
(async () => {
  const key = {Authorization: 'Bearer %KEY%'};
  window.found = [
    await tried('/health'),
    await tried('/executions', {headers: key}),
    await tried('/health', {mode: 'no-cors'}),
    await tried('/console/sessions', {method: 'POST', mode: 'no-cors', body: '{"code":"%CODE%"}'}),
    await tried('/execute', {method: 'POST', mode: 'no-cors', body: '{"code":"console.log(1)"}'}),
  ];
})();
</script>"""


async def test_a_page_on_another_port_learns_nothing_and_uses_up_no_link(place: Place) -> None:
    code, before = await place.code(), await executions_of(place)

    async def evil(_: web.Request) -> web.Response:
        page = ATTACK.replace("%URL%", place.api.url).replace("%CODE%", code)
        return web.Response(text=page.replace("%KEY%", place.installation.keys["admin"]), content_type="text/html")

    app = web.Application()
    app.router.add_get("/", evil)
    async with serving(app) as elsewhere, Visit.opened(place.browser, elsewhere) as visit:
        await visit.go("/")
        await visit.page.wait_for_function("window.found")
        found = await visit.page.evaluate("window.found")
    # What a page sends without being allowed to read the answer is refused by its Origin.
    assert [answer if answer == "blocked" else answer.split()[0] for answer in found] == [
        *("blocked", "blocked", "0", "0", "0"),
    ]
    assert await executions_of(place) == before
    async with Visit.opened(place.browser, place.api.url) as visit:
        await visit.go(f"/#code={code}")
        await expect(visit.page.get_by_role("button", name=SIGNED_IN)).to_be_visible()


async def test_a_name_that_was_made_to_point_here_gets_no_page(place: Place) -> None:
    port = place.api.url.rsplit(":", 1)[1]
    async with Visit.opened(place.browser, f"http://rebound.example.com:{port}") as visit:
        answer = await visit.page.goto(f"{visit.url}/")
        assert answer is not None
        assert answer.status == 421


async def test_no_other_page_can_frame_the_console(place: Place) -> None:
    async def frame(_: web.Request) -> web.Response:
        return web.Response(text=f"<iframe src='{place.api.url}/'></iframe>", content_type="text/html")

    app = web.Application()
    app.router.add_get("/", frame)
    async with serving(app) as elsewhere, Visit.opened(place.browser, elsewhere) as visit:
        await visit.go("/")
        await until(lambda: any("frame-ancestors" in complaint for complaint in visit.complaints))


async def executions_of(place: Place) -> int:
    _, found = await place.api.get("/executions?limit=500")
    return len(found["executions"])
