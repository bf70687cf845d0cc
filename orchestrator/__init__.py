"""The MCP Code Executor: runs programs in fresh, locked-down, single-use containers."""

__version__ = "0.1.0"
