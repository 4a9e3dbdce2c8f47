"""MCP tools: name, description, parameters, and the function that does the work."""

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

from satchel.api.operations import Offered, offered, operation
from satchel.api.parameters import Count, Weight
from satchel.errors import SatchelError
from satchel.fitting.listing import DETAILS
from satchel.server.arguments import (
    MAX_TOKENS,
    Parameter,
    choice,
    flag,
    ids,
    line,
    number,
    read_arguments,
    schema,
    tags,
    text,
    with_remark,
    words,
)
from satchel.server.mcp.answers import Answer, remarked
from satchel.server.mcp.tool_context import ToolContext

__all__ = ["CURSOR", "Effect", "Tool", "derived", "detail_level", "tool_for"]


def derived(parameter: Offered) -> Parameter:
    """Return the tool parameter for a parameter of the table of operations."""
    about = parameter.about.hint
    if isinstance(parameter.default, int) and not isinstance(parameter.default, bool):
        # In words: a schema with defaults is not strict.
        about = f"{about}; default {parameter.default}"
    return _made(parameter, about)._replace(python_name=parameter.python_name, default=_other_default(parameter))


def _made(parameter: Offered, about: str | None) -> Parameter:
    shape = parameter.shape
    if parameter.python_name == "token_budget":
        return MAX_TOKENS._replace(schema=MAX_TOKENS.schema | {"description": about})
    if parameter.python_name == "identifiers":
        return ids(about)
    if shape.choices:
        return words(shape.choices, about) if shape.several else choice(shape.choices, about)
    if shape.several:
        return tags(about)
    if shape.base is bool:
        return flag(about)
    if shape.check is not None:
        return number(shape.check, about, whole=shape.base is int, takes_zero=parameter.type in (Count, Weight))
    return text(about) if parameter.python_name == "text" else line(about)


def _other_default(parameter: Offered) -> Any:
    return None if parameter.required or parameter.default is False else parameter.default


CURSOR = line("next page")


def detail_level(default: str) -> Parameter:
    """Return the parameter for how much of each entry to show."""
    return choice(DETAILS, "how much text")._replace(python_name="detail", default=default)


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
        """Check the arguments and do the work; raises `InputError` for wrong ones. Ignored ones are remarked on."""
        asked = read_arguments(self.name, self.parameters, self.required, arguments)
        if not (remark := asked.remark):
            return self.work(context, asked.values)
        try:
            answer = self.work(context, asked.values)
        except SatchelError as error:
            raise with_remark(error, remark) from error
        return remarked(answer, remark, context.count)


def tool_for(
    method: str,
    about: str,
    work: Callable[[ToolContext, dict[str, Any]], Answer],
    *,
    own: Mapping[str, Parameter] | None = None,
    required: tuple[str, ...] = (),
    unlisted: Mapping[str, str] | None = None,
    effect: Effect = "reads",
) -> Tool:
    """Return the tool that offers a method of `Satchel`, with the parameters that the table of operations gives it.

    `own` are those that only the tool has; `required` names what it needs beyond what the method requires. Choices
    in `unlisted` are not listed in the schema, which then says something else of them: the list costs tokens, and a
    strict schema would force a model to choose.
    """
    row = operation(method).mcp
    assert row is not None
    shared = offered(method, "mcp")
    parameters = {each.name: derived(each) for each in shared} | dict(own or {})
    for name, said in (unlisted or {}).items():
        parameters[name] = parameters[name]._replace(schema={"type": "string", "description": said})
    assert set(row.own) == set(own or {}), f"{row.name} has own parameters that its row does not name"
    needed = tuple(each.name for each in shared if each.required) + required
    return Tool(row.name, about, parameters, needed, work, effect)
