"""Tries an entry as the client would: starts what it names, fills in what it refers to, greets and lists the tools."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from os import killpg
from typing import IO, Any

from orchestrator import __version__
from orchestrator.commands.bridge import problem_text
from orchestrator.commands.connect.entries import Client
from orchestrator.commands.terminal import Json
from orchestrator.upstreams.endpoint import SESSION_HEADER, Endpoint
from orchestrator.upstreams.faults import NotJson, ResultTooLarge, RpcError, TransportFailed, Unreachable
from orchestrator.upstreams.http_client import http_client, messages_in
from orchestrator.upstreams.jsonrpc import INITIALIZE, INITIALIZED, Message, encode, is_reply, request, result_of

# What MCP's TypeScript SDK passes on to a command that it starts. Some clients pass on more, none less.
PASSED_ON = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")
HELPER_SECONDS = 10  # as Claude Code
TRIAL_SECONDS = 30  # the same, for all of it
LAST_WORDS_SECONDS = 2
LARGEST_MESSAGE_BYTES = 16 * 1024 * 1024
GREETING = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "code-executor-connect", "version": __version__},
}
REJECTED = (
    "The daemon does not know the key: it was rotated, or belongs to another installation. Run 'make up' here. If you "
    "set the key yourself, read the key file again."
)
# ${NAME} and ${NAME:-default} of Claude Code, ${env:NAME} of Cursor and VS Code, ${input:ID} of VS Code.
_REFERENCE = re.compile(r"\$\{(?P<kind>env:|input:)?(?P<name>[A-Za-z_][\w-]*)(?::-(?P<default>[^}]*))?\}")

Ask = Callable[[Message], Awaitable[Message | None]]


class NotConnected(Exception):
    """The message says what is wrong, and what to do next."""


@dataclass(frozen=True, slots=True)
class Seen:
    tools: int
    milliseconds: int

    def __str__(self) -> str:
        return f"{self.tools} tool{'' if self.tools == 1 else 's'}, {self.milliseconds} ms"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the client would find: its environment, and the key that a person would type if it asks for one."""

    environment: Mapping[str, str]
    typed_key: Callable[[], str]

    @property
    def passed_on(self) -> dict[str, str]:
        return {name: self.environment[name] for name in PASSED_ON if name in self.environment}


async def try_entry(client: Client, entry: Json, surroundings: Surroundings) -> Seen:
    """Connect as the client would and return what it would see; raise NotConnected."""
    began = time.perf_counter()
    try:
        async with asyncio.timeout(TRIAL_SECONDS):
            if "command" in entry:
                conversation = _over_stdio(entry, surroundings.passed_on)
            else:
                conversation = _over_http(entry["url"], await _headers(client, entry, surroundings))
            async with conversation as ask:
                tools = await _list_tools(ask)
    except TimeoutError:
        raise NotConnected(
            f"There was no answer within {TRIAL_SECONDS} s. 'make doctor' finds what is wrong."
        ) from None
    return Seen(tools, round((time.perf_counter() - began) * 1000))


async def _list_tools(ask: Ask) -> int:
    try:
        for message in (request(0, INITIALIZE, GREETING), INITIALIZED):
            reply = await ask(message)
            if reply is not None:
                result_of(reply)
        listed = result_of(await ask(request(1, "tools/list", {})) or {})
    except RpcError as error:
        raise NotConnected(REJECTED if error.message.endswith("(unauthenticated)") else error.message) from error
    tools = listed.get("tools")
    return len(tools) if isinstance(tools, list) else 0


@asynccontextmanager
async def _over_http(url: str, headers: Mapping[str, str]) -> AsyncIterator[Ask]:
    async with http_client(connect_seconds=TRIAL_SECONDS) as http:
        endpoint = Endpoint(http, url, headers)

        async def ask(message: Message) -> Message | None:
            async with endpoint.post(message) as response:
                endpoint.session_id = response.headers.get(SESSION_HEADER, endpoint.session_id)
                async for reply in messages_in(response, LARGEST_MESSAGE_BYTES):
                    if "jsonrpc" not in reply:
                        unknown_key = reply.get("code") == "unauthenticated"
                        raise NotConnected(REJECTED if unknown_key else problem_text(response.status, reply))
                    if is_reply(reply):
                        if message["method"] == INITIALIZE:
                            endpoint.version = result_of(reply).get("protocolVersion")
                        return reply
            return None

        try:
            yield ask
        except Unreachable as error:
            raise NotConnected(f"No daemon answers at {url}. Start it with 'make up'.") from error
        except (NotJson, ResultTooLarge) as error:
            raise NotConnected(
                f"Something other than the daemon answers at {url}. Set CODE_EXECUTOR_URL to where the daemon is."
            ) from error
        except TransportFailed as error:
            raise NotConnected(f"The connection to {url} fails: {error.problem}. 'make logs' may say why.") from error
        if endpoint.session_id is not None:
            with suppress(TransportFailed):
                await endpoint.end_session()


