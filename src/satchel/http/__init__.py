"""The service: a JSON API and the MCP server on one address, for many tenants by their tokens."""
