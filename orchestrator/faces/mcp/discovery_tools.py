"""search_tools, get_tool_info, list_servers and list_tools."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.catalog.toolbox import Toolbox
from orchestrator.domain.execution import Language
from orchestrator.domain.tools import Tool as CatalogTool
from orchestrator.faces.mcp.discovery_text import found_text, info_text, listing_text, servers_text
from orchestrator.faces.mcp.models import (
    FoundTools,
    GetToolInfo,
    LanguageView,
    ListServers,
    ListTools,
    SearchTools,
    ServerListing,
    ToolDetails,
    ToolListing,
)
from orchestrator.faces.mcp.tool import ALWAYS_LOAD, READS, Answer, Call, Tool
from orchestrator.service.budget import Budget
from orchestrator.service.skill_shelf import SkillShelf

SEARCH_TOOLS = """\
Finds tools of the connected MCP servers, and skills, by what they do, best first, for programs of execute_code. Read \
the signature of what you want with get_tool_info.

Example: {"query": "list the tables of a database; take a screenshot", "limit": 5}"""

GET_TOOL_INFO = """\
Describes how to call one tool in a program: its typed signature and an example with its import. Read it before you \
write code that uses the tool.

Example: {"server": "postgres", "tool": "execute_sql", "language": "typescript"}"""

LIST_SERVERS = """\
Lists the MCP servers that you may use, with their state and number of tools. A server that is down says why; it is \
retried in the background.

Example: {}"""

LIST_TOOLS = """\
Lists the tools of all servers or of one; names alone are the cheapest. With many tools, search_tools is better.

Example: {"server": "postgres", "detail": "description"}"""


class DiscoveryTools:
    def __init__(self, toolbox: Toolbox, skills: SkillShelf, questions: Budget) -> None:
        self._toolbox = toolbox
        self._skills = skills
        self._questions = questions

    def all(self) -> tuple[Tool[SearchTools], Tool[GetToolInfo], Tool[ListServers], Tool[ListTools]]:
        return (
            Tool(
                "search_tools",
                "Search tools",
                SEARCH_TOOLS,
                SearchTools,
                FoundTools,
                READS,
                self.search_tools,
                ALWAYS_LOAD,
            ),
            Tool(
                "get_tool_info",
                "Describe a tool",
                GET_TOOL_INFO,
                GetToolInfo,
                ToolDetails,
                READS,
                self.get_tool_info,
                ALWAYS_LOAD,
            ),
            Tool("list_servers", "List servers", LIST_SERVERS, ListServers, ServerListing, READS, self.list_servers),
            Tool("list_tools", "List tools", LIST_TOOLS, ListTools, ToolListing, READS, self.list_tools),
        )

    def _own(self, call: Call) -> Sequence[CatalogTool]:
        return self._skills.own_tools(call.caller, call.role)

    async def search_tools(self, order: SearchTools, call: Call) -> Answer:
        async with self._questions.reserve(call.caller.key_name, 1):
            found = await self._toolbox.search(
                call.role, order.query, order.detail, server=order.server, limit=order.limit, own=self._own(call)
            )
        return Answer(FoundTools.model_validate(found.model_dump(exclude_unset=True)), found_text(found))

    async def get_tool_info(self, order: GetToolInfo, call: Call) -> Answer:
        async with self._questions.reserve(call.caller.key_name, 1):
            info = await self._toolbox.info(call.role, order.server, order.tool, self._own(call))
        told = info.model_dump(exclude_unset=True)
        languages = [order.language] if order.language is not None else list(Language)
        views = {language: LanguageView.model_validate(told[language]) for language in languages}
        schemas = {name: told.get(name) for name in ("inputSchema", "outputSchema")} if order.include_schema else {}
        about = {name: told[name] for name in ("server", "name", "description", "resultShape")}
        details = ToolDetails.model_validate({**about, **views, **schemas})
        return Answer(details, info_text(details, list(views.values())))

    async def list_servers(self, order: ListServers, call: Call) -> Answer:
        servers = [server.model_dump() for server in self._toolbox.servers(call.role)]
        listing = ServerListing.model_validate({"servers": servers})
        return Answer(listing, servers_text(listing))

    async def list_tools(self, order: ListTools, call: Call) -> Answer:
        async with self._questions.reserve(call.caller.key_name, 1):
            listing = await self._toolbox.listing(call.role, order.detail, order.server, self._own(call))
        return Answer(ToolListing.model_validate(listing.model_dump(exclude_unset=True)), listing_text(listing))
