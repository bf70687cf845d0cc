"""The address under which clients find the model."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

from tests.clients.scripted_model.anthropic import AnthropicMessages
from tests.clients.scripted_model.gemini import Gemini
from tests.clients.scripted_model.openai_chat import OpenAIChat
from tests.clients.scripted_model.openai_responses import OpenAIResponses
from tests.clients.scripted_model.script import Answer, Asked, Call, CallOf, Dialect, Say
from tests.support.upstream_server import serving

MAX_REQUEST_BYTES = 64 * 1024**2


@dataclass
class ScriptedModel:
    """Answers a conversation with as many calls as it holds by the script's line of that number."""

    script: Sequence[Call | Say]
    url: str = ""
    turns: list[Asked] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)  # addresses that the model does not have

    def asked_after(self, calls: int) -> Asked | None:
        """The first request that holds so many calls; clients may repeat a request."""
        return next((turn for turn in self.turns if turn.calls == calls), None)

    def answer(self, asked: Asked) -> Answer:
        """Clients also ask for titles, summaries and the like; such requests do not offer our tools."""
        line = self.script[min(asked.calls, len(self.script) - 1)]
        wanted = line.tool if isinstance(line, Call) else "execute_code"
        tool = asked.offers(wanted)
        if tool is None:
            return Say("ok")
        self.turns.append(asked)
        if isinstance(line, Call):
            return CallOf(tool, tool.completed(line.arguments))
        # smolagents accepts an answer as a call only.
        final = asked.offers("final_answer")
        return CallOf(final, {"answer": line.text}) if final else line


@asynccontextmanager
async def scripted_model(*script: Call | Say) -> AsyncIterator[ScriptedModel]:
    model = ScriptedModel(script)
    app = web.Application(client_max_size=MAX_REQUEST_BYTES)
    app.router.add_post("/v1/chat/completions", _handler(model, OpenAIChat()))
    app.router.add_post("/v1/responses", _handler(model, OpenAIResponses()))
    app.router.add_post("/v1/messages", _handler(model, AnthropicMessages()))
    app.router.add_post("/{version}/models/{model}:generateContent", _handler(model, Gemini()))
    app.router.add_post("/{version}/models/{model}:streamGenerateContent", _handler(model, Gemini()))

    async def elsewhere(request: web.Request) -> web.Response:
        model.elsewhere.append(f"{request.method} {request.path}")
        return web.json_response({"error": {"message": "There is no such address.", "code": 404}}, status=404)

    app.router.add_route("*", "/{path:.*}", elsewhere)
    async with serving(app) as url:
        model.url = url
        yield model


def _handler(model: ScriptedModel, dialect: Dialect) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def handle(request: web.Request) -> web.StreamResponse:
        asked = dialect.read(await request.json())
        answer = model.answer(asked)
        if not asked.wants_stream and ":stream" not in request.path:
            return web.json_response(dialect.whole(answer))
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for piece in dialect.events(answer):
            await response.write(piece.encode())
        await response.write_eof()
        return response

    return handle
