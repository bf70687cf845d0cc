"""A stack that is switched to a published proxy and back: the servers' files stay, and stay writable."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.stack import touch_settings

PROJECT = Path(__file__).resolve().parents[2]
STAND_IN = Path(__file__).parent / "published_proxy"
PYTHON_IMAGE = "mcp-code-executor/orchestrator:latest"
VOLUMES = ("workspace", "memory")
OURS, ROOT = "10002:10002", "0:0"
READY_SECONDS = 120
pytestmark = pytest.mark.timeout(400)


class ToolFailed(Exception):
    pass


def run(*command: str | Path, **environment: str) -> str:
    ended = subprocess.run(command, cwd=PROJECT, env=os.environ | environment, capture_output=True, text=True)
    assert ended.returncode == 0, f"{command}: {ended.stdout} {ended.stderr}"
    return ended.stdout


def compose_command() -> list[str]:
    plugin = subprocess.run(("docker", "compose", "version"), capture_output=True)
    return ["docker", "compose"] if plugin.returncode == 0 else ["docker-compose"]


@dataclass
class Stack:
    """`filesystem` and `memory`, in our own images or in the stand-in for a published proxy."""

    directory: Path
    prefix: str
    image: str
    kind: str = ""

    def start(self, kind: str) -> None:
        """As `make up` does, without handing over the volumes."""
        if self.kind:
            run(*self._compose(), "rm", "--stop", "--force", *self._services(), **self._environment())
        command = (sys.executable, "-m", "deploy.stack", "--root", self.directory)
        own_secrets = {"CODE_EXECUTOR_SECRETS_DIR": str(self.directory / "secrets")}
        run(*command, "write", "--proxy", kind, "filesystem", "memory", **own_secrets)
        self.kind = kind
        run(*self._compose(), "up", "-d", *self._services(), **self._environment())
        deadline = time.monotonic() + READY_SECONDS
        while not self._answers():
            assert time.monotonic() < deadline, "the servers do not answer"
            time.sleep(0.2)

    def hand_over(self, owner: str) -> int:
        return int(run("scripts/volumes.sh", owner, *VOLUMES, **self._environment()))

    def call(self, server: str, tool: str, **arguments: Any) -> str:
        message = {"method": "tools/call", "params": {"name": tool, "arguments": arguments}}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, **message}).encode()
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        if self.kind == "pulled":
            headers["Authorization"] = f"Bearer {(self.directory / 'secrets' / 'mcp-proxy.token').read_text().strip()}"
        request = urllib.request.Request(self._address(server), body, headers)
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=60) as reply:
            answer = reply.read().decode()
        lines = [line.removeprefix("data:") for line in answer.splitlines() if line.startswith("data:")]
        result = json.loads("".join(lines) or answer)["result"]
        text = "\n".join(content["text"] for content in result["content"])
        if result.get("isError"):
            raise ToolFailed(text)
        return text

    def write(self, name: str, text: str) -> str:
        return self.call("filesystem", "write_file", path=f"/workspace/{name}", content=text)

    def read(self, name: str) -> str:
        return self.call("filesystem", "read_text_file", path=f"/workspace/{name}")

    def remember(self, name: str) -> None:
        entity = {"name": name, "entityType": "person", "observations": []}
        self.call("memory", "create_entities", entities=[entity])

    def remembered(self) -> set[str]:
        return {entity["name"] for entity in json.loads(self.call("memory", "read_graph"))["entities"]}

    def inside(self, program: str) -> str:
        """Run a program as root with every right, beside the volume of the files."""
        volume = f"{self.prefix}mcp-code-executor-workspace:/workspace"
        python = ("--entrypoint", "/usr/bin/python3", PYTHON_IMAGE, "-I", "-S", "-c", program)
        return run("docker", "run", "--rm", "--network", "none", "--user", "0", "--volume", volume, *python).strip()

    def remove(self) -> None:
        if self.kind:
            run(*self._compose(), "down", "--volumes", **self._environment())
        run("docker", "volume", "rm", "--force", *(f"{self.prefix}mcp-code-executor-{name}" for name in VOLUMES))
        # Compose forgets the network of a service that is no longer wanted.
        left = run("docker", "network", "ls", "--quiet", "--filter", f"name=^{self.prefix}").split()
        if left:
            run("docker", "network", "rm", *left)

    def _answers(self) -> bool:
        try:
            self.call("filesystem", "list_allowed_directories")
            self.call("memory", "read_graph")
        except (OSError, ValueError, urllib.error.HTTPError):
            return False
        return True

    def _services(self) -> list[str]:
        return ["mcp-proxy"] if self.kind == "pulled" else ["mcp-filesystem", "mcp-memory"]

    def _address(self, server: str) -> str:
        container = f"{self.prefix}{'mcp-proxy' if self.kind == 'pulled' else f'mcp-{server}'}"
        form = "{{range .NetworkSettings.Networks}}{{.IPAddress}} {{end}}"
        host = (run("docker", "inspect", "--format", form, container).split() or [""])[0]
        return (
            f"http://{host}:9090/{server}/mcp" if self.kind == "pulled" else f"http://{host}:9090/servers/{server}/mcp"
        )

    def _compose(self) -> list[str | Path]:
        networks = self.directory / ".build" / "stack" / "networks.yaml"
        files = ("-f", "compose.yaml", "-f", networks, "--project-directory", PROJECT)
        return [*compose_command(), *files, "--project-name", self.prefix.rstrip("-")]

    def _environment(self) -> dict[str, str]:
        token = self.directory / "secrets" / "mcp-proxy.token"
        return {
            "STACK_PREFIX": self.prefix,
            "STACK_DIR": str(self.directory / ".build" / "stack"),
            "MCP_PROXY_IMAGE": self.image,
            "MCP_PROXY_TOKEN": token.read_text().strip() if token.exists() else "",
        }


@pytest.fixture
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    directory = tmp_path_factory.mktemp("volumes")
    directory.chmod(0o755)
    touch_settings()
    prefix = f"test-{secrets.token_hex(4)}-"
    image = f"mcp-code-executor/stand-in-{prefix}proxy".rstrip("-")
    run("docker", "build", "--quiet", "--tag", image, STAND_IN)
    made = Stack(directory, prefix, image)
    try:
        yield made
    finally:
        made.remove()
        run("docker", "rmi", "--force", image)


def test_files_stay_and_stay_writable_when_the_stack_is_switched_to_a_published_proxy_and_back(stack: Stack) -> None:
    stack.hand_over(OURS)  # there is nothing yet, and then there are volumes
    stack.start("ours")
    stack.write("note.txt", "ours")
    stack.call("filesystem", "create_directory", path="/workspace/deep/er")
    stack.write("deep/er/note.txt", "ours")
    stack.remember("Ada")

    stack.start("pulled")
    with pytest.raises(ToolFailed, match="EACCES"):  # the control: root without capabilities may not
        stack.write("note.txt", "root")
    assert stack.hand_over(ROOT) > 0
    stack.write("note.txt", "root")
    stack.write("deep/er/new.txt", "root")
    stack.remember("Grace")
    assert (stack.read("deep/er/note.txt"), stack.remembered()) == ("ours", {"Ada", "Grace"})

    stack.start("ours")
    with pytest.raises(ToolFailed, match="EACCES"):
        stack.write("note.txt", "ours again")
    assert stack.hand_over(OURS) > 0
    assert (stack.read("note.txt"), stack.read("deep/er/new.txt")) == ("root", "root")
    stack.write("note.txt", "ours again")
    stack.write("deep/er/new.txt", "ours again")
    stack.remember("Edsger")
    assert stack.remembered() == {"Ada", "Grace", "Edsger"}
    assert stack.hand_over(OURS) == 0  # what is done is not done again


PLANT = """
import os, sys
os.chdir("/workspace")
os.makedirs("closed/inner"); os.chmod("closed", 0o700)
open("closed/inner/file", "w").close()
os.symlink("/etc/passwd", "link"); os.symlink("/etc", "links"); os.symlink("/volumes/memory", "other")
os.mkfifo("fifo"); os.link("closed/inner/file", "hard")
open(b"\\xff\\xfe\\n", "w").close()
parent = os.open(".", os.O_RDONLY)
for _ in range(1500):
    os.mkdir("d", dir_fd=parent); child = os.open("d", os.O_RDONLY, dir_fd=parent); os.close(parent); parent = child
sys.setrecursionlimit(10_000)
for _, folders, files, directory in os.fwalk("."):
    for name in (*folders, *files):
        os.chown(name, 10002, 10002, dir_fd=directory, follow_symlinks=False)
"""
OWNERS = """
import os, sys
sys.setrecursionlimit(10_000)
found = set()
for path, folders, files, directory in os.fwalk("/workspace"):
    found |= {os.stat(name, dir_fd=directory, follow_symlinks=False).st_uid for name in (*folders, *files)}
print(sorted(found), os.stat("/workspace").st_uid, os.stat("/etc/passwd").st_uid)
"""


def test_whatever_programs_left_on_a_volume_is_given_away_and_no_link_is_followed(stack: Stack) -> None:
    stack.hand_over(OURS)
    stack.inside(PLANT)
    given = stack.hand_over("1234:1234")
    assert given > 1500
    assert stack.inside(OWNERS) == "[1234] 1234 0"
    assert stack.hand_over(OURS) == given
    assert stack.inside(OWNERS) == "[10002] 10002 0"
