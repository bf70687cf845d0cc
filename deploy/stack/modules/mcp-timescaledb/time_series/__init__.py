"""An MCP server for TimescaleDB whose results are typed: rows are objects, and an error is an error."""
