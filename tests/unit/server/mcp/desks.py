"""Desks for tools to work on, and calls of the tools without a server between."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import satchel
from read_back import footers
from satchel.server.mcp.answers import Answer
from satchel.server.mcp.catalog import TOOLS
from satchel.server.mcp.desk import Desk
from satchel.server.specs.specs import Specs
from varied import fill_varied, write_specs

__all__ = ["ask", "bodies", "empty_desk", "varied_desk"]

FAR_TOO_MANY = 2_000


def ask(desk: Desk, tool: str, /, **arguments: Any) -> Answer:
    return TOOLS[tool].call(desk, arguments)


def bodies(desk: Desk, tool: str, /, **arguments: Any) -> list[str]:
    """All pages of an answer without their footers."""
    answer = ask(desk, tool, **arguments)
    found = [footers(answer.text).body]
    while (cursor := footers(answer.text).cursor) is not None:
        assert answer.data["cursor"] == cursor
        answer = ask(desk, tool, cursor=cursor)
        found.append(footers(answer.text).body)
        assert len(found) < FAR_TOO_MANY
    assert "cursor" not in answer.data
    return found


@contextmanager
def empty_desk(folder: Path, **options: Any) -> Iterator[Desk]:
    """One on which nothing lies yet, in a folder without specs."""
    with satchel.open(":memory:") as bag:
        yield Desk(bag, Specs(folder), **options)


@contextmanager
def varied_desk(folder: Path) -> Iterator[tuple[Desk, list[str]]]:
    """One with varied memories and specs, and the ids of the memories, oldest first."""
    write_specs(folder)
    with satchel.open(":memory:") as bag:
        yield Desk(bag, Specs(folder)), fill_varied(bag)
