"""The MCP server for HTTP: the methods of `methods`, offered through the official SDK.

Over HTTP the SDK does the sessions, event streams and checks of headers. Over standard input it is not needed.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

import anyio.to_thread
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel

from satchel.server.handshake import MODERN_VERSIONS
from satchel.server.jsonrpc import Message, RequestError
from satchel.server.mcp.guide import INSTRUCTIONS
from satchel.server.mcp.methods import Method, Served, mcp_methods
from satchel.server.mcp.protocol import SERVER, modern_result
from satchel.server.mcp.tool import Tool
from satchel.server.mcp.tool_context import ToolContext

__all__ = ["Answering", "build_server", "in_threads"]

Answering = Callable[[str, Message], Awaitable[Message]]
"""Answers a method that needs the store, given its name and parameters."""

_PARAMS: dict[str, type[BaseModel]] = {
    "tools/call": types.CallToolRequestParams,
    "prompts/get": types.GetPromptRequestParams,
    "resources/read": types.ReadResourceRequestParams,
    "completion/complete": types.CompleteRequestParams,
}


def build_server(tools: Sequence[str], answering: Answering) -> Server[Any]:
    """Return an SDK server that offers the tools of these names."""
    server: Server[Any] = Server(SERVER["name"], version=SERVER["version"], instructions=INSTRUCTIONS)
    for name, method in mcp_methods(tools, _no_store).items():
        answer = partial(answering, name) if method.needs_store else _at_once(method)
        server.add_request_handler(name, _PARAMS.get(name, types.PaginatedRequestParams), _handler(name, answer))
    return server


def in_threads(context: ToolContext, tools: Mapping[str, Tool]) -> Answering:
    """Answer methods with these tools in this context, in threads of this process."""
    methods = mcp_methods(tuple(tools), lambda: Served(context, tools))

    async def answer(name: str, params: Message) -> Message:
        # When the client has gone nobody waits for the answer.
        return await anyio.to_thread.run_sync(methods[name].answer, params, abandon_on_cancel=True)

    return answer


def _no_store() -> Served:
    raise RuntimeError("a method that needs the store was not passed on")


def _at_once(method: Method) -> Callable[[Message], Awaitable[Message]]:
    async def answer(params: Message) -> Message:
        return method.answer(params)

    return answer


def _handler(name: str, answer: Callable[[Message], Awaitable[Message]]) -> Any:
    async def handle(ctx: Any, params: BaseModel) -> Message:
        try:
            result = await answer(dict(ctx.params or {}))
        except RequestError as error:
            raise MCPError(error.code, str(error), error.data) from error
        return modern_result(name, result) if ctx.protocol_version in MODERN_VERSIONS else result

    return handle
