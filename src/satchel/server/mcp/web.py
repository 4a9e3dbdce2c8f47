"""Serve clients over streamable HTTP: on loopback, or elsewhere with a token."""

import hmac
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import anyio.to_thread
import uvicorn
from starlette.datastructures import Headers
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from satchel.errors import InputError
from satchel.server.connections import BACKLOG, ConnectionGuard, ConnectionLimits, mark_trusted, most_connections
from satchel.server.jsonrpc import repeated_key_response
from satchel.server.listening import WELL_KNOWN, Address, check_reach, listen, security_of
from satchel.server.logs import configure_logging
from satchel.server.mcp.server import build_server, in_threads
from satchel.server.mcp.tool import Tool
from satchel.server.mcp.tool_context import ToolContext
from satchel.server.process import INTERRUPTED_SECONDS, exit_within
from satchel.text.redact import load_rules

__all__ = ["TOKEN_REMEDY", "TOKEN_VARIABLE", "find_token", "serve_http"]

TOKEN_VARIABLE = "SATCHEL_TOKEN"
TOKEN_REMEDY = f"give one with --token-file or {TOKEN_VARIABLE}"
SHORTEST_TOKEN = 16
PATH = "/mcp"
MOST_BYTES = 4 * 1024 * 1024


def serve_http(
    context: ToolContext,
    tools: Mapping[str, Tool],
    address: Address,
    *,
    token: str | None,
    allowed_hosts: Sequence[str] = (),
) -> None:
    """Serve the MCP server at `/mcp` until a signal comes; raises `InputError` if it cannot listen."""
    check_reach(address, has_token=token is not None, remedy=TOKEN_REMEDY)
    host, port = address
    routes = build_server(tuple(tools), in_threads(context, tools)).streamable_http_app(
        streamable_http_path=PATH,
        host=host,
        transport_security=security_of(address, allowed_hosts),
        max_request_body_size=MOST_BYTES,
    )
    # A redirect would name whatever host was asked for, before that is looked at.
    routes.router.redirect_slashes = False
    guard = ConnectionGuard(ConnectionLimits(most=most_connections(ConnectionLimits().most)))
    configure_logging()
    load_rules()
    with listen(host, port) as listener:
        reached = f"http://{address.shown}:{listener.getsockname()[1]}{PATH}"
        print(f"satchel: serving {reached}", file=sys.stderr, flush=True)
        config = guard.config(
            RequireToken(UniqueKeys(routes), token),
            ws="none",
            log_config=None,
            access_log=False,
            backlog=BACKLOG,
            timeout_graceful_shutdown=2,
            lifespan="on",
        )
        try:
            uvicorn.Server(config).run(sockets=[listener])
        except KeyboardInterrupt:
            exit_within(INTERRUPTED_SECONDS, 128 + signal.SIGINT)
            raise


def find_token(token_file: Path | None) -> str | None:
    """Return the token from a file, or else from $SATCHEL_TOKEN."""
    if token_file is not None:
        try:
            token = token_file.read_text(encoding="utf-8").strip()
        except OSError as error:
            raise InputError(f"cannot read the token in {token_file}: {error.strerror}") from error
        except UnicodeDecodeError:
            raise InputError(f"the token in {token_file} is not UTF-8") from None
        source = str(token_file)
    else:
        token, source = os.environ.get(TOKEN_VARIABLE, "").strip(), TOKEN_VARIABLE
        if not token:
            return None
    if len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise InputError(f"the token in {source} must be {SHORTEST_TOKEN} or more printable characters, no blanks")
    return token


class RequireToken:
    """ASGI middleware that rejects requests without the token. With no token to require, it lets all pass."""

    def __init__(self, app: ASGIApp, token: str | None) -> None:
        self._app = app
        self._expected = None if token is None else f"bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            if scope["path"].startswith(WELL_KNOWN):
                # Clients look here first for OAuth metadata. 401 would mean that there is some.
                await PlainTextResponse("Not Found", 404)(scope, receive, send)
                return
            if not self._carries_it(Headers(scope=scope).get("authorization", "")):
                refusal = PlainTextResponse("a bearer token is needed", 401, {"WWW-Authenticate": "Bearer"})
                await refusal(scope, receive, send)
                return
            mark_trusted(scope)
        await self._app(scope, receive, send)

    def _carries_it(self, header: str) -> bool:
        if self._expected is None:
            return True
        scheme, _, token = header.partition(" ")
        given = f"{scheme.lower()} {token.strip()}".encode("utf-8", "replace")
        return hmac.compare_digest(given, self._expected)


class UniqueKeys:
    """ASGI middleware that rejects a message in which an object has a key twice."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        messages, body, complete = [], bytearray(), False
        # The application rejects a body that is larger.
        while not complete and len(body) <= MOST_BYTES:
            messages.append(await receive())
            body += messages[-1].get("body", b"")
            complete = not messages[-1].get("more_body", False)
        if len(body) <= MOST_BYTES:
            refused = await anyio.to_thread.run_sync(repeated_key_response, bytes(body))
            if refused is not None:
                await JSONResponse(refused, 400)(scope, receive, send)
                return
        messages.reverse()

        async def replay() -> Message:
            return messages.pop() if messages else await receive()

        await self._app(scope, replay, send)
