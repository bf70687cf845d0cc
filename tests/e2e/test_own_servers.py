"""Servers of the user's own: real packages of npm and PyPI, added to a whole stack that runs beside any other here."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest

PROJECT = Path(__file__).resolve().parents[2]
# The first test waits for the stack to come up and for the packages to be fetched.
pytestmark = pytest.mark.timeout(600)
NPM_SERVER = "@modelcontextprotocol/server-everything@2026.8.31"
PYPI_SERVER = "mcp-server-time==2026.10.19"
TOKEN = f"token-{secrets.token_hex(12)}"
HEADER = f"header-{secrets.token_hex(12)}"
# All at once: a name that nobody knows is looked for for ten seconds.
PROBE = """
import socket, sys
from concurrent.futures import ThreadPoolExecutor
def reached(place):
    try:
        socket.create_connection(place.rsplit(":", 1), timeout=2)
    except OSError:
        return None
    return place
with ThreadPoolExecutor(32) as threads:
    print(*filter(None, threads.map(reached, sys.argv[1:])))
"""
INTRUSION = """
import os
done = []
def attempt(what, action):
    try:
        action()
        done.append(what)
    except OSError:
        pass
attempt("write to the root", lambda: open("/app/owned", "w"))
attempt("write to the settings", lambda: open("/config/owned", "w"))
attempt("become root", lambda: os.setuid(0))
attempt("give a file away", lambda: (open("/tmp/file", "w").close(), os.chown("/tmp/file", 0, 0)))
attempt("mount", lambda: os.stat("/var/run/docker.sock"))
attempt("see the launcher", lambda: os.stat("/run/launcher"))
attempt("see tokens", lambda: os.listdir("/etc/code-executor"))
attempt("write to its own room", lambda: open("/tmp/mine", "w"))
print(os.getuid(), sorted(done))
"""


@dataclass(frozen=True, slots=True)
class Place:
    """A copy of the project with a daemon of its own."""

    path: Path
    prefix: str
    environment: dict[str, str]
    npm: str
    pypi: str
    far: str

    def run(self, *command: str, given: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self.path,
            env=os.environ | self.environment | environment,
            input=given,
            capture_output=True,
            text=True,
            timeout=300,
        )

    def servers(self, *arguments: str, given: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
        return self.run(sys.executable, "-m", "orchestrator", "servers", *arguments, given=given, **environment)

    def must(self, *command: str, given: str = "", **environment: str) -> str:
        ended = self.run(*command, given=given, **environment)
        assert ended.returncode == 0, f"{command}: {ended.stdout}\n{ended.stderr}"
        return ended.stdout

    def execute(self, code: str) -> str:
        return self.must(sys.executable, "-m", "orchestrator", "run", "-", "--language", "python", given=code)

    def container(self, server: str) -> str:
        return f"{self.prefix}mcp-own-{server}"

    @property
    def daemon(self) -> str:
        return f"{self.prefix}mcp-code-executor"

    def inside(self, server: str, program: str, *arguments: str) -> str:
        return self.must("docker", "exec", "-i", self.container(server), "python3", "-", *arguments, given=program)

    def inspect(self, *containers: str) -> Any:
        return json.loads(self.must("docker", "inspect", *containers))

    def address(self, container: str) -> str:
        networks = self.inspect(container)[0]["NetworkSettings"]["Networks"]
        return str(next(network["IPAddress"] for network in networks.values()))

    def left_on_the_engine(self) -> str:
        """What carries one of our names: containers, networks and images."""
        listings = (
            self.must("docker", "ps", "--all", "--format", "{{.Names}}"),
            self.must("docker", "network", "ls", "--format", "{{.Name}}"),
            self.must("docker", "image", "ls", "--format", "{{.Repository}}"),
        )
        names = (self.npm, self.pypi, self.far)
        return "\n".join(line for text in listings for line in text.splitlines() if line.endswith(names))


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def copy_of_project(into: Path) -> None:
    for name in ("orchestrator", "deploy", "scripts"):
        shutil.copytree(PROJECT / name, into / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("compose.yaml", "roles.json"):
        shutil.copy(PROJECT / name, into / name)
    (into / ".venv").symlink_to(PROJECT / ".venv")
    (into / ".build").mkdir()
    shutil.copy(PROJECT / ".build" / "base-image", into / ".build" / "base-image")
    for name in ("node", "stack-packages"):
        (into / ".build" / name).symlink_to(PROJECT / ".build" / name)


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    if not (PROJECT / ".build" / "stack" / "services").exists():
        pytest.fail("The stack is not prepared: 'make test' does it, or run 'make stack' first.")
    # Beside what was built, on the same file system: images are staged with hard links.
    path = Path(tempfile.mkdtemp(prefix="test-own-", dir=PROJECT / ".build"))
    path.chmod(0o755)
    mark = secrets.token_hex(3)
    prefix = f"test-{mark}-"
    environment = {
        "STACK": "0",
        "PROFILES": "filesystem",
        "STACK_PREFIX": prefix,
        "CODE_EXECUTOR_PUBLISH": f"127.0.0.1:{free_port()}",
        "CODE_EXECUTOR_SECRETS_DIR": str(path / "secrets"),
        "CODE_EXECUTOR_SERVERS_DIR": str(path / "servers.d"),
        "CODE_EXECUTOR_ROLES_FILE": str(path / "roles.json"),
        "CODE_EXECUTOR_CHECK_SECONDS": "1",
        "CODE_EXECUTOR_WARM_FLOOR": "0",
    }
    made = Place(path, prefix, environment, f"npm-{mark}", f"pypi-{mark}", f"far-{mark}")
    try:
        copy_of_project(path)
        made.must(str(PROJECT / "scripts" / "stack.sh"), "own-base")
        made.must("scripts/stack.sh")
        made.must("scripts/up.sh")
        yield made
    finally:
        for name in (made.npm, made.pypi, made.far):
            made.servers("remove", name)
        made.run("scripts/down.sh")
        volumes = [f"{prefix}mcp-code-executor-{name}" for name in ("data", "launcher", "workspace", "memory")]
        made.run("docker", "volume", "rm", "--force", *volumes)
        shutil.rmtree(path)


@pytest.fixture(scope="module")
def added(place: Place) -> Place:
    """Three servers: from npm, from PyPI and at an address."""
    started = place.inspect(place.daemon)[0]["State"]["StartedAt"]
    npm = place.servers(
        "add", place.npm, "--env", "EVERYTHING_TOKEN", "--", "npx", "-y", NPM_SERVER, EVERYTHING_TOKEN=TOKEN
    )
    assert npm.returncode == 0, npm.stderr
    assert "13 tools" in npm.stdout
    assert f'not seen by: developer. To change that, add "{place.npm}"' in npm.stdout
    pypi = place.servers("add", place.pypi, "--", "uvx", PYPI_SERVER, "--local-timezone", "UTC")
    assert pypi.returncode == 0, pypi.stderr
    url = "http://mcp-filesystem:9090/servers/filesystem/mcp"
    far = place.servers("add", place.far, "--url", url, "--header", "Authorization", given=f"{HEADER}\n")
    assert far.returncode == 0, far.stderr
    # All of that without a restart: a program that runs meanwhile goes on.
    assert place.inspect(place.daemon)[0]["State"]["StartedAt"] == started
    return place


def module_of(server: str) -> str:
    return server.replace("-", "_")


def test_a_program_calls_the_tools_of_all_of_them(added: Place) -> None:
    program = f"""
