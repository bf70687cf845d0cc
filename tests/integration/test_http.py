"""The HTTP API, point by point, on the real engine."""

import asyncio
import io
import json
import re
import time
from contextlib import AsyncExitStack, aclosing
from types import SimpleNamespace

import aiohttp
import pytest

from bench.testbed.engine import creations_of, sandboxes_for
from orchestrator.faces.http.app import build_app
from tests.support.api import eventually, until
from tests.support.installation import Installation
from tests.support.metrics import gauges, samples
from tests.support.programs import FOREVER, UNTIL_ENDED, held

MIB = 1024 * 1024
PUBLIC = ["/health", "/livez", "/readyz"]
PRIVATE = [
    "/executions",
    "/executions/x",
    "/executions/x/output",
    "/metrics",
    "/openapi.json",
    "/events",
    "/stats",
    "/tools/costs",
    "/executions/x/program",
    "/unknown",
]
VARYING = {"acceptedAt", "finishedAt", "executionId", "executionTime", "metrics"}


def steady(reply):
    return {name: value for name, value in reply.items() if name not in VARYING}


async def ask(api, method, path, **options):
    if "json" in options:
        # A file and no bytes: the client library warns when it is given that many at once.
        options["data"] = io.BytesIO(json.dumps(options.pop("json")).encode())
        options["headers"] = {"Content-Type": "application/json", **options.get("headers", {})}
    async with api.session.request(method, api.url + path, **options) as response:
        return response.status, dict(response.headers), await response.read()


async def state_of(api, execution_id):
    _, record = await api.get(f"/executions/{execution_id}")
    return record.get("state"), record.get("outcome")


# --- POST /execute ---


async def test_the_reply_has_its_fields_and_types(api):
    code = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"
    result = await api.python(code, 12)
    expected = {
        "executionId": str,
        "outcome": str,
        "exitCode": int,
        "output": str,
        "stderr": str,
        "executionTime": int,
        "truncated": bool,
        "outputBytes": int,
        "limits": dict,
        "metrics": dict,
    }
    assert {name: type(result[name]) for name in expected} == expected
    assert (result["outcome"], result["exitCode"], result["truncated"]) == ("failed", 3, False)
    assert (result["output"], result["stderr"], result["outputBytes"]) == ("out\n", "err\n", 4)
    assert 0 < result["executionTime"] < 30_000


async def test_the_reply_names_the_limits_that_held(api):
    limits = (await api.python("pass", 12))["limits"]
    assert limits == {
        "timeoutSeconds": 12,
        "maxOutputBytes": 100 * 1024,
        "memoryBytes": 1024 * MIB,
        "cpus": 1,
        "maxProcesses": 256,
        "workspaceBytes": 500 * MIB,
        "scratchBytes": 100 * MIB,
        "floodBytes": 16 * MIB,
    }


async def test_the_metrics_count_tokens_time_and_memory(api):
    short = (await api.python("print('word')"))["metrics"]
    long = (await api.python("print('word ' * 500)\nsum(range(30_000_000))"))["metrics"]
    assert 0 < short["outputTokens"] < 5 < 400 < long["outputTokens"] < 600
    assert long["cpuMs"] > short["cpuMs"]
    assert long["maxMemoryBytes"] > MIB
    assert all(long[name] >= 0 for name in ("queueMs", "startMs", "runMs"))


async def test_without_a_timeout_the_program_gets_five_minutes(api):
    status, result = await api.post("/execute", {"code": "1"})
    assert (status, result["limits"]["timeoutSeconds"]) == (200, 300)


async def test_executions_run_side_by_side(api):
    codes = [f"print({number}, flush=True){UNTIL_ENDED}" for number in range(4)]
    async with AsyncExitStack() as stack:
        programs = [await stack.enter_async_context(held(api, code)) for code in codes]
        assert [await state_of(api, program.execution_id) for program in programs] == [("running", None)] * 4
    assert [program.line for program in programs] == ["0", "1", "2", "3"]
    results = await asyncio.gather(*(api.python("print('done')") for _ in range(4)))
    assert [result["output"] for result in results] == ["done\n"] * 4
    assert len({result["executionId"] for result in results}) == 4


# --- the event stream ---


