"""The catalog of the MCP server: its tools by name, and its resources."""

from typing import Any
from urllib.parse import quote, unquote, urlsplit

from satchel.errors import InputError
from satchel.server.mcp.guide import SPEC_TOOLS
from satchel.server.mcp.reading_tools import CONTEXT, GET, LIST, PACK, SEARCH, STATS, TIMELINE
from satchel.server.mcp.spec_tools import CHECK, SPECS
from satchel.server.mcp.tool import Tool
from satchel.server.mcp.tool_context import ToolContext
from satchel.server.mcp.writing_tools import FORGET, RELATE, SAVE, SAVE_MANY, SESSION, UPDATE

__all__ = ["MEMORY_TOOLS", "TOOLS", "complete_project", "pack_resources", "read_resource"]


TOOLS: dict[str, Tool] = {
    tool.name: tool
    for tool in (
        SAVE, SAVE_MANY, SEARCH, CONTEXT, LIST, TIMELINE, GET, UPDATE, FORGET, RELATE, SESSION, STATS, PACK, SPECS,
        CHECK,
    )
}  # fmt: skip
MEMORY_TOOLS: dict[str, Tool] = {name: tool for name, tool in TOOLS.items() if name not in SPEC_TOOLS}
"""The tools that need nothing but the store."""


# Resources, which clients can attach without a tool


MOST_PROJECTS = 100


def pack_resources(context: ToolContext) -> list[dict[str, Any]]:
    """Return one context pack per project as a resource, projects with the most memories first."""
    projects = context.bag.stats().by_project
    named = sorted((name for name in projects if name), key=lambda name: (-projects[name], name))
    return [
        {"uri": f"satchel://pack/{quote(name, safe='')}", "name": f"pack: {name}", "mimeType": "text/markdown"}
        for name in named[:MOST_PROJECTS]
    ]


def complete_project(context: ToolContext, written: str) -> list[str]:
    """Return the projects that begin with a text, then those that contain it, each with the most memories first."""
    text = written.casefold()
    matching = [(name, name.casefold()) for name in context.bag.projects() if name]
    starting = [name for name, folded in matching if folded.startswith(text)]
    return starting + [name for name, folded in matching if text in folded and not folded.startswith(text)]


def read_resource(context: ToolContext, uri: str) -> str:
    """Return the text of a resource: the answer of the tool that serves the same purpose."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        raise InputError(f"{uri[:100]!r} is not an address") from None
    name = unquote(parts.path.removeprefix("/"))
    if parts.scheme == "satchel" and name and parts.netloc == "pack":
        return TOOLS["context_pack"].call(context, {"project": name}).text
    if parts.scheme == "satchel" and name and parts.netloc == "memory":
        return TOOLS["mem_get"].call(context, {"id": name}).text
    raise InputError(
        f"there is no resource {uri[:100]!r}; there are satchel://pack/PROJECT and satchel://memory/ID"
    )
