"""Programs that turn on the check of themselves: they gain nothing but a delay, and nobody else notices."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.api import Api, eventually
from tests.support.installation import Installation
from tests.support.upstream_server import ScriptedProxy, serving

# The supervisor waits ten seconds for a verdict; the rest is for starting, ending and a busy machine.
MOST_SECONDS = 10 + 20
MOST_MISTAKES = 8
MOST_CHARACTERS = 700

FIND = """
import os, signal, sys, threading, time
began = time.monotonic()
def checkers():
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if b"checker.py" in file.read(): yield int(pid)
        except OSError: pass
def first_checker():
    while time.monotonic() - began < 15:
        for pid in checkers(): return pid
    sys.exit("no checker was seen")
"""
CALL = """
from servers.notes import echo
echo(text="reached")
print("called", flush=True)
"""
# Surely wrong, where only a check comes.
WRONG = "def never(): return undefined_name\n"


@dataclass(frozen=True)
class Place:
    api: Api
    proxy: ScriptedProxy

    @property
    def calls(self) -> int:
        return self.proxy.count("tools/call")

    async def attack(self, code: str, timeout_seconds: float = 40) -> tuple[dict[str, Any], float]:
        began = time.monotonic()
        result = await self.api.python(code, timeout_seconds)
        return result, time.monotonic() - began


@pytest.fixture(scope="module")
async def place(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Place]:
    directory = tmp_path_factory.mktemp("checks")
    proxy = ScriptedProxy("notes")
    async with serving(proxy.app()) as upstream:
        (directory / "servers.json").write_text(json.dumps({"mcpServers": {"notes": {"url": f"{upstream}/notes/mcp"}}}))
        installation = Installation.create(directory, servers_file=directory / "servers.json")
        async with installation.run() as api:

            async def has_tools() -> bool:
                return bool((await api.get("/health"))[1]["totalTools"])

            await eventually(has_tools)
            yield Place(api, proxy)


async def test_control_the_program_is_rejected_if_it_leaves_its_check_alone(place):
    before = place.calls
    result, _ = await place.attack(FIND + "first_checker()\n" + CALL + WRONG)
    assert (result["outcome"], place.calls - before) == ("rejected", 0), result


async def test_a_check_that_is_killed_says_nothing_and_the_program_goes_on(place):
    before = place.calls
    result, seconds = await place.attack(FIND + "os.kill(first_checker(), signal.SIGKILL)\n" + CALL + WRONG)
    assert (result["outcome"], result["output"], place.calls - before) == ("completed", "called\n", 1), result
    assert seconds < MOST_SECONDS


async def test_a_check_that_is_stopped_delays_the_call_until_patience_ends(place):
    stop = "for pid in [first_checker(), *checkers()]: os.kill(pid, signal.SIGSTOP)\n"
    result, seconds = await place.attack(FIND + stop + CALL + WRONG)
    assert (result["outcome"], result["output"]) == ("completed", "called\n"), result
    assert 5 < seconds < MOST_SECONDS


async def test_a_check_that_is_starved_delays_the_call_until_patience_ends(place):
    starve = "for _ in range(40):\n    if os.fork() == 0:\n        while True: pass\n"
    end = "os.kill(0, signal.SIGKILL)\n"
    result, seconds = await place.attack(FIND + starve + CALL + end)
    assert "called" in result["output"], result
    assert seconds < MOST_SECONDS


@pytest.mark.parametrize(
    ("forged", "outcome"),
    [
        ("""b'{"mistakes": []}'""", "completed"),
        ("""b'{"mistakes": [{"line": 1, "column": 1, "message": "\\\\u001b[31mred\\\\u0007"}]}'""", "rejected"),
        ("""b'{"mistakes": [{"line": 1, "column": 1, "message": "' + b'x' * 60_000 + b'"}]}'""", "rejected"),
        ("""b'{"mistakes": [' + b'{"line": 1, "column": 1, "message": "x"},' * 1000 + b'{}]}'""", "rejected"),
        ("""b'{"mistakes": [{"line": -1, "column": 1e999, "message": null}]}'""", "completed"),
        ("b'[' * 60_000", "completed"),
        ("b'\\0' * 10", "completed"),
    ],
    ids=["none", "control characters", "long", "many", "odd", "deep", "no text"],
)
async def test_a_verdict_that_the_program_writes_itself_is_bounded_and_printable(place, forged, outcome):
    """It can speak for its check, as it could stop it: that harms only itself."""
    write = f"""
pid = first_checker()
with open(f"/proc/{{pid}}/fd/1", "wb", buffering=0) as verdict: verdict.write({forged})
os.kill(pid, signal.SIGKILL)
"""
    result, seconds = await place.attack(FIND + write + CALL)
    assert result["outcome"] == outcome, result
    assert seconds < MOST_SECONDS
    assert len(result["mistakes"]) <= MOST_MISTAKES
    for mistake in result["mistakes"]:
        assert len(mistake["message"]) <= MOST_CHARACTERS
        assert mistake["message"].isprintable()


async def test_what_is_replaced_under_the_check_harms_nobody(place):
    replace = """
import shutil
def tamper():
    while True:
        for path in ("/workspace/servers", "/workspace/main.py"):
            try:
                shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
                os.symlink("/proc/self/mem" if "main" in path else "/", path)
            except OSError: pass
from servers.notes import echo
threading.Thread(target=tamper, daemon=True).start()
first_checker()
echo(text="reached")
print("called", flush=True)
os._exit(0)
"""
    result, seconds = await place.attack(FIND + replace)
    assert result["outcome"] in ("completed", "rejected"), result
    assert seconds < MOST_SECONDS


@pytest.mark.parametrize(
    "beside",
    [
        "def bomb():\n    while True:\n        try: os.fork()\n        except OSError: pass\n"
        "if os.fork() == 0: bomb()\n",
        "if os.fork() == 0:\n    while True: os.write(1, b'x' * 65536)\n",
        "if os.fork() == 0:\n    kept = []\n    while True: kept.append(bytearray(8 << 20))\n",
    ],
    ids=["fork bomb", "flood", "memory"],
)
async def test_what_runs_wild_beside_the_check_ends_in_bounded_time(place, beside):
    result, seconds = await place.attack(FIND + beside + CALL + "os._exit(0)\n")
    assert result["outcome"] in ("completed", "failed", "rejected", "output_limit", "out_of_memory"), result
    assert seconds < MOST_SECONDS
    assert len(result["mistakes"]) <= MOST_MISTAKES


async def test_the_neighbours_of_a_stopped_check_are_checked_as_ever(place):
    stop = "for pid in [first_checker(), *checkers()]: os.kill(pid, signal.SIGSTOP)\nprint('stopped', flush=True)\n"
    attacks = [asyncio.create_task(place.attack(FIND + stop + CALL + WRONG)) for _ in range(3)]
    neighbours = [await place.attack(CALL + code) for code in ("", WRONG)]
    assert [result["outcome"] for result, _ in neighbours] == ["completed", "rejected"]
    for task in attacks:
        result, seconds = await task
        assert (result["outcome"], result["output"]) == ("completed", "stopped\ncalled\n"), result
        assert seconds < MOST_SECONDS
