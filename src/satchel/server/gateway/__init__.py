"""The gateway: one MCP server in front of others, whose tool results go through a session's budget."""
