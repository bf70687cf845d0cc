"""The settings in effect here, where each comes from, and where the running daemon differs."""

from __future__ import annotations

import asyncio

from rich.table import Table

from orchestrator.commands.held import Held, NotTold, ask
from orchestrator.commands.terminal import AsJson, Json, err, load_settings, out, plain, print_json, print_table
from orchestrator.settings import Settings
from orchestrator.settings_in_effect import in_effect


def config(as_json: AsJson = False) -> None:
    """Show the settings in effect, where each comes from, and what the running daemon holds otherwise."""
    settings = load_settings()
    try:
        held, not_told = asyncio.run(ask(settings)), None
    except NotTold as reason:
        held, not_told = None, str(reason)
    if as_json:
        print_json(_document(settings, held, not_told))
        return
    others = {other.here.field: other.in_daemon for other in held.other_values(settings)} if held else {}
    table = Table("Setting", "Value", "From", *(["In the daemon"] if others else []), box=None)
    for each in in_effect(settings):
        other = [plain(str(others[each.field]), "yellow")] if each.field in others else []
        table.add_row(each.name, plain(str(each.value)), each.source.value, *other)
    print_table(out, table)
    for line in _differences(settings, held) if held else [f"These are the settings here; {not_told}"]:
        err.print(plain(f"code-executor: {line}"))


def _differences(settings: Settings, held: Held) -> list[str]:
    found = []
    if held.is_of_another_directory:
        found.append(f"the daemon was started in {held.started_in}, with the settings of that directory")
    if held.other_values(settings):
        found.append("the daemon runs with other settings, as the last column shows; 'make up' here gives it these")
    if (roles := held.other_roles(settings.roles_file)) is not None:
        found.append(f"the daemon holds other roles than {settings.roles_file}: {roles}")
    if (servers := held.other_servers(settings)) is not None:
        found.append(f"the daemon holds other servers: {servers}")
    return found


def _document(settings: Settings, held: Held | None, not_told: str | None) -> Json:
    """Return the settings by name and, beside them, what is said about them."""
    effective = in_effect(settings)
    daemon: Json = {"problem": not_told}
    if held is not None:
        daemon = {
            "version": held.version,
            "startedIn": held.started_in,
            "settings": {other.here.field: other.in_daemon for other in held.other_values(settings)},
            "roles": held.other_roles(settings.roles_file),
            "servers": held.other_servers(settings),
        }
    values = {each.field: each.value for each in effective}
    return {**values, "sources": {each.field: each.source.value for each in effective}, "daemon": daemon}
