"""Signing out, and what a tab keeps for whom."""

from __future__ import annotations

import pytest

from tests.unit.console.page import on_a_page

pytestmark = pytest.mark.processes

SIGNED_IN = """
const session = await load('lib/session.js');
const signIn = async (caller) => {
  const expiresAt = new Date(Date.now() + 3_600_000).toISOString();
  const body = {token: `token of ${caller}`, caller, role: 'admin', expiresAt};
  page.answers = {...page.answers, 'POST /console/sessions': [{body}], 'GET /whoami': [{body: {}}]};
  await session.signInWithKey('key');
};
await signIn('ann');
"""


def test_signing_out_does_not_wait_for_the_daemon() -> None:
    signed_in, asked = on_a_page(
        "lib/session.js",
        SIGNED_IN
        + """
        page.answers['DELETE /console/sessions'] = [new Promise(() => {})];
        session.signOut();
        return [session.current(), page.asked.at(-1)];
        """,
    )
    assert signed_in is None
    assert asked == {"what": "DELETE /console/sessions", "token": "token of ann"}


def test_another_caller_does_not_get_the_draft() -> None:
    drafts = on_a_page(
        "editor/drafts.js",
        SIGNED_IN
        + """
        const seen = [];
        module.keepDraft('python', 'print("of ann")');
        seen.push(module.draftOf('python'));
        await session.signOut();
        await signIn('bob');
        seen.push(module.draftOf('python') === (await load('editor/programs.js')).starter('python'));
        await session.signOut();
        await signIn('ann');
        return [...seen, module.draftOf('python')];
        """,
    )
    assert drafts == ['print("of ann")', True, 'print("of ann")']


def test_a_draft_that_there_is_no_room_for_lasts_until_a_reload() -> None:
    drafts = on_a_page(
        "editor/drafts.js",
        SIGNED_IN
        + """
        module.keepDraft('python', 'short');
        sessionStorage.full = true;
        module.keepDraft('python', 'long');
        const during = module.draftOf('python');
        sessionStorage.full = false;
        module.keepDraft('python', 'short again');
        return [during, module.draftOf('python')];
        """,
    )
    assert drafts == ["long", "short again"]


@pytest.mark.parametrize(("status", "told"), [(503, "Not now."), (409, None)])
def test_a_program_that_could_not_be_stopped_can_be_stopped_again(status: int, told: str | None) -> None:
    run = on_a_page(
        "editor/run.js",
        SIGNED_IN
        + """
        const events = page.events();
        page.answers['POST /execute'] = [events];
        page.answers['DELETE /executions/e1'] = [{status, body: {detail: 'Not now.'}}];
        module.start({code: '', language: 'python', timeoutSeconds: 1});
        events.send('started', {executionId: 'e1', position: 0});
        await page.until(() => module.useRun().id);
        await module.stop();
        const {state, stopping, error} = module.useRun();
        return [state, stopping, error?.message ?? null];
        """,
        status=status,
    )
    assert run == ["running", False, told]


def test_only_pictures_that_can_be_shown_are_decoded() -> None:
    images = [
        {"mimeType": "image/png", "data": "aGk="},
        {"mimeType": "image/png", "data": "%%%"},
        {"mimeType": "image/svg+xml", "data": "aGk="},
    ]
    shown = on_a_page(
        "lib/pictures.js", "return images.map((image) => module.decoded(image)?.content.size ?? null);", images=images
    )
    assert shown == [2, None, None]


def test_a_tab_that_was_signed_out_takes_up_a_session_of_the_same_caller_only() -> None:
    token = on_a_page(
        "lib/session.js",
        SIGNED_IN
        + """
        await session.restore();
        await session.signOut();
        const expiresAt = new Date(Date.now() + 3_600_000).toISOString();
        const other = new BroadcastChannel('code-executor.session');
        for (const caller of ['mallory', 'ann']) {
          other.postMessage({begun: {token: `another of ${caller}`, caller, role: 'x', expiresAt}});
        }
        await page.until(() => session.current());
        other.close();
        return session.current().token;
        """,
    )
    assert token == "another of ann"


def test_a_link_of_another_caller_says_who_one_is_now() -> None:
    notice = on_a_page(
        "lib/session.js",
        SIGNED_IN
        + """
        const expiresAt = new Date(Date.now() + 3_600_000).toISOString();
        const body = {token: 't', caller: 'mallory', role: 'developer', expiresAt};
        page.answers['POST /console/sessions'] = [{body}];
        location.hash = '#code=abc';
        await session.restore();
        return session.told();
        """,
    )
    assert notice == "The link signed you in as mallory, role developer. Before, you were ann."
