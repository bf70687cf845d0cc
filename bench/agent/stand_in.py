"""Stands in for one of the default MCP servers: python bench/agent/stand_in.py SERVER

It lists the tools as the real one does, and keeps what it is told in memory: what is measured are the programs.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

Json = dict[str, Any]

LISTED: dict[str, list[Json]] = json.loads((Path(__file__).parent / "servers.json").read_text())
CUSTOMERS = [
    {"id": 1, "name": "Ada Lovelace", "country": "GB", "orders": 3},
    {"id": 2, "name": "Blaise Pascal", "country": "FR", "orders": 1},
    {"id": 3, "name": "Carl Gauss", "country": "DE", "orders": 2},
]

files = {
    "/workspace/notes.txt": "first line\nsecond line\n",
    "/workspace/data.csv": "name,amount\nink,7.25\npen,38.00\n",
}
entities: list[Json] = [{"name": "Ada", "entityType": "person", "observations": ["writes programs"]}]
relations: list[Json] = []


class Unable(Exception):
    """The tool fails, as a tool does."""


def main(server: str) -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            answer = {"jsonrpc": "2.0", "id": message["id"], "result": _result(server, message)}
            print(json.dumps(answer), flush=True)


def _result(server: str, message: Json) -> Json:
    match message["method"]:
        case "initialize":
            version = message["params"]["protocolVersion"]
            information = {"name": server, "version": "1"}
            return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": information}
        case "tools/list":
            return {"tools": LISTED[server]}
        case "tools/call":
            try:
                return TOOLS[server](message["params"]["name"], message["params"].get("arguments") or {})
            except (Unable, KeyError) as error:
                return {"content": [_text(str(error))], "isError": True}
        case _:
            return {}


def _filesystem(tool: str, arguments: Json) -> Json:
    path = arguments.get("path", "")
    match tool:
        case "read_text_file" | "read_file":
            if path not in files:
                raise Unable(f"ENOENT: no such file or directory, open '{path}'")
            lines = files[path].splitlines()[: arguments.get("head")]
            content = "\n".join(lines) if "head" in arguments else files[path]
        case "write_file":
            files[path] = arguments["content"]
            content = f"Successfully wrote to {path}"
        case "edit_file":
            for edit in arguments["edits"]:
                files[path] = files[path].replace(edit["oldText"], edit["newText"])
            content = "done"
        case "list_directory":
            content = "\n".join(f"[FILE] {Path(name).name}" for name in sorted(files))
        case "search_files":
            content = "\n".join(name for name in sorted(files) if Path(name).match(arguments["pattern"]))
        case "get_file_info":
            content = f"size: {len(files[path])}\nisFile: true"
        case _:
            content = "done"
    return {"content": [_text(content)], "structuredContent": {"content": content}}


def _memory(tool: str, arguments: Json) -> Json:
    match tool:
        case "create_entities":
            entities.extend(arguments["entities"])
            structured: Json = {"entities": arguments["entities"]}
        case "create_relations":
            relations.extend(arguments["relations"])
            structured = {"relations": arguments["relations"]}
        case "add_observations":
            added = [(each["entityName"], each["contents"]) for each in arguments["observations"]]
            structured = {"results": [{"entityName": name, "addedObservations": contents} for name, contents in added]}
        case "read_graph":
            structured = {"entities": entities, "relations": relations}
        case "search_nodes" | "open_nodes":
            wanted = arguments.get("names") or [arguments.get("query", "")]
            found = [each for each in entities if any(name.lower() in each["name"].lower() for name in wanted)]
            structured = {"entities": found, "relations": []}
        case _:
            structured = {"success": True, "message": "done"}
    return {"content": [_text(json.dumps(structured))], "structuredContent": structured}


def _postgres(_: str, arguments: Json) -> Json:
    sql = arguments["sql"]
    if not re.match(r"\s*(?:select|insert|update|delete|create|with)\b", sql, re.IGNORECASE):
        raise Unable(f'ERROR: syntax error at or near "{sql[:20]}" (SQLSTATE 42601)')
    rows = CUSTOMERS if re.match(r"\s*select", sql, re.IGNORECASE) else []
    return {"content": [_text(json.dumps(row)) for row in rows]}


def _text(text: str) -> Json:
    return {"type": "text", "text": text}


TOOLS = {"filesystem": _filesystem, "memory": _memory, "postgres": _postgres}

if __name__ == "__main__":
    main(sys.argv[1])
