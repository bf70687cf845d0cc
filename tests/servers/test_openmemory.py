"""The MCP server `openmemory` with a scripted stand-in for mem0's service, at that service's own name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support import scripted_mem0
from tests.support.api import Api
from tests.support.certificates import write_certificate

SERVERS = ("openmemory",)
GIVEN = {"MEM0_API_KEY": scripted_mem0.KEY}
SERVICE = "api.mem0.ai"
STAND_IN = "mem0"
PYTHON_IMAGE = "mcp-code-executor/orchestrator:latest"
TRUSTED = "/etc/ssl/certs/ca-certificates.crt"
# This server declares its results as text, which is JSON.
TOLD = "import json\ndef told(reply):\n    return json.loads(reply['result'])\n"


@pytest.fixture(scope="module")
def stand_ins(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The server knows one address alone: so the stand-in has its name, in a network that does not reach further."""
    directory = tmp_path_factory.mktemp("mem0")
    directory.chmod(0o755)
    certificate, key = write_certificate(directory, SERVICE)
    for file in (certificate, key):
        file.chmod(0o644)
    document = {
        "services": {
            STAND_IN: {
                "image": PYTHON_IMAGE,
                "entrypoint": ["/usr/bin/python3", "-I", "/scripted_mem0.py", "/tls/certificate.pem", "/tls/key.pem"],
                "user": "10002:10002",
                "sysctls": {"net.ipv4.ip_unprivileged_port_start": "0"},
                "volumes": [f"{scripted_mem0.__file__}:/scripted_mem0.py:ro", f"{directory}:/tls:ro"],
                "networks": {"openmemory": {"aliases": [SERVICE]}},
            },
            "mcp-openmemory": {"volumes": [f"{certificate}:{TRUSTED}:ro"]},
        },
        "networks": {"openmemory": {"internal": True}},
    }
    file = directory / "stand-in.json"
    file.write_text(json.dumps(document))
    return [file]


async def printed(api: Api, program: str) -> object:
    result = await api.python(f"{TOLD}{program}")
    assert result["outcome"] == "completed", result["stderr"]
    return json.loads(result["output"])


async def test_a_memory_is_added_and_found_by_a_later_execution(api: Api) -> None:
    add = """
from servers.openmemory import add_memory
for fact in ("Ada likes green tea", "Grace sails on Sundays"):
    add_memory(text=fact, user_id="team")
print(json.dumps("added"))
"""
    search = """
from servers.openmemory import search_memories
found = told(search_memories(query="who drinks tea?", filters={"user_id": "team"}))
print(json.dumps([each["memory"] for each in found["results"]]))
"""
    assert await printed(api, add) == "added"
    assert await printed(api, search) == ["Ada likes green tea"]


async def test_one_user_does_not_find_what_another_has_added(api: Api) -> None:
    program = """
from servers.openmemory import add_memory, search_memories
add_memory(text="the door code is 1234", user_id="ada")
found = {user: told(search_memories(query="door code", filters={"user_id": user})) for user in ("ada", "eve")}
print(json.dumps({user: len(memories["results"]) for user, memories in found.items()}))
"""
    assert await printed(api, program) == {"ada": 1, "eve": 0}


async def test_a_memory_is_read_changed_listed_and_deleted(api: Api) -> None:
    program = """
from servers.openmemory import add_memory, delete_memory, get_memories, get_memory, update_memory
number = told(add_memory(text="the office opens at nine", user_id="office"))["results"][0]["id"]
update_memory(memory_id=number, text="the office opens at ten")
changed = told(get_memory(memory_id=number))["memory"]
listed = [each["memory"] for each in told(get_memories(filters={"user_id": "office"}))["results"]]
delete_memory(memory_id=number)
left = told(get_memories(filters={"user_id": "office"}))["count"]
print(json.dumps([changed, listed, left]))
"""
    assert await printed(api, program) == ["the office opens at ten", ["the office opens at ten"], 0]
