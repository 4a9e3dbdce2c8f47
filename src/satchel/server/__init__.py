"""Servers: MCP over standard input and HTTP, the gateway in front of other MCP servers, the HTTP service.

Each parses requests, calls `Satchel` and answers within the budget.
Project specs for the `sdd_*` tools are here too.
"""
