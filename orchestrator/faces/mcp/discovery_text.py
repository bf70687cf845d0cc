"""What a model reads of the tools that there are: names, sentences, and how to import them. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.catalog.disclosure import compact
from orchestrator.catalog.replies import FoundTools, ToolEntry, ToolGroup, ToolListing
from orchestrator.domain.names import server_identifier, tool_identifier
from orchestrator.domain.tools import SkillTraits, Tool
from orchestrator.faces.mcp.models import LanguageView, ServerListing, ToolDetails
from orchestrator.wrappers import BACKENDS, Contract

IMPORTS = ("import ", "from ")
_NAMED = SkillTraits("", "", ())


def found_text(found: FoundTools) -> str:
    if not found.tools:
        return "No tool matches. Try other words, or list_tools."
    lines = [_line(f"{tool.server}/{tool.name}", _written(tool), tool) for tool in found.tools]
    best, *others = found.tools
    contract = Contract.of(Tool(best.server, best.name, skill=_NAMED if best.kind == "skill" else None), None)
    imports = " ".join(f"{language}: {backend.import_line(contract)}" for language, backend in BACKENDS.items())
    return "\n".join([*lines, f"Import {imports}{' (the others likewise)' if others else ''}"])


def info_text(details: ToolDetails, views: Sequence[LanguageView]) -> str:
    blocks = [f"{details.server}/{details.name}: {details.description}"]
    for view in views:
        begins_with_import = view.example.startswith(IMPORTS)
        blocks.append("\n".join([view.signature, *([] if begins_with_import else [view.import_line]), view.example]))
    for name, schema in (("input", details.input_schema), ("output", details.output_schema)):
        if schema:
            blocks.append(f"{name} schema: {compact(schema)}")
    return "\n\n".join(blocks)


def servers_text(listing: ServerListing) -> str:
    if not listing.servers:
        return "No MCP server that you may use is connected."
    return "\n".join(
        f"{entry.server}: {entry.state}, {entry.tools} tools{f' ({entry.problem})' if entry.problem else ''}"
        for entry in listing.servers
    )


def listing_text(listing: ToolListing) -> str:
    lines = [line for server, group in listing.tools.items() for line in _group(server, group)]
    lines += [f"{server}: {problem}" for server, problem in listing.problems.items()]
    return "\n".join(lines) or "There is no tool that you may use."


def _group(server: str, group: ToolGroup) -> list[str]:
    if isinstance(group, str):
        return [f"{server}: {group}"]
    if isinstance(group, dict):
        return [f"{server}:", *(f"  {name}: {sentence}" for name, sentence in group.items())]
    return [f"{server}:", *(f"  {compact(entry) if isinstance(entry, ToolEntry) else entry}" for entry in group)]


def _line(path: str, written: str, tool: ToolEntry) -> str:
    """Write one hit: its path, what it is called in a program if that differs, and what it does."""
    told = tool.given()
    name = path if path == written else f"{path} (in programs {written})"
    if "inputSchema" in told:
        return f"{name}: {compact(told)}"
    return f"{name}: {tool.description}" if tool.description else name


def _written(tool: ToolEntry) -> str:
    return f"{server_identifier(tool.server)}/{tool_identifier(tool.name)}"
