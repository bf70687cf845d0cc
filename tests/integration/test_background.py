"""Executions in the background: they outlive their client, but not the daemon, and can be followed from any point."""

import asyncio
import json
import os
import signal
import sys
import time
from asyncio.subprocess import PIPE
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field

import aiohttp
import pytest
from aiohttp import web

from bench.testbed.engine import LABEL, containers_of, containers_of_epochs, engine, epochs_of
from orchestrator.adapters.tokens import O200kTokenCounter
from tests.integration.conftest import NO_WARM_SANDBOXES
from tests.integration.test_mcp import structured_client
from tests.support.api import eventually, until
from tests.support.daemon_process import DaemonProcess
from tests.support.installation import PROJECT, Installation
from tests.support.mcp_clients import LEGACY, MODERN, http_client, text_of
from tests.support.programs import FOREVER, UNTIL_ENDED
from tests.support.upstream_server import ScriptedProxy, reply, serving, tool

TEXT = "naïve €uro 𝄞 日本語\n" * 3
# Single bytes, so that characters come in pieces; the first call takes longer than those that begin after it.
PRINTS_AND_CALLS = f"""\
import os, threading, time
from servers.postgres import echo, hold
threading.Thread(target=hold, daemon=True).start()
time.sleep(0.5)
text = {TEXT!r}.encode()
for number, byte in enumerate(text):
    os.write(1, bytes([byte]))
    os.write(2, bytes([text[-1 - number]]) if number % 2 else b"")
    if number % 40 == 0:
        echo()
os.write(2, b"\\xe2\\x82")
{UNTIL_ENDED}"""
CALLS = 1 + len(range(0, len(TEXT.encode()), 40))
# Every second byte from the end is no UTF-8: what it looks like is Python's to say, and ours to keep.
ODD = bytes(byte for number, byte in enumerate(reversed(TEXT.encode())) if number % 2) + b"\xe2\x82"


@dataclass
class Received:
    """What a client has of an execution."""

    stdout: str = ""
    stderr: str = ""
    calls: list[tuple[str, float]] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    result: dict | None = None

    def take(self, event):
        self.ids.append(event.id)
        match event.name:
            case "stdout":
                self.stdout += event.fields["text"]
            case "stderr":
                self.stderr += event.fields["text"]
            case "tool_call":
                self.calls.append((event.fields["tool"], event.fields["startedMs"]))
            case "result":
                self.result = event.fields

    def after(self, other):
        calls = sorted([*other.calls, *self.calls], key=lambda call: call[1])
        return self_contained(other.stdout + self.stdout, other.stderr + self.stderr, calls)

    @property
    def all(self):
        return self_contained(self.stdout, self.stderr, sorted(self.calls, key=lambda call: call[1]))


def self_contained(stdout, stderr, calls):
    return {"stdout": stdout, "stderr": stderr, "calls": calls}


async def received(api, execution_id, last_event_id=None, until=lambda received: False):
    got = Received()
    async with asyncio.timeout(60), aclosing(api.watch(execution_id, last_event_id)) as events:
        async for event in events:
            got.take(event)
            if until(got):
                break
    return got


@dataclass(frozen=True)
class Place:
    installation: Installation
    released: asyncio.Event  # lets one call of `hold` go on


@pytest.fixture
async def place(tmp_path):
    """A tool that answers, one that answers when it may, and a role that may run for a day."""
    proxy, begun, released = ScriptedProxy("postgres"), asyncio.Event(), asyncio.Event()
    proxy.tools["postgres"].append(tool("hold"))

    async def hold(request, message):
        begun.set()
        await released.wait()
        released.clear()
        return web.json_response(reply(message, {"content": [{"type": "text", "text": "held"}]}))

    async def echo(request, message):
        await begun.wait()  # the one that is held is under way while the others end, however busy the machine is
        return web.json_response(reply(message, {"content": [{"type": "text", "text": "echoed"}]}))

    proxy.behaviours |= {"hold": hold, "echo": echo}
    roles = json.loads((PROJECT / "roles.json").read_text())
    roles["roles"]["admin"]["limits"] = {"timeoutSeconds": 86_400}
    (tmp_path / "roles.json").write_text(json.dumps(roles))
    async with serving(proxy.app()) as url:
        servers = tmp_path / "servers.json"
        servers.write_text(json.dumps({"mcpServers": {"postgres": {"url": f"{url}/postgres/mcp"}}}))
        yield Place(
            Installation.create(
                tmp_path,
                servers_file=servers,
                roles_file=tmp_path / "roles.json",
                heartbeat_seconds=0.5,
                max_output_bytes=8 * 1024 * 1024,
                **NO_WARM_SANDBOXES,
            ),
            released,
        )
        released.set()


