"""The MCP server: tools with their parameters, answers with their footers, standard input and HTTP."""
