"""What a tool is: its name, what it takes, what it does, and what a client should know before it is called."""

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

from satchel.server.mcp.answers import Answer
from satchel.server.mcp.desk import Desk
from satchel.server.mcp.parameters import Parameter, read_arguments, schema

__all__ = ["Effect", "Tool"]

Effect = Literal["reads", "adds", "sets", "ends"]
"""reads: changes nothing. adds: never takes anything away. sets: may overwrite, the same again changes nothing.
ends: takes something away, the same again changes nothing."""

_HINTS: dict[Effect, dict[str, bool]] = {
    "reads": {"readOnlyHint": True},
    "adds": {"destructiveHint": False},
    "sets": {"destructiveHint": False, "idempotentHint": True},
    "ends": {"destructiveHint": True, "idempotentHint": True},
}


class Tool(NamedTuple):
    name: str
    about: str
    parameters: Mapping[str, Parameter]
    required: tuple[str, ...]
    work: Callable[[Desk, dict[str, Any]], Answer]
    effect: Effect = "reads"

    @property
    def definition(self) -> dict[str, Any]:
        """As `tools/list` gives it."""
        return {
            "name": self.name,
            "description": self.about,
            "inputSchema": schema(self.parameters, self.required),
            "annotations": _HINTS[self.effect] | {"openWorldHint": False},
        }

    def call(self, desk: Desk, arguments: Mapping[str, Any]) -> Answer:
        return self.work(desk, read_arguments(self.name, self.parameters, self.required, arguments))
