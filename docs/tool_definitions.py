"""Writes the definitions of the MCP tools as data, `tools.json`: python docs/tool_definitions.py [--check].

The server answers `tools/list` from this file, before it has loaded the tools themselves.
"""

import json
import sys

from satchel.server.mcp.catalog import TOOLS
from satchel.server.mcp.guide import TOOLS_FILE


def written() -> str:
    lines = (json.dumps(tool.definition, ensure_ascii=False, separators=(",", ":")) for tool in TOOLS.values())
    return "[\n" + ",\n".join(lines) + "\n]\n"


if __name__ == "__main__":
    text = written()
    if "--check" in sys.argv:
        held = TOOLS_FILE.read_text(encoding="utf-8") if TOOLS_FILE.exists() else ""
        sys.exit(0 if held == text else f"{TOOLS_FILE.name} is stale: make docs")
    TOOLS_FILE.write_text(text, encoding="utf-8")
