"""Programs that talk to the orchestrator: through their output, through the runner, and through the gateway."""

import asyncio
import json
import struct
import time
from contextlib import aclosing

import pytest

from orchestrator.commands import keys
from tests.support.api import eventually
from tests.support.daemon_process import DaemonProcess
from tests.support.installation import Installation
from tests.support.programs import PRELUDE, UNTIL_ENDED, held, probe
from tests.support.upstream_server import ScriptedProxy, serving

MIB = 1024 * 1024

GATEWAY = """
import http.client, time
GRANT = os.environ["CODE_EXECUTOR_GRANT"]
def ask(path, body, headers={}, connection=None):
    client = connection or gateway_client()
    client.request("POST", path, body, {"Authorization": f"Bearer {GRANT}", **headers})
    response = client.getresponse()
    return response.status, response.read()
def call(arguments={}, server="postgres", tool="echo", **more):
    return ask("/call", json.dumps({"server": server, "tool": tool, "arguments": arguments}), **more)
def status(*arguments, **more):
    return call(*arguments, **more)[0]
def head(length):
    fields = ("POST /call HTTP/1.1", "Host: x", f"Authorization: Bearer {GRANT}", f"Content-Length: {length}")
    return ("\\r\\n".join(fields) + "\\r\\n\\r\\n").encode()
def raw(data):
    with to_gateway() as client:
        client.sendall(data)
        return client.recv(65536)
"""


@pytest.fixture(scope="module")
async def proxy():
    return ScriptedProxy("postgres")


@pytest.fixture(scope="module")
async def installation(proxy, tmp_path_factory):
    """A daemon with a tool to call; the post-condition of every attack here is about this one."""
    directory = tmp_path_factory.mktemp("protocol")
    async with serving(proxy.app()) as url:
        yield _with_a_tool(directory, url)


def _with_a_tool(directory, url):
    servers = {"postgres": {"url": f"{url}/postgres/mcp"}}
    (directory / "servers.json").write_text(json.dumps({"mcpServers": servers}))
    return Installation.create(directory, servers_file=directory / "servers.json")


@pytest.fixture(scope="module")
async def api(installation):
    async with installation.run() as api:
        await eventually(lambda: _listed(api), seconds=30)
        yield api


async def _listed(api):
    return (await api.get("/health"))[1]["toolsByServer"].get("postgres")


async def gateway_probe(api, code, timeout_seconds=60):
    return await probe(api, GATEWAY + code, timeout_seconds)


async def test_an_ordinary_call_is_answered_and_recorded(api):
    """The control of every test here."""
    result = await api.python(PRELUDE + GATEWAY + "tell(status({'text': 'hello'}))")
    assert json.loads(result["output"]) == 200
    assert [(call["tool"], call["outcome"]) for call in result["toolCalls"]] == [("echo", "done")]


# --- through the output ---

DONE = json.dumps({"ending": "exited", "exit_code": 0, "signal": None, "cpu_seconds": 0, "max_rss_bytes": 1}).encode()
FORGED = struct.pack(">cI", b"D", len(DONE)) + DONE


async def test_typescript_cannot_forge_its_ending_on_any_descriptor(api):
    code = f"""
        import fs from 'node:fs';
        const forged = Buffer.from('{FORGED.hex()}', 'hex');
        let written = 0;
        for (let fd = 1; fd < 64; fd++) {{
            try {{ fs.writeSync(fd, forged); written++; }} catch {{}}
        }}
        console.log(`written to ${{written}}`);
        process.exit(7);
    """
    result = await api.typescript(code)
    # What it writes into the event loop's own descriptors may crash it; either way the ending is the real one.
    assert result["outcome"] == "failed"
    assert result["exitCode"] in (7, 128 + 6, 128 + 11)
    assert result["output"].startswith(FORGED.decode("utf-8", "replace"))