async def test_the_stream_starts_with_started_and_ends_with_the_result(api):
    code = "import sys; print('out'); print('err', file=sys.stderr)"
    events = [event async for event in api.stream(code, "python")]
    names = [name for name, _ in events]
    assert (names[0], names[-1], names.count("result")) == ("started", "result", 1)
    assert "".join(fields["text"] for name, fields in events if name == "stdout") == "out\n"
    assert "".join(fields["text"] for name, fields in events if name == "stderr") == "err\n"
    assert events[0][1]["executionId"] == events[-1][1]["executionId"]


async def test_the_streamed_result_equals_the_json_reply(cold):
    """Of a daemon without warm sandboxes: else one of the two may find one, and the other not."""
    code = "print('same'); raise SystemExit(2)"
    reply = await cold.python(code)
    events = [event async for event in cold.stream(code, "python")]
    assert steady(events[-1][1]) == steady(reply)
    assert events[-1][1].keys() == reply.keys()
    assert events[-1][1]["metrics"].keys() == reply["metrics"].keys()


async def test_a_chunk_arrives_while_the_program_still_runs(api):
    async with held(api, "import sys; sys.stdout.write('early\\n'); import signal; signal.pause()") as program:
        assert program.line == "early"
        assert await state_of(api, program.execution_id) == ("running", None)


async def test_a_character_split_over_two_writes_arrives_whole(api):
    code = "import os, time\nos.write(1, b'\\xe2\\x82')\ntime.sleep(0.2)\nos.write(1, b'\\xac')"
    events = [event async for event in api.stream(code, "python")]
    assert [fields["text"] for name, fields in events if name == "stdout"] == ["€"]


async def test_streamed_output_that_ends_within_a_character_equals_the_result(api):
    events = [event async for event in api.stream("import os; os.write(1, b'cut \\xe2\\x82')", "python")]
    streamed = "".join(fields["text"] for name, fields in events if name == "stdout")
    assert streamed == events[-1][1]["output"] == "cut \ufffd"


async def test_a_quiet_stream_has_heartbeats(tmp_path):
    async with Installation.create(tmp_path, heartbeat_seconds=0.1).run() as api:
        events = [event async for event in api.stream("import time; time.sleep(3); print('woke')", "python")]
    beats = [fields for name, fields in events if name == "heartbeat"]
    assert len(beats) >= 3
    assert {beat["state"] for beat in beats} <= {"queued", "running"}
    assert events[-1][1]["output"] == "woke\n"


async def test_the_stream_is_an_event_stream_that_nobody_may_cache(api):
    options = {"json": {"code": "1"}, "headers": {"Accept": "text/html, text/event-stream;q=0.5"}}
    status, headers, _ = await ask(api, "POST", "/execute", **options)
    assert (status, headers["Content-Type"]) == (200, "text/event-stream; charset=utf-8")
    assert headers["Cache-Control"] == "no-store"


# --- a client that goes away ---


async def test_a_client_that_drops_its_stream_cancels_the_execution(cold):
    async with held(cold) as program:
        assert len(sandboxes_for(program.execution_id)) == 1
    await until(lambda: not sandboxes_for(program.execution_id), seconds=20)
    await eventually(lambda: is_cancelled(cold, program.execution_id), seconds=20)


async def is_cancelled(api, execution_id):
    return await state_of(api, execution_id) == ("finished", "cancelled")


async def test_a_client_that_drops_its_json_call_cancels_the_execution(cold):
    before = await newest_id(cold)
    calling = asyncio.create_task(cold.python(FOREVER, 60))
    await eventually(lambda: has_newer(cold, before))
    execution_id = await newest_id(cold)
    await until(lambda: sandboxes_for(execution_id))
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    await until(lambda: not sandboxes_for(execution_id), seconds=20)
    await eventually(lambda: is_cancelled(cold, execution_id), seconds=20)


async def newest_id(api):
    _, listing = await api.get("/executions?limit=1")
    return listing["executions"][0]["executionId"]


async def has_newer(api, execution_id):
    return await newest_id(api) != execution_id


async def test_the_output_of_a_cancelled_execution_is_kept(api):
    async with held(api) as program:
        pass
    await eventually(lambda: is_cancelled(api, program.execution_id))
    _, record = await api.get(f"/executions/{program.execution_id}")
    assert record["output"] == "running\n"


# --- /executions ---


