"""Servers: MCP over standard input and HTTP, the gateway in front of other MCP servers, and the HTTP service.

Each server parses requests, calls `Satchel` and answers within the token budget. The spec documents behind the
`sdd_*` tools are here too.
"""
