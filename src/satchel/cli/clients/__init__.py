"""MCP clients and their configuration files: adding and removing the entry that starts Satchel."""