async def test_an_execution_can_be_read_back(api):
    result = await api.python("import sys; print('kept'); print('also', file=sys.stderr); sys.exit(4)")
    status, record = await api.get(f"/executions/{result['executionId']}")
    assert status == 200
    for name in ("executionId", "outcome", "exitCode", "output", "stderr", "executionTime", "outputBytes", "limits"):
        assert record[name] == result[name], name
    assert (record["state"], record["caller"], record["role"]) == ("finished", "code-executor-admin", "admin")
    assert record["language"] == "python"
    assert "code" not in record


async def test_the_output_so_far_of_a_running_execution_can_be_read(api):
    async with held(api) as program:
        _, record = await api.get(f"/executions/{program.execution_id}")
    assert (record["state"], record["outcome"], record["output"]) == ("running", None, "running\n")


async def test_delete_cancels_and_answers_with_the_result(cold):
    async with aclosing(cold.stream(FOREVER, "python", 60)) as events:
        execution_id = (await anext(events))[1]["executionId"]
        while (await anext(events))[0] != "stdout":
            pass  # a heartbeat may come before it
        status, result = await cold.delete(f"/executions/{execution_id}")
        last = [event async for event in events][-1]
    assert (status, result["outcome"], result["output"]) == (200, "cancelled", "running\n")
    assert (last[0], last[1]["outcome"]) == ("result", "cancelled")
    await until(lambda: not sandboxes_for(execution_id), seconds=20)


async def test_a_finished_execution_cannot_be_cancelled(api):
    result = await api.python("pass")
    status, problem = await api.delete(f"/executions/{result['executionId']}")
    assert (status, problem["code"]) == (409, "already_finished")


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_an_unknown_execution_is_not_found(api, method):
    status, _, body = await ask(api, method, "/executions/0123456789abcdef")
    assert (status, json.loads(body)["code"]) == (404, "not_found")


async def test_the_list_is_newest_first_and_goes_on_where_it_ended(api):
    made = [(await api.python("pass"))["executionId"] for _ in range(3)]
    _, first = await api.get("/executions?limit=2")
    _, second = await api.get(f"/executions?limit=2&before={first['next']}")
    listed = [item["executionId"] for item in first["executions"] + second["executions"]]
    assert listed[:3] == made[::-1]
    assert len(set(listed)) == len(listed)


@pytest.mark.parametrize("query", ["limit=0", "limit=501", "limit=x", "limit=-1", "before=x", "limit=1e2"])
async def test_a_bad_page_of_the_list_is_refused(api, query):
    status, problem = await api.get(f"/executions?{query}")
    assert (status, problem["code"]) == (422, "invalid_request")


# --- paging through the output ---


@pytest.fixture(scope="module")
async def printed(api):
    """An execution that printed the digits 0 to 9, a hundred times."""
    return (await api.python("import sys; sys.stdout.write('0123456789' * 100)"))["executionId"]


async def test_a_piece_of_the_output_by_offset_and_length(api, printed):
    _, record = await api.get(f"/executions/{printed}?offset=12&length=5")
    assert record["output"] == "23456"
    assert record["outputRange"] == {"offset": 12, "length": 5, "total": 1000}
    assert record["outputBytes"] == 1000


async def test_a_piece_beyond_the_end_is_empty(api, printed):
    _, record = await api.get(f"/executions/{printed}?offset=2000")
    assert (record["output"], record["outputRange"]["total"]) == ("", 1000)


async def test_pages_put_together_are_the_whole(api, printed):
    pages = [
        (await api.get(f"/executions/{printed}?offset={at}&length=300"))[1]["output"] for at in range(0, 1000, 300)
    ]
    assert "".join(pages) == "0123456789" * 100


@pytest.mark.parametrize(
    ("asked", "body", "content_range"),
    [
        ("bytes=12-16", b"23456", "bytes 12-16/1000"),
        ("bytes=995-", b"56789", "bytes 995-999/1000"),
        ("bytes=998-5000", b"89", "bytes 998-999/1000"),
        ("bytes=0-0", b"0", "bytes 0-0/1000"),
    ],
)
async def test_a_range_of_the_raw_output(api, printed, asked, body, content_range):
    status, headers, got = await ask(api, "GET", f"/executions/{printed}/output", headers={"Range": asked})
    assert (status, got, headers["Content-Range"]) == (206, body, content_range)


@pytest.mark.parametrize("asked", ["bytes=1000-", "bytes=5000-6000"])
async def test_a_range_after_the_end_is_refused_with_the_size(api, printed, asked):
    status, headers, body = await ask(api, "GET", f"/executions/{printed}/output", headers={"Range": asked})
    assert (status, json.loads(body)["code"]) == (416, "range_not_satisfiable")
    assert headers["Content-Range"] == "bytes */1000"


