"""What the pages show, in a real browser."""

from __future__ import annotations

import asyncio
import re

import pytest
from playwright.async_api import Page, expect

from tests.console.browser import NARROW, WIDE, Theme
from tests.console.conftest import Place
from tests.console.demo import CHART, HOSTILE, REPORT

PATIENT_MS = 30_000
WAITING = """
from concurrent.futures import ThreadPoolExecutor
from servers import postgres
with ThreadPoolExecutor(%d) as calls:
    list(calls.map(lambda n: postgres.execute_sql(sql=f"SELECT pg_sleep({n})"), range(%d)))
print("all are back")
"""


async def id_of(place: Place, code: str, language: str = "python") -> str:
    """Return the execution that ran this program first."""
    text = code.strip().splitlines()[-1][:100]
    _, found = await place.api.get("/executions", params={"text": text, "language": language})
    return str(found["executions"][-1]["executionId"])


async def waiting_version(place: Place) -> str:
    _, found = await place.api.get("/skills")
    state = {"name": "customers_in", "state": "proven"}
    return next(str(each["version"]) for each in found["skills"] if state.items() <= each.items())


async def paths_of(place: Place) -> dict[str, str]:
    return {
        "live": "/",
        "execution": f"/console/executions/{await id_of(place, REPORT)}",
        "execution with a picture": f"/console/executions/{await id_of(place, CHART)}",
        "catalogue": "/console/catalogue",
        "search": "/console/catalogue?q=find+a+customer",
        "tool": "/console/catalogue/crm/find_customers",
        "skills": "/console/skills",
        "skill": "/console/skills/customers_in",
        "skill that waits": f"/console/skills/customers_in?version={await waiting_version(place)}",
        "figures": "/console/figures",
        "try it": "/console/try",
        "api": "/docs",
    }


async def settled(page: Page) -> None:
    """Return when the page shows what it has."""
    await page.get_by_role("heading", level=1).wait_for()
    await expect(page.locator(".loading")).to_have_count(0, timeout=PATIENT_MS)


NAMES = (
    *(
        "live",
        "execution",
        "execution with a picture",
        "catalogue",
        "search",
        "tool",
        "skills",
        "skill",
        "skill that waits",
    ),
    *("figures", "try it", "api"),
)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", NAMES)
async def test_nothing_is_amiss_on_a_page(place: Place, name: str, theme: Theme) -> None:
    """No foreign request, no violation of the policy, nothing in the browser's console, nothing that axe-core minds."""
    async with place.visit((await paths_of(place))[name], theme=theme) as visit:
        await settled(visit.page)
        assert await visit.serious_faults() == []


@pytest.mark.parametrize("name", NAMES)
async def test_nothing_is_wider_than_a_telephone(place: Place, name: str) -> None:
    async with place.visit((await paths_of(place))[name], size=NARROW) as visit:
        await settled(visit.page)
        assert await visit.page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]
        assert await visit.serious_faults() == []