from servers.{module_of(added.npm)} import echo
from servers.{module_of(added.pypi)} import get_current_time
from servers.{module_of(added.far)} import list_allowed_directories
print(echo(message="hello"))
print(get_current_time(timezone="Europe/Berlin")["timezone"])
print(list_allowed_directories())
"""
    assert added.execute(program).splitlines()[:2] == ["Echo: hello", "Europe/Berlin"]


def test_each_lists_its_tools_with_their_cost(added: Place) -> None:
    told = json.loads(added.servers("test", added.pypi, "--json").stdout)
    assert (told["connected"], [tool["name"] for tool in told["tools"]]) == (True, ["get_current_time", "convert_time"])
    assert all(tool["tokens"] > 50 for tool in told["tools"])
    listed = {row["name"]: row for row in json.loads(added.servers("list", "--json").stdout)}
    assert {listed[name]["state"] for name in (added.npm, added.pypi, added.far, "filesystem")} == {"connected"}
    assert listed[added.npm]["network"] == "none"


def test_a_server_reaches_neither_another_nor_the_internet_nor_this_machine(added: Place) -> None:
    own = f"{added.address(added.container(added.npm))}:9090"
    neighbour = f"{added.address(added.container(added.pypi))}:9090"
    files = f"{added.address(f'{added.prefix}mcp-filesystem')}:9090"
    with socket.create_server(("0.0.0.0", 0)) as on_this_machine:
        port = on_this_machine.getsockname()[1]
        gateways = json.loads(added.must("docker", "network", "inspect", added.container(added.npm), "bridge"))
        # An engine does not say the gateway of every network; unless it does, it is the first address.
        subnets = [config for network in gateways for config in network["IPAM"]["Config"]]
        machine = [f"{each.get('Gateway') or next(ip_network(each['Subnet']).hosts())}:{port}" for each in subnets]
        names = ["mcp-filesystem:9090", f"mcp-own-{added.pypi}:9090", "example.com:443", "example.org:443"]
        tried = [own, neighbour, files, *names, "1.1.1.1:53", *machine]
        assert added.inside(added.npm, PROBE, *tried).split() == [own]
        # The probe sees what there is to see: from where there is a way.
        files_alone = f"{added.prefix}mcp-filesystem"
        seen = added.must("docker", "exec", "-i", files_alone, "python3", "-", files, given=PROBE)
        assert seen.split() == [files]


def test_a_server_is_locked_into_its_container(added: Place) -> None:
    user, done = added.inside(added.npm, INTRUSION).split(" ", 1)
    assert int(user) in range(11001, 12000)
    assert done.strip() == "['write to its own room']"
    for container in added.inspect(added.container(added.npm), added.container(added.pypi)):
        host = container["HostConfig"]
        assert host["ReadonlyRootfs"] is True
        assert host["CapDrop"] == ["ALL"]
        assert host["SecurityOpt"] == ["no-new-privileges:true"]
        assert (host["PidsLimit"], host["Memory"], host["MemorySwap"]) == (512, 1024**3, 1024**3)
        assert host["NanoCpus"] == 10**9
        assert container["Mounts"] == []
        assert len(container["NetworkSettings"]["Networks"]) == 1
    users = {each["Config"]["User"] for each in added.inspect(added.container(added.npm), added.container(added.pypi))}
    assert len(users) == 2


def test_tokens_are_in_no_entry_no_log_and_no_other_container(added: Place) -> None:
    everything = added.execute(f"from servers.{module_of(added.npm)} import get_env; print(get_env())")
    assert f"'EVERYTHING_TOKEN': '{TOKEN}'" in everything  # the server itself has it
    assert HEADER not in everything
    files = [file for part in ("servers.d", ".build") for file in (added.path / part).rglob("*") if file.is_file()]
    written = [file.name for file in files if any(token.encode() in file.read_bytes() for token in (TOKEN, HEADER))]
    assert written == []
    running = added.must("docker", "ps", "--all", "--quiet", "--filter", f"name={added.prefix}").split()
    holders = [each["Name"] for each in added.inspect(*running) if TOKEN in json.dumps(each)]
    assert holders == [f"/{added.container(added.npm)}"]
    assert not [each["Name"] for each in added.inspect(*running) if HEADER in json.dumps(each)]
    for container in running:
        log = added.run("docker", "logs", container)
        assert TOKEN not in log.stdout + log.stderr
        assert HEADER not in log.stdout + log.stderr
    kept = added.path / "secrets" / "own"
    assert kept.stat().st_mode & 0o077 == 0


def test_adding_the_same_again_changes_nothing_and_another_is_refused(added: Place) -> None:
    before = (added.path / "servers.d" / f"{added.pypi}.json").read_text()
    again = added.servers("add", added.pypi, "--", "uvx", "mcp-server-time", "--local-timezone", "UTC")
    assert again.returncode == 0, again.stderr
    assert "resolving" not in again.stdout
    assert (added.path / "servers.d" / f"{added.pypi}.json").read_text() == before
    other = added.servers("add", added.pypi, "--", "uvx", "some-other-server")
    assert (other.returncode, "Add --replace" in other.stderr) == (64, True)


def test_what_cannot_be_fetched_leaves_nothing(added: Place) -> None:
    failed = added.servers(
        "add", "no-such", "--env", "KEY=value", "--", "npx", "-y", "@modelcontextprotocol/no-such@1.0.0"
    )
    assert failed.returncode == 1
    assert "Check the name and the version of the package" in failed.stderr
    assert [path.name for path in added.path.rglob("*no-such*")] == []
    assert not list((added.path / "secrets").rglob("NO_SUCH*"))


def test_starting_the_stack_again_keeps_them(added: Place) -> None:
    ids = [each["Id"] for each in added.inspect(added.daemon, added.container(added.npm))]
    added.must("scripts/stack.sh")
    added.must("scripts/up.sh")
    assert [each["Id"] for each in added.inspect(added.daemon, added.container(added.npm))] == ids
    assert json.loads(added.servers("test", added.npm, "--json").stdout)["connected"]


def test_removing_them_leaves_nothing(added: Place) -> None:
    for name in (added.npm, added.pypi, added.far):
        assert added.servers("remove", name).returncode == 0
    assert "nothing was removed" in added.servers("remove", added.npm).stdout
    assert added.left_on_the_engine() == ""
    assert list((added.path / "servers.d").iterdir()) == []
    assert not [file for file in (added.path / "secrets" / "own").rglob("*") if file.is_file()]
    assert not (added.path / ".build" / "stack" / "own.yaml").exists()
    assert list((added.path / ".build" / "own").iterdir()) == []
