"""The scripted model must see what a client sends: without that, no test here could fail."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import aiohttp
import pytest

from tests.clients.conversation import dead_end
from tests.clients.programs import PICTURE
from tests.clients.scripted_model.anthropic import AnthropicMessages
from tests.clients.scripted_model.gemini import Gemini
from tests.clients.scripted_model.openai_chat import OpenAIChat
from tests.clients.scripted_model.openai_responses import OpenAIResponses
from tests.clients.scripted_model.script import Call, Dialect, ListedTool, Say
from tests.clients.scripted_model.server import scripted_model

ENCODED = b64encode(PICTURE).decode()
URL = f"data:image/png;base64,{ENCODED}"
CALL = {"name": "x__execute_code", "arguments": "{}"}
PARAMETERS = {"properties": {"limit": {"type": "number"}}, "required": ["limit"]}

# The same in each dialect: a question, a call, and after it a text twice, a picture and a link.
CONVERSATIONS: list[tuple[Dialect, dict[str, Any]]] = [
    (
        OpenAIChat(),
        {
            "tools": [{"type": "function", "function": {"name": "x__execute_code", "parameters": PARAMETERS}}],
            "messages": [
                {"role": "user", "content": "question"},
                {"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": CALL}]},
                {"role": "tool", "tool_call_id": "1", "content": "told"},
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "told"},
                        {"type": "image_url", "image_url": {"url": URL}},
                        {"type": "file", "file": {}},
                    ],
                },
            ],
        },
    ),
    (
        OpenAIResponses(),
        {
            "tools": [
                {
                    "type": "namespace",
                    "name": "x",
                    "tools": [{"type": "function", "name": "execute_code", "parameters": PARAMETERS}],
                }
            ],
            "input": [
                {"role": "user", "content": "question"},
                {"type": "function_call", "call_id": "1", **CALL},
                {"type": "function_call_output", "call_id": "1", "output": "told"},
                {
                    "role": "user",
                    "content": [
                        {"type": "input_text", "text": "told"},
                        {"type": "input_image", "image_url": URL},
                        {"type": "input_file", "file_url": "execution://1"},
                    ],
                },
            ],
        },
    ),
    (
        AnthropicMessages(),
        {
            "tools": [{"name": "mcp__x__execute_code", "input_schema": PARAMETERS}],
            "messages": [
                {"role": "user", "content": "question"},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "x", "input": {}}]},
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "tool_result",
                            "tool_use_id": "1",
                            "content": [
                                {"type": "text", "text": "told"},
                                {
                                    "type": "image",
                                    "source": {"type": "base64", "media_type": "image/png", "data": ENCODED},
                                },
                            ],
                        },
                        {"type": "text", "text": "told"},
                        {"type": "document"},
                    ],
                },
            ],
        },
    ),
    (
        Gemini(),
        {
            "tools": [
                {"functionDeclarations": [{"name": "mcp_x_execute_code", "parametersJsonSchema": PARAMETERS}]},
            ],
            "contents": [
                {"role": "user", "parts": [{"text": "question"}]},
                {"role": "model", "parts": [{"functionCall": {"name": "x", "args": {}}}]},
                {
                    "role": "user",
                    "parts": [
                        {"functionResponse": {"name": "x", "response": {"output": "told"}}},
                        {"text": "told"},
                        {"inlineData": {"mimeType": "image/png", "data": ENCODED}},
                        {"fileData": {"fileUri": "execution://1"}},
                    ],
                },
            ],
        },
    ),
]


@pytest.mark.parametrize(("dialect", "body"), CONVERSATIONS, ids=lambda value: type(value).__name__)
def test_what_came_after_the_call_is_seen_in_each_dialect(dialect, body):
    asked = dialect.read(body)
    assert asked.calls == 1
    assert asked.offers("execute_code") is not None
    assert asked.sent.texts == ["told", "told"]
    assert [picture.data for picture in asked.sent.pictures] == [PICTURE]
    assert len(asked.sent.others) == 1


def test_what_a_client_calls_required_is_given():
    tool = ListedTool("execute_code", PARAMETERS)
    assert set(tool.completed({"code": "1"})) == {"code", "limit"}


async def test_requests_that_do_not_offer_the_tool_leave_the_script_alone():
    async with scripted_model(Call({"code": "1"}), Say("done")) as model, aiohttp.ClientSession() as session:
        body = {"messages": [{"role": "user", "content": "a title, please"}]}
        async with session.post(f"{model.url}/v1/chat/completions", json=body) as response:
            assert (await response.json())["choices"][0]["message"]["content"] == "ok"
    assert model.turns == []


async def test_an_attempt_to_leave_this_machine_is_noted():
    attempts: list[str] = []
    async with dead_end(attempts) as proxy_url, aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.ClientError):
            await session.get("http://elsewhere.example/", proxy=proxy_url)
    assert set(attempts) == {"GET http://elsewhere.example/ HTTP/1.1"}  # aiohttp tries twice
