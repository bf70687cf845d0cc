"""code-executor servers: MCP servers of the user's own, beside those that come with the stack."""

from orchestrator.commands.servers.command import servers_app

__all__ = ["servers_app"]
