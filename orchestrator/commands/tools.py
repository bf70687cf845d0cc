"""The tools that the caller's key may use."""

from __future__ import annotations

from typing import Annotated

import typer

from orchestrator.commands.terminal import AsJson, ask_daemon, out, plain, print_json


def tools(
    query: Annotated[list[str] | None, typer.Argument(help="What is looked for; several wishes at once work.")] = None,
    server: Annotated[str | None, typer.Option(help="Only tools of this server.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the tools that your key may use, or search them."""
    narrowed = [("server", server)] if server else []
    wishes = [("q", wish) for wish in query or []]
    found = ask_daemon("/tools/search" if wishes else "/tools", [*wishes, *narrowed, ("detail", "description")])
    if as_json:
        print_json(found)
        return
    listed = found["tools"]
    if isinstance(listed, list):  # a search answers with a list, best first; a listing has the tools by server
        rows = [(tool["server"], tool["name"], tool["description"]) for tool in listed]
    else:
        rows = [(place, name, about) for place, tools in listed.items() for name, about in tools.items()]
    for place, name, about in rows:
        out.print(plain(f"{place}/{name}", "bold").append_text(plain(f"  {about}", "not bold")))
