"""Upstream MCP servers: where they are, how they are spoken to, how each is kept alive."""
