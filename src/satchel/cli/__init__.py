"""The command line: it parses, calls `Satchel`, prints; nothing else.

Also what only people at a terminal use: set-up of MCP clients (`clients`), plots, transcripts and the simulator.
"""
