"""Results as programs of both languages get them, whatever the server writes and however large it is."""

import json

import pytest
from aiohttp import web

from tests.support.api import eventually
from tests.support.installation import Installation
from tests.support.upstream_server import ScriptedProxy, reply, serving, tool

NUMBERS = b'{"a": 1e999, "b": -1e999, "c": [NaN, Infinity, 1.5], "d": 1e308}'
FINITE = {"a": None, "b": None, "c": [None, None, 1.5], "d": 1e308}
LENGTHS = {"small": 10, "large": 300_000}
CALLS = {
    "python": (
        "import json\nfrom servers.postgres import {tool}\nfound = {tool}()\n"
        "print(len(found['pad']), json.dumps(found['numbers']))"
    ),
    "typescript": (
        "import {{ {tool} }} from '/workspace/servers/postgres/{tool}.js';\nconst found: any = await {tool}({{}});\n"
        "console.log(found.pad.length, JSON.stringify(found.numbers));"
    ),
}
FAILS = {
    "python": (
        "from servers.postgres import {tool}\nfrom servers.errors import ToolError\n"
        "try:\n    {tool}()\nexcept ToolError as error:\n    print(type(error).__name__, error)"
    ),
    "typescript": (
        "import {{ {tool} }} from '/workspace/servers/postgres/{tool}.js';\n"
        "try {{ await {tool}({{}}); }} catch (error: any) {{ console.log(error.name, error.message); }}"
    ),
}


def raw(result):
    async def answer(request, message):
        return web.Response(
            body=b'{"jsonrpc":"2.0","id":%d,"result":%s}' % (message["id"], result), content_type="application/json"
        )

    return answer


def numbers(length):
    return raw(b'{"content":[],"structuredContent":{"numbers":%s,"pad":"%s"}}' % (NUMBERS, b"x" * length))


async def broken_image(request, message):
    contents = [{"type": "image", "mimeType": "image/png", "data": "no base64!"}]
    return web.json_response(reply(message, {"content": contents}))


@pytest.fixture(scope="module")
async def api(tmp_path_factory):
    directory, proxy = tmp_path_factory.mktemp("results"), ScriptedProxy("postgres")
    proxy.behaviours |= {name: numbers(length) for name, length in LENGTHS.items()}
    proxy.behaviours["broken_image"] = broken_image
    proxy.tools["postgres"] += [tool(name) for name in proxy.behaviours]
    async with serving(proxy.app()) as url:
        servers = {"postgres": {"url": f"{url}/postgres/mcp"}}
        (directory / "servers.json").write_text(json.dumps({"mcpServers": servers}))
        place = Installation.create(directory, servers_file=directory / "servers.json")
        async with place.run() as api:
            await eventually(lambda: _listed(api), seconds=30)
            yield api


async def _listed(api):
    return (await api.get("/health"))[1]["toolsByServer"].get("postgres")


@pytest.mark.parametrize("size", LENGTHS)
@pytest.mark.parametrize("language", CALLS)
async def test_numbers_that_json_does_not_have_are_null(api, language, size):
    result = await api.execute(CALLS[language].format(tool=size), language)
    assert (result["outcome"], result["stderr"]) == ("completed", "")
    padding, _, found = result["output"].partition(" ")
    assert (int(padding), json.loads(found, parse_constant=pytest.fail)) == (LENGTHS[size], FINITE)


@pytest.mark.parametrize("language", FAILS)
async def test_an_image_that_is_no_base64_is_an_error_of_the_tool(api, language):
    result = await api.execute(FAILS[language].format(tool="broken_image"), language)
    assert result["stderr"] == ""
    expected = "ToolError postgres/broken_image: The tool returned an image whose data is not base64.\n"
    assert result["output"] == expected
