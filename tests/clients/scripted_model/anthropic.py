"""Anthropic's Messages."""

from __future__ import annotations

from base64 import b64decode
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


class AnthropicMessages:
    def read(self, body: dict[str, Any]) -> Asked:
        messages = body["messages"]
        calling = [place for place, message in enumerate(messages) if _calls(message)]
        sent = Sent()
        for message in messages[calling[-1] + 1 :] if calling else messages:
            _collect(message["content"], sent)
        return Asked(
            tools=tuple(ListedTool(tool["name"], tool.get("input_schema") or {}) for tool in body.get("tools") or ()),
            calls=sum(_calls(message) for message in messages),
            sent=sent,
            wants_stream=bool(body.get("stream")),
            body=body,
        )

    def whole(self, answer: Answer) -> dict[str, Any]:
        usage = {"input_tokens": TOKENS_IN, "output_tokens": TOKENS_OUT}
        return {**_message(), "content": [_block(answer)], "stop_reason": _reason(answer), "usage": usage}

    def events(self, answer: Answer) -> Iterator[str]:
        empty: dict[str, Any]
        if isinstance(answer, Say):
            empty, delta = {"text": ""}, {"type": "text_delta", "text": answer.text}
        else:
            empty, delta = {"input": {}}, {"type": "input_json_delta", "partial_json": answer.encoded}
        for data in (
            {"type": "message_start", "message": _message()},
            {"type": "content_block_start", "index": 0, "content_block": {**_block(answer), **empty}},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {
                "type": "message_delta",
                "delta": {"stop_reason": _reason(answer), "stop_sequence": None},
                "usage": {"output_tokens": TOKENS_OUT},
            },
            {"type": "message_stop"},
        ):
            yield event(data, str(data["type"]))


def _calls(message: dict[str, Any]) -> int:
    return sum(block["type"] == "tool_use" for block in parts(message["content"]))


def _collect(content: Any, sent: Sent) -> None:
    for block in parts(content):
        match block["type"]:
            case "text":
                sent.texts.append(block["text"])
            case "image":
                sent.pictures.append(Picture(block["source"]["media_type"], b64decode(block["source"]["data"])))
            case "tool_result":
                sent.marked_as_error |= bool(block.get("is_error"))
                _collect(block.get("content"), sent)
            case other:
                sent.others.append(other)


def _message() -> dict[str, Any]:
    return {
        "id": new_id("msg"),
        "type": "message",
        "role": "assistant",
        "model": "scripted",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": TOKENS_IN, "output_tokens": 1},
    }


def _block(answer: Answer) -> dict[str, Any]:
    if isinstance(answer, Say):
        return {"type": "text", "text": answer.text}
    return {"type": "tool_use", "id": new_id("toolu"), "name": answer.tool.name, "input": answer.arguments}


def _reason(answer: Answer) -> str:
    return "end_turn" if isinstance(answer, Say) else "tool_use"
