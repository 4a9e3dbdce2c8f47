"""The MCP server: it parses, calls `Satchel`, answers within the budget; nothing else."""
