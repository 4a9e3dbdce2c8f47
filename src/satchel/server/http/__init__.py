"""The service: a JSON API at `/v1` and the MCP server on one address, for many tenants by their tokens."""
