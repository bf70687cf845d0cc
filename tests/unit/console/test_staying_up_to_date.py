"""What the console knows of executions, whatever the daemon answers and in whatever order."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.console.page import on_a_page

pytestmark = pytest.mark.processes


def execution(**changes: Any) -> dict[str, Any]:
    return {
        "executionId": "e1",
        "state": "finished",
        "outcome": "completed",
        "acceptedAt": "2023-11-14T22:00:00.000+00:00",
        "outputBytes": 5,
        "stderrBytes": 0,
        **changes,
    }


ENDED = execution()
RUNNING = execution(state="running", outcome=None, outputBytes=0)
CALL = {"executionId": "e1", "number": 0, "startedMs": 1, "durationMs": 2}


def test_a_refused_stream_is_told_with_its_reason() -> None:
    told = on_a_page(
        "lib/live.js",
        """
        page.answers = {'GET /events': [{status: 429, body: {detail: 'You already watch.', hint: 'Close one.'}}]};
        module.connect();
        await page.until(() => module.useLive().connection === 'lost');
        const {refusal} = module.useLive();
        const events = page.events();
        page.answers = {'GET /events': [events], 'GET /executions': [{body: {executions: []}}]};
        module.tryNow();
        await page.until(() => module.useLive().connection === 'open');
        return [refusal.detail, refusal.hint, module.useLive().refusal];
        """,
    )
    assert told == ["You already watch.", "Close one.", None]


def test_a_daemon_that_is_away_refuses_nothing() -> None:
    told = on_a_page(
        "lib/live.js",
        """
        globalThis.fetch = async () => { throw new TypeError('away'); };
        module.connect();
        await page.until(() => module.useLive().connection === 'lost');
        return module.useLive().refusal;
        """,
    )
    assert told is None


def test_a_list_that_comes_late_does_not_undo_an_event() -> None:
    state = on_a_page(
        "lib/live.js",
        """
        const events = page.events();
        let answer;
        const late = new Promise((resolve) => (answer = () => resolve({body: {executions: [running]}})));
        page.answers = {'GET /events': [events], 'GET /executions': [late]};
        module.connect();
        await page.until(() => page.asked.length === 2);
        events.send('execution', ended);
        await page.until(() => module.useLive().executions.has('e1'));
        answer();
        await page.until(() => module.useLive().listed);
        return module.useLive().executions.get('e1').state;
        """,
        running=RUNNING,
        ended=ENDED,
    )
    assert state == "finished"


def test_calls_are_forgotten_when_their_execution_has_ended() -> None:
    known = on_a_page(
        "lib/live.js",
        """
        const events = page.events();
        page.answers = {'GET /events': [events], 'GET /executions': [{body: {executions: []}}]};
        const sizes = () => [module.useLive().calls.size, module.useLive().starts.size];
        module.connect();
        await page.until(() => module.useLive().listed);
        events.send('execution', running);
        events.send('tool_call', call);
        await page.until(() => module.useLive().calls.size);
        const during = sizes();
        events.send('execution', ended);
        events.send('tool_call', call); // told late
        events.send('load', {});
        await page.until(() => module.useLive().load);
        return [during, sizes()];
        """,
        running=RUNNING,
        ended=ENDED,
        call=CALL,
    )
    assert known == [[1, 1], [0, 0]]


WATCH = """
const watch = new module.Watch('e1');
const state = () => watch.store.value;
"""


def test_an_output_that_cannot_be_read_is_an_error_until_one_tries_again() -> None:
    before, after = on_a_page(
        "lib/execution.js",
        WATCH
        + """
        const output = [{status: 403, body: {detail: 'No.'}}, {body: 'hello'}];
        page.answers = {'GET /executions/e1': [{body: ended}], 'GET /executions/e1/output': output};
        watch.start();
        await page.until(() => state().error);
        const before = [state().error.message, state().complete];
        await new Promise((resolve) => setTimeout(resolve, 0));
        watch.retry();
        await page.until(() => state().complete);
        return [before, [state().error, state().chunks]];
        """,
        ended=ENDED,
    )
    assert before == ["No.", False]
    assert after == [None, [{"stream": "stdout", "text": "hello"}]]


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_refusal_that_passes_does_not_end_the_watching(status: int) -> None:
    told = on_a_page(
        "lib/execution.js",
        WATCH
        + """
        const events = page.events();
        const streams = [{status, body: {detail: 'Later.'}}, events];
        page.answers = {'GET /executions/e1': [{body: running}], 'GET /executions/e1/events': streams};
        watch.start();
        await page.until(() => state().error);
        const error = state().error.message;
        await page.until(() => page.asked.filter(({what}) => what.endsWith('/events')).length === 2);
        events.send('stdout', {text: 'hello'});
        events.send('result', ended);
        events.end();
        await page.until(() => state().complete);
        return [error, state().error, state().execution.state, state().chunks.length];
        """,
        running=RUNNING,
        ended=ENDED,
        status=status,
    )
    assert told == ["Later.", None, "finished", 1]


def test_an_execution_that_is_not_there_is_asked_for_once() -> None:
    asked = on_a_page(
        "lib/execution.js",
        WATCH
        + """
        page.answers = {'GET /executions/e1': [{status: 404, body: {detail: 'There is no execution.'}}]};
        watch.start();
        await page.until(() => state().error);
        await new Promise((resolve) => setTimeout(resolve, 1000)); // longer than the pause between two attempts
        return page.asked.length;
        """,
    )
    assert asked == 1


def test_what_another_request_told_late_does_not_undo_the_end() -> None:
    told = on_a_page(
        "lib/execution.js",
        WATCH
        + """
        watch.take({...ended, images: ['a picture']});
        watch.take({...running, images: null});
        return [state().execution.state, state().images];
        """,
        running=RUNNING,
        ended=ENDED,
    )
    assert told == ["finished", ["a picture"]]


def test_rows_leave_a_range_as_time_passes() -> None:
    numbers = on_a_page(
        "lib/executions.js",
        """
        const now = Date.now();
        const ago = (minutes) => new Date(now - minutes * 60_000).toISOString();
        const executions = [1, 14].map((minutes) => ({...ended, executionId: `e${minutes}`, acceptedAt: ago(minutes)}));
        page.answers = {'GET /executions': [{body: {executions, next: null}}]};
        const list = new module.ExecutionList({range: '15m'}, null);
        list.start();
        await page.until(() => !list.store.value.loading);
        const before = list.store.value.rows.length;
        Date.now = () => now + 120_000;
        for (const tick of page.ticks) tick();
        return [before, list.store.value.rows.map(({executionId}) => executionId)];
        """,
        ended=ENDED,
    )
    assert numbers == [2, ["e1"]]


def test_a_list_that_has_grown_is_read_again_as_long_as_it_is() -> None:
    limits = on_a_page(
        "lib/executions.js",
        """
        const limits = [];
        const reach = globalThis.fetch;
        globalThis.fetch = (url, options) => {
          if (url.startsWith('/executions')) limits.push(new URL(url, 'http://localhost').searchParams.get('limit'));
          return reach(url, options);
        };
        const many = Array.from({length: 60}, (_, number) => ({...ended, executionId: `e${number}`}));
        const events = page.events();
        page.answers = {'GET /events': [events], 'GET /executions': [{body: {executions: many.slice(0, 50), next: 7}}]};
        const live = await load('lib/live.js');
        live.connect();
        await page.until(() => live.useLive().listed);
        limits.length = 0;
        const list = new module.ExecutionList({}, null);
        list.start();
        await page.until(() => !list.store.value.loading);
        for (const execution of many.slice(50)) events.send('execution', execution);
        await page.until(() => list.store.value.rows.length === 60);
        events.send('gap', {});
        await page.until(() => limits.length === 3); // that of the feed, too
        return limits.toSorted();
        """,
        ended=ENDED,
    )
    assert limits == ["200", "50", "60"]


def test_only_rows_that_came_to_the_same_list_are_new_and_for_a_moment() -> None:
    fresh = on_a_page(
        "lib/executions.js",
        """
        const rows = (...ids) => ids.map((executionId) => ({executionId}));
        const newcomers = new module.Newcomers();
        const found = [];
        const look = (ids, list, now) => {
          newcomers.note(rows(...ids), list, now);
          found.push([...newcomers.fresh(now)]);
        };
        look(['a'], 'all', 0);
        look(['b', 'a'], 'all', 1000);
        look(['b', 'a'], 'all', 3000);
        look(['c', 'b', 'a'], 'all', 3600);
        look(['d', 'c'], 'failed', 3700);
        return found;
        """,
    )
    assert fresh == [[], ["b"], ["b"], ["c"], []]


def test_a_change_before_anybody_listens_is_not_missed() -> None:
    numbers = on_a_page(
        "lib/store.js",
        """
        const store = new module.Store(1);
        module.useStore(store);
        const quiet = page.vendor.rendered.length;
        store.set(2); // after it was drawn, and before its effects
        page.vendor.effects.at(-1)();
        const changed = page.vendor.rendered.length;
        module.useStore(store);
        page.vendor.effects.at(-1)();
        return [quiet, changed, page.vendor.rendered.length];
        """,
    )
    assert numbers == [0, 1, 1]
