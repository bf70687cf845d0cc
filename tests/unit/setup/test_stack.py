from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from deploy.stack.variables import FOR_THE_LAUNCHER
from orchestrator.settings import LAUNCHER_FIELDS
from tests.unit.setup.machine import CATCHES_INTERRUPT, PROJECT, Tree

STACK = tomllib.loads((PROJECT / "deploy" / "stack" / "servers.toml").read_text())
SERVERS, WATCHERS = STACK["servers"], STACK["watchers"]
ACCOUNT = {"GEMINI_API_KEY": "key-of-an-account"}


TABLE = (PROJECT / "docs" / "servers.md").read_text()
COMPOSE = (PROJECT / "compose.yaml").read_text()


def compose_service(name: str) -> str:
    return COMPOSE.partition(f"\n  {name}:\n")[2].partition("\n\n")[0]


def stack(tree: Tree, *arguments: str, **environment: str) -> list[str]:
    ended = tree.run(".venv/bin/python", "-m", "deploy.stack", *arguments, **environment)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.splitlines()


def settings(tree: Tree, *path: str) -> Any:
    return json.loads(tree.path.joinpath(".build", "stack", *path).read_text())


def secret(tree: Tree, name: str) -> Path:
    return tree.path / "secrets" / name


def test_filesystem_memory_and_postgres_come_without_being_asked_for(tree: Tree) -> None:
    assert stack(tree, "default") == ["filesystem", "memory", "postgres"]


def test_every_server_of_the_original_is_there() -> None:
    others = {
        "playwright",
        "minio",
        "openmemory",
        "n8n",
        "arangodb",
        "timescaledb",
        "ib",
        "tradingview",
        "gemini-image",
    }
    assert set(SERVERS) == {"filesystem", "memory", "postgres"} | others


@pytest.mark.parametrize("name", SERVERS)
def test_every_server_has_a_container_of_its_profile_that_gets_its_variables(name: str) -> None:
    service = compose_service(SERVERS[name].get("container", f"mcp-{name}"))
    assert f"profiles: [{'default' if SERVERS[name].get('default') else name}]" in service
    wanted = re.findall(r"\$\{(\w+)", json.dumps(SERVERS[name]))
    assert [variable for variable in wanted if variable not in service] == []


@pytest.mark.parametrize("name", SERVERS)
def test_every_server_is_in_the_table_for_people(name: str) -> None:
    row = next(line for line in TABLE.splitlines() if line.startswith(f"| `{name}` "))
    assert re.search(r"\*(tested in CI|tested by `make test-servers`|tested against its schemas|not tested)\*", row)
    assert [variable for variable in SERVERS[name].get("needs", ()) if f"`{variable}`" not in row] == []


def test_packages_are_pinned_with_their_digests_and_without_addresses() -> None:
    locks = sorted((PROJECT / "deploy" / "stack" / "packages").glob("*/package-lock.json"))
    assert len(locks) == 9
    for lock in locks:
        packages = json.loads(lock.read_text())["packages"]
        fetched = [entry for path, entry in packages.items() if path and not entry.get("inBundle")]
        assert all("integrity" in entry and "resolved" not in entry for entry in fetched), lock


def test_what_a_server_needs_is_started_before_it(tree: Tree) -> None:
    assert stack(tree, "services", "filesystem", "postgres", "minio") == [
        "mcp-postgres",
        "mcp-s3",
        "mcp-filesystem",
        "mcp-postgres-server",
        "mcp-minio",
    ]


def test_each_database_is_started_before_any_server(tree: Tree) -> None:
    services = stack(tree, "services", "timescaledb", "postgres")
    assert services == ["mcp-timescale", "mcp-postgres", "mcp-timescaledb", "mcp-postgres-server"]


