"""The MCP server for HTTP: the methods of `methods`, offered through the official SDK.

Over HTTP the SDK does the sessions, event streams and checks of headers. Over standard input it is not needed.
"""

from collections.abc import Mapping
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

__all__ = ["build_server"]

_PARAMS: dict[str, type[BaseModel]] = {
    "tools/call": types.CallToolRequestParams,
    "prompts/get": types.GetPromptRequestParams,
    "resources/read": types.ReadResourceRequestParams,
    "completion/complete": types.CompleteRequestParams,
}


def build_server(context: ToolContext, tools: Mapping[str, Tool]) -> Server[Any]:
    """Return an SDK server that offers these tools in this context."""
    server: Server[Any] = Server(SERVER["name"], version=SERVER["version"], instructions=INSTRUCTIONS)
    served = Served(context, tools)
    for name, method in mcp_methods(tuple(tools), lambda: served).items():
        server.add_request_handler(name, _PARAMS.get(name, types.PaginatedRequestParams), _handler(name, method))
    return server


def _handler(name: str, method: Method) -> Any:
    async def handle(ctx: Any, params: BaseModel) -> Message:
        given = dict(ctx.params or {})
        try:
            if method.needs_store:
                # When the client has gone nobody waits for the answer.
                result = await anyio.to_thread.run_sync(method.answer, given, abandon_on_cancel=True)
            else:
                result = method.answer(given)
        except RequestError as error:
            raise MCPError(error.code, str(error), error.data) from error
        return modern_result(name, result) if ctx.protocol_version in MODERN_VERSIONS else result

    return handle