async def has_tools(api):
    return "postgres" in (await api.get("/tools"))[1]["tools"]


async def record_of(api, execution_id, **parameters):
    status, record = await api.get(f"/executions/{execution_id}", params=parameters)
    assert status == 200, record
    return record


async def has_printed(api, execution_id, text="running\n"):
    return (await record_of(api, execution_id))["output"] == text


def deadlines_of(owner):
    labels = [each.labels for each in engine().containers.list(filters={"label": f"{LABEL}.owner={owner}"})]
    return [float(each[f"{LABEL}.deadline"]) for each in labels if f"{LABEL}.deadline" in each]


# --- starting one ---


async def test_an_execution_in_the_background_is_answered_at_once_and_outlives_its_client(place):
    async with place.installation.run() as api:
        body = {"code": FOREVER, "language": "python", "background": True}
        async with api.session.post(f"{api.url}/execute", json=body) as response:
            started = await response.json()
            assert (response.status, response.headers["Location"]) == (202, started["url"])
        execution_id = started["executionId"]
        assert started == {
            "executionId": execution_id,
            "state": "running",
            "position": 0,
            "url": f"/executions/{execution_id}",
            "eventsUrl": f"/executions/{execution_id}/events",
        }
        await eventually(lambda: has_printed(api, execution_id))
        first = await received(api, execution_id, until=lambda got: got.stdout)
        assert first.stdout == "running\n"  # and the watcher has left
        record = await record_of(api, execution_id)
        assert (record["state"], record["background"]) == ("running", True)
        assert (await api.delete(started["url"]))[1]["outcome"] == "cancelled"


async def test_one_may_run_for_a_day_in_a_sandbox_that_lives_as_long(place):
    async with place.installation.run() as api:
        execution_id = await api.background(FOREVER)
        await eventually(lambda: has_printed(api, execution_id))
        record = await record_of(api, execution_id)
        assert record["limits"]["timeoutSeconds"] == 86_400
        (deadline,) = deadlines_of(place.installation.owner)
        assert 86_400 < deadline - time.time() < 25 * 3600
        status, _ = await api.delete(f"/executions/{execution_id}")
        assert status == 200
        await until(lambda: not containers_of(place.installation.owner))


async def test_a_long_role_does_not_make_the_foreground_longer(place):
    async with place.installation.run() as api, api.as_caller(place.installation.keys["developer"]) as developer:
        code = {"code": "print(1)", "language": "python"}
        status, problem = await api.post("/execute", {**code, "timeoutSeconds": 301})
        assert (status, problem["code"]) == (422, "invalid_request")
        assert problem["detail"] == "`timeoutSeconds` must be at most 300, or 86400 with `background` set to true."
        assert (await api.post("/execute", code))[1]["limits"]["timeoutSeconds"] == 300
        status, problem = await developer.post("/execute", {**code, "timeoutSeconds": 301, "background": True})
        assert (status, "role developer" in problem["detail"]) == (422, True)
        status, problem = await api.post("/execute", {**code, "timeoutSeconds": 86_401, "background": True})
        assert status == 422


async def test_those_in_the_background_leave_places_for_the_others(place):
    async with place.installation.run() as api:
        ids = [await api.background(FOREVER) for _ in range(2)]
        status, problem = await api.post("/execute", {"code": FOREVER, "language": "python", "background": True})
        assert (status, problem["code"]) == (429, "too_many_in_background")
        assert (await api.python("print('works')"))["output"] == "works\n"
        await api.delete(f"/executions/{ids[0]}")
        assert await api.background("print(1)")


async def test_a_key_finds_the_one_in_the_background_and_then_its_result(place):
    key = {"Idempotency-Key": "the same"}
    async with place.installation.run() as api:
        code = "print('once')"
        execution_id = await api.background(code, headers=key)
        await received(api, execution_id)
        body = {"code": code, "language": "python", "background": True}
        status, result = await api.post("/execute", body, headers=key)
        assert (status, result["executionId"], result["output"]) == (200, execution_id, "once\n")
        waiting = await api.background(FOREVER, headers={"Idempotency-Key": "another"})
        assert await api.background(FOREVER, headers={"Idempotency-Key": "another"}) == waiting


# --- reading it ---