@pytest.mark.parametrize("asked", ["bytes=9-3", "bytes=0-1,3-4"])
async def test_a_range_that_is_invalid_or_several_is_ignored(api, printed, asked):
    status, _, body = await ask(api, "GET", f"/executions/{printed}/output", headers={"Range": asked})
    assert (status, len(body)) == (200, 1000)


async def test_the_whole_raw_output_of_either_stream(api):
    result = await api.python("import sys; print('out'); print('err', file=sys.stderr)")
    path = f"/executions/{result['executionId']}/output"
    status, headers, body = await ask(api, "GET", path)
    assert (status, body, headers["Accept-Ranges"]) == (200, b"out\n", "bytes")
    assert (await ask(api, "GET", f"{path}?stream=stderr"))[2] == b"err\n"
    assert (await ask(api, "GET", f"{path}?stream=other"))[0] == 422


async def test_the_whole_output_is_whole_however_long_it_is(tmp_path):
    size = 3 * 1024 * 1024
    async with Installation.create(tmp_path, max_output_bytes=size).run() as api:
        result = await api.python(f"print('x' * {size - 1})")
        _, _, body = await ask(api, "GET", f"/executions/{result['executionId']}/output")
    assert (len(body), set(body)) == (size, set(b"x\n"))


# --- whose execution ---


async def test_a_caller_sees_its_own_executions_only(api, developer):
    own = (await developer.python("print('mine')"))["executionId"]
    foreign = (await api.python("print('not yours')"))["executionId"]
    _, listing = await developer.get("/executions?limit=500")
    assert own in [item["executionId"] for item in listing["executions"]]
    assert {item["caller"] for item in listing["executions"]} == {"code-executor-developer"}
    assert (await developer.get(f"/executions/{own}"))[1]["output"] == "mine\n"
    for path in (f"/executions/{foreign}", f"/executions/{foreign}/output"):
        assert (await ask(developer, "GET", path))[0] == 404


async def test_the_admin_sees_all_executions(api, developer):
    own = (await developer.python("print('mine')"))["executionId"]
    assert (await api.get(f"/executions/{own}"))[1]["output"] == "mine\n"
    _, listing = await api.get("/executions")
    assert own in [item["executionId"] for item in listing["executions"]]


async def test_another_callers_running_execution_cannot_be_seen_or_cancelled(api, developer):
    async with held(api) as program:
        path = f"/executions/{program.execution_id}"
        assert (await developer.delete(path))[0] == 404
        assert (await developer.get(path))[0] == 404
        assert await state_of(api, program.execution_id) == ("running", None)


async def test_another_callers_execution_looks_like_one_that_never_was(api, developer):
    foreign = (await api.python("pass"))["executionId"]
    never = "f" * len(foreign)
    answers = [await developer.get(f"/executions/{name}") for name in (foreign, never)]
    told = [json.dumps(answer).replace(name, "ID") for answer, name in zip(answers, (foreign, never), strict=True)]
    assert told[0] == told[1]


async def test_the_admin_can_cancel_for_another(api, developer):
    async with held(developer) as program:
        status, result = await api.delete(f"/executions/{program.execution_id}")
    assert (status, result["outcome"]) == (200, "cancelled")


# --- keys ---


@pytest.mark.parametrize("path", PRIVATE)
async def test_without_a_key_nothing_private_answers(api, path):
    async with api.as_caller(None) as stranger:
        status, headers, body = await ask(stranger, "GET", path)
    assert (status, json.loads(body)["code"]) == (401, "unauthenticated")
    assert headers["WWW-Authenticate"].startswith("Bearer")
    assert headers["Content-Type"].startswith("application/problem+json")


async def test_without_a_key_nothing_is_executed(api):
    async with api.as_caller(None) as stranger:
        status, problem = await stranger.post("/execute", {"code": "1"})
    assert (status, problem["code"]) == (401, "unauthenticated")


@pytest.mark.parametrize("path", PUBLIC)
async def test_health_needs_no_key(api, path):
    async with api.as_caller(None) as stranger:
        assert (await ask(stranger, "GET", path))[0] == 200