def test_each_server_is_reached_at_its_own_container_without_a_token(tree: Tree) -> None:
    stack(tree, "write", "--proxy", "ours", "filesystem", "memory")
    assert settings(tree, "daemon", "servers.json") == {
        "mcpServers": {
            "filesystem": {"type": "http", "url": "http://mcp-filesystem:9090/servers/filesystem/mcp"},
            "memory": {"type": "http", "url": "http://mcp-memory:9090/servers/memory/mcp"},
        }
    }
    assert not secret(tree, "mcp-proxy.token").exists()


def test_a_container_has_the_settings_of_its_own_server_alone(tree: Tree) -> None:
    stack(tree, "write", "--proxy", "ours", *SERVERS, **ACCOUNT)
    containers = {name: table.get("container", f"mcp-{name}") for name, table in SERVERS.items() if "url" not in table}
    inside = {
        name: list(settings(tree, container, "config.json")["mcpServers"]) for name, container in containers.items()
    }
    assert inside == {name: [name] for name in containers}


def test_a_pulled_proxy_holds_the_servers_that_it_can_fetch_and_no_others(tree: Tree) -> None:
    services = stack(tree, "services", "--proxy", "pulled", "filesystem", "memory", "postgres", "minio")
    assert services == ["mcp-postgres", "mcp-s3", "mcp-proxy", "mcp-postgres-server", "mcp-minio"]


def test_a_pulled_proxy_asks_for_a_token_that_is_in_no_file_but_its_own(tree: Tree) -> None:
    stack(tree, "write", "--proxy", "pulled", "filesystem")
    proxy = settings(tree, "daemon", "servers.json")["proxy"]
    assert (proxy["path"], proxy["token"]) == ("/{server}/mcp", "${MCP_PROXY_TOKEN}")
    config = settings(tree, "mcp-proxy", "config.json")
    assert config["mcpProxy"]["type"] == "streamable-http"
    assert config["mcpProxy"]["options"]["authTokens"] == ["${MCP_PROXY_TOKEN}"]
    assert len(secret(tree, "mcp-proxy.token").read_text().strip()) == 64


def test_a_pulled_proxy_fetches_the_versions_that_our_image_holds(tree: Tree) -> None:
    stack(tree, "write", "--proxy", "pulled", "filesystem")
    pinned = json.loads((PROJECT / "deploy/stack/packages/mcp-filesystem/package.json").read_text())["dependencies"]
    entry = settings(tree, "mcp-proxy", "config.json")["mcpServers"]["filesystem"]
    name = "@modelcontextprotocol/server-filesystem"
    assert [entry["command"], *entry["args"]] == ["npx", "-y", f"{name}@{pinned[name]}", "/workspace"]


def test_the_daemon_is_told_whose_contents_are_lists(tree: Tree) -> None:
    stack(tree, "write", "--proxy", "ours", "memory", "postgres")
    servers = settings(tree, "daemon", "servers.json")["mcpServers"]
    assert {name: entry.get("contents") for name, entry in servers.items()} == {"memory": None, "postgres": "list"}


@pytest.mark.parametrize("kind", ["ours", "pulled"])
def test_the_daemon_is_told_which_servers_keep_a_session_for_each_execution(tree: Tree, kind: str) -> None:
    stack(tree, "write", "--proxy", kind, "postgres", "playwright")
    servers = settings(tree, "daemon", "servers.json")["mcpServers"]
    assert {name: entry.get("session") for name, entry in servers.items()} == {
        "postgres": None,
        "playwright": "execution",
    }


def test_nobody_gets_the_tool_that_runs_code_in_the_server_of_the_browser(tree: Tree) -> None:
    stack(tree, "write", "--proxy", "ours", "playwright")
    assert settings(tree, "daemon", "servers.json")["mcpServers"]["playwright"]["withhold"] == ["browser_run_code*"]


def test_a_server_beside_the_proxy_is_reached_at_its_own_container(tree: Tree) -> None:
    stack(tree, "write", "--proxy", "pulled", "minio", "playwright")
    servers = settings(tree, "daemon", "servers.json")
    assert "proxy" not in servers
    assert servers["mcpServers"]["minio"]["url"] == "http://mcp-minio:9090/servers/minio/mcp"
    assert servers["mcpServers"]["playwright"]["url"] == "http://mcp-playwright:9090/mcp"


