"""Servers of the user's own: what they add to compose.yaml, and what the scripts do for them on a stand-in machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.setup.machine import CATCHES_INTERRUPT, PROJECT, Tree
from tests.unit.setup.test_stack import EMPTY_REGISTRY, prepared, services, stack

COMPOSE: dict[str, Any] = yaml.safe_load((PROJECT / "compose.yaml").read_text())
WITHOUT_THIS_MACHINE = {"com.docker.network.bridge.inhibit_ipv4": "true"}


def add(tree: Tree, name: str, *, user: int = 11001, network: str = "none", **more: Any) -> None:
    """Write what `code-executor servers add` writes."""
    directory = tree.path / "servers.d"
    directory.mkdir(exist_ok=True)
    env = {"KEY": f"${{{name.upper()}__KEY}}"}
    container = {
        "run": f"npx -y {name}@1",
        "command": ["node", "/app/x.js"],
        "env": env,
        "network": network,
        "user": user,
    }
    entry = {"type": "http", "url": f"http://mcp-own-{name}:9090/servers/{name}/mcp", "container": container, **more}
    (directory / f"{name}.json").write_text(json.dumps({"mcpServers": {name: entry}}))
    locks = directory / name
    locks.mkdir(exist_ok=True)
    (locks / "package.json").write_text("{}")
    (locks / "package-lock.json").write_text("{}")


def added(tree: Tree) -> dict[str, Any]:
    stack(tree, "write-own", *stack(tree, "own"))
    document: dict[str, Any] = json.loads((tree.path / ".build" / "stack" / "own.yaml").read_text())
    return document


def test_a_server_has_the_lockdown_and_the_limits_of_those_of_the_stack(tree: Tree) -> None:
    add(tree, "clock")
    service = added(tree)["services"]["mcp-own-clock"]
    common = COMPOSE["x-server"]
    assert {name: service[name] for name in common if name not in ("user", "networks")} == {
        name: value for name, value in common.items() if name not in ("user", "networks")
    }
    assert "volumes" not in service
    assert "ports" not in service
    assert "privileged" not in service


def test_each_server_is_another_user_than_any_other_and_than_the_stack(tree: Tree) -> None:
    add(tree, "one", user=11001)
    add(tree, "two", user=11002)
    users = [service["user"] for service in added(tree)["services"].values()]
    assert users == ["11001:11001", "11002:11002"]
    assert not {service["user"] for service in COMPOSE["services"].values()} & set(users)


@pytest.mark.parametrize(
    ("network", "made"),
    [
        ("none", {"internal": True, "driver_opts": WITHOUT_THIS_MACHINE}),
        ("backend", {"internal": True, "driver_opts": WITHOUT_THIS_MACHINE}),
        ("internet", {"internal": False}),
    ],
)
def test_each_server_has_a_network_of_its_own_of_the_kind_that_was_chosen(
    tree: Tree, network: str, made: dict[str, Any]
) -> None:
    add(tree, "one", network=network)
    add(tree, "two", user=11002)
    document = added(tree)
    labels = {"mcp-code-executor.network": network}
    assert document["networks"]["mcp-own-one"] == {"name": "${STACK_PREFIX:-}mcp-own-one", "labels": labels, **made}
    assert [service["networks"] for service in document["services"].values()] == [["mcp-own-one"], ["mcp-own-two"]]


def test_only_a_server_that_needs_a_backend_shares_its_network_with_the_databases(tree: Tree) -> None:
    add(tree, "one", network="backend")
    add(tree, "two", user=11002, network="internet")
    assert stack(tree, "own-members", "mcp-own-one") == ["mcp-postgres", "mcp-timescale", "mcp-s3", "mcp-arango"]
    assert stack(tree, "own-members", "mcp-own-two") == []
    assert {"mcp-postgres", "mcp-timescale", "mcp-s3", "mcp-arango"} <= set(COMPOSE["services"])


def test_a_container_gets_its_own_variables_and_no_file_has_their_values(tree: Tree) -> None:
    add(tree, "one")
    add(tree, "two", user=11002)
    tokens = tree.path / "secrets" / "own" / "containers"
    tokens.mkdir(parents=True)
    (tokens / "ONE__KEY").write_text("s3cret-of-one\n")
    (tokens / "not a variable").write_text("x")
    services = added(tree)["services"]
    assert services["mcp-own-one"]["environment"] == {"ONE__KEY": "${ONE__KEY:-}"}
    assert services["mcp-own-two"]["environment"] == {"TWO__KEY": "${TWO__KEY:-}"}
    assert stack(tree, "secrets") == ["ONE__KEY=s3cret-of-one"]
    written = "".join(path.read_text() for path in (tree.path / ".build").rglob("*") if path.is_file())
    assert "s3cret" not in written


def test_the_daemon_gets_variables_of_addresses_and_headers_and_none_of_containers(tree: Tree) -> None:
    add(tree, "one")
    entry = {"url": "http://far/${PLACE}", "headers": {"X": "${FAR_KEY}"}}
    (tree.path / "servers.d" / "far.json").write_text(json.dumps({"mcpServers": {"far": entry}}))
    given = {"FAR_KEY": "k", "PLACE": "p", "ONE__KEY": "no", "CODE_EXECUTOR_SERVERS_DIR": str(tree.path / "servers.d")}
    assert stack(tree, "daemon-env", "servers.json", **given) == ["FAR_KEY='k'", "PLACE='p'"]


def test_the_daemon_knows_this_machine_by_name_only_if_an_entry_asks_for_it(tree: Tree) -> None:
    add(tree, "one", host=True, network="internet")
    document = added(tree)
    assert "orchestrator" not in document["services"]
    assert document["services"]["mcp-own-one"]["extra_hosts"] == ["host.docker.internal:host-gateway"]
    entry = {"url": "http://host.docker.internal:80/mcp", "host": True}
    (tree.path / "servers.d" / "mine.json").write_text(json.dumps({"mcpServers": {"mine": entry}}))
    assert added(tree)["services"]["orchestrator"] == {"extra_hosts": ["host.docker.internal:host-gateway"]}


def test_without_servers_of_ones_own_nothing_is_added(tree: Tree) -> None:
    add(tree, "one")
    added(tree)
    (tree.path / "servers.d" / "one.json").unlink()
    assert stack(tree, "own") == []
    stack(tree, "write-own")
    assert not (tree.path / ".build" / "stack" / "own.yaml").exists()


def test_one_that_cannot_be_built_is_left_out_with_one_sentence_and_the_stack_goes_on(tree: Tree) -> None:
    prepared(tree, EMPTY_REGISTRY)
    add(tree, "one")
    (tree.path / "servers.d" / "broken.json").write_text("{")
    ended = tree.run("scripts/stack.sh", STACK="0")
    assert ended.returncode == 0
    assert "What needs mcp-own-one is left out" in ended.stderr
    assert "broken.json is left out" in ended.stderr
    assert services(tree) == []


def engine(tree: Tree, more: str = "") -> None:
    """An engine whose daemon runs, started here."""
    tree.command(
        "docker",
        f"""case "$*" in
{more}
"container inspect --format {{{{index"*) echo "{tree.path}" ;;
"container inspect --format {{{{json .NetworkSettings"*) echo '{{"api":1}}' ;;
"info --format"*) echo x86_64 ;;
"image inspect"*) echo "sha256:x" ;;
"ps --all --filter network="*) echo "mcp-code-executor"; echo "mcp-postgres" ;;
esac""",
    )


def changes(tree: Tree) -> list[str]:
    words = ("docker network connect", "docker network disconnect", "docker network rm", "docker rm", "docker image rm")
    return [call for call in tree.calls() if call.startswith(words)]


def test_the_daemon_and_the_databases_join_the_network_while_they_run(tree: Tree) -> None:
    engine(tree)
    add(tree, "one", network="backend")
    (tree.path / ".build" / "stack").mkdir(parents=True)
    (tree.path / ".build" / "stack" / "services").write_text("mcp-own-one\n")
    ended = tree.run("scripts/own_servers.sh", "connect")
    assert ended.returncode == 0, ended.stderr
    assert changes(tree) == [
        f"docker network connect mcp-own-one {name}"
        for name in ("mcp-code-executor", "mcp-postgres", "mcp-timescale", "mcp-s3", "mcp-arango")
    ]


def test_who_is_on_the_network_already_is_left_alone(tree: Tree) -> None:
    engine(tree, """"container inspect --format {{json .NetworkSettings"*) echo '{"mcp-own-one":1}' ;;""")
    add(tree, "one")
    (tree.path / ".build" / "stack").mkdir(parents=True)
    (tree.path / ".build" / "stack" / "services").write_text("mcp-own-one\n")
    assert tree.run("scripts/own_servers.sh", "connect").returncode == 0
    assert changes(tree) == []


@pytest.mark.parametrize(("was", "taken_away"), [("internet", True), ("none", False)])
def test_a_network_of_another_kind_than_is_wanted_is_made_anew(tree: Tree, was: str, taken_away: bool) -> None:
    engine(tree, f'"network inspect --format {{{{index .Labels"*) echo {was} ;;')
    add(tree, "one")
    (tree.path / ".build" / "stack").mkdir(parents=True)
    (tree.path / ".build" / "stack" / "services").write_text("mcp-own-one\n")
    assert tree.run("scripts/own_servers.sh", "renew").returncode == 0
    assert ("docker network rm mcp-own-one" in changes(tree)) is taken_away
    assert ("docker rm --force mcp-own-one" in changes(tree)) is taken_away


def test_removing_takes_container_network_and_image_and_what_was_built(tree: Tree) -> None:
    engine(tree)
    build = tree.path / ".build"
    for made in ("own/one", "stack/mcp-own-one", "context/mcp-own-one"):
        (build / made).mkdir(parents=True)
    (build / "stack" / "services").write_text("mcp-memory\nmcp-own-one\nmcp-own-one-more\n")
    assert tree.run("scripts/own_servers.sh", "remove", "one").returncode == 0
    assert changes(tree) == [
        "docker rm --force mcp-own-one",
        "docker network disconnect --force mcp-own-one mcp-code-executor",
        "docker network disconnect --force mcp-own-one mcp-postgres",
        "docker network rm mcp-own-one",
        "docker image rm --force mcp-code-executor/mcp-own-one",
    ]
    assert services(tree) == ["mcp-memory", "mcp-own-one-more"]
    assert not [made for made in ("own/one", "stack/mcp-own-one", "context/mcp-own-one") if (build / made).exists()]


def test_no_name_of_a_server_makes_its_image_the_one_that_all_others_are_made_from(tree: Tree) -> None:
    add(tree, "base")
    image = added(tree)["services"]["mcp-own-base"]["image"]
    assert image == "mcp-code-executor/mcp-own-base:latest"
    assert f"OWN_BASE_IMAGE={image.removesuffix(':latest')}\n" not in (tree.path / "scripts" / "stack.sh").read_text()


def test_a_command_names_no_secret_that_the_user_has_not_given_to_the_server(tree: Tree) -> None:
    add(tree, "one")
    file = tree.path / "servers.d" / "one.json"
    for variable, usable in (("ONE__KEY", ["mcp-own-one"]), ("MCP_POSTGRES_PASSWORD", [])):
        document = json.loads(file.read_text())
        document["mcpServers"]["one"]["container"]["command"] = ["node", "x.js", f"${{{variable}}}"]
        file.write_text(json.dumps(document))
        assert stack(tree, "own") == usable


def test_before_the_first_make_up_one_sentence_says_what_to_do(tree: Tree) -> None:
    engine(tree)
    add(tree, "one")
    ended = tree.run("scripts/own_servers.sh", "start", "one")
    assert ended.returncode == 1
    assert ended.stderr.strip().endswith("run 'make up' first, then run this again.")


def test_the_servers_of_another_directory_are_not_touched(tree: Tree) -> None:
    engine(tree, '"container inspect --format {{index"*) echo /somewhere/else ;;')
    ended = tree.run("scripts/own_servers.sh", "remove", "one")
    assert ended.returncode == 1
    assert "were started in /somewhere/else" in ended.stderr
    assert changes(tree) == []


def test_what_the_user_has_connected_to_a_network_does_not_keep_it_from_being_removed(tree: Tree) -> None:
    engine(tree, '"network ls --format"*) echo mcp-own-one ;;')
    assert tree.run("scripts/down.sh").returncode == 0
    assert "docker network disconnect --force mcp-own-one mcp-postgres" in changes(tree)
    assert "docker network rm mcp-own-one" in changes(tree)


def lock(tree: Tree) -> Path:
    directory = tree.path / "lock"
    directory.mkdir()
    (directory / "package.json").write_text("{}")
    return directory


def test_npm_runs_no_script_of_a_package_and_takes_nothing_from_elsewhere(tree: Tree) -> None:
    engine(tree)
    tree.command("npm", 'env | grep ^npm_config_allow | sort >>"$HOME/allowed"; touch package-lock.json')
    directory = lock(tree)
    assert tree.run("scripts/own_servers.sh", "lock", str(directory)).returncode == 0
    ended = tree.run("scripts/own_servers.sh", "fetch", str(directory), str(tree.path / "fetched"))
    assert ended.returncode == 0, ended.stderr
    calls = [call for call in tree.calls() if call.startswith("npm ")]
    assert [call.split()[1] for call in calls] == ["install", "ci"]
    assert all("--ignore-scripts" in call for call in calls)
    allowed = (tree.path / "allowed").read_text().splitlines()
    assert set(allowed) == {f"npm_config_allow_{what}=none" for what in ("directory", "file", "git", "remote")}


def test_a_package_that_cannot_be_resolved_is_told_with_the_fix(tree: Tree) -> None:
    engine(tree)
    tree.command("npm", 'echo "404 Not Found" >&2; exit 1')
    ended = tree.run("scripts/own_servers.sh", "lock", str(lock(tree)))
    assert ended.returncode == 1
    assert "404 Not Found" in ended.stderr
    assert "code-executor: resolving the packages failed. Check the name and the version" in ended.stderr


def test_ctrl_c_ends_it_at_once(tree: Tree) -> None:
    engine(tree)
    tree.command("npm", f'cd "{tree.path}"; {CATCHES_INTERRUPT}')
    ended = tree.interrupt("scripts/own_servers.sh", "lock", str(lock(tree)))
    assert ended.returncode == 130


def test_compose_takes_what_own_servers_add_and_makes_their_directories(tree: Tree) -> None:
    tree.command("docker", 'echo "$COMPOSE_FILE $CODE_EXECUTOR_SERVERS_DIR" >>seen')
    add(tree, "one")
    added(tree)
    assert tree.run("scripts/compose.sh", "ps").returncode == 0
    build = tree.path / ".build" / "stack"
    assert (tree.path / "seen").read_text().splitlines()[-1] == (
        f"compose.yaml:{build / 'networks.yaml'}:{build / 'own.yaml'} {tree.path / 'servers.d'}"
    )
    tokens = tree.path / "secrets" / "own"
    assert tokens.stat().st_mode & 0o777 == 0o700
    assert (tokens / "daemon").is_dir()


def test_the_whole_project_is_never_mounted_as_the_directory_of_servers(tree: Tree) -> None:
    tree.command("docker")
    ended = tree.run("scripts/compose.sh", "ps", CODE_EXECUTOR_SERVERS_DIR=".")
    assert ended.returncode == 1
    assert "a directory of its own" in ended.stderr
