"""What clients can attach without a tool: `satchel://pack/{project}` and `satchel://memory/{id}`."""

from typing import Any
from urllib.parse import quote, unquote, urlsplit

from satchel.errors import InputError
from satchel.server.mcp.catalog import TOOLS
from satchel.server.mcp.desk import Desk

__all__ = ["TEMPLATES", "pack_resources", "read_resource"]

TEMPLATES: list[dict[str, Any]] = [
    {
        "name": "pack",
        "uriTemplate": "satchel://pack/{project}",
        "description": "What matters in a project, within 2,000 tokens.",
        "mimeType": "text/markdown",
    },
    {
        "name": "memory",
        "uriTemplate": "satchel://memory/{id}",
        "description": "One memory whole, with its relations.",
        "mimeType": "text/markdown",
    },
]
MOST_PROJECTS = 100


def pack_resources(desk: Desk) -> list[dict[str, Any]]:
    """A pack for each project, those with the most memories first."""
    projects = desk.bag.stats().by_project
    named = sorted((name for name in projects if name), key=lambda name: (-projects[name], name))
    return [
        {"uri": f"satchel://pack/{quote(name, safe='')}", "name": f"pack: {name}", "mimeType": "text/markdown"}
        for name in named[:MOST_PROJECTS]
    ]


def read_resource(desk: Desk, uri: str) -> str:
    """The text behind an address: what the tool of the same purpose answers."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        raise InputError(f"{uri[:100]!r} is not an address") from None
    name = unquote(parts.path.removeprefix("/"))
    if parts.scheme == "satchel" and name and parts.netloc == "pack":
        return TOOLS["context_pack"].call(desk, {"project": name}).text
    if parts.scheme == "satchel" and name and parts.netloc == "memory":
        return TOOLS["mem_get"].call(desk, {"ids": [name]}).text
    raise InputError(
        f"there is no resource {uri[:100]!r}; there are satchel://pack/PROJECT and satchel://memory/ID"
    )
