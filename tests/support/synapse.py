"""A real Matrix homeserver in a directory of its own, and people on it who use it without our code."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import secrets
import socket
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp

PROJECT = Path(__file__).resolve().parents[2]
PYTHON = PROJECT / ".build" / "synapse" / "bin" / "python"
SERVER_NAME = "chat.test"
UNLIMITED = {"per_second": 10_000, "burst_count": 10_000}
Json = dict[str, Any]


class Synapse:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._secret = secrets.token_hex(16)
        self._process: asyncio.subprocess.Process | None = None
        self.port = _free_port()
        self.url = f"http://127.0.0.1:{self.port}"

    @classmethod
    @asynccontextmanager
    async def running(cls, directory: Path) -> AsyncIterator[Synapse]:
        _install()
        synapse = cls(directory)
        synapse._configure()
        await synapse.start()
        try:
            yield synapse
        finally:
            await synapse.stop()

    async def start(self) -> None:
        with (self._directory / "output.log").open("ab") as output:
            self._process = await asyncio.create_subprocess_exec(
                *self._command(), cwd=self._directory, stdout=output, stderr=output
            )
        async with asyncio.timeout(60):
            while not await self._answers():
                assert self._process.returncode is None, (self._directory / "output.log").read_text()[-4000:]
                await asyncio.sleep(0.1)

    async def stop(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.terminate()
            async with asyncio.timeout(30):
                await self._process.wait()

    async def register(self, name: str, *, admin: bool = False) -> Person:
        path = "/_synapse/admin/v1/register"
        async with aiohttp.ClientSession() as http:
            async with http.get(self.url + path) as response:
                nonce = (await response.json())["nonce"]
            password = secrets.token_hex(8)
            parts = (nonce, name, password, "admin" if admin else "notadmin")
            mac = hmac.new(self._secret.encode(), "\0".join(parts).encode(), hashlib.sha1).hexdigest()
            body = {"nonce": nonce, "username": name, "password": password, "admin": admin, "mac": mac}
            async with http.post(self.url + path, json=body) as response:
                reply = await response.json()
        return Person(self, reply["user_id"], reply["access_token"])

    async def _answers(self) -> bool:
        with suppress(aiohttp.ClientError):
            async with aiohttp.ClientSession() as http, http.get(f"{self.url}/_matrix/client/versions") as response:
                return response.status == 200
        return False

    def _command(self, *more: str) -> list[str]:
        return [str(PYTHON), "-m", "synapse.app.homeserver", "--config-path", "homeserver.yaml", *more]

    def _configure(self) -> None:
        (self._directory / "log.yaml").write_text(json.dumps({"version": 1, "root": {"level": "WARNING"}}))
        # JSON is YAML.
        (self._directory / "homeserver.yaml").write_text(json.dumps(self._configuration()))
        subprocess.run(self._command("--generate-keys"), cwd=self._directory, check=True, capture_output=True)

    def _configuration(self) -> Json:
        limits = ("rc_message", "rc_registration", "rc_joins_per_room", "rc_room_creation")
        return {
            "server_name": SERVER_NAME,
            "listeners": [
                {
                    "port": self.port,
                    "bind_addresses": ["127.0.0.1"],
                    "type": "http",
                    "tls": False,
                    "resources": [{"names": ["client"], "compress": False}],
                }
            ],
            "database": {"name": "sqlite3", "args": {"database": str(self._directory / "homeserver.db")}},
            "log_config": "log.yaml",
            "media_store_path": "media",
            "signing_key_path": "signing.key",
            "macaroon_secret_key": secrets.token_hex(16),
            "form_secret": secrets.token_hex(16),
            "registration_shared_secret": self._secret,
            "trusted_key_servers": [],
            "report_stats": False,
            **dict.fromkeys(limits, UNLIMITED),
            "rc_joins": {"local": UNLIMITED, "remote": UNLIMITED},
            "rc_invites": {"per_room": UNLIMITED, "per_user": UNLIMITED, "per_issuer": UNLIMITED},
        }


@dataclass(frozen=True)
class Person:
    synapse: Synapse
    id: str
    token: str

    async def request(self, method: str, path: str, body: Json | None = None) -> Json:
        headers = {"Authorization": f"Bearer {self.token}"}
        async with (
            aiohttp.ClientSession(headers=headers) as http,
            http.request(method, self.synapse.url + path, json=body) as response,
        ):
            reply: Json = await response.json()
            assert response.status == 200, reply
            return reply

    async def matrix(self, method: str, path: str, body: Json | None = None) -> Json:
        return await self.request(method, f"/_matrix/client/v3{path}", body)

    async def create_room(self, alias: str | None = None, *invited: Person) -> str:
        body: Json = {"invite": [person.id for person in invited], "preset": "private_chat"}
        if alias is not None:
            body["room_alias_name"] = alias
        return str((await self.matrix("POST", "/createRoom", body))["room_id"])

    async def join(self, room_id: str) -> None:
        await self.matrix("POST", f"/join/{quote(room_id)}", {})

    async def say(self, room_id: str, text: str) -> str:
        path = f"/rooms/{quote(room_id)}/send/m.room.message/{secrets.token_hex(8)}"
        return str((await self.matrix("PUT", path, {"msgtype": "m.text", "body": text}))["event_id"])

    async def hears(self, room_id: str) -> list[Json]:
        """The contents of all messages, oldest first."""
        reply = await self.matrix("GET", f"/rooms/{quote(room_id)}/messages?dir=b&limit=500")
        messages = [event["content"] for event in reply["chunk"] if event["type"] == "m.room.message"]
        return messages[::-1]

    async def texts(self, room_id: str) -> list[str]:
        return [content["body"] for content in await self.hears(room_id)]


class Relay:
    """Between us and the homeserver: passes everything on, or keeps the answers to itself."""

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self.answers_to_swallow = 0
        self.swallowed = 0
        self.url = ""
        self._connections: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Relay]:
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with server:
            yield self
            for connection in self._connections:
                connection.cancel()
            await asyncio.gather(*self._connections, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.create_task(self._serve(reader, writer))
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._target_port)
        asking = asyncio.create_task(_pass_on(reader, back))
        try:
            while answer := await there.read(65536):
                if self.swallowed < self.answers_to_swallow:
                    self.swallowed += 1
                    break
                writer.write(answer)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            asking.cancel()
            back.close()
            writer.close()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()


def _install() -> None:
    done = subprocess.run([PROJECT / "scripts" / "synapse.sh"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