async def test_output_is_read_in_pieces_while_it_runs_and_a_request_waits_for_more(place):
    code = "import os\nfrom servers.postgres import hold\n"
    code += "os.write(1, b'first\\n')\nhold()\nos.write(1, b'second\\n')\nhold()"
    async with place.installation.run() as api:
        await eventually(lambda: has_tools(api))
        execution_id = await api.background(code)
        first = await record_of(api, execution_id, wait="30")
        assert (first["state"], first["output"]) == ("running", "first\n")
        place.released.set()
        second = await record_of(api, execution_id, wait="30", offset="6")
        assert (second["state"], second["output"]) == ("running", "second\n")
        place.released.set()
        end = await record_of(api, execution_id, wait="30", offset="13")
        assert (end["state"], end["outcome"], end["output"]) == ("finished", "completed", "")
        assert (await api.get(f"/executions/{execution_id}?wait=31"))[0] == 422


async def test_after_every_event_a_client_can_go_on_without_a_gap_or_a_repetition(place):
    expected = {"stdout": TEXT, "stderr": ODD.decode(errors="replace")}
    async with place.installation.run() as api:
        await eventually(lambda: has_tools(api))
        execution_id = await api.background(PRINTS_AND_CALLS)

        def has_all_but_the_held(got):
            return got.stdout == TEXT and len(got.calls) == CALLS - 1 and "\n" in got.stderr

        watching = asyncio.create_task(received(api, execution_id))
        early = await received(api, execution_id, until=has_all_but_the_held)
        assert any("." in event_id for event_id in early.ids)  # the control: calls ended out of order
        prefixes = await prefixes_of(api, execution_id, early)
        place.released.set()
        for event_id, prefix in prefixes.items():
            rest = await received(
                api, execution_id, event_id, until=lambda got, p=prefix: len(p.calls) + len(got.calls) == CALLS
            )
            assert rest.after(prefix)["stdout"] == TEXT
            assert len({started for _, started in rest.after(prefix)["calls"]}) == CALLS
        await api.delete(f"/executions/{execution_id}")
        whole = await watching
        assert {name: whole.all[name] for name in expected} == expected
        assert len(whole.calls) == CALLS
        await check_every_prefix(api, execution_id, prefixes, whole)
        async with api.session.get(
            f"{api.url}/executions/{execution_id}/events", headers={"Last-Event-ID": whole.ids[-1]}
        ) as response:
            assert response.status == 204
    async with place.installation.run() as api:  # after a restart
        await check_every_prefix(api, execution_id, prefixes, whole)


async def prefixes_of(api, execution_id, seen):
    """What a client has after each event, by the event's id."""
    prefixes, got = {}, Received()
    async with aclosing(api.watch(execution_id)) as events:
        async for event in events:
            got.take(event)
            prefixes[event.id] = Received(got.stdout, got.stderr, list(got.calls))
            if (got.stdout, len(got.calls)) == (seen.stdout, len(seen.calls)) and "\n" in got.stderr:
                return prefixes
    raise AssertionError("it ended")


async def check_every_prefix(api, execution_id, prefixes, whole):
    assert prefixes
    for event_id, prefix in prefixes.items():
        rest = await received(api, execution_id, event_id)
        assert rest.after(prefix) == whole.all, event_id
        assert rest.result["output"] == TEXT


async def test_fifty_watchers_see_the_same(place):
    async with place.installation.run() as api:
        code = "import time\nfor n in range(50):\n    print('é' * n, flush=True)\n    time.sleep(0.02)"
        execution_id = await api.background(code)
        all_received = await asyncio.gather(*(received(api, execution_id) for _ in range(50)))
        assert {got.stdout for got in all_received} == {"".join("é" * n + "\n" for n in range(50))}
        assert {got.result["outcome"] for got in all_received} == {"completed"}


async def test_many_watchers_of_single_bytes_do_not_keep_the_daemon_from_answering(place):
    code = "import os\nfor n in range(40_000):\n    os.write(1 + n % 2, b'x')\n" + UNTIL_ENDED
    async with place.installation.run() as api:
        execution_id = await api.background(code)
        await eventually(lambda: has_printed(api, execution_id, "x" * 20_000), seconds=60)

        def has_all(got):
            return len(got.stdout) == len(got.stderr) == 20_000

        watchers = [asyncio.create_task(received(api, execution_id, until=has_all)) for _ in range(50)]
        waits = []
        while not all(watcher.done() for watcher in watchers):
            began = time.monotonic()
            assert (await api.get("/livez"))[0] == 200
            waits.append(time.monotonic() - began)
        ended = [watcher.result() for watcher in watchers]
        assert all(has_all(got) for got in ended)
        assert max(len(got.ids) for got in ended) < 100
        # A machine that stands still for a moment does so once; fifty watchers would hold it up fifty times.
        assert sorted(waits)[-2:][0] < 1


