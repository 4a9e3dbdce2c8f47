"""MCP tools: name, description, parameters with their JSON schemas, and the function that does the work."""

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from functools import partial
from reprlib import repr as shortened
from typing import Any, Literal, NamedTuple

import msgspec

from satchel.api.operations import Offered, offered, operation
from satchel.errors import BudgetError, InputError
from satchel.fitting.listing import DETAILS
from satchel.model.checks import check_budget, check_known
from satchel.server.mcp.answers import Answer
from satchel.server.mcp.tool_context import ToolContext

__all__ = [
    "CURSOR",
    "DETAIL",
    "MAX_TOKENS",
    "Effect",
    "Parameter",
    "Tool",
    "choice",
    "line",
    "names",
    "read_arguments",
    "schema",
    "text",
    "tool_for",
]


MAX_LINE = 10_000
MAX_TEXT = 4_000_000

Schema = dict[str, Any]


class Parameter(NamedTuple):
    """A parameter of a tool: its JSON schema, and how an argument is read."""

    schema: Schema
    read: Callable[[str, Any], Any]
    """Checks and converts an argument; takes its name and a value that is not null."""
    python_name: str | None = None
    """The Python name of the parameter; None if it is the same."""
    default: Any = None
    """The value if a call leaves it out; None means that it stays out."""


def text(about: str | None = None) -> Parameter:
    """Return a parameter for a text of any length that can be stored."""
    return Parameter(_about({"type": "string"}, about), lambda name, value: _string(name, value, MAX_TEXT))


def line(about: str | None = None) -> Parameter:
    """Return a parameter for a short text, such as a name or a question."""
    return Parameter(_about({"type": "string"}, about), lambda name, value: _string(name, value, MAX_LINE))


def names(about: str | None = None) -> Parameter:
    """Return a parameter for a list of names. A single string and a list encoded as a JSON string are accepted."""
    return Parameter(_about({"type": "array", "items": {"type": "string"}}, about), _names)


def choice(known: tuple[str, ...], about: str | None = None) -> Parameter:
    """Return a parameter that takes one of several words."""

    def read(name: str, value: object) -> object:
        check_known(name, value, known)
        return value

    return Parameter(_about({"enum": list(known)}, about), read)


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise InputError(f"{name} must be true or false, not {shortened(value)}")
    return value


def derived(parameter: Offered) -> Parameter:
    """Return the tool parameter for a parameter of the table of operations."""
    shape, about = parameter.shape, parameter.about
    if parameter.python_name == "token_budget":
        made = MAX_TOKENS
    elif shape.choices and shape.several:
        # One word is enough for a filter, and a list of all words costs tokens in each tool that has it.
        made = Parameter({"type": "string"}, partial(_words, shape.choices))
    elif shape.choices:
        made = choice(shape.choices)
    elif shape.several:
        made = names()
    elif shape.base is bool:
        made = Parameter({"type": "boolean"}, _flag)
    elif shape.check is not None:
        kind = "integer" if shape.base is int else "number"
        made = Parameter({"type": kind}, partial(_number, shape.check, whole=shape.base is int))
    else:
        made = text() if parameter.python_name == "text" else line()
    said = _about(made.schema, about.hint)
    if isinstance(parameter.default, int) and not isinstance(parameter.default, bool):
        said = said | {"default": parameter.default}
    return made._replace(schema=said, python_name=parameter.python_name, default=_other_default(parameter))


def _other_default(parameter: Offered) -> Any:
    return None if parameter.required or parameter.default is False else parameter.default


def _words(known: tuple[str, ...], name: str, value: object) -> list[str]:
    found = _names(name, value)
    for each in found:
        check_known(name, each, known)
    return found


def _number(check: Callable[..., Any], name: str, value: object, *, whole: bool) -> Any:
    return check(_whole_number(name, value) if whole else value, name=name)


def schema(parameters: Mapping[str, Parameter], required: Iterable[str]) -> Schema:
    """Return the JSON schema of a tool's arguments."""
    said: Schema = {"type": "object", "properties": {name: each.schema for name, each in parameters.items()}}
    needed = list(required)
    return said | {"required": needed} if needed else said