async def test_nothing_is_lost_at_double_size(place: Place) -> None:
    half = {"width": WIDE["width"] // 2, "height": WIDE["height"] // 2}
    async with place.visit(f"/console/executions/{await id_of(place, REPORT)}", size=half) as visit:
        await settled(visit.page)
        assert await visit.page.evaluate("document.documentElement.scrollWidth") <= half["width"]
        await expect(visit.page.get_by_role("button", name="Run again")).to_be_visible()


async def test_what_stands_there_before_the_first_script_goes(place: Place) -> None:
    async with place.visit() as visit:
        await settled(visit.page)
        await expect(visit.page.get_by_text("If nothing else appears")).to_have_count(0)


async def test_the_first_load_is_small(place: Place) -> None:
    async with place.visit() as visit:
        await settled(visit.page)
        sent = await visit.page.evaluate(
            "performance.getEntriesByType('resource').filter((each) => each.name.includes('/console/'))"
            ".reduce((sum, each) => sum + each.encodedBodySize, 0)"
        )
        print(f"first load: {sent / 1000:.0f} KB")
        assert 0 < sent < 150_000


async def test_a_new_execution_appears_by_itself(place: Place) -> None:
    async with place.visit("/") as visit:
        await settled(visit.page)
        reply = await place.api.python("print('a new row')")
        row = visit.page.get_by_role("row").filter(has_text=reply["executionId"][:8])
        await expect(row).to_contain_text("completed")


async def test_filters_stay_in_the_address(place: Place) -> None:
    async with place.visit("/") as visit:
        await settled(visit.page)
        await visit.page.get_by_label("Outcome").select_option("failed")
        await expect(visit.page.get_by_role("row").filter(has_text="completed")).to_have_count(0)
        await expect(visit.page.get_by_role("row").filter(has_text="failed").first).to_be_visible()
        assert "outcome=failed" in visit.page.url
        await visit.page.reload()
        await settled(visit.page)
        await expect(visit.page.get_by_label("Outcome")).to_have_value("failed")
        await expect(visit.page.get_by_role("row").filter(has_text="completed")).to_have_count(0)


async def test_executions_are_found_by_text(place: Place) -> None:
    async with place.visit("/") as visit:
        await settled(visit.page)
        await visit.page.get_by_role("search", name="Filter executions").get_by_label("Search").fill("matplotlib")
        await expect(visit.page.get_by_role("row")).to_have_count(2)  # the head, and the one that draws
        await visit.page.get_by_role("search", name="Filter executions").get_by_label("Search").fill("no such thing")
        await expect(visit.page.get_by_text("No execution matches these filters.")).to_be_visible()


async def test_a_space_stays_while_one_thinks_of_the_next_word(place: Place) -> None:
    async with place.visit("/") as visit:
        await settled(visit.page)
        search = visit.page.get_by_role("search", name="Filter executions").get_by_label("Search")
        await search.press_sequentially("no ")
        await visit.page.wait_for_url("**/?text=no")
        await search.press_sequentially("such thing")
        await expect(visit.page.get_by_text("No execution matches these filters.")).to_be_visible()
        await expect(search).to_have_value("no such thing")
        await visit.page.get_by_role("button", name="Clear filters").first.click()
        await expect(search).to_have_value("")


async def test_a_tool_that_cannot_be_one_is_told(place: Place) -> None:
    async with place.visit("/") as visit:
        await settled(visit.page)
        tool = visit.page.get_by_label("Server or tool")
        await tool.fill("crm/")
        await expect(tool).to_have_accessible_description("This must be SERVER or SERVER/TOOL.")
        assert "tool=" not in visit.page.url
        await tool.fill("crm/none")
        await expect(tool).to_have_accessible_description("No server or tool is called crm/none.")


async def test_an_execution_shows_its_program_output_calls_and_files(place: Place) -> None:
    async with place.visit(f"/console/executions/{await id_of(place, REPORT)}") as visit:
        await settled(visit.page)
        await expect(visit.page.get_by_role("region", name="Program")).to_contain_text("crm.find_customers")
        await expect(visit.page.get_by_role("region", name="stdout")).to_contain_text("Aalto Marine")
        await expect(visit.page.get_by_role("button", name="crm/get_customer")).to_have_count(6)
        async with visit.page.expect_download() as download:
            await visit.page.get_by_role("button", name="Download revenue.json").click()
        assert (await download.value).suggested_filename == "revenue.json"


async def test_a_picture_is_shown(place: Place) -> None:
    async with place.visit(f"/console/executions/{await id_of(place, CHART)}") as visit:
        picture = visit.page.get_by_role("img", name="invoices.png")
        await expect(picture).to_be_visible(timeout=PATIENT_MS)
        assert await picture.evaluate("(image) => image.naturalWidth") > 100


async def test_what_a_program_prints_stays_text(place: Place) -> None:
    async with place.visit(f"/console/executions/{await id_of(place, HOSTILE)}") as visit:
        scripts = await visit.page.locator("script").count()
        output = visit.page.get_by_role("region", name="stdout")
        await expect(output).to_contain_text("<script>document.title = 'pwned'</script><img src=x onerror=alert(1)>")
        await expect(output).not_to_contain_text("\u202e")
        await expect(output).to_contain_text("⟨OSC 0;title⟩")
        assert "pwned" not in await visit.page.title()
        assert await visit.page.locator("script").count() == scripts
        assert await output.locator("img").count() == 0
        coloured = output.get_by_text("red", exact=True)
        plain = await output.evaluate("(each) => getComputedStyle(each).color")
        assert await coloured.evaluate("(each) => getComputedStyle(each).color") != plain


FRAMES = """async (box) => {
  const frames = [];
  let last = performance.now();
  for (let number = 0; number < 120; number += 1) {
    box.scrollTop = (box.scrollHeight * number) / 120;
    await new Promise((done) => requestAnimationFrame(done));
    const now = performance.now();
    frames.push(now - last);
    last = now;
  }
  frames.sort((one, other) => one - other);
  return {median: frames[60], p95: frames[114], slowest: frames[119]};
}"""


async def test_ten_megabytes_of_lines_stay_responsive(place: Place) -> None:
    reply = await place.api.python(
        "for n in range(150_000): print(f'line {n:>7} ' + '\\033[3%dm' % (n % 8) + 'x' * 48)"
    )
    assert reply["metrics"]["droppedBytes"] == 0
    assert reply["outputBytes"] > 9_000_000
    async with place.visit(f"/console/executions/{reply['executionId']}") as visit:
        output = visit.page.get_by_role("region", name="stdout")
        await expect(output).to_contain_text("line       0", timeout=60_000)
        frames = await output.evaluate(FRAMES)
        print(f"frames while scrolling through 10 MB: {frames}")  # a figure, not a promise: docs/console.md
        # What makes it so: only what can be seen is in the document.
        assert await visit.page.locator("*").count() < 3000
        await visit.page.get_by_role("searchbox", name="Search in stdout").fill("line  149999")
        await visit.page.keyboard.press("Enter")
        await expect(output.get_by_text("line  149999")).to_be_visible(timeout=PATIENT_MS)


async def test_a_running_execution_shows_its_calls_while_they_last(place: Place) -> None:
    place.demo.go.clear()
    running = asyncio.create_task(place.api.python(WAITING % (50, 50), 60))
    try:
        async with place.visit("/") as visit:
            await settled(visit.page)
            row = visit.page.get_by_role("row").filter(has_text="running")
            await expect(row).to_have_count(1)
            await row.get_by_role("link").first.click()
            bars = visit.page.get_by_role("button", name="postgres/execute_sql")
            await expect(bars).to_have_count(50, timeout=PATIENT_MS)
            assert await overlapping(bars) == 0
            place.demo.go.set()
            await expect(visit.page.get_by_text("completed").first).to_be_visible(timeout=PATIENT_MS)
            assert await overlapping(bars) == 0
    finally:
        place.demo.go.set()
        await running


LOOK = "(bar) => { const {background, color} = getComputedStyle(bar); return [background, color]; }"


async def test_a_failed_call_keeps_its_colours_when_one_points_at_it(place: Place) -> None:
    async with place.visit(f"/console/executions/{await id_of(place, REPORT)}") as visit:
        await settled(visit.page)
        failed = visit.page.get_by_role("button", name="mail/send")
        before = await failed.evaluate(LOOK)
        await failed.hover()
        assert await failed.evaluate(LOOK) == before
        assert await visit.page.get_by_role("button", name="crm/find_customers").evaluate(LOOK) != before


async def overlapping(bars) -> int:  # type: ignore[no-untyped-def]
    # All at once: the bars of what runs grow, and move when it has ended.
    boxes = await bars.evaluate_all("(all) => all.map((each) => each.getBoundingClientRect().toJSON())")
    return sum(
        one is not other
        and one["x"] < other["x"] + other["width"]
        and other["x"] < one["x"] + one["width"]
        and one["y"] < other["y"] + other["height"]
        and other["y"] < one["y"] + one["height"]
        for one in boxes
        for other in boxes
    )


async def test_a_call_shows_soon_after_it_began(place: Place) -> None:
    place.demo.go.clear()
    async with place.visit("/") as visit:
        await settled(visit.page)
        running = asyncio.create_task(place.api.python(WAITING % (1, 1), 60))
        try:
            row = visit.page.get_by_role("row").filter(has_text="running")
            await expect(row).to_have_count(1)
            await row.get_by_role("link").first.click()
            await expect(visit.page.get_by_role("button", name="postgres/execute_sql")).to_be_visible()
        finally:
            place.demo.go.set()
            await running


async def test_cancelling_asks_first_and_ends_the_execution(place: Place) -> None:
    running = asyncio.create_task(place.api.python("import time\nprint('here', flush=True)\ntime.sleep(50)", 60))
    async with place.visit("/") as visit:
        await settled(visit.page)
        await visit.page.get_by_role("row").filter(has_text="running").get_by_role("link").first.click()
        await visit.page.get_by_role("button", name="Cancel", exact=True).click()
        await visit.page.get_by_role("dialog").get_by_role("button", name="Cancel the execution").click()
        await expect(visit.page.get_by_text("cancelled").first).to_be_visible()
        await expect(visit.page.get_by_role("heading", level=1)).to_be_focused()
    assert (await running)["outcome"] == "cancelled"


async def test_one_who_scrolls_up_while_it_prints_can_follow_it_again(place: Place) -> None:
    code = "import time\nfor n in range(200): print('line', n, flush=True)\ntime.sleep(50)"
    running = asyncio.create_task(place.api.python(code, 60, check="off"))
    async with place.visit("/") as visit:
        await settled(visit.page)
        await visit.page.get_by_role("row").filter(has_text="running").get_by_role("link").first.click()
        output = visit.page.get_by_role("region", name="stdout and stderr")
        await expect(output).to_contain_text("line 199")
        await output.evaluate("(box) => (box.scrollTop = 0)")
        await visit.page.get_by_role("button", name="Follow").click()
        await expect(visit.page.get_by_role("button", name="Follow")).to_have_count(0)
        await expect(output).to_be_focused()
        await visit.page.get_by_role("button", name="Cancel", exact=True).click()
        await visit.page.get_by_role("button", name="Cancel the execution").click()
        await running


async def test_running_again_makes_another_execution_of_the_same_program(place: Place) -> None:
    first = await id_of(place, REPORT)
    async with place.visit(f"/console/executions/{first}") as visit:
        await settled(visit.page)
        await visit.page.get_by_role("button", name="Run again").click()
        await expect(visit.page.get_by_role("dialog")).to_contain_text("It may call tools again.")
        await visit.page.get_by_role("button", name="Run it").click()
        await visit.page.wait_for_url(lambda url: "/console/executions/" in url and first not in url)
        await expect(visit.page.get_by_role("region", name="stdout")).to_contain_text(
            "Aalto Marine", timeout=PATIENT_MS
        )


async def test_a_developer_sees_only_its_own(place: Place) -> None:
    others = await id_of(place, REPORT)
    async with place.visit("/", role="developer") as visit:
        await settled(visit.page)
        await expect(visit.page.get_by_role("row").filter(has_text="code-executor-developer").first).to_be_visible()
        before = await visit.page.get_by_role("row").count()
        reply = await place.api.python("print('not for developers')")
        async with place.api.as_caller(place.installation.keys["developer"]) as developer:
            own = await developer.python("print('for me')")
        await expect(visit.page.get_by_role("row").filter(has_text=own["executionId"][:8])).to_have_count(1)
        assert await visit.page.get_by_role("row").count() == before + 1
        await expect(visit.page.get_by_role("row").filter(has_text=reply["executionId"][:8])).to_have_count(0)
        await expect(visit.page.get_by_text("playwright")).to_have_count(0)  # a server of others
        visit.complaints.clear()
        await visit.go(f"/console/executions/{others}")
        await expect(visit.page.get_by_role("alert")).to_contain_text("There is no execution")
        visit.complaints.clear()  # the answer was a 404, as it should be


async def test_search_finds_what_agents_find(place: Place) -> None:
    async with place.visit("/console/catalogue") as visit:
        await settled(visit.page)
        await visit.page.get_by_label("Search the way agents do").fill("customers of a city")
        await expect(visit.page.get_by_role("link", name="find_customers").first).to_be_visible()
        assert "q=customers" in visit.page.url


async def test_the_tool_says_who_may_call_it(place: Place) -> None:
    async with place.visit("/console/catalogue/mail/send") as visit:
        await settled(visit.page)
        await expect(visit.page.get_by_text("servers of role developer do not include mail")).to_be_visible()
        await expect(visit.page.get_by_text("servers of role admin include *")).to_be_visible()


async def test_a_program_is_written_and_run(place: Place) -> None:
    async with place.visit("/console/try") as visit:
        await settled(visit.page)
        await visit.page.get_by_label("Language").select_option("python")
        editor = visit.page.locator(".cm-content")
        await editor.click()
        await visit.page.keyboard.press("ControlOrMeta+a")
        await visit.page.keyboard.type("from servers import cr")
        await expect(visit.page.get_by_role("option", name="crm").first).to_be_visible()
        await visit.page.keyboard.press("Escape")
        await visit.page.keyboard.press("ControlOrMeta+a")
        await visit.page.keyboard.type("print(6 * 7)")
        await visit.page.keyboard.press("ControlOrMeta+Enter")
        await expect(visit.page.get_by_role("region", name="Output")).to_contain_text("42", timeout=PATIENT_MS)


@pytest.mark.parametrize("language", ["typescript", "python"])
async def test_the_program_that_one_starts_from_runs(place: Place, language: str) -> None:
    async with place.visit(f"/console/try?language={language}") as visit:
        await settled(visit.page)
        await visit.page.get_by_label("Language").select_option(language)
        await visit.page.locator(".cm-content").click()
        await visit.page.keyboard.press("ControlOrMeta+Enter")
        await expect(visit.page.get_by_role("region", name="Output")).to_contain_text("crm", timeout=PATIENT_MS)


async def test_a_mistake_is_shown_where_it_is(place: Place) -> None:
    async with place.visit("/console/try") as visit:
        await settled(visit.page)
        await visit.page.get_by_label("Language").select_option("python")
        await visit.page.locator(".cm-content").click()
        await visit.page.keyboard.press("ControlOrMeta+a")
        await visit.page.keyboard.type("from servers import crm\nprint(crm.find_customer(text='a'))", delay=1)
        await visit.page.keyboard.press("Escape")
        await visit.page.keyboard.press("ControlOrMeta+Enter")
        await expect(visit.page.get_by_text("Did you mean `find_customers`").first).to_be_visible(timeout=PATIENT_MS)


async def test_a_page_of_the_api_lists_calls_errors_and_tries_them(place: Place) -> None:
    async with place.visit("/docs") as visit:
        await settled(visit.page)
        await visit.page.get_by_role("main").get_by_text("Run a program in a fresh sandbox").click()
        await expect(visit.page.get_by_text("queue_full").first).to_be_visible()


async def test_a_link_within_the_page_of_the_api_moves_the_focus(place: Place) -> None:
    async with place.visit("/docs#%") as visit:  # which names no part, and breaks nothing
        await settled(visit.page)
        await visit.page.locator(".docs-index a[href='#error-codes']").click()
        await expect(visit.page.locator("h2#error-codes")).to_be_focused()
        await visit.page.locator(".docs-index a[href='#execute']").click()
        await expect(visit.page.locator("#execute > summary")).to_be_focused()


async def test_everything_works_with_the_keyboard_alone(place: Place) -> None:
    async with place.visit("/?tool=mail/send") as visit:
        await settled(visit.page)
        page = visit.page
        await page.reload()  # signing in has moved the focus into the page
        await settled(page)
        await page.keyboard.press("Tab")
        await expect(page.locator(":focus")).to_contain_text("Skip")
        await page.keyboard.press("Enter")
        for _ in range(60):
            await page.keyboard.press("Tab")
            if (
                await page.locator(":focus").get_attribute("href")
                == f"/console/executions/{await id_of(place, REPORT)}"
            ):
                break
        await page.keyboard.press("Enter")
        await settled(page)
        await expect(page.get_by_role("button", name="Run again")).to_be_visible()
        for _ in range(60):
            await page.keyboard.press("Tab")
            if (await page.locator(":focus").get_attribute("aria-label") or "").startswith("crm/find_customers"):
                break
        await page.keyboard.press("ArrowRight")
        await expect(page.locator(":focus")).to_have_attribute("aria-label", re.compile("^postgres/execute_sql"))


async def test_the_theme_can_be_chosen_and_stays(place: Place) -> None:
    async with place.visit("/") as visit:
        await settled(visit.page)
        light = await visit.page.evaluate("getComputedStyle(document.body).backgroundColor")
        await visit.page.get_by_role("button", name="Use the dark theme").click()
        dark = await visit.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert light != dark
        await visit.page.reload()
        await settled(visit.page)
        assert await visit.page.evaluate("getComputedStyle(document.body).backgroundColor") == dark
