"""OpenAI's Responses."""

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

USAGE = {
    "input_tokens": TOKENS_IN,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": TOKENS_OUT,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": TOKENS_IN + TOKENS_OUT,
}


class OpenAIResponses:
    def read(self, body: dict[str, Any]) -> Asked:
        asked = body["input"]
        items = [{"role": "user", "content": asked}] if isinstance(asked, str) else asked
        calling = [place for place, item in enumerate(items) if item.get("type") == "function_call"]
        sent = Sent()
        for item in items[calling[-1] + 1 :] if calling else items:
            content = item["output"] if item.get("type") == "function_call_output" else item.get("content")
            for part in parts(content, "input_text"):
                match part["type"]:
                    case "input_text" | "output_text":
                        sent.texts.append(part["text"])
                    case "input_image":
                        sent.pictures.append(Picture.of_data_url(part["image_url"]))
                    case other:
                        sent.others.append(other)
        return Asked(tuple(_tools(body)), len(calling), sent, bool(body.get("stream")), body)

    def whole(self, answer: Answer) -> dict[str, Any]:
        return _response("completed", [_item(answer)])

    def events(self, answer: Answer) -> Iterator[str]:
        item = _item(answer)
        place = {"item_id": item["id"], "output_index": 0}
        numbered: list[dict[str, Any]] = [
            {"type": "response.created", "response": _response("in_progress", [])},
            {"type": "response.output_item.added", "output_index": 0, "item": {**item, **_empty(answer)}},
            *(_text_events(answer, place) if isinstance(answer, Say) else _argument_events(answer.encoded, place)),
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": _response("completed", [item])},
        ]
        for number, data in enumerate(numbered):
            yield event({**data, "sequence_number": number}, data["type"])


def _tools(body: dict[str, Any]) -> Iterator[ListedTool]:
    for tool in body.get("tools") or ():
        if tool["type"] == "namespace":
            yield from (_tool(inner, tool["name"]) for inner in tool["tools"])
        elif tool["type"] == "function":
            yield _tool(tool)


def _tool(function: dict[str, Any], namespace: str | None = None) -> ListedTool:
    return ListedTool(function["name"], function.get("parameters") or {}, namespace)


def _item(answer: Answer) -> dict[str, Any]:
    if isinstance(answer, Say):
        content = [_text(answer.text)]
        return {"type": "message", "id": new_id("msg"), "role": "assistant", "status": "completed", "content": content}
    call = {"type": "function_call", "id": new_id("fc"), "call_id": new_id("call"), "status": "completed"}
    named = {"name": answer.tool.name, "arguments": answer.encoded}
    namespace = {"namespace": answer.tool.namespace} if answer.tool.namespace else {}
    return {**call, **named, **namespace}


def _empty(answer: Answer) -> dict[str, Any]:
    nothing: dict[str, Any] = {"content": []} if isinstance(answer, Say) else {"arguments": ""}
    return {"status": "in_progress"} | nothing


def _text(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _text_events(answer: Say, place: dict[str, Any]) -> Iterator[dict[str, Any]]:
    part = {**place, "content_index": 0}
    yield {"type": "response.content_part.added", **part, "part": _text("")}
    yield {"type": "response.output_text.delta", **part, "delta": answer.text, "logprobs": []}
    yield {"type": "response.output_text.done", **part, "text": answer.text, "logprobs": []}
    yield {"type": "response.content_part.done", **part, "part": _text(answer.text)}


def _argument_events(encoded: str, place: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield {"type": "response.function_call_arguments.delta", **place, "delta": encoded}
    yield {"type": "response.function_call_arguments.done", **place, "arguments": encoded}


def _response(status: str, output: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": new_id("resp"),
        "object": "response",
        "created_at": 1,
        "status": status,
        "model": "scripted",
        "output": output,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "parallel_tool_calls": False,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": USAGE,
    }
