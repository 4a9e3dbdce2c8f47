"""Contexts for tools, and calls of tools without a server."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import satchel
from read_back import footers
from satchel.server.mcp.answers import Answer
from satchel.server.mcp.catalog import TOOLS
from satchel.server.mcp.tool_context import ToolContext
from satchel.server.specs.specs import Specs
from varied import fill_varied, write_specs

__all__ = ["ask", "bodies", "empty_context", "varied_context"]

FAR_TOO_MANY = 2_000


def ask(context: ToolContext, tool: str, /, **arguments: Any) -> Answer:
    return TOOLS[tool].call(context, arguments)


def bodies(context: ToolContext, tool: str, /, **arguments: Any) -> list[str]:
    """All pages of an answer without their footers."""
    answer = ask(context, tool, **arguments)
    found = [footers(answer.text).body]
    while (cursor := footers(answer.text).cursor) is not None:
        assert answer.data["cursor"] == cursor
        answer = ask(context, tool, cursor=cursor)
        found.append(footers(answer.text).body)
        assert len(found) < FAR_TOO_MANY
    assert "cursor" not in answer.data
    return found


@contextmanager
def empty_context(folder: Path, **options: Any) -> Iterator[ToolContext]:
    """One with an empty store, in a folder without specs."""
    with satchel.open(":memory:") as bag:
        yield ToolContext(bag, Specs(folder), **options)


@contextmanager
def varied_context(folder: Path) -> Iterator[tuple[ToolContext, list[str]]]:
    """One with varied memories and specs, and the ids of the memories, oldest first."""
    write_specs(folder)
    with satchel.open(":memory:") as bag:
        yield ToolContext(bag, Specs(folder)), fill_varied(bag)
