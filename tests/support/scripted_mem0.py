"""A stand-in for mem0's service: what its client calls, over TLS. Run as a program: scripted_mem0.py CERTIFICATE KEY.

mem0 lets a model tell facts from talk and finds them by meaning. Here each message is a fact, found by its words.
"""

from __future__ import annotations

import json
import re
import ssl
import sys
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

Json = dict[str, Any]
KEY = "key-of-nobody"
PORT = 443
SCOPES = ("user_id", "agent_id", "app_id", "run_id")


class NotFound(Exception):
    pass


class Memories:
    def __init__(self) -> None:
        self.kept: dict[str, Json] = {}

    def add(self, body: Json) -> Json:
        scope = {name: body[name] for name in SCOPES if name in body}
        added = []
        for message in body["messages"]:
            memory = {"id": str(uuid.uuid4()), "memory": message["content"], "metadata": body.get("metadata"), **scope}
            self.kept[memory["id"]] = memory
            added.append({"id": memory["id"], "event": "ADD", "data": {"memory": memory["memory"]}})
        return {"results": added}

    def search(self, body: Json) -> Json:
        asked = words(body["query"])
        scored = [
            {**memory, "score": len(asked & words(memory["memory"])) / len(asked)}
            for memory in self.kept.values()
            if matches(body.get("filters"), memory)
        ]
        found = sorted((each for each in scored if each["score"]), key=lambda each: -each["score"])
        return {"results": found[: body.get("limit") or 10]}

    def listing(self, body: Json) -> Json:
        found = [memory for memory in self.kept.values() if matches(body.get("filters"), memory)]
        return {"count": len(found), "next": None, "previous": None, "results": found}

    def one(self, number: str) -> Json:
        if number not in self.kept:
            raise NotFound
        return self.kept[number]

    def change(self, number: str, body: Json) -> Json:
        memory = self.one(number)
        memory["memory"] = body["text"]
        return memory

    def forget(self, number: str) -> Json:
        self.one(number)
        del self.kept[number]
        return {"message": "Memory deleted successfully!"}

    def forget_all(self, scope: Json) -> Json:
        self.kept = {number: memory for number, memory in self.kept.items() if not scope.items() <= memory.items()}
        return {"message": "Memories deleted successfully!"}


def words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


def matches(filters: Any, memory: Json) -> bool:
    match filters:
        case {"AND": [*parts]}:
            return all(matches(part, memory) for part in parts)
        case {"OR": [*parts]}:
            return any(matches(part, memory) for part in parts)
        case dict():
            return filters.items() <= memory.items()
    return True


class Handler(BaseHTTPRequestHandler):
    memories = Memories()

    def answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else {}
        status, reply = self.reply(body)
        data = json.dumps(reply).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def reply(self, body: Json) -> tuple[int, Json]:
        if self.headers["Authorization"] != f"Token {KEY}":
            return 401, {"detail": "Invalid API key."}
        place = urlsplit(self.path)
        given = {name: values[0] for name, values in parse_qs(place.query).items() if name in SCOPES}
        try:
            return 200, self.outcome(place.path.strip("/").split("/"), given, body)
        except NotFound:
            return 404, {"detail": "Memory not found!"}

    def outcome(self, path: list[str], given: Json, body: Json) -> Json:
        match self.command, path:
            case "GET", ["v1", "ping"]:
                return {"status": "ok", "org_id": "org", "project_id": "project", "user_email": None}
            case "POST", ["v3", "memories", "add"]:
                return self.memories.add(body)
            case "POST", ["v3", "memories", "search"]:
                return self.memories.search(body)
            case "POST", ["v3", "memories"]:
                return self.memories.listing(body)
            case "GET", ["v1", "memories", number]:
                return self.memories.one(number)
            case "PUT", ["v1", "memories", number]:
                return self.memories.change(number, body)
            case "DELETE", ["v1", "memories", number]:
                return self.memories.forget(number)
            case "DELETE", ["v1", "memories"]:
                return self.memories.forget_all(given)
        raise NotFound

    do_GET = do_POST = do_PUT = do_DELETE = answer


def main() -> None:
    certificate, key = sys.argv[1:]
    server = ThreadingHTTPServer(("0.0.0.0", PORT), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