async def _headers(client: Client, entry: Json, surroundings: Surroundings) -> dict[str, str]:
    """Return what the client would send with each request."""
    if "headersHelper" in entry:
        return await _headers_of_helper(entry["headersHelper"], surroundings.passed_on)
    if "bearer_token_env_var" in entry:
        name = entry["bearer_token_env_var"]
        return {"Authorization": f"Bearer {_variable(client, name, None, surroundings.environment)}"}
    given: dict[str, str] = entry.get("headers") or entry.get("http_headers") or {}

    def filled_in(reference: re.Match[str]) -> str:
        if reference["kind"] == "input:":
            return surroundings.typed_key()
        return _variable(client, reference["name"], reference["default"], surroundings.environment)

    return {name: _REFERENCE.sub(filled_in, value) for name, value in given.items()}


def _variable(client: Client, name: str, default: str | None, environment: Mapping[str, str]) -> str:
    value = environment.get(name, default)
    if value:
        return value
    raise NotConnected(
        f"{client.product} reads the key from the variable {name}, which is not set here. In the shell that starts "
        f"{client.product}, run 'export {name}=$(cat KEYFILE)' with your key file in secrets/, then run this again."
    )


async def _headers_of_helper(command: str, environment: Mapping[str, str]) -> dict[str, str]:
    helper = await asyncio.create_subprocess_shell(
        command,
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(HELPER_SECONDS):
            printed, complaint = await helper.communicate()
    except TimeoutError:
        with suppress(ProcessLookupError):
            killpg(helper.pid, signal.SIGKILL)
        await helper.wait()
        raise NotConnected(f"'{command}' gave no key within {HELPER_SECONDS} s.") from None
    if helper.returncode:
        raise NotConnected(_last_words(complaint, command, helper.returncode))
    try:
        headers: dict[str, str] = json.loads(printed)
    except ValueError:
        raise NotConnected(f"'{command}' printed no JSON. Restore scripts/mcp-wrapper.sh.") from None
    return headers


@asynccontextmanager
async def _over_stdio(entry: Json, environment: Mapping[str, str]) -> AsyncIterator[Ask]:
    command = entry["command"]
    # A file, because a pipe that nobody reads would stop a server that complains at length.
    with tempfile.TemporaryFile() as complaints:
        try:
            server = await asyncio.create_subprocess_exec(
                command,
                *entry.get("args", []),
                env={**environment, **entry.get("env", {})},
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=complaints,
                limit=LARGEST_MESSAGE_BYTES,
                start_new_session=True,
            )
        except OSError as error:
            raise NotConnected(
                f"{command} cannot be started: {error.strerror}. Restore it, or run 'make up'."
            ) from error
        try:
            yield lambda message: _ask_server(server, message, command, complaints)
        except NotJson as error:
            raise NotConnected(f"{command} does not speak MCP. Restore it, then run this again.") from error
        finally:
            await _end(server)


async def _ask_server(
    server: asyncio.subprocess.Process, message: Message, command: str, complaints: IO[bytes]
) -> Message | None:
    assert server.stdin is not None and server.stdout is not None  # noqa: S101 PT018
    with suppress(ConnectionError):  # that it has ended is told when its answer is awaited
        server.stdin.write(encode(message) + b"\n")
        await server.stdin.drain()
    while "id" in message:
        line = await server.stdout.readline()
        if not line:
            code = await server.wait()
            complaints.seek(0)
            raise NotConnected(_last_words(complaints.read(), command, code))
        with suppress(ValueError):
            reply: Any = json.loads(line)
            if isinstance(reply, dict) and reply.get("id") == message["id"]:
                return reply
    return None


async def _end(server: asyncio.subprocess.Process) -> None:
    """Close its stdin, which is how a client says goodbye, and end what does not listen."""
    assert server.stdin is not None  # noqa: S101
    server.stdin.close()
    try:
        async with asyncio.timeout(LAST_WORDS_SECONDS):
            await server.wait()
    except TimeoutError:
        with suppress(ProcessLookupError):
            killpg(server.pid, signal.SIGKILL)
        await server.wait()


def _last_words(complaint: bytes, command: str, exit_code: int) -> str:
    """Return what a command said before it failed; ours ends in what to do."""
    lines = complaint.decode(errors="replace").strip().splitlines()
    said = lines[-1].removeprefix("mcp-wrapper: ").removeprefix("code-executor: ") if lines else ""
    return said or f"'{command}' ended with exit code {exit_code} and said nothing. 'make doctor' finds what is wrong."