@pytest.mark.parametrize(
    ("header", "form"), [("Authorization", "Bearer {}"), ("Authorization", "bearer {}"), ("X-API-Key", "{}")]
)
async def test_a_key_is_taken_from_either_header(api, installation, header, form):
    async with api.as_caller(None) as stranger:
        headers = {header: form.format(installation.keys["developer"])}
        assert (await ask(stranger, "GET", "/executions", headers=headers))[0] == 200


@pytest.mark.parametrize(
    "change",
    [lambda key: key[:-1], lambda key: key + "0", lambda key: key.upper(), lambda key: "", lambda key: "é" * 64],
)
async def test_a_key_that_is_nearly_right_is_wrong(api, installation, change):
    wrong = change(installation.keys["admin"])
    async with api.as_caller(None) as stranger:
        for headers in ({"Authorization": f"Bearer {wrong}"}, {"X-API-Key": wrong}):
            assert (await ask(stranger, "GET", "/executions", headers=headers))[0] == 401


async def test_a_keys_hash_is_no_key(api, installation):
    digest = next(installation.settings.keys_dir.glob("*admin*")).read_text().strip()
    async with api.as_caller(digest) as stranger:
        assert (await stranger.get("/executions"))[0] == 401


# --- bad input ---

BAD_BODIES = {
    "no code": ({"language": "python"}, 422, "invalid_request"),
    "empty code": ({"code": ""}, 422, "invalid_request"),
    "blank code": ({"code": " \n\t"}, 422, "invalid_request"),
    "code of another type": ({"code": 1}, 422, "invalid_request"),
    "code is null": ({"code": None}, 422, "invalid_request"),
    "lone surrogate": ({"code": "\ud800"}, 422, "invalid_request"),
    "unknown language": ({"code": "1", "language": "ruby"}, 422, "invalid_request"),
    "language of another type": ({"code": "1", "language": 1}, 422, "invalid_request"),
    "language in capitals": ({"code": "1", "language": "Python"}, 422, "invalid_request"),
    "unknown field": ({"code": "1", "timeout": 5}, 422, "invalid_request"),
    "snake case": ({"code": "1", "timeout_seconds": 5}, 422, "invalid_request"),
    "timeout zero": ({"code": "1", "timeoutSeconds": 0}, 422, "invalid_request"),
    "timeout negative": ({"code": "1", "timeoutSeconds": -1}, 422, "invalid_request"),
    "timeout too long": ({"code": "1", "timeoutSeconds": 300.001}, 422, "invalid_request"),
    "timeout as text": ({"code": "1", "timeoutSeconds": "5"}, 422, "invalid_request"),
    "timeout as boolean": ({"code": "1", "timeoutSeconds": True}, 422, "invalid_request"),
    "a list": ([{"code": "1"}], 422, "invalid_request"),
    "a text": ("code", 422, "invalid_request"),
    "null": (None, 422, "invalid_request"),
    "code too large": ({"code": "#" * (MIB + 1)}, 413, "code_too_large"),
    "code too large in utf-8": ({"code": "é" * (MIB // 2 + 1)}, 413, "code_too_large"),
    "body too large": ({"code": "#" * (8 * MIB)}, 413, "code_too_large"),
}
BAD_TEXTS = {
    "no json": (b"{", 400),
    "empty": (b"", 400),
    "not utf-8": (b'{"code": "\xff"}', 400),
    "not a number": (b'{"code": "1", "timeoutSeconds": NaN}', 400),
    "infinite": (b'{"code": "1", "timeoutSeconds": Infinity}', 400),
    "a name twice": (b'{"code": "1", "code": "2"}', 400),
    "deep nesting": (b"[" * 100_000, 400),
    "huge number": (b'{"code": "1", "timeoutSeconds": ' + b"9" * 5000 + b"}", 400),
    "two documents": (b'{"code": "1"}{"code": "2"}', 400),
}


async def assert_refused(api, since, answer, status, code):
    got, headers, body = answer
    problem = json.loads(body)
    assert (got, problem["code"]) == (status, code)
    assert headers["Content-Type"].startswith("application/problem+json")
    assert problem["hint"]
    assert problem["detail"]
    _, record = await api.get(f"/executions/{problem['executionId']}")
    assert (record["state"], record["error"]["code"]) == ("refused", code)
    assert creations_of(problem["executionId"], since) == []


async def test_an_accepted_execution_makes_one_container(cold):
    """The control of the tests below: what they look for would be seen."""
    since = time.time()
    result = await cold.python("pass")
    assert len(creations_of(result["executionId"], since)) == 1


@pytest.mark.parametrize("name", BAD_BODIES)
async def test_a_bad_body_is_refused_and_starts_no_container(cold, name):
    body, status, code = BAD_BODIES[name]
    since = time.time()
    await assert_refused(cold, since, await ask(cold, "POST", "/execute", json=body), status, code)


@pytest.mark.parametrize("name", BAD_TEXTS)
async def test_text_that_is_not_json_is_refused_and_starts_no_container(cold, name):
    data, status = BAD_TEXTS[name]
    since = time.time()
    options = {"data": data, "headers": {"Content-Type": "application/json"}}
    await assert_refused(cold, since, await ask(cold, "POST", "/execute", **options), status, "malformed_json")


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "application/jsonp", ""])
async def test_another_content_type_is_refused_and_starts_no_container(cold, content_type):
    since = time.time()
    options = {"data": b'{"code": "1"}', "headers": {"Content-Type": content_type}}
    await assert_refused(cold, since, await ask(cold, "POST", "/execute", **options), 415, "unsupported_content_type")


async def test_a_refusal_stays_a_problem_when_events_were_wanted(cold):
    options = {"json": {"code": ""}, "headers": {"Accept": "text/event-stream"}}
    await assert_refused(cold, time.time(), await ask(cold, "POST", "/execute", **options), 422, "invalid_request")


async def test_code_of_exactly_the_largest_size_runs(api):
    code = "print('ran')\n"
    body = {"code": code + "#" * (MIB - len(code)), "language": "python"}
    status, _, reply = await ask(api, "POST", "/execute", json=body)
    assert (status, json.loads(reply)["output"]) == (200, "ran\n")


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/execute", 405, "method_not_allowed"),
        ("PUT", "/executions/x", 405, "method_not_allowed"),
        ("GET", "/unknown", 404, "not_found"),
        ("POST", "/execute/", 404, "not_found"),
    ],
)
async def test_a_path_or_method_that_is_not_there_is_a_problem_too(api, method, path, status, code):
    got, headers, body = await ask(api, method, path)
    problem = json.loads(body)
    assert (got, problem["code"], problem["status"]) == (status, code, status)
    assert headers["Content-Type"].startswith("application/problem+json")
    assert problem["hint"]