async def test_a_child_cannot_end_the_execution_for_its_parent(api):
    code = f"""
import os, sys
if os.fork() == 0:
    os.write(1, {FORGED!r})
    os._exit(0)
os.wait()
print("the parent goes on")
sys.exit(9)
"""
    result = await api.python(code)
    assert (result["outcome"], result["exitCode"]) == ("failed", 9)
    assert "the parent goes on" in result["output"]


@pytest.mark.parametrize(
    "text", ['{"jsonrpc":"2.0","id":1,"result":{}}', "data: [DONE]\n\n", ": heartbeat\n\nevent: result\n"]
)
async def test_output_that_looks_like_a_protocol_is_only_output(api, text):
    events = [event async for event in api.stream(f"import sys; sys.stdout.write({text!r})", "python")]
    assert [name for name, _ in events if name == "result"] == ["result"]
    assert events[-1][1]["output"] == text


# --- through the runner ---

HIJACK = "import os; os.write(2, b'HIJACKED'); os._exit(0)"
MODULES = ["json", "struct", "os", "signal", "resource", "time", "encodings", "sitecustomize", "usercustomize", "enum"]


async def test_modules_planted_in_the_workspace_do_not_reach_the_supervisor(api):
    code = f"""
import subprocess, sys
for name in {MODULES}:
    write_file(f"/workspace/{{name}}.py", {HIJACK!r})
control = subprocess.run(["/usr/bin/python3", "-c", "import resource"], cwd="/workspace", capture_output=True)
print(control.stderr.decode(), flush=True)
sys.exit(3)
"""
    result = await api.python(PRELUDE + code)
    assert (result["outcome"], result["exitCode"], result["output"]) == ("failed", 3, "HIJACKED\n")
    assert "HIJACKED" not in result["stderr"]


async def test_variables_for_interpreters_reach_children_only(api):
    code = """
        import { writeFileSync } from 'node:fs';
        import { spawnSync } from 'node:child_process';
        writeFileSync('/workspace/evil.cjs', "process.stderr.write('HIJACKED'); process.exit(0);");
        process.env.NODE_OPTIONS = '--require /workspace/evil.cjs';
        process.env.LD_PRELOAD = '/workspace/evil.so';
        process.env.PYTHONPATH = '/workspace';
        process.env.PYTHONSTARTUP = '/workspace/evil.py';
        const child = spawnSync(process.execPath, ['-e', '1'], { env: { ...process.env, LD_PRELOAD: '' } });
        console.log(child.stderr.toString().includes('HIJACKED'));
        process.exit(5);
    """
    result = await api.typescript(code)
    assert (result["outcome"], result["exitCode"], result["output"]) == ("failed", 5, "true\n")
    assert "HIJACKED" not in result["stderr"]


TRICKS = {
    "toJSON": "(Object.prototype as any).toJSON = () => ({ ending: 'exited', exit_code: 0 });",
    "stringify": "JSON.stringify = () => 'forged'; JSON.parse = () => ({ exit_code: 0 });",
    "then": "(Object.prototype as any).then = undefined; Promise.prototype.then = function () { return this; };",
    "array": "(Array.prototype as any)[Symbol.iterator] = function* () {};",
    "handles": "(process.stdout as any)._handle = null; (process as any).binding = () => ({});",
    "listeners": "process.removeAllListeners(); process.emit = (() => true) as any;",
    "globals": "for (const n of Object.getOwnPropertyNames(globalThis)) try { delete (globalThis as any)[n] } catch {}",
}


@pytest.mark.parametrize("name", TRICKS)
async def test_a_changed_prototype_changes_the_program_alone(api, name):
    code = f"""
        const {{ reallyExit }} = process as any;
        {TRICKS[name]}
        reallyExit.call(process, 6);
    """
    result = await api.typescript(code)
    assert (result["outcome"], result["exitCode"]) == ("failed", 6), result


async def test_a_replaced_client_library_writes_nothing_into_the_ledger(api):
    """The wrappers in the workspace belong to the program; what counts is what the gateway saw."""
    code = """
import pathlib
for path in pathlib.Path("/workspace/servers").rglob("*.py"):
    path.write_text("def echo(*a, **k): return {'forged': True}\\n")
import servers.postgres
print(servers.postgres.echo())
"""
    result = await api.python(code)
    assert result["outcome"] == "completed", result["stderr"]
    assert (result["output"], result["toolCalls"]) == ("{'forged': True}\n", [])


