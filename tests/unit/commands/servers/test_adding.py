"""Adding and removing, with a machine that does as it is told instead of npm and an engine."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from typer.testing import CliRunner

from orchestrator.commands.servers import report, servers_app
from orchestrator.commands.servers.adding import Yard
from orchestrator.commands.servers.entries import BadEntry, Network, Options, ServersDirectory
from orchestrator.commands.servers.host import ContainerState, Host, HostFailed
from orchestrator.commands.servers.tokens import TokenFiles, Tokens
from orchestrator.commands.servers.trial import ToolCost, Trial, fixes
from orchestrator.commands.servers.wishes import Address, Wish, read_wish

PINNED = {"version": "1.2.3", "integrity": "sha512-x"}


@dataclass(frozen=True, slots=True)
class StandInHost(Host):
    """Remembers what it was asked to do, fetches a package that is made up, and fails where it is told to."""

    done: list[str] = field(default_factory=list)
    fails: dict[str, BaseException] = field(default_factory=dict)

    def script(self, *arguments: str) -> None:
        verb, *rest = arguments
        self.done.append(verb)
        if verb in self.fails:
            raise self.fails[verb]
        match verb, rest:
            case "lock", [directory]:
                wish = json.loads((Path(directory) / "package.json").read_text())["dependencies"]
                (name,) = wish
                packages = {"": {"dependencies": wish}, f"node_modules/{name}": PINNED}
                (Path(directory) / "package-lock.json").write_text(json.dumps({"packages": packages}))
            case "fetch", [_, target]:
                place = Path(target) / "node_modules" / "some-server"
                place.mkdir(parents=True)
                (place / "package.json").write_text('{"bin": "index.js"}')
                (place / "index.js").touch()
            case "remove", [name]:
                shutil.rmtree(self.fetched(name), ignore_errors=True)

    def daemon_runs(self) -> bool:
        return True


class Fixture:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.machine = StandInHost(path)
        (path / ".build" / "own").mkdir(parents=True)
        self.yard = Yard(ServersDirectory(path / "servers.d"), TokenFiles(path / "secrets"), self.machine)

    def files(self) -> dict[str, str]:
        found = [file for part in ("servers.d", "secrets", ".build") for file in (self.path / part).rglob("*")]
        return {str(file.relative_to(self.path)): file.read_text() for file in found if file.is_file()}

    def add(self, *command: str, replace_it: bool = False, env: tuple[str, ...] = (), name: str = "mine") -> None:
        self.yard.add(wish(*command, env=env, name=name), replace_it=replace_it)


def wish(*command: str, env: tuple[str, ...] = (), name: str = "mine", network: Network = Network.NONE) -> Wish:
    words = list(command or ("npx", "-y", "some-server@1.2.3"))
    return read_wish(name, Options(), url=None, sse=False, headers=[], command=words, env=list(env), network=network)


@pytest.fixture
def place(tmp_path: Path) -> Fixture:
    return Fixture(tmp_path)


def test_a_package_is_locked_checked_fetched_and_only_then_started(place: Fixture):
    place.add(env=("KEY=value",))
    assert place.machine.done == ["lock", "fetch", "start"]
    files = place.files()
    entry = json.loads(files["servers.d/mine.json"])["mcpServers"]["mine"]
    assert entry["container"] == {
        "run": "npx -y some-server@1.2.3",
        "command": ["node", "/app/node_modules/some-server/index.js"],
        "env": {"KEY": "${MINE__KEY}"},
        "network": "none",
        "user": 11001,
    }
    assert files["secrets/own/containers/MINE__KEY"] == "value\n"
    assert "servers.d/mine/package-lock.json" in files
    assert [name for name, text in files.items() if "value" in text] == ["secrets/own/containers/MINE__KEY"]


def test_an_argument_may_name_a_token_and_holds_its_name_only(place: Fixture):
    place.add("npx", "some-server", "--token", "${KEY}", env=("KEY=value",))
    container = json.loads(place.files()["servers.d/mine.json"])["mcpServers"]["mine"]["container"]
    assert container["command"][2:] == ["--token", "${MINE__KEY}"]
    place.add("npx", "some-server", "--token", "${KEY}", env=("KEY=another",))
    assert json.loads(place.files()["servers.d/mine.json"])["mcpServers"]["mine"]["container"] == container


def test_the_newest_version_is_pinned_once_and_stays_when_it_is_added_again(place: Fixture):
    place.add("npx", "some-server")
    place.add("npx", "-y", "some-server@latest", env=())
    assert place.machine.done == ["lock", "fetch", "start", "start"]


@pytest.mark.parametrize("step", ["lock", "fetch", "start"])
@pytest.mark.parametrize("failure", [HostFailed(""), KeyboardInterrupt()])
def test_whatever_fails_or_is_interrupted_nothing_stays(place: Fixture, step: str, failure: BaseException):
    place.machine.fails[step] = failure
    with pytest.raises(type(failure)):
        place.add(env=("KEY=value",))
    assert place.files() == {}
    assert place.machine.done[-1] == ("remove" if step == "start" else step)


@pytest.mark.parametrize("step", ["lock", "fetch", "start"])
def test_a_replacement_that_fails_leaves_what_was_there(place: Fixture, step: str):
    place.add(env=("KEY=old",))
    before = {name: text for name, text in place.files().items() if not name.startswith(".build")}
    place.machine.fails[step] = HostFailed("")
    with pytest.raises(HostFailed):
        place.add("npx", "-y", "some-server@^2", "--more", env=("KEY=new", "SECOND=new"), replace_it=True)
    assert {name: text for name, text in place.files().items() if not name.startswith(".build")} == before


def test_a_package_that_cannot_replace_an_address_leaves_no_container_lock_or_token(place: Fixture):
    place.yard.add(address(MINE__KEY="old"), replace_it=False)
    before = place.files()
    place.machine.fails["start"] = HostFailed("")
    with pytest.raises(HostFailed):
        place.add(env=("KEY=new",), replace_it=True)
    assert place.files() == before
    assert place.machine.done[-1] == "remove"


def test_a_session_for_each_execution_is_refused_where_there_is_one_process_for_all():
    options = Options(session="execution")
    with pytest.raises(BadEntry, match="--session goes with --url"):
        read_wish("mine", options, url=None, sse=False, headers=[], command=["npx", "x"], env=[], network=Network.NONE)


def test_another_server_of_that_name_is_replaced_only_when_asked_for(place: Fixture):
    place.add()
    for other in (("npx", "other-server"), ("npx", "some-server@1.2.3", "--more"), ("npx", "some-server@1.2.4")):
        with pytest.raises(BadEntry, match="Add --replace"):
            place.add(*other)
    with pytest.raises(BadEntry, match="Add --replace"):
        place.add(env=("KEY=value",))
    assert place.machine.done == ["lock", "fetch", "start"]


def address(url: str = "http://far.example/mcp", **tokens: str) -> Wish:
    options = Options(host="host.docker.internal" in url)
    return Wish("mine", options, Address(url, "http", {}), Tokens(of_daemon=tokens))


def test_a_server_that_becomes_an_address_leaves_no_container_or_token(place: Fixture):
    place.add(env=("KEY=value",))
    place.yard.add(address(), replace_it=True)
    assert place.machine.done[-1] == "remove"
    assert [name for name in place.files() if not name.startswith(".build")] == ["servers.d/mine.json"]


def test_the_daemon_is_restarted_only_where_it_gets_or_loses_the_name_of_this_machine(place: Fixture):
    place.yard.add(address("http://host.docker.internal:80/mcp"), replace_it=False)
    assert place.machine.done == ["restart-daemon"]
    place.yard.add(address("http://host.docker.internal:80/mcp"), replace_it=False)
    assert place.machine.done == ["restart-daemon"]
    assert place.yard.remove("mine")
    assert place.machine.done == ["restart-daemon", "restart-daemon"]


def test_removing_what_is_not_there_does_nothing(place: Fixture):
    assert not place.yard.remove("mine")
    assert place.machine.done == []


def test_an_entry_that_is_broken_can_be_removed_and_replaced(place: Fixture):
    place.add()
    (place.path / "servers.d" / "mine.json").write_text("{")
    with pytest.raises(BadEntry, match="is not an entry of mine"):
        place.add()
    place.add(replace_it=True)
    (place.path / "servers.d" / "mine.json").write_text("{")
    assert place.yard.remove("mine")
    assert not [name for name in place.files() if name.startswith(("servers.d", "secrets"))]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "either --url or"),
        ({"url": "http://a/mcp", "command": ["npx", "x"]}, "either --url or"),
        ({"url": "http://a/mcp", "env": ["A=b"]}, "--env and --network are for servers that run here"),
        ({"url": "ftp://a/mcp"}, "must be an http or https address"),
        ({"url": "http://user:secret@a/mcp"}, "must not hold a user or a password"),
        ({"url": "http://host.docker.internal/mcp"}, "add --host"),
        ({"url": "http://a/mcp", "host": True}, "--host is for an address on this machine"),
        ({"command": ["npx", "x"], "headers": ["A: b"]}, "go with --url"),
        ({"command": ["npx", "x"], "host": True}, "only with --network internet"),
    ],
)
def test_options_that_do_not_go_together_are_told_with_what_does(options: dict, said: str):
    given = {"url": None, "sse": False, "headers": [], "command": [], "env": [], "network": Network.NONE, **options}
    host = given.pop("host", False)
    with pytest.raises(BadEntry, match=said) as refused:
        read_wish("mine", Options(host=host), **given)
    assert "secret" not in str(refused.value)


RUNNING = ContainerState("running", 0, 0)
CONTAINER = {"container": {"network": "none"}}


@pytest.mark.parametrize(
    ("entry", "problem", "container", "log", "said"),
    [
        (CONTAINER, "", None, "", "run 'make up'"),
        (CONTAINER, "", ContainerState("restarting", 3, 1), "", "restarting, after 3 restarts"),
        (CONTAINER, "", RUNNING, "Error: getaddrinfo EAI_AGAIN api.example.com", "--network internet --replace"),
        (CONTAINER, "", RUNNING, "EROFS: read-only file system, mkdir '/data'", "only /tmp is not"),
        (
            CONTAINER,
            "",
            RUNNING,
            "Error: GITHUB_TOKEN environment variable is required",
            "--env GITHUB_TOKEN --replace",
        ),
        (CONTAINER, "", RUNNING, "Uvicorn running", "It may still be starting"),
        (CONTAINER, "", RUNNING, "Error: Could not locate the bindings file.", "install script"),
        ({"url": "https://a/mcp"}, "it answers with HTTP 401", None, "", "The token is missing or wrong"),
        ({"url": "http://host.docker.internal/mcp"}, "refused", None, "", "docker0"),
        ({"url": "https://a/mcp"}, "refused", None, "", "with curl"),
        *(
            ({"url": f"http://{here}:8000/mcp"}, "refused", None, "", "http://host.docker.internal:PORT/… --host")
            for here in ("127.0.0.1", "localhost", "[::1]")
        ),
    ],
)
def test_what_is_wrong_comes_with_what_to_do(entry, problem, container, log, said):
    told = list(fixes(entry, Trial("mine", False, problem, ()), container, log))
    assert any(said in line for line in told), told


def test_a_trial_is_the_same_on_the_other_side():
    trial = Trial("mine", True, None, (ToolCost("echo", 88), ToolCost("sum", 12)))
    assert Trial.from_json(trial.to_json()) == trial
    assert trial.tokens == 100
    for nonsense in ("", "{}", "[]", "no json"):
        with pytest.raises(ValueError):  # noqa: PT011
            Trial.from_json(nonsense)


def test_what_is_said_of_a_trial_as_json_holds_no_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    TokenFiles(tmp_path).write(Tokens(of_daemon={"FAR__KEY": "s3cret-token"}))
    monkeypatch.setenv("CODE_EXECUTOR_SECRETS_DIR", str(tmp_path))
    failed = Trial("far", False, "it says: s3cret-token is wrong", ())
    monkeypatch.setattr(report, "try_it", lambda *_: failed)
    ended = CliRunner().invoke(servers_app, ["test", "far", "--json"])
    assert json.loads(ended.stdout)["problem"] == "it says: *** is wrong"
    assert ended.exit_code == 1