def test_settings_hold_the_names_of_secrets_and_never_their_values(tree: Tree) -> None:
    stack(tree, "write", "--proxy", "pulled", "filesystem", "postgres", "minio", "gemini-image", **ACCOUNT)
    values = [*ACCOUNT.values(), *(path.read_text().strip() for path in (tree.path / "secrets").iterdir())]
    written = "".join(path.read_text() for path in (tree.path / ".build").rglob("*") if path.is_file())
    assert "${MCP_S3_SECRET}" in written
    assert len(values) == 5
    assert [value for value in values if value in written] == []


def test_a_secret_is_made_once_and_is_for_its_owner_and_group(tree: Tree) -> None:
    stack(tree, "write", "--proxy", "ours", "postgres")
    made = secret(tree, "mcp-postgres.password")
    first = made.read_text()
    assert made.stat().st_mode & 0o777 == 0o640
    stack(tree, "write", "--proxy", "ours", "postgres")
    assert made.read_text() == first


def test_only_the_secrets_of_enabled_servers_are_made(tree: Tree) -> None:
    stack(tree, "write", "--proxy", "ours", "filesystem", "minio")
    assert [path.name for path in (tree.path / "secrets").iterdir()] == ["mcp-s3.secret"]


def test_a_container_is_named_only_when_its_settings_are_new(tree: Tree) -> None:
    write = ("write", "--proxy", "ours")
    assert stack(tree, *write, "filesystem", "minio") == ["mcp-filesystem", "mcp-minio"]
    assert stack(tree, *write, "filesystem", "minio") == []
    assert stack(tree, *write, "filesystem", "memory", "minio") == ["mcp-memory"]


def test_a_server_without_its_account_is_left_out_with_the_variable_to_set(tree: Tree) -> None:
    ended = tree.run(".venv/bin/python", "-m", "deploy.stack", "usable", "gemini-image", "memory", "memory")
    assert ended.stdout == "memory\n"
    assert "gemini-image is left out: set GEMINI_API_KEY" in ended.stderr
    assert stack(tree, "usable", "gemini-image", **ACCOUNT) == ["gemini-image"]


def test_all_are_the_servers_that_need_no_account_and_each_other_one_is_told_with_what_it_needs(tree: Tree) -> None:
    ended = tree.run(".venv/bin/python", "-m", "deploy.stack", "usable", "filesystem", "all")
    needy = {name: table["needs"] for name, table in SERVERS.items() if table.get("needs") and "without" not in table}
    assert sorted(needy) == ["gemini-image", "ib", "openmemory"]
    assert ended.stdout.splitlines() == [name for name in SERVERS if name not in needy]
    assert ended.stderr.splitlines() == [
        f"  The server {name} is left out: set {' and '.join(needy[name])} in .env or in the environment."
        for name in SERVERS
        if name in needy
    ]


def test_n8n_is_the_one_of_the_stack_unless_another_is_named(tree: Tree) -> None:
    assert stack(tree, "services", "n8n") == ["mcp-n8n-app", "mcp-n8n"]
    stack(tree, "write", "n8n")
    own = settings(tree, "mcp-n8n", "config.json")["mcpServers"]["n8n"]["env"]
    assert (own["N8N_API_URL"], own["N8N_API_KEY"]) == ("http://mcp-n8n-app:5678", "n8n_api_${MCP_N8N_KEY}")
    elsewhere = {"N8N_API_URL": "https://n8n.example"}
    ended = tree.run(".venv/bin/python", "-m", "deploy.stack", "usable", "n8n", **elsewhere)
    assert "The server n8n is left out: set N8N_API_KEY" in ended.stderr
    elsewhere["N8N_API_KEY"] = "key-of-an-account"
    assert stack(tree, "services", "n8n", **elsewhere) == ["mcp-n8n"]
    stack(tree, "write", "n8n", **elsewhere)
    named = settings(tree, "mcp-n8n", "config.json")["mcpServers"]["n8n"]["env"]
    assert (named["N8N_API_URL"], named["N8N_API_KEY"]) == ("${N8N_API_URL}", "${N8N_API_KEY}")
    assert "WEBHOOK_SECURITY_MODE" not in named


