"""What the user asks for, read from the options; the values of tokens are taken out of it at once."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

import typer

from orchestrator.commands.servers.entries import BadEntry, Network, Options
from orchestrator.commands.servers.packages import Launch, parse
from orchestrator.commands.servers.tokens import (
    REFERENCE,
    BadToken,
    Tokens,
    Wallet,
    environment_of,
    headers_of,
)
from orchestrator.commands.terminal import err, plain
from orchestrator.upstreams.servers_file import HOST


@dataclass(frozen=True, slots=True)
class Address:
    """A server that runs already."""

    url: str
    kind: str
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Program:
    """A server that runs here, in a container."""

    launch: Launch
    arguments: tuple[str, ...]  # with references to tokens
    env: Mapping[str, str]
    network: Network


@dataclass(frozen=True, slots=True)
class Wish:
    name: str
    options: Options
    server: Address | Program
    tokens: Tokens


def read_wish(
    name: str,
    options: Options,
    *,
    url: str | None,
    sse: bool,
    headers: list[str],
    command: list[str],
    env: list[str],
    network: Network,
) -> Wish:
    """Put the options together, or raise BadEntry, BadToken or NotRunnable with what to do instead."""
    if (url is None) == (not command):
        raise BadEntry("Give either --url or, after --, what runs the server. 'servers add --help' has examples.")
    wallet = Wallet(name, os.environ, _ask)
    if url is not None:
        if env or network is not Network.NONE:
            raise BadEntry("--env and --network are for servers that run here; with --url there is --header.")
        _check_url(url, options)
        address = Address(wallet.refer(url), "sse" if sse else "http", headers_of(wallet, headers))
        wish = Wish(name, options, address, Tokens(of_daemon=wallet.values))
    else:
        if headers or sse:
            raise BadEntry("--header and --sse go with --url; a server that runs here gets its tokens with --env.")
        if options.session is not None:
            raise BadEntry(
                "--session goes with --url: a server that runs here is one process, whose state all executions share."
            )
        if options.host and network is not Network.INTERNET:
            raise BadEntry(f"A container reaches {HOST} only with --network internet.")
        launch, variables = parse(command), environment_of(wallet, env)
        program = Program(launch, _with_references(launch.arguments, variables), variables, network)
        wish = Wish(name, options, program, Tokens(of_container=wallet.values))
    for word in wallet.given_openly:
        instead = f"--env {word}" if url is None else f"--header '{word}: ${{VARIABLE}}'"
        err.print(
            plain(
                f"The value of {word} is now in your shell's history, and the list of processes showed it. Next time "
                f"set a variable and write {instead}, or leave the value out and be asked for it."
            )
        )
    return wish


def _check_url(url: str, options: Options) -> None:
    try:
        parts = urlsplit(REFERENCE.sub("x", url))
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or any(character.isspace() or not character.isprintable() for character in url):
        raise BadEntry("--url must be an http or https address.")
    if parts.username or parts.password:
        raise BadEntry("--url must not hold a user or a password. Send them with --header 'Authorization: Basic …'.")
    if parts.hostname == HOST and not options.host:
        raise BadEntry(f"{HOST} is this machine: add --host if the daemon may call a server on it.")
    if options.host and parts.hostname != HOST:
        raise BadEntry(f"--host is for an address on this machine: http://{HOST}:PORT/….")
    if parts.query and not REFERENCE.search(url):
        err.print(plain("What follows ? in the address is written to the entry; write a secret in it as ${NAME}."))


def _with_references(arguments: tuple[str, ...], env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the arguments with ${KEY} as the reference to the token of that name."""
    for key in REFERENCE.findall(" ".join(arguments)):
        if key not in env:
            raise BadToken(f"${{{key}}} in an argument needs --env {key}.")
    return tuple(REFERENCE.sub(lambda found: env[found[1]], word) for word in arguments)


def _ask(word: str) -> str:
    """Ask for a value where somebody can answer; otherwise take the next line of standard input."""
    if sys.stdin.isatty():
        return str(typer.prompt(f"Value of {word}", hide_input=True, err=True))
    line = sys.stdin.readline()
    if not line.strip():
        raise BadToken(f"{word} is not set in the environment, and standard input has no value for it.")
    return line
