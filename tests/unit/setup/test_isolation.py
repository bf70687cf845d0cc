"""What befalls one MCP server must not reach another: what compose.yaml and its additions give to each of them."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from typing import Any

import pytest
import yaml

from tests.unit.setup.machine import PROJECT, Tree

SERVICES: dict[str, dict[str, Any]] = yaml.safe_load((PROJECT / "compose.yaml").read_text())["services"]
DAEMON = "orchestrator"
LAUNCHER = "launcher"
ROLES = "roles"
PULLED_PROXY = "mcp-proxy"  # runs instead of the servers that it holds
SERVERS = {name: service for name, service in SERVICES.items() if name not in (DAEMON, LAUNCHER, ROLES, PULLED_PROXY)}
WITH_INTERNET = {"playwright", "openmemory", "ib", "tradingview", "gemini-image"}
REFERENCE = re.compile(r"\$\{(\w+)[^}]*\}")


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_has_limits_and_no_privileges_and_comes_back(name: str) -> None:
    service = SERVICES[name]
    assert {"mem_limit", "pids_limit"} <= set(service)
    assert service["cap_drop"] == ["ALL"]
    assert "cap_add" not in service
    assert "privileged" not in service
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["restart"] == "unless-stopped"
    assert service["logging"]["options"] == {"max-size": "10m", "max-file": "3"}


@pytest.mark.parametrize("name", [name for name in SERVICES if name != PULLED_PROXY])
def test_every_service_but_a_pulled_proxy_is_read_only(name: str) -> None:
    assert SERVICES[name]["read_only"] is True
    assert SERVICES[PULLED_PROXY]["read_only"] == "${MCP_PROXY_READ_ONLY:-false}"


@pytest.mark.parametrize("name", [name for name in SERVICES if name != DAEMON])
def test_no_server_takes_a_second_processor_or_swaps(name: str) -> None:
    assert SERVICES[name]["cpus"] == 1
    assert SERVICES[name]["memswap_limit"] == SERVICES[name]["mem_limit"]


def test_no_two_servers_share_a_volume() -> None:
    users = defaultdict(set)
    for name, service in SERVERS.items():
        for volume in service.get("volumes", ()):
            users[REFERENCE.sub("", volume).split(":")[0]].add(name)
    assert users["workspace"] == {"mcp-filesystem"}
    assert {volume: names for volume, names in users.items() if len(names) > 1} == {}


def test_a_secret_is_known_to_a_server_and_its_database_alone() -> None:
    users = defaultdict(set)
    for name, service in SERVERS.items():
        for variable in variables_of(service):
            users[variable].add(name)
    assert users["GEMINI_API_KEY"] == {"mcp-gemini-image"}
    assert {variable: names for variable, names in users.items() if len(names) > 1} == {
        "MCP_POSTGRES_PASSWORD": {"mcp-postgres", "mcp-postgres-server"},
        "MCP_TIMESCALE_PASSWORD": {"mcp-timescale", "mcp-timescaledb"},
        "MCP_N8N_KEY": {"mcp-n8n", "mcp-n8n-app"},
        "MCP_S3_SECRET": {"mcp-s3", "mcp-minio"},
        "MCP_ARANGO_PASSWORD": {"mcp-arango", "mcp-arangodb"},
    }


def test_the_engines_socket_is_the_launchers_alone() -> None:
    holders = {
        name for name, service in SERVICES.items() if "docker.sock" in str(service) or "DOCKER_GID" in str(service)
    }
    assert holders == {LAUNCHER}


def test_the_launcher_has_no_network_and_is_another_user_than_the_daemon() -> None:
    launcher, daemon = SERVICES[LAUNCHER], SERVICES[DAEMON]
    assert (launcher["network_mode"], launcher.get("networks"), launcher.get("ports")) == ("none", None, None)
    (user, group), (other, others_group) = launcher["user"].split(":"), daemon["user"].split(":")
    assert user not in ("0", other)
    assert group == others_group  # of the launcher's socket


def test_the_launcher_and_the_daemon_share_the_launchers_socket_and_nothing_else() -> None:
    def places(name: str) -> set[str]:
        return {volume.rpartition("}:")[0] or volume.split(":")[0] for volume in SERVICES[name]["volumes"]}

    assert places(LAUNCHER) & places(DAEMON) == {LAUNCHER}
    assert "launcher:/run/launcher:ro" in SERVICES[DAEMON]["volumes"]
    assert SERVICES[LAUNCHER]["env_file"] != SERVICES[DAEMON]["env_file"]


def test_only_who_hands_on_the_roles_sees_their_directory_and_has_no_network_and_no_secret() -> None:
    assert {name for name, service in SERVICES.items() if "ROLES_FILE_DIRECTORY" in str(service)} == {ROLES}
    service = SERVICES[ROLES]
    assert (service["network_mode"], service.get("networks"), service.get("ports")) == ("none", None, None)
    assert {"env_file", "environment", "group_add"} & set(service) == set()
    assert service["volumes"] == ["${ROLES_FILE_DIRECTORY:-.}:/source:ro", "roles:/run/roles"]
    assert "roles:/etc/code-executor/roles:ro" in SERVICES[DAEMON]["volumes"]
    users = [SERVICES[name]["user"].split(":") for name in (DAEMON, LAUNCHER)]
    assert not {*service["user"].split(":")} & {"0", *(number for user in users for number in user)}


def test_nobody_else_sees_the_projects_directory() -> None:
    """Only `roles` may: what faces others sees directories of its own, and of secrets/ the hashes at most."""
    here = [volume for name, service in SERVICES.items() if name != ROLES for volume in service.get("volumes", ())]
    assert [volume for volume in here if re.match(r"(\.|\$\{\w+:-\.\}):", volume)] == []


def variables_of(service: dict[str, Any]) -> set[str]:
    given = service.get("environment", {})
    if isinstance(given, list):
        return set(given)
    return {variable for name, value in given.items() for variable in (REFERENCE.findall(value) if value else [name])}


def networks(tree: Tree, kind: str, *servers: str, **variables: str) -> dict[str, Any]:
    ended = tree.run(".venv/bin/python", "-m", "deploy.stack", "write", "--proxy", kind, *servers, **variables)
    assert ended.returncode == 0, ended.stderr
    added: dict[str, Any] = json.loads((tree.path / ".build" / "stack" / "networks.yaml").read_text())
    return added


def members(added: dict[str, Any]) -> dict[str, set[str]]:
    found = defaultdict(set)
    for service, addition in added["services"].items():
        for network in addition["networks"]:
            found[network].add(service)
    return dict(found)


def test_on_the_network_of_a_server_are_the_daemon_and_its_database_and_nobody_else(tree: Tree) -> None:
    alone = ("playwright", "openmemory", "ib", "tradingview", "gemini-image", "filesystem", "memory")
    added = networks(tree, "ours", *alone, "postgres", "timescaledb", "minio", "arangodb", "n8n")
    assert members(added) == {name: {DAEMON, f"mcp-{name}"} for name in alone} | {
        "postgres": {DAEMON, "mcp-postgres-server", "mcp-postgres"},
        "timescaledb": {DAEMON, "mcp-timescaledb", "mcp-timescale"},
        "minio": {DAEMON, "mcp-minio", "mcp-s3"},
        "arangodb": {DAEMON, "mcp-arangodb", "mcp-arango"},
        "n8n": {DAEMON, "mcp-n8n", "mcp-n8n-app"},
    }
    assert {name for name, network in added["networks"].items() if not network["internal"]} == WITH_INTERNET


def test_the_server_of_an_n8n_elsewhere_reaches_the_internet_and_the_one_of_the_stack_does_not_come_up(
    tree: Tree,
) -> None:
    added = networks(tree, "ours", "n8n", N8N_API_URL="https://n8n.example", N8N_API_KEY="key-of-an-account")
    assert members(added) == {"n8n": {DAEMON, "mcp-n8n"}}
    assert added["networks"]["n8n"]["internal"] is False


def test_what_watches_the_daemon_shares_a_network_with_it_alone_and_grafana_does_not_see_it(tree: Tree) -> None:
    added = networks(tree, "ours", "memory", "monitoring", "grafana")
    assert members(added) == {
        "memory": {DAEMON, "mcp-memory"},
        "monitoring": {DAEMON, "mcp-prometheus"},
        "grafana": {"mcp-grafana", "mcp-prometheus"},
    }
    for name in ("monitoring", "grafana"):  # published, so not internal, but with no way to the internet
        assert added["networks"][name]["internal"] is False
        assert added["networks"][name]["driver_opts"] == {"com.docker.network.bridge.enable_ip_masquerade": "false"}


def test_only_the_daemon_and_what_watches_it_are_published_and_on_this_machine_alone() -> None:
    published = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    assert published == {
        DAEMON: ["${CODE_EXECUTOR_PUBLISH:-127.0.0.1:9091}:9091"],
        "mcp-prometheus": ["${MCP_PROMETHEUS_PUBLISH:-127.0.0.1:9092}:9090"],
        "mcp-grafana": ["${MCP_GRAFANA_PUBLISH:-127.0.0.1:9093}:3000"],
    }


def test_no_server_is_on_a_network_that_all_of_them_share() -> None:
    assert {name for name, service in SERVICES.items() if service.get("networks")} == {DAEMON}
    assert SERVICES[DAEMON]["networks"] == ["api"]


def test_only_the_networks_of_enabled_servers_are_made(tree: Tree) -> None:
    assert members(networks(tree, "ours", "memory")) == {"memory": {DAEMON, "mcp-memory"}}
    assert networks(tree, "ours") == {"services": {DAEMON: {"networks": []}}, "networks": {}}


def test_a_pulled_proxy_shares_its_network_with_the_daemon_alone(tree: Tree) -> None:
    added = networks(tree, "pulled", "filesystem", "memory", "postgres", "minio")
    assert members(added) == {
        "proxy": {DAEMON, PULLED_PROXY},
        "postgres": {DAEMON, "mcp-postgres-server", "mcp-postgres"},
        "minio": {DAEMON, "mcp-minio", "mcp-s3"},
    }
    assert added["networks"]["proxy"]["internal"] is False
