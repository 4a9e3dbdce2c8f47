"""The gateway: one MCP server in front of others; their tool results are kept within a session's token budget."""