@pytest.mark.parametrize("name", WATCHERS)
def test_what_watches_the_daemon_has_a_container_of_its_profile(name: str) -> None:
    assert f"profiles: [{name}]" in compose_service(WATCHERS[name].get("container", f"mcp-{name}"))


def test_what_watches_the_daemon_is_no_server_of_the_daemons_and_comes_only_when_it_is_asked_for(tree: Tree) -> None:
    assert not {*stack(tree, "default"), *stack(tree, "usable", "all")} & set(WATCHERS)
    assert stack(tree, "usable", "monitoring") == ["monitoring"]
    stack(tree, "write", "memory", "monitoring")
    assert list(settings(tree, "daemon", "servers.json")["mcpServers"]) == ["memory"]
    assert not (tree.path / ".build" / "stack" / "mcp-prometheus").exists()


def test_grafana_comes_with_prometheus_and_only_if_its_image_is_named(tree: Tree) -> None:
    ended = tree.run(".venv/bin/python", "-m", "deploy.stack", "usable", "grafana")
    assert ended.stdout == "monitoring\n"
    assert "grafana is left out: set MCP_GRAFANA_IMAGE" in ended.stderr
    assert stack(tree, "usable", "grafana", MCP_GRAFANA_IMAGE="mirror.invalid/grafana:12") == ["grafana", "monitoring"]
    assert stack(tree, "services", "grafana", "monitoring") == ["mcp-prometheus", "mcp-grafana"]
    assert stack(tree, "without", "mcp-grafana", "grafana", "monitoring") == ["monitoring"]


def test_the_daemon_gets_the_token_of_the_metrics_once_there_is_one_and_the_launcher_never_does(tree: Tree) -> None:
    servers = str(tree.path / "none.json")
    assert stack(tree, "daemon-env", servers) == []
    stack(tree, "write", "monitoring")
    token = secret(tree, "metrics.token").read_text().strip()
    assert len(token) == 64
    assert stack(tree, "daemon-env", servers) == [f"CODE_EXECUTOR_METRICS_TOKEN='{token}'"]
    assert stack(tree, "secrets") == [f"CODE_EXECUTOR_METRICS_TOKEN={token}"]
    assert stack(tree, "launcher-env") == []
    given = {"CODE_EXECUTOR_METRICS_TOKEN": "one-of-my-own-choice"}
    assert stack(tree, "daemon-env", servers, **given) == ["CODE_EXECUTOR_METRICS_TOKEN='one-of-my-own-choice'"]


def test_an_account_may_be_set_in_the_settings_file(tree: Tree) -> None:
    (tree.path / ".env").write_text('# accounts\nGEMINI_API_KEY="from the file"\n')
    assert stack(tree, "usable", "gemini-image") == ["gemini-image"]


def test_an_unknown_server_is_left_out_with_the_known_names(tree: Tree) -> None:
    ended = tree.run(".venv/bin/python", "-m", "deploy.stack", "usable", "playright", "memory")
    assert ended.stdout == "memory\n"
    assert "There is no server playright; there are filesystem" in ended.stderr


def test_the_daemon_gets_the_variables_that_its_servers_refer_to_and_no_others(tree: Tree) -> None:
    servers = tree.path / "servers.json"
    servers.write_text('{"mcpServers": {"a": {"url": "http://a/${PLACE:-here}", "headers": {"X": "${A_KEY}"}}}}')
    variables = {"A_KEY": "it's $HOME"}
    ended = tree.run(".venv/bin/python", "-m", "deploy.stack", "daemon-env", str(servers), **variables)
    assert ended.returncode == 1
    assert "The value of A_KEY must not contain a single quote" in ended.stderr
    assert stack(tree, "daemon-env", str(servers), A_KEY="a $b", OTHER="no") == ["A_KEY='a $b'"]


