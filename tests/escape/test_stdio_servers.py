"""Servers that the daemon starts itself: what they get hold of, and what a program can make them believe."""

import json
import sys
from pathlib import Path

import pytest

from tests.support import upstream_stdio
from tests.support.api import eventually
from tests.support.daemon_process import DaemonProcess
from tests.support.installation import Installation
from tests.support.metrics import until_warm
from tests.support.programs import probe

GATEWAY = (Path(__file__).parents[1] / "support" / "gateway_client.py").read_text()


@pytest.fixture(scope="module")
async def own(tmp_path_factory):
    """A daemon as `serve` runs it, with its own event loop and launcher, that starts the sample server."""
    directory = tmp_path_factory.mktemp("stdio")
    server = {"command": sys.executable, "args": [upstream_stdio.__file__]}
    (directory / "servers.json").write_text(json.dumps({"mcpServers": {"own": server}}))
    place = Installation.create(directory, servers_file=directory / "servers.json", warm_floor=2)
    async with DaemonProcess.running(place) as daemon:
        await eventually(lambda: lists_tools(daemon.api))
        yield daemon.api


async def lists_tools(api):
    return (await api.get("/health"))[1]["toolsByServer"].get("own")


async def called(api, tool):
    result = await api.python(f"from servers.own import {tool}; import json; print(json.dumps({tool}()))")
    assert result["outcome"] == "completed", result["stderr"]
    return json.loads(result["output"])


async def test_a_server_that_is_started_beside_sandboxes_inherits_none_of_their_leashes(own):
    await until_warm(own, 2)
    await own.python("from servers.own import die; die()")  # it is started again, and then there are sandboxes
    await eventually(lambda: answers(own))
    assert await called(own, "descriptors") == []


async def answers(api):
    return (await api.python("from servers.own import echo; echo()"))["outcome"] == "completed"


SMUGGLE = """
injected = json.dumps({"jsonrpc": "2.0", "id": 1000, "method": "tools/call",
                       "params": {"name": "environment", "arguments": {}}})
pad = "x" * 5000
body = '{"server": "own", "tool": "echo", "arguments": {"pad": "%s", "a":%s%s%s}}' % (pad, BREAK, injected, BREAK)
print(json.dumps(ask("/call", body.encode())[0]))
"""


@pytest.mark.parametrize("line_break", ["\r", "\n", "\r\n", "\n\r"], ids=["CR", "LF", "CRLF", "LFCR"])
async def test_a_line_break_in_the_arguments_smuggles_no_message_to_the_server(own, line_break):
    before = await called(own, "called")
    status = await probe(own, GATEWAY + f"BREAK = {line_break!r}" + SMUGGLE)
    assert status == 200  # they are legal white space, and the call is made
    assert (await called(own, "called"))[len(before) :] == ["echo", "called"]