def read_arguments(
    tool: str, parameters: Mapping[str, Parameter], required: Iterable[str], arguments: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the arguments of a call by their Python names, checked; null means that one is left out."""
    given = {name: value for name, value in arguments.items() if value is not None}
    if "max_tokens" in parameters:
        _fold_budget(given)
    for name in given:
        if name not in parameters:
            raise InputError(f"{tool} has no argument {shortened(name)}; {_hint(name, parameters)}")
    read = {name: parameters[name].read(name, value) for name, value in given.items()}
    for name in required:
        # A cursor says it all.
        if name not in read and "cursor" not in read:
            raise InputError(f"{tool} needs {name}")
    defaults = {name: each.default for name, each in parameters.items() if each.default is not None}
    return {parameters[name].python_name or name: value for name, value in (defaults | read).items()}


def _fold_budget(given: dict[str, Any]) -> None:
    """Accept `token_budget` as another name of `max_tokens`."""
    if "token_budget" in given:
        other = _budget("token_budget", given.pop("token_budget"))
        if _budget("max_tokens", given.setdefault("max_tokens", other)) != other:
            raise BudgetError("max_tokens and token_budget are two names of one thing; give one of them")


def _hint(name: str, parameters: Mapping[str, Parameter]) -> str:
    near = get_close_matches(name[:100], parameters, n=1)
    return f"did you mean {near[0]}?" if near else f"it takes {', '.join(parameters) or 'none'}"


def _about(said: Schema, about: str | None) -> Schema:
    return said if about is None else said | {"description": about}


def _string(name: str, value: object, most: int) -> str:
    if not isinstance(value, str):
        raise InputError(f"{name} must be a string, not {type(value).__name__}")
    if len(value) > most:
        raise InputError(f"{name} has {len(value):,} characters; the most is {most:,}")
    return value


def _names(name: str, value: object) -> list[str]:
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = msgspec.json.decode(value)
        except (msgspec.DecodeError, RecursionError):
            raise InputError(f"{name} {shortened(value)} is not a list of strings") from None
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise InputError(f"{name} must be a list of strings, not {shortened(value)}")
    if len(found) > MAX_LINE:
        raise InputError(f"{name} has {len(found):,} entries; the most is {MAX_LINE:,}")
    return [_string(name, each, MAX_LINE) for each in found]


def _whole_number(name: str, value: object) -> object:
    """Accept whole numbers as ints, digits, or floats without a fraction, since JSON has one type of number."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if not isinstance(value, int | str):
        raise InputError(f"{name} {shortened(value)} is not a whole number")
    return value if isinstance(value, int) else value[:40]


def _budget(name: str, value: object) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int | str):
        raise BudgetError(f"{name} {shortened(value)} is not a whole number of tokens")
    budget = check_budget(value if isinstance(value, int) else value[:40])
    assert budget is not None
    return budget


MAX_TOKENS = Parameter({"type": "integer"}, _budget, "token_budget")
CURSOR = line()
DETAIL = choice(DETAILS)._replace(python_name="detail")


# Tools


Effect = Literal["reads", "adds", "sets", "ends"]
"""What a tool does to the store. reads: nothing. adds: adds, never overwrites. sets: may overwrite; idempotent.
ends: removes; idempotent."""

_HINTS: dict[Effect, dict[str, bool]] = {
    "reads": {"readOnlyHint": True},
    "adds": {"destructiveHint": False},
    "sets": {"destructiveHint": False, "idempotentHint": True},
    "ends": {"destructiveHint": True, "idempotentHint": True},
}


class Tool(NamedTuple):
    """A tool of the MCP server: its name, description, parameters, and the function that does its work."""

    name: str
    about: str
    parameters: Mapping[str, Parameter]
    required: tuple[str, ...]
    work: Callable[[ToolContext, dict[str, Any]], Answer]
    effect: Effect = "reads"

    @property
    def definition(self) -> dict[str, Any]:
        """The definition as `tools/list` returns it."""
        return {
            "name": self.name,
            "description": self.about,
            "inputSchema": schema(self.parameters, self.required),
            "annotations": _HINTS[self.effect] | {"openWorldHint": False},
        }

    def call(self, context: ToolContext, arguments: Mapping[str, Any]) -> Answer:
        """Check the arguments and do the work; raises `InputError` for wrong ones."""
        return self.work(context, read_arguments(self.name, self.parameters, self.required, arguments))


def tool_for(
    method: str,
    about: str,
    work: Callable[[ToolContext, dict[str, Any]], Answer],
    *,
    own: Mapping[str, Parameter] | None = None,
    required: tuple[str, ...] = (),
    effect: Effect = "reads",
) -> Tool:
    """Return the tool that offers a method of `Satchel`, with the parameters that the table of operations gives it.

    `own` are those that only the tool has; `required` names what it needs beyond what the method requires.
    """
    row = operation(method).mcp
    assert row is not None
    shared = offered(method, "mcp")
    parameters = {each.name: derived(each) for each in shared} | dict(own or {})
    assert set(row.own) == set(own or {}), f"{row.name} has own parameters that its row does not name"
    needed = tuple(each.name for each in shared if each.required) + required
    return Tool(row.name, about, parameters, needed, work, effect)
