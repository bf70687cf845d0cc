"""Says what the stack of MCP servers consists of, and writes the settings of its containers.

python -m deploy.stack default                      the servers that come up without being asked for
python -m deploy.stack services SERVER…             the compose services they need
python -m deploy.stack usable SERVER…               those of them that exist and have the variables they need; `all` is
                                                    every server
python -m deploy.stack without SERVICE,… SERVER…    those of them that need none of the services
python -m deploy.stack packages SERVER              the Debian packages that its image needs
python -m deploy.stack write SERVER…                the settings below .build/stack, and what is missing in secrets/;
                                                    says which containers have new settings
python -m deploy.stack networks                     NAME true|false of each network that was written: whether it
                                                    is internal
python -m deploy.stack secrets                      NAME=value of what is in secrets/, for compose
python -m deploy.stack daemon-env FILE              NAME='value' of the daemon's settings, and of what a servers.json
                                                    refers to
python -m deploy.stack launcher-env                 NAME='value' of the launcher's settings
python -m deploy.stack own                          the services of servers in servers.d that run in containers; says of
                                                    each that cannot why it is left out
python -m deploy.stack write-own SERVICE…           what they add to compose.yaml, and the settings of their proxies
python -m deploy.stack own-network SERVICE          which kind its network is
python -m deploy.stack own-members SERVICE          the containers besides its own that are on its network
services, without and write take --proxy pulled where a pulled proxy holds the servers that it can fetch.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from deploy.stack.files import write
from deploy.stack.own import OwnServer, OwnServers, compose_document, proxy_config
from deploy.stack.rendering import write_everything, written_networks
from deploy.stack.servers import Problem, ProxyKind, Stack
from deploy.stack.variables import Variables, given_in

ROOT = Path(__file__).resolve().parents[2]


def main() -> None:
    try:
        for line in run(parse(sys.argv[1:])):
            sys.stdout.write(f"{line}\n")
    except Problem as problem:
        sys.exit(str(problem))


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m deploy.stack", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--root", type=Path, default=ROOT, help="where .env, secrets/ and .build/ are")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("default")
    commands.add_parser("secrets")
    commands.add_parser("networks")
    commands.add_parser("launcher-env")
    commands.add_parser("own")
    commands.add_parser("write-own").add_argument("names", nargs="*")
    commands.add_parser("own-network").add_argument("names", nargs=1)
    commands.add_parser("own-members").add_argument("names", nargs=1)
    commands.add_parser("packages").add_argument("names", nargs=1)
    commands.add_parser("usable").add_argument("names", nargs="*")
    for name in ("services", "without", "write"):
        command = commands.add_parser(name)
        command.add_argument("--proxy", type=ProxyKind, default=argparse.SUPPRESS)
        if name == "without":
            command.add_argument("services", type=lambda text: text.split(","))
        command.add_argument("names", nargs="*")
    parser.set_defaults(proxy=ProxyKind.OURS)
    commands.add_parser("daemon-env").add_argument("file", type=Path)
    return parser.parse_args(arguments)


def run(chosen: argparse.Namespace) -> Iterable[str]:
    given = given_in(chosen.root)
    stack = Stack.read(chosen.proxy, given)
    variables = Variables.of(chosen.root, given, stack.generated)
    match chosen.command:
        case "default":
            return stack.default()
        case "daemon-env":
            return variables.lines_for_daemon(chosen.file)
        case "launcher-env":
            return variables.lines_for_launcher()
        case "networks":
            return written_networks(chosen.root / ".build" / "stack")
        case "secrets":
            return variables.secrets_for_compose()
        case "usable":
            return usable(stack, variables, chosen.names)
        case "own":
            return own_services(variables)
        case "write-own":
            return write_own(variables, chosen.names, chosen.root / ".build" / "stack")
        case "own-network":
            return [server.network.value for server in own_named(variables, chosen.names)]
        case "own-members":
            return [name for server in own_named(variables, chosen.names) for name in server.backends]
    servers = [stack.server(name) for name in chosen.names]
    match chosen.command:
        case "without":
            unwanted = set(chosen.services)
            return [server.name for server in servers if not unwanted & set(stack.services_of([server]))]
        case "services":
            return stack.services_of(servers)
        case "packages":
            return [package for server in servers for package in server.debian]
        case "write":
            return write_everything(stack, variables, chosen.proxy, servers, chosen.root / ".build" / "stack")
    return []


def usable(stack: Stack, variables: Variables, names: Iterable[str]) -> Iterator[str]:
    """Yield the servers that can run; say of each other one why it is left out."""
    for name in stack.chosen(names):
        try:
            variables.require(stack.server(name))
            yield name
        except Problem as problem:
            sys.stderr.write(f"  {problem}\n")


def own_services(variables: Variables) -> Iterator[str]:
    """Yield the services of the user's own servers; say of each that cannot run why it is left out."""
    servers, complaints = OwnServers.read(variables.servers_dir).sorted_out()
    for complaint in complaints:
        sys.stderr.write(f"  {complaint}\n")
    for server in servers:
        yield server.service


def own_named(variables: Variables, services: Iterable[str]) -> list[OwnServer]:
    wanted = set(services)
    return [server for server in OwnServers.read(variables.servers_dir).in_containers() if server.service in wanted]


def write_own(variables: Variables, services: Iterable[str], into: Path) -> Iterator[str]:
    """Write what the named services add to compose.yaml; without any, and without an entry on this machine, no file."""
    servers, own = own_named(variables, services), OwnServers.read(variables.servers_dir)
    needs_host = own.daemon_needs_host()
    for server in servers:
        write(into / server.service / "config.json", f"{json.dumps(proxy_config(server), indent=2)}\n", 0o644)
    if servers or needs_host:
        document = compose_document(servers, daemon_needs_host=needs_host)
        write(into / "own.yaml", f"{json.dumps(document, indent=2)}\n", 0o644)
    else:
        (into / "own.yaml").unlink(missing_ok=True)
    yield from ()


if __name__ == "__main__":
    main()
