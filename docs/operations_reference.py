"""Writes docs/reference/operations.md from the table of operations; --check only compares."""

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from satchel.api.operations import OPERATIONS, Interface, Offer, Operation, offered
from satchel.api.satchel import Satchel
from satchel.model.signatures import parameters_of

PAGE = Path(__file__).parent / "reference/operations.md"
INTERFACES: tuple[tuple[Interface, str], ...] = (("cli", "command"), ("mcp", "MCP tool"), ("http", "HTTP"))

HEADING = """\
# Operations

Written by `make docs` from the table of operations (`src/satchel/api/operations.py`); do not edit.

The same operation takes the same parameters in Python, on the command line, as an MCP tool and over HTTP. This page
lists every parameter with its name on each interface. "–" means that an interface does not offer it. The list below
each table says why, and where a default differs. Commands and HTTP requests also take the scope: `org`, `project`,
`user`, `agent` and `session`; in Python a view has it (`bag.scoped(project=…)`).
"""


def reference() -> str:
    return "\n".join([HEADING, *(line for row in OPERATIONS for line in section(row))]) + "\n"


def section(row: Operation) -> Iterator[str]:
    yield f"## {row.method}\n\n{_about(row.method)}\n"
    given = [(interface, title) for interface, title in INTERFACES if getattr(row, interface) is not None]
    names = [f"{title} `{getattr(row, interface).name}`" for interface, title in given]
    parameters = parameters_of(getattr(Satchel, row.method))
    if parameters:
        yield f"| {' | '.join(['Python', 'default', *names, ''])} |\n{'|---' * (len(names) + 3)}|"
    here = {
        interface: {each.python_name: each for each in offered(row.method, interface)} for interface, _ in given
    }
    for name, parameter in parameters.items():
        cells = [_spelled(interface, here[interface].get(name)) for interface, _ in given]
        helps = [each.about.help for _, found in here.items() if (each := found.get(name)) is not None]
        yield f"| `{name}` | {_default(parameter.default)} | {' | '.join(cells)} | {helps[0] if helps else ''} |"
    if not parameters:
        yield "No parameters. " + ", ".join(names) + "."
    differences = [line for interface, title in given for line in exceptions(title, getattr(row, interface))]
    if differences:
        yield "\n" + "\n".join(differences)
    yield ""


def exceptions(title: str, offer: Offer) -> Iterator[str]:
    for reason, names in offer.without.items():
        yield f"- {title} without {', '.join(f'`{name}`' for name in names)}: {reason}."
    for name, (value, reason) in offer.defaults.items():
        yield f"- {title}: `{name}` is {_default(value) or 'not set'} by default: {reason}."
    if offer.own:
        yield f"- {title} only: {', '.join(f'`{name}` ({why})' for name, why in offer.own.items())}."


def _about(method: str) -> str:
    first = (inspect.getdoc(getattr(Satchel, method)) or "").partition("\n\n")[0]
    return " ".join(first.split())


def _spelled(interface: Interface, each: Any) -> str:
    if each is None:
        return "–"
    if interface == "cli":
        name = each.about.metavar or each.name.upper() if each.positional else f"--{each.name.replace('_', '-')}"
        return f"`{name}`"
    return f"`{each.name}`"


def _default(value: Any) -> str:
    if value is inspect.Parameter.empty:
        return "required"
    return "" if value is None else f"`{value}`"


if __name__ == "__main__":
    if "--check" in sys.argv:
        current = PAGE.exists() and PAGE.read_text(encoding="utf-8") == reference()
        sys.exit(0 if current else "docs/reference/operations.md is stale: make docs")
    PAGE.write_text(reference(), encoding="utf-8")
