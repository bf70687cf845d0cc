"""Programs are checked in their sandbox before their first tool call: on the real engine, with an upstream."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.api import Api, eventually
from tests.support.installation import PROJECT, Installation
from tests.support.mcp_clients import MODERN, http_client
from tests.support.upstream_server import ScriptedProxy, serving, tool

NOTE = {
    "type": "object",
    "properties": {"text": {"type": "string"}, "times": {"type": "integer"}},
    "required": ["text"],
    "additionalProperties": False,
}
EXIT_REJECTED = 65

IMPORT = {
    "python": "from servers.notes import write\n",
    "typescript": "import { write } from '/workspace/servers/notes/index.js';\n",
}
RIGHT = {
    "python": IMPORT["python"] + "write(text='a')\nprint('done')\n",
    "typescript": IMPORT["typescript"] + "await write({ text: 'a' });\nconsole.log('done');\n",
}
# The mistake stands after a call that is right.
WRONG = {
    "python": IMPORT["python"] + "write(text='a')\nwrite(txt='b')\n",
    "typescript": IMPORT["typescript"] + "await write({ text: 'a' });\nawait write({ txt: 'b' });\n",
}
TOLD = "`write` has no argument `txt`. Did you mean `text`? Usage: write("
in_both_languages = pytest.mark.parametrize("language", IMPORT)


@dataclass(frozen=True)
class Place:
    api: Api
    installation: Installation
    proxy: ScriptedProxy

    @property
    def calls(self) -> int:
        return self.proxy.count("tools/call")

    async def execute(self, code: str, language: str, **more: Any) -> dict[str, Any]:
        status, result = await self.api.post("/execute", {"code": code, "language": language, **more})
        assert status == 200, result
        return dict(result)


@pytest.fixture(scope="module")
async def place(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Place]:
    directory = tmp_path_factory.mktemp("checks")
    proxy = ScriptedProxy("notes")
    proxy.tools["notes"] = [tool("write", inputSchema=NOTE)]
    async with serving(proxy.app()) as upstream:
        (directory / "servers.json").write_text(json.dumps({"mcpServers": {"notes": {"url": f"{upstream}/notes/mcp"}}}))
        installation = Installation.create(directory, servers_file=directory / "servers.json")
        async with installation.run() as api:

            async def has_tools() -> bool:
                return bool((await api.get("/health"))[1]["totalTools"])

            await eventually(has_tools)
            yield Place(api, installation, proxy)


@in_both_languages
async def test_a_right_program_runs(place, language):
    before = place.calls
    result = await place.execute(RIGHT[language], language)
    assert (result["outcome"], result["output"]) == ("completed", "done\n"), result
    assert (place.calls - before, result["mistakes"]) == (1, [])


@in_both_languages
async def test_a_wrong_program_is_rejected_before_its_first_call(place, language):
    before = place.calls
    result = await place.execute(WRONG[language], language)
    assert result["outcome"] == "rejected", result
    assert result["toolCalls"] == []
    assert place.calls == before
    (mistake,) = result["mistakes"]
    assert mistake["line"] == 3
    assert mistake["message"].startswith(TOLD)


@in_both_languages
@pytest.mark.parametrize("check", ["warn", "off"])
async def test_without_strictness_the_call_is_made(place, language, check):
    """The control: without the verdict, the first call of the same program reaches the server."""
    before = place.calls
    result = await place.execute(WRONG[language], language, check=check)
    assert (result["outcome"], place.calls - before) == ("failed", 1), result
    assert [mistake["line"] for mistake in result["mistakes"]] == ([3] if check == "warn" else [])


@in_both_languages
async def test_a_warning_is_not_told_if_the_program_did_well(place, language):
    caught = {
        "python": IMPORT["python"]
        + "write(text='a')\ntry:\n    write(txt='b')\nexcept Exception:\n    print('caught')\n",
        "typescript": IMPORT["typescript"] + "await write({ text: 'a' });\n"
        "try { await write({ txt: 'b' }); } catch { console.log('caught'); }\n",
    }
    result = await place.execute(caught[language], language, check="warn")
    assert (result["outcome"], result["output"], result["mistakes"]) == ("completed", "caught\n", []), result


@pytest.mark.parametrize(
    ("language", "code"),
    [("python", "print(1)\nprint(undefined_name)"), ("typescript", "console.log(1);\nundefined_name;")],
)
async def test_a_program_without_tools_is_not_checked(place, language, code):
    result = await place.execute(code, language)
    assert (result["outcome"], result["output"], result["mistakes"]) == ("failed", "1\n", []), result


@pytest.mark.parametrize(
    ("language", "code"),
    [
        ("python", "import os; os._exit(0)  # servers\nprint(undefined_name)"),
        ("typescript", "process.exit(0); // servers\nundefined_name;"),
    ],
)
async def test_a_program_that_ended_before_the_verdict_has_ended(place, language, code):
    result = await place.execute(code, language)
    assert (result["outcome"], result["exitCode"], result["mistakes"]) == ("completed", 0, []), result


@pytest.mark.parametrize(
    ("language", "code", "told"),
    [
        ("python", IMPORT["python"] + "write(text='a'\n", "This is not Python 3.11: '(' was never closed."),
        ("typescript", IMPORT["typescript"] + "const x = ;\n", "This is not TypeScript: Expression expected."),
        ("typescript", RIGHT["python"], 'This looks like Python: set language to "python".'),
        ("python", RIGHT["typescript"], 'This looks like TypeScript: set language to "typescript".'),
    ],
)
async def test_what_does_not_parse_calls_nothing_and_is_explained(place, language, code, told):
    before = place.calls
    result = await place.execute(code, language)
    assert (result["outcome"], result["toolCalls"], place.calls - before) == ("rejected", [], 0), result
    assert [mistake["message"] for mistake in result["mistakes"]] == [told]


async def test_a_package_that_is_not_there_is_told_before_the_first_call(place):
    before = place.calls
    result = await place.execute(IMPORT["python"] + "write(text='a')\nimport requests, pandas\n", "python")
    assert (result["outcome"], place.calls - before) == ("rejected", 0), result
    told = "There is no package `requests` in the sandbox, and none can be installed."
    assert [(mistake["line"], mistake["message"]) for mistake in result["mistakes"]] == [(3, told)]


@in_both_languages
async def test_calls_at_the_same_time_all_wait(place, language):
    many = {
        "python": IMPORT["python"] + "from concurrent.futures import ThreadPoolExecutor\n"
        "with ThreadPoolExecutor(10) as pool: list(pool.map(lambda n: write(text=str(n)), range(10)))\n"
        "undefined_name\n",
        "typescript": IMPORT["typescript"]
        + "await Promise.all([...Array(10).keys()].map((n) => write({ text: String(n) })));\nundefinedName;\n",
    }
    before = place.calls
    result = await place.execute(many[language], language)
    assert (result["outcome"], result["toolCalls"], place.calls - before) == ("rejected", [], 0), result


async def test_the_journal_keeps_the_mistakes(place):
    result = await place.execute(WRONG["python"], "python")
    _, record = await place.api.get(f"/executions/{result['executionId']}")
    assert (record["outcome"], record["toolCalls"]) == ("rejected", [])
    assert record["mistakes"] == result["mistakes"]


async def test_the_event_stream_tells_the_mistakes(place):
    events = [event async for event in place.api.stream(WRONG["python"], "python")]
    name, result = events[-1]
    assert (name, result["outcome"], result["mistakes"][0]["line"]) == ("result", "rejected", 3)
    assert [event for event, _ in events if event == "tool_call"] == []


@in_both_languages
async def test_a_model_reads_the_mistakes_and_how_the_tool_is_called(place, language):
    async with http_client(place.api.url, place.installation.keys["admin"], MODERN) as client:
        result = await client.call_tool("execute_code", {"code": WRONG[language], "language": language})
    said = "\n".join(part.text for part in result.content if part.type == "text")
    assert result.is_error
    assert f"line 3: {TOLD}" in said, said
    assert "rejected" in said


async def test_a_model_can_turn_the_check_off(place):
    before = place.calls
    async with http_client(place.api.url, place.installation.keys["admin"], MODERN) as client:
        code = {"code": WRONG["python"], "language": "python", "check": "off"}
        await client.call_tool("execute_code", code)
    assert place.calls == before + 1


async def test_the_command_prints_the_mistakes_and_ends_with_65(place, tmp_path: Path):
    file = tmp_path / "program.py"
    file.write_text(WRONG["python"])
    environment = {
        **os.environ,
        "CODE_EXECUTOR_URL": place.api.url,
        "CODE_EXECUTOR_KEY": place.installation.keys["admin"],
    }
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "orchestrator", "run", str(file)),
        env=environment,
        cwd=PROJECT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(60):
        output, errors = await process.communicate()
    assert (process.returncode, output) == (EXIT_REJECTED, b"")
    # The terminal may break lines.
    assert TOLD in " ".join(errors.decode().split()), errors


async def test_only_three_checks_exist(place):
    status, problem = await place.api.post("/execute", {"code": "1", "language": "python", "check": "sometimes"})
    assert (status, problem["code"]) == (422, "invalid_request")
