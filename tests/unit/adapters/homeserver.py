"""A homeserver in memory, and one that speaks HTTP as it is told."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web

from orchestrator.adapters.matrix import MatrixHomeserver, Patience
from orchestrator.domain.chat import Member, MessagePage
from orchestrator.domain.errors import OrchestratorError, RoomNotFound
from tests.support.upstream_server import serving

QUICK = Patience(connect_seconds=2, reply_seconds=0.5, first_wait_seconds=0.01, total_seconds=3)

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class FakeHomeserver:
    def __init__(self) -> None:
        self.aliases = {"#team:x": "!team:x", "#other:x": "!other:x"}
        self.posted: list[tuple[str, str]] = []
        self.transactions: list[str] = []
        self.joined: list[str] = []
        self.asked: list[str] = []
        self.reads: list[tuple[str, int, str | None]] = []
        self.members_of_team: tuple[Member, ...] = (Member("@ann:x", "Ann"),)
        self.fault: OrchestratorError | None = None

    async def room_id(self, room: str) -> str:
        self.asked.append(room)
        if room not in self.aliases and room[0] == "#":
            raise RoomNotFound(f"The homeserver knows no room {room}.")
        return self.aliases.get(room, room)

    async def join(self, room: str) -> None:
        self.joined.append(room)

    async def send(self, room_id: str, text: str, transaction_id: str) -> str:
        self._fail()
        self.posted.append((room_id, text))
        self.transactions.append(transaction_id)
        return f"${len(self.posted)}"

    async def newest(self, room_id: str, limit: int, since: str | None) -> MessagePage:
        self._fail()
        self.reads.append(("newest", limit, since))
        return MessagePage(room_id, (), None, "s1")

    async def older(self, room_id: str, limit: int, before: str) -> MessagePage:
        self.reads.append(("older", limit, before))
        return MessagePage(room_id, (), None, None)

    async def members(self, room_id: str) -> tuple[Member, ...]:
        return self.members_of_team

    def _fail(self) -> None:
        if self.fault is not None:
            raise self.fault


class ScriptedHomeserver:
    """Gives its answers in turn, and the last one from then on."""

    def __init__(self, *answers: Answer) -> None:
        self._answers = list(answers)
        self.requests: list[str] = []
        self.queries: list[dict[str, str]] = []
        self.tokens: list[str | None] = []

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(f"{request.method} {request.raw_path.partition('?')[0]}")
        self.queries.append(dict(request.query))
        self.tokens.append(request.headers.get("Authorization"))
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        return await answer(request)

    @asynccontextmanager
    async def running(self, patience: Patience = QUICK) -> AsyncIterator[MatrixHomeserver]:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        async with serving(app) as url:
            homeserver = MatrixHomeserver(url, "token", patience)
            try:
                yield homeserver
            finally:
                await homeserver.close()


def says(body: object, status: int = 200, **headers: str) -> Answer:
    async def answer(_: web.Request) -> web.StreamResponse:
        return web.json_response(body, status=status, headers=headers)

    return answer


def refuses(status: int, code: str, words: str = "no", **more: object) -> Answer:
    return says({"errcode": code, "error": words, **more}, status)


async def hangs_up(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def greets(_: web.Request) -> web.StreamResponse:
    return web.Response(text="<html>Welcome</html>", content_type="text/html")