async def test_a_watcher_that_does_not_read_holds_up_nobody(place):
    code = "import os\nfor n in range(3500):\n    os.write(1, b'x' * 1000)\n" + UNTIL_ENDED
    async with place.installation.run() as api:
        execution_id = await api.background(code)
        headers = {"Authorization": f"Bearer {place.installation.keys['admin']}"}
        async with (
            aiohttp.ClientSession(headers=headers, read_bufsize=1) as session,
            session.get(f"{api.url}/executions/{execution_id}/events") as lazy,
        ):
            assert lazy.status == 200
            got = await received(api, execution_id, until=lambda got: len(got.stdout) == 3_500_000)
            assert len(got.stdout) == 3_500_000
        assert (await record_of(api, execution_id))["state"] == "running"


@pytest.mark.parametrize("wrong", ["x", "1-2", "-1-0-0", "1-1-1-1", "999999-0-0", "0-0-7", "0-0-1.1", "9" * 400])
async def test_an_id_that_is_not_of_this_execution_is_refused(cold, wrong):
    execution_id = (await cold.python("print('short')"))["executionId"]
    status, problem = await cold.get(f"/executions/{execution_id}/events", headers={"Last-Event-ID": wrong})
    assert (status, problem["code"]) == (422, "invalid_request")
    assert "`Last-Event-ID` must be the id of an event of this execution" in problem["detail"]
    status, _ = await cold.get(f"/executions/{execution_id}/events", params={"lastEventId": wrong})
    assert status == 422


async def test_what_one_may_not_see_cannot_be_watched(place):
    async with place.installation.run() as api, api.as_caller(place.installation.keys["developer"]) as developer:
        execution_id = await api.background(FOREVER)
        assert (await developer.get(f"/executions/{execution_id}/events"))[0] == 404
        assert (await developer.get("/executions/nothing/events"))[0] == 404
        assert (await developer.delete(f"/executions/{execution_id}"))[0] == 404
        assert (await record_of(api, execution_id))["state"] == "running"


def noting_output(heard):
    """Go on to the end, and tell when something printed has come."""

    def note(got):
        if got.stdout:
            heard.set()
        return False

    return note


async def test_a_key_that_is_taken_away_ends_what_it_watches(place):
    installation = place.installation
    async with installation.run() as api, api.as_caller(installation.keys["developer"]) as developer:
        execution_id = await developer.background(FOREVER)
        await eventually(lambda: has_printed(developer, execution_id))
        heard = asyncio.Event()
        watching = asyncio.create_task(received(developer, execution_id, until=noting_output(heard)))
        await asyncio.wait_for(heard.wait(), 30)
        (installation.settings.keys_dir / "code-executor-developer.sha256").unlink()
        got = await asyncio.wait_for(watching, 20)
        assert (got.stdout, got.result) == ("running\n", None)
        assert (await api.delete(f"/executions/{execution_id}"))[0] == 200


async def test_a_head_request_does_not_wait_for_the_end(place):
    async with place.installation.run() as api:
        execution_id = await api.background(FOREVER)
        async with (
            asyncio.timeout(30),
            api.session.head(f"{api.url}/executions/{execution_id}/events") as response,
        ):
            assert response.status == 200


# --- over MCP ---


async def test_a_model_starts_one_waits_for_its_output_and_reads_how_it_ended(place):
    code = "import os\nfrom servers.postgres import hold\nos.write(1, 'erst €'.encode())\nhold()\nraise SystemExit(3)"
    key = place.installation.keys["admin"]
    async with place.installation.run() as api, http_client(api.url, key, MODERN) as client:
        await eventually(lambda: has_tools(api))
        arguments = {"code": code, "language": "python", "background": True, "timeoutSeconds": 3600}
        started = await client.call_tool("execute_code", arguments)
        told, how = text_of(started).split("\n")
        assert (started.is_error, told[: told.index(",")]) == (False, "running in the background for up to 3600 s")
        assert O200kTokenCounter().count(text_of(started)) <= 100
        order = json.loads(how.split("get_execution ")[1].split(";")[0])
        assert order == {"executionId": told.rsplit(" ", 1)[1], "waitSeconds": 30}
        first = text_of(await client.call_tool("get_execution", order))
        assert '(running): bytes 0 to 8 of 8; go on with "offset": 8, "waitSeconds": 30' in first
        assert first.endswith("\n\nerst €")
        place.released.set()
        end = text_of(await client.call_tool("get_execution", {**order, "offset": 8}))
        assert "(failed with exit code 3): nothing; it has 8 bytes" in end


