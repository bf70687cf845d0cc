"""An MCP server for S3 and what speaks like it, whose results are typed and whose errors are errors."""