# --- the queue ---


async def test_a_full_house_answers_429_and_when_to_come_back(tmp_path):
    async with Installation.create(tmp_path, max_running=1, max_waiting=0).run() as api:
        async with held(api):
            status, headers, body = await ask(api, "POST", "/execute", json={"code": "1"})
        problem = json.loads(body)
        assert (status, problem["code"]) == (429, "queue_full")
        assert int(headers["Retry-After"]) > 0
        assert await state_of(api, problem["executionId"]) == ("refused", None)
        await eventually(lambda: runs_again(api))


async def runs_again(api):
    status, _ = await api.post("/execute", {"code": "console.log(1)"})
    return status == 200


async def test_who_waits_is_started_at_once_and_runs_when_its_turn_comes(tmp_path):
    async with (
        Installation.create(tmp_path, max_running=1, max_waiting=1).run() as api,
        held(api) as running,
        aclosing(api.stream("print('my turn')", "python")) as waiting,
    ):
        name, started = await anext(waiting)
        assert name == "started"
        assert await state_of(api, started["executionId"]) == ("queued", None)
        assert (await api.post("/execute", {"code": "1"}))[0] == 429
        await api.delete(f"/executions/{running.execution_id}")
        assert [event async for event in waiting][-1][1]["output"] == "my turn\n"


async def test_who_waits_can_be_cancelled_and_never_gets_a_container(tmp_path):
    async with Installation.create(tmp_path, max_running=1, max_waiting=1).run() as api:
        since = time.time()
        async with held(api), aclosing(api.stream("print('never')", "python")) as waiting:
            execution_id = (await anext(waiting))[1]["executionId"]
            status, result = await api.delete(f"/executions/{execution_id}")
        assert (status, result["outcome"], result["output"]) == (200, "cancelled", "")
        assert creations_of(execution_id, since) == []


# --- for operators ---


async def test_health_has_its_original_fields(api):
    status, health = await api.get("/health")
    assert status == 200
    assert health.keys() >= {"status", "version", "uptime", "servers", "totalTools", "toolsByServer"}
    assert health["status"] == "healthy"
    assert health["uptime"] > 0


