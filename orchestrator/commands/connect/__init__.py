"""`code-executor connect`: the entry that makes an MCP client use this daemon, written into its file and tried."""

from orchestrator.commands.connect.command import connect
from orchestrator.commands.connect.entries import Client, Connection
from orchestrator.commands.connect.files import CannotMerge, Configuration, configuration

__all__ = ["CannotMerge", "Client", "Configuration", "Connection", "configuration", "connect"]