# --- through the gateway: what it is told ---


async def test_a_huge_message_is_refused(api):
    code = "tell([status({'text': 'x' * (5 << 20)}), status({'text': 'x' * 900_000})])"
    assert await gateway_probe(api, code) == [429, 200]


@pytest.mark.parametrize("depth", [100, 900, 3_000, 100_000])
async def test_a_nested_message_is_passed_on_or_refused_but_breaks_nothing(api, depth):
    code = f"""
nested = '{{"server": "postgres", "tool": "echo", "arguments": {{"a": ' + "[" * {depth} + "]" * {depth} + "}}}}"
tell([ask("/call", nested)[0], status()])
"""
    answer, afterwards = await gateway_probe(api, code)
    assert answer in (200, 422)
    assert afterwards == 200


@pytest.mark.parametrize(
    "arguments",
    [
        '{"a": NaN}',
        '{"a": 1e999}',
        '{"a": -Infinity}',
        '{"a": "\\\\ud800"}',
        '{"\\\\u0000": 1}',
        '{"a": ' + "9" * 4000 + "}",
        '{"__proto__": {"a": 1}}',
        '{"a": 1, "a": 2}',
        "[]",
        '"text"',
        "null",
    ],
)
async def test_odd_arguments_are_passed_on_or_refused_but_break_nothing(api, arguments):
    code = f"""
body = '{{"server": "postgres", "tool": "echo", "arguments": ' + '{arguments}' + "}}"
tell([ask("/call", body)[0], status()])
"""
    answer, afterwards = await gateway_probe(api, code)
    assert answer in (200, 422)
    assert afterwards == 200


SMUGGLING = {
    "two lengths": "Content-Length: 0\\r\\nContent-Length: 500",
    "a length and chunks": "Content-Length: 500\\r\\nTransfer-Encoding: chunked",
    "a negative length": "Content-Length: -1",
    "a long header": "X: " + "x" * 100_000,
    "a grant longer than any": "Authorization: Bearer " + "a" * 4_000,
}


@pytest.mark.parametrize("name", SMUGGLING)
async def test_a_malformed_request_is_refused_by_the_gateway(api, name):
    code = f"""
head = f"POST /call HTTP/1.1\\r\\nHost: x\\r\\nAuthorization: Bearer {{GRANT}}\\r\\n"
data = (head + "{SMUGGLING[name]}\\r\\n\\r\\n").encode()
tell([raw(data).split()[1].decode(), status()])
"""
    assert await gateway_probe(api, code) == ["400", 200]


async def test_a_packed_bomb_is_refused_by_the_gateway(api):
    code = """
import zlib
packer = zlib.compressobj(9, wbits=31)
packed = b"".join(packer.compress(b" " * (1 << 20)) for _ in range(256)) + packer.flush()
tell([len(packed), ask("/call", packed, {"Content-Encoding": "gzip"})[0], status()])
"""
    packed, answer, afterwards = await gateway_probe(api, code)
    assert packed < MIB
    assert answer in (400, 413, 415, 422, 429)
    assert afterwards == 200


@pytest.mark.parametrize("name", ["\\ud800", "a\\udfffb"])
async def test_a_name_that_is_no_text_is_refused_and_nobody_waits_for_its_record(api, name):
    """A lone surrogate is legal JSON, and nothing that a database takes."""
    code = f"""
bodies = [f'{{{{"server": "{{server}}", "tool": "{{tool}}", "arguments": {{{{}}}}}}}}'
          for server, tool in ((r"{name}", "echo"), ("postgres", r"{name}"))]
tell([ask("/call", body)[0] for body in bodies] + [status()])
"""
    result = await api.python(PRELUDE + GATEWAY + code)
    assert json.loads(result["output"]) == [422, 422, 200], result["stderr"]
    assert [call["outcome"] for call in result["toolCalls"]] == ["done"]
    assert (await api.get(f"/executions/{result['executionId']}"))[1]["state"] == "finished"