async def test_livez_and_readyz_answer(api):
    assert await api.get("/livez") == (200, {"status": "alive"})
    status, told = await api.get("/readyz")
    assert (status, told["status"]) == (200, "ready")


async def test_readyz_tells_of_the_host_to_whoever_has_a_key_and_to_nobody_else(api):
    async def is_looked_at():
        return bool((await api.get("/readyz"))[1]["findings"])

    await eventually(is_looked_at)
    _, told = await api.get("/readyz")
    assert all(finding.keys() == {"check", "verdict", "detail", "fix"} for finding in told["findings"])
    assert {"runtime", "seccomp", "memory for filters", "users"} <= {finding["check"] for finding in told["findings"]}
    for key in (None, "wrong"):
        async with api.as_caller(key) as stranger:
            assert await stranger.get("/readyz") == (200, {"status": "ready"})


async def test_metrics_are_in_the_text_format(api):
    _, headers, _ = await ask(api, "GET", "/metrics")
    assert headers["Content-Type"].startswith("text/plain; version=0.0.4")


async def nothing_runs(api):
    """What an earlier test cancelled by going away has ended, too."""
    known = await gauges(api)
    return (known["code_executor_running"], known["code_executor_waiting"]) == (0, 0)


async def test_metrics_count_executions_by_language_and_outcome(api):
    await eventually(lambda: nothing_runs(api))
    before = await samples(api)
    await api.python("print('counted')")
    await api.typescript("process.exit(1)")
    after = await samples(api)

    def grown(*key):
        return after[key] - before.get(key, 0)

    assert grown("code_executor_executions_total", "python", "completed") == 1
    assert grown("code_executor_executions_total", "typescript", "failed") == 1
    assert grown("code_executor_phase_seconds_count", "run") == 2
    assert grown("code_executor_output_bytes_total", "stdout") == 8
    assert after[("process_resident_memory_bytes",)] > MIB


async def test_metrics_tell_what_runs_now(api):
    await eventually(lambda: nothing_runs(api))
    async with held(api):
        during = await samples(api)
    assert (during[("code_executor_running",)], during[("code_executor_waiting",)]) == (1, 0)
    assert during[("code_executor_sandboxes",)] >= 1


async def test_openapi_describes_every_route(api):
    _, document = await api.get("/openapi.json")
    described = {(verb.upper(), path) for path, verbs in document["paths"].items() for verb in verbs}
    app = build_app(SimpleNamespace(max_body_bytes=1, version="0"))
    routes = {(route.method, route.resource.canonical) for route in app.router.routes() if route.method != "HEAD"}
    assert described == routes


async def test_openapi_says_which_routes_need_no_key(api):
    _, document = await api.get("/openapi.json")
    public = [path for path, verbs in document["paths"].items() if verbs.get("get", {}).get("security") == []]
    assert sorted(public) == sorted(PUBLIC)


async def test_every_reference_in_openapi_is_there(api):
    _, document = await api.get("/openapi.json")
    references = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(document)))
    assert references
    assert references <= document["components"]["schemas"].keys()


async def test_openapi_describes_the_fields_of_a_reply(api):
    _, document = await api.get("/openapi.json")
    result = await api.python("pass")
    assert document["components"]["schemas"]["ExecutionReply"]["properties"].keys() == result.keys()


@pytest.mark.parametrize("path", ["/", "/docs", "/console/executions/nothing"])
async def test_the_pages_of_the_console_need_no_key_hold_no_data_and_load_nothing_from_elsewhere(api, path):
    async with api.as_caller(None) as stranger:
        status, headers, body = await ask(stranger, "GET", path)
    page = body.decode()
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert re.findall(r"(?:https?:)?//([\w.:-]+\.[\w.:-]+)", page) == []
    assert all(source.startswith("/console/") for source in re.findall(r"(?:src|href)=\"([^\"]*)", page))
    assert "default-src 'none'" in headers["Content-Security-Policy"]


async def test_a_body_that_never_ends_does_not_hold_up_others(api):
    """One caller sends a byte and then nothing; another is served meanwhile."""

    async def drip():
        yield b"{"
        await asyncio.Event().wait()

    slow = asyncio.create_task(
        api.session.post(f"{api.url}/execute", data=drip(), headers={"Content-Type": "application/json"})
    )
    assert (await api.python("print('served')"))["output"] == "served\n"
    slow.cancel()
    with pytest.raises((asyncio.CancelledError, aiohttp.ClientError)):
        await slow
