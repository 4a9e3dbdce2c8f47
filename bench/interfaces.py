"""How many parameters the interfaces offer, and how many of them are written by hand: python -m bench.interfaces.

A slot is one parameter of one operation on one interface. The parameters in Python signatures are written by hand,
and so is each other name or default in the table of operations. The parameters of commands, MCP tools and HTTP
requests count as written by hand unless the table of operations gives them. The registry describes each parameter
once, for all operations and interfaces; its entries are counted apart.
"""

import inspect
from pathlib import Path
from typing import Unpack, get_args, get_origin

import click
import msgspec

from bench.table import print_table
from satchel.api.operations import NAMES, OPERATIONS, Interface, Offer, offered
from satchel.api.parameters import FIELDS, FILTERS, OPTIONS, SCOPES
from satchel.api.satchel import Satchel
from satchel.cli.app import app
from satchel.model.scope_fields import SCOPE_FIELDS
from satchel.server.http.routes import ROUTES
from satchel.server.mcp.catalog import MEMORY_TOOLS, TOOLS
from satchel.server.mcp.guide import CORE, INSTRUCTIONS
from satchel.text.tokens import count_tokens

INTERFACES: tuple[Interface, ...] = ("cli", "mcp", "http")


def signature_slots() -> tuple[int, int]:
    """Return the parameters of all operations in Python, and how many of them are written out.

    A group of parameters that several methods share (`**chosen: Unpack[Chosen]`) is written once.
    """
    groups: set[str] = set()
    slots = written = 0
    for row in OPERATIONS:
        method = inspect.unwrap(getattr(Satchel, row.method))
        for parameter in inspect.signature(method).parameters.values():
            if get_origin(parameter.annotation) is Unpack:
                (group,) = get_args(parameter.annotation)
                members = set(group.__annotations__)
                slots += len(members)
                # A field of a memory is written where memories are, and a filter where filters are.
                named = {f"{'fields' if 'title' in members else 'filters'}.{name}" for name in members}
                written += len(named - groups)
                groups |= named
            elif parameter.name != "self":
                slots += 1
                written += 1
    return slots, written


def offered_slots(interface: Interface) -> tuple[int, int]:
    """Return the parameters of all operations on an interface, and how many of them are its own."""
    total = own = 0
    for row in OPERATIONS:
        offer: Offer | None = getattr(row, interface)
        if offer is not None:
            total += _held(interface, offer.name)
            own += _held(interface, offer.name) - len(offered(row.method, interface))
    return total, own


def _held(interface: Interface, name: str) -> int:
    if interface == "cli":
        command = app.get_command(click.Context(app), name)
        assert command is not None
        return len(command.params)
    if interface == "mcp":
        return len(TOOLS[name].parameters)
    (route,) = (route for route in ROUTES if route.operation == name)
    asked = route.body or route.query
    assert asked is not None
    return len(msgspec.structs.fields(asked))


def exceptions() -> int:
    """Return how many other names and other defaults the table states."""
    offers = [offer for row in OPERATIONS for interface in INTERFACES if (offer := getattr(row, interface))]
    return sum(map(len, NAMES.values())) + sum(len(offer.defaults) for offer in offers)


def shared_options() -> int:
    """Return how many own options of commands are distinct: one decorator gives --db to all of them."""
    return len({name for row in OPERATIONS if row.cli for name in row.cli.own})


def main() -> None:
    registry = len(FIELDS) + len(FILTERS) + len(OPTIONS) + len(SCOPES) - 2 * len(SCOPE_FIELDS) + 2
    python, written = signature_slots()
    rows = [("", "slots", "by hand"), ("Python signatures", f"{python:,}", f"{written:,}")]
    by_hand = written + exceptions()
    rows.append(("other names and defaults in the table", "", f"{exceptions():,}"))
    for interface, title in zip(INTERFACES, ("commands", "MCP tools", "HTTP requests"), strict=True):
        total, own = offered_slots(interface)
        mine = shared_options() if interface == "cli" else own
        by_hand += mine
        rows.append((title, f"{total:,}", f"{mine:,}"))
    rows.append(("together", "", f"{by_hand:,}"))
    rows.append(("entries of the registry, one a parameter", "", f"{registry:,}"))
    print_table("parameters", rows)
    definitions, memory, core = (
        count_tokens(msgspec.json.encode([TOOLS[name].definition for name in names]).decode())
        for names in (TOOLS, MEMORY_TOOLS, CORE)
    )
    told = count_tokens(INSTRUCTIONS)
    words = len((Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8").split())
    print(
        f"MCP definitions and instructions: {memory + told:,} tokens, "
        f"with the tools for specs {definitions + told:,}, core {core + told:,}"
    )
    print(f"README: {words:,} words")


if __name__ == "__main__":
    main()
