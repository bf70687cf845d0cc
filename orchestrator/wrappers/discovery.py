"""The modules with which a program finds out which servers and tools there are."""

from __future__ import annotations

from orchestrator.domain.names import Names
from orchestrator.wrappers import python, typescript
from orchestrator.wrappers.text import python_literal, typescript_literal

_Directory = dict[str, dict[str, object]]


def _directory(names: Names) -> _Directory:
    """Identifiers, each with the name that the server or tool has outside."""
    return {
        server: {
            "name": next(iter(tools.values())).server,
            "tools": {identifier: tool.name for identifier, tool in tools.items()},
        }
        for server, tools in names.tools.items()
        if tools
    }


def typescript_discovery(names: Names) -> str:
    entries = "".join(
        f"  {typescript_literal(server)}: {typescript_literal(entry)},\n" for server, entry in _directory(names).items()
    )
    return f"""{typescript.HEADER}import {{ Directory, type SearchOptions, type ToolSummary }} from './_discovery.js';

const directory = new Directory({{
{entries}}});

/** The servers whose tools can be imported from '/workspace/servers/SERVER/TOOL.js'. */
export async function listServers(): Promise<string[]> {{
  return directory.servers();
}}

/** The tools of one server, or all as 'SERVER/TOOL'. */
export async function listTools(server?: string): Promise<string[]> {{
  return directory.tools(server);
}}

/** Tools that fit what is wanted, best first; several queries at once are possible. */
export async function searchTools(query: string | string[], options: SearchOptions = {{}}): Promise<ToolSummary[]> {{
  return directory.search(query, options);
}}

/** Everything about one tool: schemas, signatures and an example of a call. */
export async function toolInfo(server: string, tool: string): Promise<ToolSummary> {{
  return directory.info(server, tool);
}}
"""


def python_discovery(names: Names) -> str:
    entries = "".join(
        f"        {python_literal(server)}: {python_literal(entry)},\n" for server, entry in _directory(names).items()
    )
    return f'''{python.HEADER}from __future__ import annotations

from typing import Any

from ._discovery import Directory as _Directory

_directory = _Directory(
    {{
{entries}    }}
)


def list_servers() -> list[str]:
    """The servers whose tools can be imported: `from servers.SERVER import TOOL`."""
    return _directory.servers()


def list_tools(server: str | None = None) -> list[str]:
    """The tools of one server, or all as 'SERVER/TOOL'."""
    return _directory.tools(server)


def search_tools(
    query: str | list[str], *, server: str | None = None, detail: str | None = None, limit: int | None = None
) -> list[dict[str, Any]]:
    """Tools that fit what is wanted, best first; several queries at once are possible."""
    return _directory.search(query, server=server, detail=detail, limit=limit)


def tool_info(server: str, tool: str) -> dict[str, Any]:
    """Everything about one tool: schemas, signatures and an example of a call."""
    return _directory.info(server, tool)


listServers, listTools, searchTools, toolInfo = list_servers, list_tools, search_tools, tool_info
'''
