"""The stack of MCP servers that runs beside the daemon: which there are, and the settings of their containers."""
