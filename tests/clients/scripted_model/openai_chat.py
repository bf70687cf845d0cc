"""OpenAI's Chat Completions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.clients.scripted_model.script import (
    TOKENS_IN,
    TOKENS_OUT,
    Answer,
    Asked,
    ListedTool,
    Picture,
    Say,
    Sent,
    event,
    new_id,
    parts,
)

USAGE = {"prompt_tokens": TOKENS_IN, "completion_tokens": TOKENS_OUT, "total_tokens": TOKENS_IN + TOKENS_OUT}


class OpenAIChat:
    def read(self, body: dict[str, Any]) -> Asked:
        messages = body["messages"]
        # Some clients tell of earlier calls in text; until its last answer the scripted model does nothing but call.
        calling = [place for place, message in enumerate(messages) if message["role"] == "assistant"]
        sent = Sent()
        for message in messages[calling[-1] + 1 :] if calling else messages:
            for part in parts(message.get("content")):
                match part["type"]:
                    case "text":
                        sent.texts.append(part["text"])
                    case "image_url":
                        sent.pictures.append(Picture.of_data_url(part["image_url"]["url"]))
                    case other:
                        sent.others.append(other)
        return Asked(
            tools=tuple(_tool(tool["function"]) for tool in body.get("tools") or ()),
            calls=len(calling),
            sent=sent,
            wants_stream=bool(body.get("stream")),
            body=body,
        )

    def whole(self, answer: Answer) -> dict[str, Any]:
        choice = {"index": 0, "message": _message(answer), "finish_reason": _reason(answer), "logprobs": None}
        return {**_frame("chat.completion"), "choices": [choice], "usage": USAGE}

    def events(self, answer: Answer) -> Iterator[str]:
        chunk = _frame("chat.completion.chunk")
        message = _message(answer)
        for place, call in enumerate(message.get("tool_calls") or ()):
            call["index"] = place
        yield event({**chunk, "choices": [{"index": 0, "delta": message, "finish_reason": None}]})
        yield event({**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": _reason(answer)}], "usage": USAGE})
        yield event("[DONE]")


def _tool(function: dict[str, Any]) -> ListedTool:
    return ListedTool(function["name"], function.get("parameters") or {})


def _frame(kind: str) -> dict[str, Any]:
    return {"id": new_id("chatcmpl"), "object": kind, "created": 1, "model": "scripted"}


def _reason(answer: Answer) -> str:
    return "stop" if isinstance(answer, Say) else "tool_calls"


def _message(answer: Answer) -> dict[str, Any]:
    if isinstance(answer, Say):
        return {"role": "assistant", "content": answer.text}
    function = {"name": answer.tool.name, "arguments": answer.encoded}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": new_id("call"), "type": "function", "function": function}],
    }
