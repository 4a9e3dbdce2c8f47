"""MCP clients and their configuration files: the entry that starts Satchel, put in and taken out."""