async def test_its_structured_reply_fits_the_schema(place):
    async with (
        place.installation.run() as api,
        structured_client(api.url, place.installation.keys["admin"], MODERN) as client,
    ):
        await client.list_tools()  # the client then knows the schemas, and checks replies
        arguments = {"code": "print(1)", "language": "python", "background": True}
        started = (await client.call_tool("execute_code", arguments)).structured_content
        assert (started["outcome"], started["limits"]["timeoutSeconds"]) == (None, 86_400)
        order = {"executionId": started["executionId"], "waitSeconds": 30, "offset": 2}
        page = (await client.call_tool("get_execution", order)).structured_content
        assert (page["state"], page["outcome"], page["exitCode"]) == ("finished", "completed", 0)


async def test_a_model_cancels_one(place):
    key = place.installation.keys["admin"]
    async with place.installation.run() as api, http_client(api.url, key, LEGACY) as client:
        execution_id = await api.background(FOREVER)
        await eventually(lambda: has_printed(api, execution_id))
        cancelled = await client.call_tool("cancel_execution", {"executionId": execution_id})
        assert text_of(cancelled).startswith("cancelled in ")


# --- on the command line ---


def hear_interrupts():
    """Undo what a shell does to commands in the background, of which this test may be one."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


async def test_on_the_command_line_one_is_started_followed_and_left_alone_by_ctrl_c(place):
    async with place.installation.run() as api:
        environment = {
            **os.environ,
            "CODE_EXECUTOR_URL": api.url,
            "CODE_EXECUTOR_KEY": place.installation.keys["admin"],
        }

        async def command(*arguments):
            return await asyncio.create_subprocess_exec(
                sys.executable, "-m", "orchestrator", *arguments, env=environment, cwd=PROJECT, stdin=PIPE, stdout=PIPE,
                stderr=PIPE, preexec_fn=hear_interrupts,
            )  # fmt: skip

        started = await command("run", "-", "--language", "python", "--background")
        printed, _ = await started.communicate(FOREVER.encode())
        execution_id = printed.decode().strip()
        watching = await command("follow", execution_id)
        assert await asyncio.wait_for(watching.stdout.readline(), 30) == b"running\n"
        watching.send_signal(signal.SIGINT)
        _, told = await watching.communicate()
        assert (watching.returncode, b"no longer watching" in told) == (130, True)
        assert (await record_of(api, execution_id))["state"] == "running"
        again = await command("follow", execution_id)
        assert await asyncio.wait_for(again.stdout.readline(), 30) == b"running\n"
        ended = await command("cancel", execution_id)
        assert (await ended.communicate())[1].decode() == f"code-executor: {execution_id} is cancelled\n"
        await again.communicate()
        assert again.returncode == 130


# --- the daemon's end ---


@asynccontextmanager
async def one_in_the_background(daemon):
    execution_id = await daemon.api.background(FOREVER)
    await eventually(lambda: has_printed(daemon.api, execution_id))
    yield execution_id


async def test_a_killed_daemon_takes_it_along_and_its_next_start_tells_it_as_interrupted(place):
    installation = place.installation
    async with DaemonProcess.running(installation) as daemon, one_in_the_background(daemon) as execution_id:
        seen = await received(daemon.api, execution_id, until=lambda got: got.stdout)
        owner, killed = installation.owner, epochs_of(installation.owner)
        daemon.kill()
        await until(lambda: not running_containers(owner), seconds=30)
    async with installation.run() as api:
        await until(lambda: not containers_of_epochs(owner, killed), seconds=30)
        record = await record_of(api, execution_id)
        assert (record["state"], record["error"]["code"], record["background"]) == ("interrupted", "interrupted", True)
        rest = await received(api, execution_id, seen.ids[-1])  # though its output is gone
        assert (rest.stdout, rest.result["state"]) == ("", "interrupted")


def running_containers(owner):
    return engine().containers.list(filters={"label": f"{LABEL}.owner={owner}"}, ignore_removed=True)


async def test_a_daemon_that_stops_cancels_it_and_its_watchers_hear_of_it(place):
    installation = place.installation
    async with DaemonProcess.running(installation) as daemon, one_in_the_background(daemon) as execution_id:
        heard = asyncio.Event()
        watching = asyncio.create_task(received(daemon.api, execution_id, until=noting_output(heard)))
        await asyncio.wait_for(heard.wait(), 30)
        await daemon.terminate()
        result = (await watching).result
        assert (result["outcome"], result["cancelledBy"], result["output"]) == ("cancelled", "shutdown", "running\n")
        assert not containers_of(installation.owner)
    async with installation.run() as api:
        assert (await record_of(api, execution_id))["cancelledBy"] == "shutdown"
