"""The tools by name, and the few that are enough for most."""

from satchel.errors import InputError
from satchel.server.mcp.context import CONTEXT, PACK
from satchel.server.mcp.lookup import GET, SEARCH, STATS, TIMELINE
from satchel.server.mcp.planning import CHECK, SPECS
from satchel.server.mcp.saving import FORGET, RELATE, SAVE, SESSION, UPDATE
from satchel.server.mcp.tool import Tool

__all__ = ["CORE", "TOOLS", "chosen_tools"]

TOOLS: dict[str, Tool] = {
    tool.name: tool
    for tool in (
        SAVE, SEARCH, CONTEXT, TIMELINE, GET, UPDATE, FORGET, RELATE, SESSION, STATS, PACK, SPECS, CHECK,
    )
}  # fmt: skip
CORE = (SAVE.name, SEARCH.name, CONTEXT.name, GET.name)


def chosen_tools(wanted: str) -> dict[str, Tool]:
    """`all`, `core`, or names with commas between them."""
    names = {"all": tuple(TOOLS), "core": CORE}.get(wanted.strip()) or [each.strip() for each in wanted.split(",")]
    for name in names:
        if name not in TOOLS:
            raise InputError(f"there is no tool {name!r}; say all, core or some of: {', '.join(TOOLS)}")
    return {name: TOOLS[name] for name in TOOLS if name in names}
