"""Every interface offers what the table of operations says, and the table is complete and has no stale entry."""

import inspect
from typing import Any

import click
import msgspec

from satchel import Satchel
from satchel.api.operations import NAMES, OPERATIONS, Interface, Offer, Operation, described, offered
from satchel.api.parameters import FIELDS, FILTERS, OPTIONS, SCOPES, shape_of
from satchel.cli.app import app
from satchel.model.scope_fields import SCOPE_FIELDS
from satchel.model.signatures import parameters_of
from satchel.server.http.routes import ROUTES
from satchel.server.mcp.catalog import TOOLS
from tables import each_row

INTERFACES: tuple[Interface, ...] = ("cli", "mcp", "http")
NOT_OPERATIONS = {
    "scoped": "chooses a view",
    "transaction": "a Python block",
    "close": "ends the object",
    "short_ids": "made for every text",
    "add_many": "`add` for several drafts",
    "erase": "`forget --purge --org`",
    "backup": "a command of its own",
    "session": "sessions have their own commands and routes",
    "sessions": "sessions have their own commands and routes",
    "find_session": "sessions have their own commands and routes",
    "forget_session": "sessions have their own commands and routes",
    "reembed": "a command of its own",
    "add_messages": "takes the messages that a program has in its hands",
    "catch_up": "part of `reembed`",
    "warm_up": "part of starting a server",
    "checks": "`doctor`",
    "repair": "`doctor --repair`",
}
"""Public methods that are not in the table, and why."""


def offers(interface: Interface) -> list[tuple[Operation, Offer]]:
    return [(row, offer) for row in OPERATIONS if (offer := getattr(row, interface)) is not None]


def test_every_public_method_is_in_the_table_or_known_not_to_be():
    methods = {name for name, _ in inspect.getmembers(Satchel, inspect.isfunction) if not name.startswith("_")}
    listed = {row.method for row in OPERATIONS}
    assert methods - listed == NOT_OPERATIONS.keys()
    assert listed <= methods
    assert len(listed) == len(OPERATIONS)


@each_row("row", OPERATIONS)
def test_every_parameter_of_an_operation_is_described(row: Operation):
    for name in parameters_of(getattr(Satchel, row.method)):
        left_out = [
            name in {each for names in offer.without.values() for each in names}
            for interface in INTERFACES
            if (offer := getattr(row, interface)) is not None
        ]
        if not all(left_out):
            about = described(row.method, name)
            assert about.help[0].isupper()
            assert about.help.endswith(".")


def test_every_entry_of_the_registry_describes_a_parameter():
    used = {
        id(described(row.method, each.python_name))
        for row in OPERATIONS
        for interface in INTERFACES
        if getattr(row, interface) is not None
        for each in offered(row.method, interface)
    }
    for group in (SCOPES, FIELDS, FILTERS, OPTIONS):
        for name, about in group.items():
            assert id(about) in used, f"nothing takes {name}"


@each_row("row", OPERATIONS)
def test_every_exception_of_a_row_is_real_and_has_a_reason(row: Operation):
    known = parameters_of(getattr(Satchel, row.method))
    for interface in INTERFACES:
        offer: Offer | None = getattr(row, interface)
        if offer is None:
            continue
        left_out = [name for names in offer.without.values() for name in names]
        assert len(left_out) == len(set(left_out))
        assert known.keys() >= {*left_out, *offer.defaults}
        assert not set(left_out) & set(offer.defaults)
        assert set(offer.scope) <= set(SCOPE_FIELDS)
        assert all(reason.strip() for reason in (*offer.without, *offer.own.values()))
        for name, (value, reason) in offer.defaults.items():
            assert value != known[name].default, f"{name} of {offer.name} has the same default in Python"
            assert reason.strip()


def test_every_other_name_is_of_a_parameter_that_the_interface_offers():
    for interface in INTERFACES:
        there = {each.python_name for row, _ in offers(interface) for each in offered(row.method, interface)}
        assert NAMES[interface].keys() <= there


@each_row(("row", "offer"), offers("cli"))
def test_a_command_takes_what_the_table_says(row: Operation, offer: Offer):
    command = app.get_command(click.Context(app), offer.name)
    assert command is not None
    by_name = {param.name: param for param in command.params}
    own = {"json": "as_json"}
    assert by_name.keys() == {
        *(each.python_name for each in offered(row.method, "cli")),
        *(own.get(name, name) for name in offer.own),
    }
    for each in offered(row.method, "cli"):
        param = by_name[each.python_name]
        assert isinstance(param, click.Argument) == each.positional
        assert param.required == each.required
        if not each.required and not each.positional:
            assert param.default == each.default or (each.shape.several and not param.default)
            assert isinstance(param, click.Option)
            assert f"--{each.name.replace('_', '-')}" in param.opts
            assert param.help is not None
            assert param.help.startswith(each.about.help)
        if each.shape.choices:
            assert isinstance(param.type, click.Choice)
            assert tuple(param.type.choices) == each.shape.choices


@each_row(("row", "offer"), offers("mcp"))
def test_a_tool_takes_what_the_table_says(row: Operation, offer: Offer):
    tool = TOOLS[offer.name]
    properties = tool.definition["inputSchema"]["properties"]
    assert set(properties) == {*(each.name for each in offered(row.method, "mcp")), *offer.own}
    sorts = {str: "string", int: "integer", float: "number", bool: "boolean"}
    for each in offered(row.method, "mcp"):
        schema: dict[str, Any] = properties[each.name]
        if "enum" in schema:
            assert tuple(schema["enum"]) == each.shape.choices
            assert not each.shape.several
        elif each.name == "tags":
            assert schema["type"] == "array"
        else:
            assert schema["type"] == sorts[each.shape.base]
        assert each.name in tool.required or not each.required
        if isinstance(each.default, int) and not isinstance(each.default, bool):
            assert schema["description"].endswith(f"; default {each.default}")


@each_row(("row", "offer"), offers("http"))
def test_a_request_takes_what_the_table_says(row: Operation, offer: Offer):
    (route,) = (route for route in ROUTES if route.operation == offer.name)
    asked = route.body or route.query
    assert asked is not None
    fields = {field.encode_name: field for field in msgspec.structs.fields(asked)}
    assert set(fields) == {*(each.name for each in offered(row.method, "http")), *offer.own}
    for each in offered(row.method, "http"):
        field = fields[each.name]
        assert field.required == each.required
        assert shape_of(field.type).choices == each.shape.choices
        if not each.required and field.default is not msgspec.UNSET:
            assert field.default == (() if each.shape.several else each.default)
    if route.body is not None and route.query is not None:
        # What a body changes is looked for where the query says.
        assert set(route.query.__struct_fields__) == set(SCOPE_FIELDS)


def test_the_same_parameter_has_the_same_default_everywhere_unless_its_row_says_why():
    for row in OPERATIONS:
        known = parameters_of(getattr(Satchel, row.method))
        for interface in INTERFACES:
            offer: Offer | None = getattr(row, interface)
            for each in offered(row.method, interface) if offer is not None else ():
                if each.python_name in known and each.python_name not in offer.defaults:
                    assert each.default == known[each.python_name].default
