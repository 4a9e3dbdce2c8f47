"""Connection to a remote MCP server over streamable HTTP, with the transport of the MCP SDK.

The SDK is slow to import, so this module is imported only for a server with a URL.
"""

import asyncio
import contextlib
from collections.abc import Iterator

import anyio
import httpx2
import mcp_types as types
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import ClientMessageMetadata, SessionMessage
from pydantic import ValidationError

from satchel.server.gateway.servers import WebServer
from satchel.server.gateway.upstream import Listener
from satchel.server.jsonrpc import LONGEST_LINE, Message

__all__ = ["HttpLink"]

CONNECT_SECONDS = 10.0
CLOSE_SECONDS = 2.0
VERSION_HEADER = "mcp-protocol-version"
SESSION_GONE = "HTTP 404"


class HttpLink:
    """A connection to a URL. A server that cannot be reached is noticed with the first message."""

    def __init__(self, server: WebServer, listener: Listener) -> None:
        self._server = server
        self._listener = listener
        self._outgoing: asyncio.Queue[SessionMessage | None] = asyncio.Queue()
        self._headers: dict[str, str] | None = None
        self._error_status = ""
        self._closing = False
        self._task = asyncio.create_task(self._run())

    def send(self, message: Message) -> None:
        if not self._task.done():
            metadata = ClientMessageMetadata(headers=self._headers) if self._headers else None
            read = types.jsonrpc_message_adapter.validate_python(message, by_name=False)
            self._outgoing.put_nowait(SessionMessage(read, metadata))

    def set_protocol_version(self, version: str) -> None:
        self._headers = {VERSION_HEADER: version}

    async def close(self) -> None:
        self._closing = True
        self._outgoing.put_nowait(None)
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait([self._task], timeout=CLOSE_SECONDS)
            self._task.cancel()
            await asyncio.wait([self._task], timeout=CLOSE_SECONDS)

    async def _run(self) -> None:
        why = "closed the connection"
        try:
            # No read timeout: a tool call may take any time, and the client can cancel it.
            timeout = httpx2.Timeout(CONNECT_SECONDS, read=None)
            hooks = {"response": [self._note_status]}
            async with (
                httpx2.AsyncClient(headers=self._server.headers, timeout=timeout, event_hooks=hooks) as client,
                streamable_http_client(self._server.url, http_client=client, max_sse_event_size=LONGEST_LINE) as (
                    incoming,
                    outgoing,
                ),
                anyio.create_task_group() as group,
            ):

                async def say() -> None:
                    while (message := await self._outgoing.get()) is not None:
                        await outgoing.send(message)
                    group.cancel_scope.cancel()

                group.start_soon(say)
                async for message in incoming:
                    self._receive(message)
                group.cancel_scope.cancel()
        except BaseExceptionGroup as group_of:
            why = self._reason(group_of)
            if group_of.split(Exception)[1] is not None:
                raise
        except (httpx2.HTTPError, OSError, anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
            why = f"cannot be reached: {str(error) or type(error).__name__}"
        finally:
            if not self._closing:
                self._listener.on_closed(why)

    async def _note_status(self, response: httpx2.Response) -> None:
        # A server may reject the GET stream for unsolicited messages; that is not an error.
        if response.status_code >= 400 and response.request.method == "POST":
            self._error_status = f"HTTP {response.status_code}"

    def _receive(self, message: SessionMessage | Exception) -> None:
        if isinstance(message, Exception):
            self._listener.on_unreadable(None, f"an invalid message: {type(message).__name__}")
            return
        said = message.message.model_dump(by_alias=True, mode="json", exclude_unset=True)
        if "error" in said and self._error_status:
            error, refusal = said["error"], self._error_status
            self._error_status = ""
            if refusal == SESSION_GONE and self._headers is not None:
                # The server no longer knows the session, most likely because it was restarted.
                self._listener.on_closed(f"ended the session ({refusal})")
                return
            said["error"] = error | {"message": f"{error.get('message')} ({refusal})"}
        self._listener.on_message(said)

    @staticmethod
    def _reason(group: BaseExceptionGroup[BaseException]) -> str:
        first = next(_leaves(group))
        if isinstance(first, ValidationError):
            return "sent an invalid message"
        return f"cannot be reached: {str(first) or type(first).__name__}"


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for each in group.exceptions:
        if isinstance(each, BaseExceptionGroup):
            yield from _leaves(each)
        else:
            yield each
