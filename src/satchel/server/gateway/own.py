"""The three tools that a gateway adds: the next page, a search in a result, the budget."""

from collections.abc import Callable, Mapping
from typing import Any

from satchel.errors import BudgetError, InputError, SatchelError
from satchel.fitting.as_json import as_json
from satchel.server.gateway.delivery import Delivered, tool_error
from satchel.server.gateway.wire import Message
from satchel.session.session import Session

__all__ = ["DEFINITIONS", "NAMES", "OwnTools"]

_MOST = {"type": "integer", "minimum": 1}


def _tool(name: str, description: str, required: list[str], **properties: Message) -> Message:
    schema = {"type": "object", "properties": properties, "required": required}
    return {
        "name": name,
        "description": description,
        "inputSchema": schema,
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    }


DEFINITIONS = (
    _tool(
        "result_page",
        "The next page of a tool result that was too long to be shown whole.",
        ["cursor"],
        cursor={"type": "string", "description": "From the end of the page before."},
        max_tokens=_MOST,
    ),
    _tool(
        "result_find",
        "Lines of a stored tool result that match a regular expression, without paging through it.",
        ["handle", "pattern"],
        handle={"type": "string", "description": "From the result's note; a cursor does too."},
        pattern={"type": "string"},
        max_tokens=_MOST,
    ),
    _tool("budget_status", "Tokens used and left in this session, and the state of each server.", []),
)
NAMES = frozenset(definition["name"] for definition in DEFINITIONS)


class OwnTools:
    """Answers calls of our own tools; each in a thread of its own."""

    def __init__(self, session: Session, servers: Callable[[], Message], *, settle: Callable[[], object]) -> None:
        self._session = session
        self._servers = servers
        self._settle = settle
        """Waits for what is still to be entered."""

    def __call__(self, name: str, arguments: Mapping[str, Any], *, new_turn: bool) -> Delivered:
        try:
            self._settle()
            if new_turn:
                self._session.next_turn()
            return Delivered({"content": [{"type": "text", "text": self._text(name, arguments)}]})
        except SatchelError as error:
            return Delivered(tool_error(str(error)))

    def _text(self, name: str, arguments: Mapping[str, Any]) -> str:
        if name == "budget_status":
            return as_json(self._session.state() | {"servers": self._servers()})
        most = arguments.get("max_tokens")
        if name == "result_page":
            shown = self._session.page(_word(arguments, "cursor"), max_tokens=most)
            if not shown.text:
                raise BudgetError(shown.budget_note or "nothing fitted")
            return shown.text
        found = self._session.find(_word(arguments, "handle"), _word(arguments, "pattern"), max_tokens=most)
        if not found.text:
            raise BudgetError(f"nothing fitted into {found.allocation} tokens; give max_tokens of 100 or more")
        return found.text


def _word(arguments: Mapping[str, Any], name: str) -> str:
    value = arguments.get(name)
    if not isinstance(value, str) or not value:
        raise InputError(f"{name} is missing; give it as a string")
    return value
