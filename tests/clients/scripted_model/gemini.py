"""Gemini's generateContent."""

from __future__ import annotations

import json
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
)


class Gemini:
    def read(self, body: dict[str, Any]) -> Asked:
        contents = body["contents"]
        calling = [place for place, content in enumerate(contents) if _calls(content)]
        sent = Sent()
        for content in contents[calling[-1] + 1 :] if calling else contents:
            _collect(content["parts"], sent)
        declared = [entry for tool in body.get("tools") or () for entry in tool.get("functionDeclarations") or ()]
        return Asked(
            tools=tuple(ListedTool(entry["name"], _parameters(entry)) for entry in declared),
            calls=sum(_calls(content) for content in contents),
            sent=sent,
            wants_stream=False,  # the address says it, not the body
            body=body,
        )

    def whole(self, answer: Answer) -> dict[str, Any]:
        part: dict[str, Any]
        if isinstance(answer, Say):
            part = {"text": answer.text}
        else:
            part = {"functionCall": {"id": new_id("call"), "name": answer.tool.name, "args": answer.arguments}}
        candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
        usage = {
            "promptTokenCount": TOKENS_IN,
            "candidatesTokenCount": TOKENS_OUT,
            "totalTokenCount": TOKENS_IN + TOKENS_OUT,
        }
        return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "scripted"}

    def events(self, answer: Answer) -> Iterator[str]:
        yield event(self.whole(answer))


def _parameters(entry: dict[str, Any]) -> dict[str, Any]:
    return entry.get("parametersJsonSchema") or entry.get("parameters") or {}


def _calls(content: dict[str, Any]) -> int:
    return sum("functionCall" in part for part in content["parts"])


def _collect(parts: list[dict[str, Any]], sent: Sent) -> None:
    for part in parts:
        if "text" in part:
            sent.texts.append(part["text"])
        elif "inlineData" in part:
            sent.pictures.append(Picture(part["inlineData"]["mimeType"], b64decode(part["inlineData"]["data"])))
        elif "functionResponse" in part:
            response = part["functionResponse"]["response"]
            sent.marked_as_error |= "error" in response
            said = [value for value in response.values() if isinstance(value, str)]
            sent.texts.append(said[0] if len(said) == len(response) == 1 else json.dumps(response))
            _collect(part["functionResponse"].get("parts") or [], sent)
        else:
            sent.others.append(next(iter(part)))