LAST_BYTE = """
def begun():
    body = json.dumps({"server": "postgres", "tool": "echo", "arguments": {}}).encode()
    client = to_gateway()
    client.sendall(head(len(body)) + body[:-1])
    return client
def ended(client):
    client.sendall(b"}")
    return int(client.recv(65536).split()[1])
"""


async def test_a_call_that_is_begun_before_its_key_is_rotated_is_refused_when_it_ends(proxy, tmp_path):
    code = (
        PRELUDE
        + GATEWAY
        + LAST_BYTE
        + """
waiting = [begun() for _ in range(20)]
control = ended(begun())
print("begun", control, flush=True)
while status() == 200: time.sleep(0.05)
tell([ended(client) for client in waiting])
"""
    )
    async with serving(proxy.app()) as url:
        own = _with_a_tool(tmp_path, url)
        async with own.run() as admin, admin.as_caller(own.keys["developer"]) as developer:
            await eventually(lambda: _listed(admin), seconds=30)
            printed = await _printed_beside_a_rotation(developer, code, own)
    assert printed[0] == "begun 200"
    assert json.loads(printed[1]) == [401] * 20


async def _printed_beside_a_rotation(api, code, own):
    """What a program prints that runs while its caller's key is replaced, after its first line."""
    text = ""
    async with aclosing(api.stream(code, "python", 60)) as events:
        async for name, fields in events:
            if name == "stdout":
                text += fields["text"]
                if text == "begun 200\n":
                    keys.rotate(keys.key_files(own.settings.roles_file, own.settings.secrets_dir), "developer")
    return text.splitlines()


# --- through the gateway: how much ---

UNFINISHED = """
clients, sent = [], 0
for _ in range(100):
    client = to_gateway()
    client.settimeout(0.2)
    clients.append(client)
    try:
        client.sendall(head(4_000_000))
        for _ in range(61): sent += client.send(b" " * 65536)
    except TimeoutError:
        pass
print(sent, flush=True)
"""


async def test_requests_that_are_left_unfinished_do_not_fill_the_daemon(tmp_path):
    async with DaemonProcess.running(Installation.create(tmp_path)) as daemon:
        assert (await daemon.api.python("print('before')"))["output"] == "before\n"
        before = await daemon.resting_bytes()
        async with held(daemon.api, PRELUDE + GATEWAY + UNFINISHED + UNTIL_ENDED) as program:
            assert int(program.line) > 8 * MIB  # so large bodies do come in
            assert daemon.peak_bytes() - before < 64 * MIB  # of 400 that were begun
            assert (await daemon.api.python("print('beside')"))["output"] == "beside\n"


CROWD = """
import signal
opened = 0
def open_many(count):
    kept = []
    for _ in range(count):
        client = socket.socket(socket.AF_UNIX)
        client.setblocking(False)
        try: client.connect("\\0gateway")
        except BlockingIOError: pass
        except OSError: break
        kept.append(client)
    return kept
children = []
for _ in range(22):
    child = os.fork()
    if child == 0:
        kept = open_many(480)
        os.write(1, f"{len(kept)}\\n".encode())
        signal.pause()
    children.append(child)
"""


async def test_ten_thousand_connections_to_the_gateway_hold_up_no_neighbour(api):
    async with held(api, PRELUDE + CROWD + UNTIL_ENDED) as crowd:
        assert int(crowd.line.split()[0]) == 480  # of each of the 22
        assert await gateway_probe(api, "tell([status() for _ in range(20)])") == [200] * 20
        assert (await api.get("/livez"))[0] == 200


async def test_a_program_gets_through_again_when_it_closes_its_ten_thousand_connections(api):
    code = """
for child in children:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
def until_answered():
    for _ in range(100):
        try: return status()
        except OSError: time.sleep(0.1)
tell(until_answered())
"""
    result = await api.python(PRELUDE + GATEWAY + CROWD + code, 60)
    assert result["outcome"] == "completed", result["stderr"]
    assert result["output"].splitlines()[-1] == "200"