def test_the_launcher_is_told_what_it_needs_and_no_secret(tree: Tree) -> None:
    given = {"CODE_EXECUTOR_RUNTIME": "runsc", "CODE_EXECUTOR_CPUS": "2", "CODE_EXECUTOR_MATRIX_TOKEN": "s3cret"}
    ours = {"CODE_EXECUTOR_DOCKER_HOST": "unix:///elsewhere", "CODE_EXECUTOR_KEY": "s3cret", "MCP_S3_SECRET": "s3cret"}
    assert stack(tree, "launcher-env", **given, **ours) == ["CODE_EXECUTOR_CPUS='2'", "CODE_EXECUTOR_RUNTIME='runsc'"]


def test_everything_that_the_launcher_reads_is_passed_on_to_it() -> None:
    names = {f"CODE_EXECUTOR_{name.upper()}" for name in LAUNCHER_FIELDS}
    assert {name for name in names if not FOR_THE_LAUNCHER.fullmatch(name)} == {
        "CODE_EXECUTOR_DOCKER_HOST",
        "CODE_EXECUTOR_SECCOMP_FILE",
    }


def prepared(tree: Tree, docker: str, base: str = "mcp-code-executor/base") -> None:
    """A machine on which nothing can be fetched or made but what the engine gives."""
    tree.command("docker", docker)
    for name in ("npm", "mmdebstrap"):
        tree.command(name, 'echo "no such host" >&2; exit 1')
    python = tree.path / ".venv" / "bin" / "python"
    python.unlink()
    python.write_text(f'#!/bin/sh\n[ "$2" != pip ] || exit 1\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    (tree.path / ".build" / "node" / "bin").mkdir(parents=True)
    (tree.path / ".build" / "node" / "bin" / "node").touch()
    (tree.path / ".build" / "node" / "package").write_text("node\n")
    (tree.path / ".build" / "base-image").write_text(f"{base}\n")


REGISTRY = 'case "$*" in *"image inspect"*) exit 1 ;; "pull "*) exit 0 ;; *) exit 0 ;; esac'
EMPTY_REGISTRY = 'case "$*" in "pull "*) echo "not found" >&2; exit 1 ;; *) exit 0 ;; esac'


def services(tree: Tree) -> list[str]:
    return (tree.path / ".build" / "stack" / "services").read_text().splitlines()


def test_a_registry_that_answers_gives_the_database_and_the_proxy_that_was_named(tree: Tree) -> None:
    prepared(tree, REGISTRY, base="debian:bookworm-slim")
    ended = tree.run("scripts/stack.sh", MCP_PROXY_IMAGE="mirror.invalid/tbxark/mcp-proxy:1")
    assert ended.returncode == 0, ended.stderr
    assert services(tree) == ["mcp-proxy"]  # the database's server cannot be built here
    assert (tree.path / ".build" / "stack" / "compose.env").read_text().splitlines() == [
        "MCP_PROXY_IMAGE=mirror.invalid/tbxark/mcp-proxy:1",
        "MCP_POSTGRES_IMAGE=postgres:15-bookworm",
    ]
    assert settings(tree, "daemon", "servers.json")["proxy"]["path"] == "/{server}/mcp"


def test_a_proxy_that_was_not_named_is_never_pulled(tree: Tree) -> None:
    prepared(tree, REGISTRY, base="debian:bookworm-slim")
    tree.run("scripts/stack.sh")
    assert [call for call in tree.calls() if call.startswith("docker pull")] == ["docker pull postgres:15-bookworm"]


def test_without_a_registry_nothing_is_looked_for_there(tree: Tree) -> None:
    prepared(tree, EMPTY_REGISTRY)
    assert "What needs mcp-postgres is left out" in tree.run("scripts/stack.sh").stderr
    assert not [call for call in tree.calls() if call.startswith("docker pull")]


def test_a_proxy_that_cannot_be_pulled_is_replaced_by_our_own(tree: Tree) -> None:
    missing = 'case "$*" in "image inspect mirror.invalid"*) exit 1 ;; esac\n' + EMPTY_REGISTRY
    prepared(tree, missing)
    ended = tree.run("scripts/stack.sh", MCP_PROXY_IMAGE="mirror.invalid/mcp-proxy:1")
    assert "mirror.invalid/mcp-proxy:1 cannot be pulled (not found); using our own image instead." in ended.stderr
    assert "What needs mcp-filesystem is left out: fetching the packages of proxy failed." in ended.stderr


def test_what_cannot_be_built_is_left_out_with_one_sentence_and_the_rest_goes_on(tree: Tree) -> None:
    prepared(tree, REGISTRY, base="debian:bookworm-slim")
    ended = tree.run("scripts/stack.sh", PROFILES="minio,tradingview", MCP_PROXY_IMAGE="mirror.invalid/mcp-proxy:1")
    assert ended.returncode == 0
    assert "What needs mcp-tradingview is left out" in ended.stderr
    assert services(tree) == ["mcp-proxy"]
    assert settings(tree, "daemon", "servers.json")["mcpServers"] == {}


def test_grafana_is_taken_from_a_registry_with_its_dashboard_and_prometheus_is_built(tree: Tree) -> None:
    missing = 'case "$*" in "image inspect mirror.invalid"*) exit 1 ;; esac'
    prepared(tree, missing, base="debian:bookworm-slim")
    tree.run("scripts/stack.sh", STACK="0", PROFILES="grafana", MCP_GRAFANA_IMAGE="mirror.invalid/grafana:12")
    assert "docker pull mirror.invalid/grafana:12" in tree.calls()
    assert [call for call in tree.calls() if call.startswith("docker build") and "mcp-prometheus" in call]
    assert services(tree) == ["mcp-prometheus", "mcp-grafana"]
    provisioned = tree.path / ".build" / "stack" / "mcp-grafana"
    assert [file.name for file in sorted(provisioned.glob("*/*"))] == [
        "code-executor.json",
        "code-executor.yaml",
        "prometheus.yaml",
    ]


@pytest.mark.parametrize("profile", ["arangodb", ""])
def test_ctrl_c_while_an_image_is_pulled_is_not_taken_for_an_image_that_cannot_be_had(tree: Tree, profile: str) -> None:
    pulls = f'case "$*" in "image inspect"*) exit 1 ;; "pull "*) {CATCHES_INTERRUPT} ;; esac'
    prepared(tree, pulls, base="mcp-code-executor/base" if profile else "debian:bookworm-slim")
    ended = tree.interrupt("scripts/stack.sh", PROFILES=profile, STACK="0" if profile else "1")
    assert ended.returncode == 130
    assert ended.stderr == ""
    assert not (tree.path / ".build" / "stack" / "services").exists()


def test_the_stack_can_be_left_out_altogether(tree: Tree) -> None:
    prepared(tree, EMPTY_REGISTRY)
    assert tree.run("scripts/stack.sh", STACK="0").returncode == 0
    assert services(tree) == []
    assert tree.calls() == []
    assert settings(tree, "daemon", "servers.json") == {"mcpServers": {}}


def test_the_databases_server_is_left_out_where_npm_has_no_binary_of_it(tree: Tree) -> None:
    prepared(tree, f'[ "$1" != info ] || {{ echo aarch64; exit 0; }}\n{REGISTRY}', base="debian:bookworm-slim")
    ended = tree.run("scripts/stack.sh")
    assert "What needs mcp-postgres-server is left out: npm has no @toolbox-sdk/server for aarch64." in ended.stderr
