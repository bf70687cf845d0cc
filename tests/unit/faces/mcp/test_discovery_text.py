from __future__ import annotations

from orchestrator.catalog.disclosure import Detail, grouped, ranked
from orchestrator.catalog.replies import FoundTools, ToolListing
from orchestrator.domain.tools import Tool
from orchestrator.faces.mcp.discovery_text import found_text, info_text, listing_text, servers_text
from orchestrator.faces.mcp.models import LanguageView, ServerListing, ToolDetails

SQL = Tool("postgres", "execute_sql", "Executes a statement. It may write.", {"type": "object"})
DOCS = Tool("library-docs", "get-docs", "Reads documentation.")
VIEW = LanguageView(
    import_line="from servers.postgres import execute_sql",
    signature="execute_sql(*, sql: str) -> Any",
    example="from servers.postgres import execute_sql\nresult = execute_sql(sql='')",
)


def found(*tools: Tool, detail: Detail = Detail.DESCRIPTION) -> str:
    return found_text(FoundTools(tools=ranked(tools, detail)))


def test_a_search_ends_with_one_line_that_says_how_to_import():
    *hits, imports = found(SQL, DOCS).splitlines()
    assert hits[0] == "postgres/execute_sql: Executes a statement."
    assert imports == (
        "Import typescript: import { execute_sql } from '/workspace/servers/postgres/execute_sql.js'; "
        "python: from servers.postgres import execute_sql (the others likewise)"
    )


def test_a_tool_with_another_name_in_programs_says_so():
    assert found(DOCS).startswith("library-docs/get-docs (in programs library_docs/get_docs): Reads documentation.\n")


def test_names_alone_and_whole_definitions_can_be_asked_for():
    assert found(SQL, detail=Detail.NAME).splitlines()[0] == "postgres/execute_sql"
    assert '"inputSchema":{"type":"object"}' in found(SQL, detail=Detail.FULL)


def test_a_search_without_hits_says_what_to_try():
    assert found() == "No tool matches. Try other words, or list_tools."


def details(**more: object) -> ToolDetails:
    about = {"server": "postgres", "name": "execute_sql", "description": "Executes SQL.", "result_shape": "unknown"}
    return ToolDetails.model_validate({**about, **more})


def test_a_tool_is_described_by_signature_and_example_with_its_import_once():
    assert info_text(details(), [VIEW]) == (
        "postgres/execute_sql: Executes SQL.\n\nexecute_sql(*, sql: str) -> Any\n"
        "from servers.postgres import execute_sql\nresult = execute_sql(sql='')"
    )


def test_an_example_without_its_import_gets_one():
    shown = info_text(details(), [VIEW.model_copy(update={"example": "execute_sql(sql='')"})])
    assert shown.endswith("from servers.postgres import execute_sql\nexecute_sql(sql='')")


def test_a_schema_that_is_asked_for_is_in_the_text():
    shown = info_text(details(input_schema={"type": "object"}, output_schema={"type": "array"}), [VIEW])
    assert shown.endswith('\n\ninput schema: {"type":"object"}\n\noutput schema: {"type":"array"}')


def test_lists_are_plain_lines():
    tools = (SQL, Tool("postgres", "list_tables"), DOCS)
    names = ToolListing(tools=grouped(tools, Detail.NAME), problems={"memory": "It does not answer."})
    assert listing_text(names) == (
        "postgres: execute_sql list_tables\nlibrary-docs: get-docs\nmemory: It does not answer."
    )
    sentences = ToolListing(tools=grouped((SQL,), Detail.DESCRIPTION))
    assert listing_text(sentences) == "postgres:\n  execute_sql: Executes a statement."
    whole = ToolListing(tools=grouped((SQL,), Detail.FULL))
    assert '"inputSchema":{"type":"object"}' in listing_text(whole)
    spaced = ToolListing(tools=grouped((Tool("odd", "two words"),), Detail.NAME))
    assert listing_text(spaced) == "odd:\n  two words"
    assert listing_text(ToolListing(tools={})) == "There is no tool that you may use."


def test_servers_are_listed_with_their_state_and_why_one_is_down():
    servers = [
        {"server": "postgres", "state": "connected", "tools": 2},
        {"server": "memory", "state": "down", "tools": 0, "problem": "It does not answer."},
    ]
    assert servers_text(ServerListing.model_validate({"servers": servers})) == (
        "postgres: connected, 2 tools\nmemory: down, 0 tools (It does not answer.)"
    )
    assert servers_text(ServerListing(servers=[])) == "No MCP server that you may use is connected."