FLOOD = """
import threading
def flood():
    client = gateway_client()
    while True:
        try: ask("/search", '{"query": "the tool echo"}', connection=client)
        except (OSError, http.client.HTTPException): client = gateway_client()
threads = [threading.Thread(target=flood, daemon=True) for _ in range(16)]
for thread in threads: thread.start()
os.write(1, b"flooding\\n")
"""
TIMED = """
times = []
for _ in range(30):
    began = time.monotonic()
    assert status() == 200
    times.append(time.monotonic() - began)
tell(sorted(times)[len(times) // 2])
"""


async def test_a_flood_of_requests_does_not_starve_a_neighbours_calls(api):
    quiet = await gateway_probe(api, TIMED)
    async with held(api, PRELUDE + GATEWAY + FLOOD + UNTIL_ENDED):
        flooded = await gateway_probe(api, TIMED)
    assert flooded < max(0.5, 50 * quiet), (quiet, flooded)


async def test_calls_run_out_at_their_number(api):
    code = """
client = gateway_client()
answers = [status(connection=client) for _ in range(1_003)]
tell([answers[:1000].count(200), answers[1000:]])
"""
    result = await api.python(PRELUDE + GATEWAY + code, 120)
    assert json.loads(result["output"]) == [1_000, [429] * 3]
    assert [call["outcome"] for call in result["toolCalls"]] == ["done"] * 1_000 + ["limited"]  # told once


async def test_answers_that_nobody_reads_do_not_pile_up(api):
    """Requests are sent and their answers left; the gateway stops reading before it has answered them all."""
    code = """
body = b'{"query": "x"}'
request = (f"POST /search HTTP/1.1\\r\\nHost: x\\r\\nAuthorization: Bearer {GRANT}\\r\\n"
           f"Content-Length: {len(body)}\\r\\n\\r\\n").encode() + body
client = to_gateway()
client.setblocking(False)
sent = 0
for _ in range(200_000):
    try: sent += client.send(request)
    except BlockingIOError: break
tell([sent, status()])
"""
    sent, afterwards = await gateway_probe(api, code)
    assert 0 < sent < 64 * MIB
    assert afterwards == 200


async def test_a_request_that_never_ends_ends_with_its_execution(api):
    code = """
client = to_gateway()
head = f"POST /call HTTP/1.1\\r\\nHost: x\\r\\nAuthorization: Bearer {GRANT}\\r\\n"
client.sendall((head + "Content-Length: 900\\r\\n\\r\\n").encode())
tell(status())
"""
    began = time.monotonic()
    assert await gateway_probe(api, code) == 200
    assert time.monotonic() - began < 20


async def test_the_grant_of_a_running_neighbour_opens_nothing_by_any_header(api):
    show = "import os; os.write(1, (os.environ['CODE_EXECUTOR_GRANT'] + '\\n').encode())"
    async with held(api, show + UNTIL_ENDED) as neighbour:
        code = f"""
stolen = {neighbour.line!r}
tell([ask("/call", "{{}}", headers)[0] for headers in (
    {{"Authorization": f"Bearer {{stolen}}"}}, {{"Authorization": f"bearer  {{stolen}} "}},
    {{"Authorization": f"Bearer {{stolen}},{{GRANT}}"}}, {{"Authorization": stolen}}, {{"Authorization": ""}},
)] + [status()])
"""
        *refused, control = await gateway_probe(api, code)
    assert len(neighbour.line) > 20
    assert (refused, control) == ([401] * 5, 200)


async def test_many_executions_at_once_each_have_their_own_ledger(api):
    async def one(number):
        result = await api.python(PRELUDE + GATEWAY + f"tell([status() for _ in range({number})])")
        return len(result["toolCalls"]), json.loads(result["output"])

    answers = await asyncio.gather(*(one(number) for number in range(1, 6)))
    assert answers == [(number, [200] * number) for number in range(1, 6)]
