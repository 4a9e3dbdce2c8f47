"""The work behind a request: the only part of the service that uses the store.

A `Call` has all that it needs and a `Done` all that came of it, so the work can be done in a thread of the service
or in a worker process.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from satchel.api.satchel import Satchel
from satchel.errors import SatchelError
from satchel.model.invisible import json_bytes
from satchel.server.http.access import Caller
from satchel.server.http.parsing import parse_request
from satchel.server.http.problems import Refusal, as_problem, unexpected
from satchel.server.http.responses import Spent, check_size, read_within, spent
from satchel.server.http.routes import ROUTES, Route
from satchel.server.http.views import TenantViews
from satchel.server.jsonrpc import RequestError
from satchel.server.mcp.answers import Answer, PageCache, Remainder
from satchel.server.mcp.catalog import MEMORY_TOOLS
from satchel.server.mcp.methods import Served, mcp_methods
from satchel.server.mcp.tool import Tool
from satchel.server.mcp.tool_context import ToolContext
from satchel.server.specs.specs import Specs

__all__ = ["Call", "Done", "McpCall", "RouteCall", "Work", "tools_for"]


class RouteCall(msgspec.Struct, frozen=True, tag="route"):
    """A request to `/v1`, not parsed yet."""

    operation: str
    names: dict[str, str]
    """The values of the places in the path."""
    caller: Caller
    query_string: bytes
    content_type: str
    body: bytes


class McpCall(msgspec.Struct, frozen=True, tag="mcp"):
    """A request to the MCP server that needs the store."""

    method: str
    params: bytes
    """As JSON."""
    caller: Caller
    cursor: str | None = None
    rest: Remainder | None = None
    """What is behind the cursor that the request has."""


Call = RouteCall | McpCall


class Fault(msgspec.Struct, frozen=True):
    """A JSON-RPC error."""

    code: int
    message: str
    data: Any


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a call."""

    content: bytes = b""
    """The answer as JSON."""
    refusal: Refusal | None = None
    fault: Fault | None = None
    spent: Spent = Spent()
    complaint: str | None = None
    """What only the operator may see, in the log."""
    pages: tuple[tuple[str, Remainder], ...] = ()
    """What is left of an MCP answer, by the cursors that were given for it."""


def tools_for(caller: Caller) -> dict[str, Tool]:
    """Return the tools of memory, or the read-only ones if the caller may not write.

    Spec documents are files on a developer's machine, so the service does not offer their tools.
    """
    return {name: tool for name, tool in MEMORY_TOOLS.items() if caller.access == "write" or tool.effect == "reads"}


_ROUTES = {route.operation: route for route in ROUTES}


class Work:
    """Does the work of calls on a store. Safe to share between threads."""

    def __init__(self, bag: Satchel, *, most_answer: int) -> None:
        self._views = TenantViews(bag)
        self._most_answer = most_answer
        self._specs = Specs(Path.cwd())

    def do(self, call: Call) -> Done:
        """Return what came of a call. It does not raise: every error becomes a refusal."""
        try:
            return self._route(call) if isinstance(call, RouteCall) else self._mcp(call)
        except SatchelError as error:
            return Done(refusal=as_problem(error))
        except Exception as error:
            if os.environ.get("SATCHEL_DEBUG"):
                raise
            return Done(refusal=unexpected(error))

    def _route(self, call: RouteCall) -> Done:
        route = _ROUTES[call.operation]
        query, body = parse_request(route, call.query_string, call.content_type, call.body)
        view = self._views.within(call.caller, query, body)
        read = partial(_run_route, route, view, body, call.names)
        most = self._most_answer if route.access == "read" else None
        value = read(query) if most is None else read_within(read, query, most)
        content = b"" if value is None else json_bytes(value)
        if most is not None:
            check_size(len(content), most)
        return Done(content=content, spent=spent(value))

    def _mcp(self, call: McpCall) -> Done:
        notes, pages = _Notes(), _Pages(call.cursor, call.rest)
        context = ToolContext(self._views.of(call.caller), self._specs, remembers_session=False, pages=pages)
        tools = {name: notes.kept_of(tool) for name, tool in tools_for(call.caller).items()}
        method = mcp_methods(tuple(tools), lambda: Served(context, tools))[call.method]
        try:
            result = method.answer(json.loads(call.params))
        except RequestError as error:
            return Done(fault=Fault(error.code, str(error), error.data))
        return Done(
            content=json.dumps(result).encode(),
            spent=notes.spent,
            complaint=notes.complaint,
            pages=tuple(pages.added),
        )


def _run_route(route: Route, view: Satchel, body: Any, names: Mapping[str, str], query: Any) -> Any:
    # Beside a body the query only names the scope, in which the view is already.
    return route.work(view, query if body is None else body, **names)


class _Notes:
    """What a tool call cost, and what only the operator may see of its error."""

    def __init__(self) -> None:
        self.spent = Spent()
        self.complaint: str | None = None

    def kept_of(self, tool: Tool) -> Tool:
        """Return the tool with notes kept of its calls."""
        return tool._replace(work=partial(self._work, tool.work))

    def _work(
        self, work: Callable[[ToolContext, dict[str, Any]], Answer], context: ToolContext, given: dict[str, Any]
    ) -> Answer:
        with self._without_complaint():
            answer = work(context, given)
        if answer.most is not None:
            self.spent = Spent(answer.most, answer.data.get("token_count", 0), 0, answer.data.get("omitted", 0))
        return answer

    @contextmanager
    def _without_complaint(self) -> Iterator[None]:
        try:
            yield
        except SatchelError as error:
            problem, _, self.complaint = as_problem(error)
            if self.complaint is None:
                raise
            raise SatchelError(problem.detail) from error


class _Pages(PageCache):
    """The remainder that a call continues, and those that it leaves."""

    def __init__(self, cursor: str | None, rest: Remainder | None) -> None:
        super().__init__()
        if cursor is not None and rest is not None:
            super().put(cursor, rest)
        self.added: list[tuple[str, Remainder]] = []

    def put(self, cursor: str, rest: Remainder) -> None:
        super().put(cursor, rest)
        self.added.append((cursor, rest))
