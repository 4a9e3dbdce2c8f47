"""Serving clients over streamable HTTP: on this machine alone, or with a token."""

import hmac
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from pathlib import Path

import uvicorn
from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from satchel.errors import InputError
from satchel.server.mcp.server import build_server
from satchel.server.mcp.tool import Tool
from satchel.server.mcp.tool_context import ToolContext
from satchel.server.process import INTERRUPTED_SECONDS, leave_within, log_in_lines

__all__ = ["TOKEN_VARIABLE", "Address", "check_reach", "find_token", "parse_address", "security_of", "serve_http"]

TOKEN_VARIABLE = "SATCHEL_TOKEN"
SHORTEST_TOKEN = 16
PATH = "/mcp"
MOST_BYTES = 4 * 1024 * 1024
_HERE = ("127.0.0.1", "localhost", "[::1]")


class Address(tuple[str, int]):
    """A host and a port to listen on."""

    @property
    def is_loopback(self) -> bool:
        if self[0] == "localhost":
            return True
        try:
            return ip_address(self[0]).is_loopback
        except ValueError:
            return False

    @property
    def shown(self) -> str:
        """The host as a URL has it."""
        return f"[{self[0]}]" if ":" in self[0] else self[0]


def parse_address(value: str) -> Address:
    """`127.0.0.1:8765`, `localhost:8765`, `[::1]:8765`."""
    host, _, port = value.strip().rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if (
        not bare
        or not port.isascii()
        or not port.isdigit()
        or int(port) > 65535
        or ("[" not in host and ":" in host)
    ):
        raise InputError(f"--http {value!r} is not HOST:PORT; write it as 127.0.0.1:8765 or [::1]:8765")
    return Address((bare, int(port)))


def find_token(token_file: Path | None) -> str | None:
    """The token from a file, or else from SATCHEL_TOKEN."""
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


def check_reach(address: Address, token: str | None) -> None:
    """Beyond this machine only with a token."""
    if token is None and not address.is_loopback:
        raise InputError(
            f"listening on {address[0]} lets others in; give a token with --token-file or {TOKEN_VARIABLE}, "
            "or listen on 127.0.0.1"
        )


class RequireToken:
    """Lets through only what carries the token."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._expected = f"bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not self._carries_it(Headers(scope=scope).get("authorization", "")):
            refusal = PlainTextResponse("a bearer token is needed", 401, {"WWW-Authenticate": "Bearer"})
            await refusal(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _carries_it(self, header: str) -> bool:
        scheme, _, token = header.partition(" ")
        given = f"{scheme.lower()} {token.strip()}".encode("utf-8", "replace")
        return hmac.compare_digest(given, self._expected)


def security_of(address: Address, allowed_hosts: Sequence[str] = ()) -> TransportSecuritySettings:
    """The names that an address may be asked by, and the pages that may ask: no other site's in a browser."""
    named = [*_HERE, *allowed_hosts, address.shown]
    return TransportSecuritySettings(
        allowed_hosts=[form for name in named for form in (name, f"{name}:*")],
        allowed_origins=[
            f"{scheme}://{form}" for name in named for form in (name, f"{name}:*") for scheme in ("http", "https")
        ],
    )


def serve_http(
    context: ToolContext,
    tools: Mapping[str, Tool],
    address: Address,
    *,
    token: str | None,
    allowed_hosts: Sequence[str] = (),
) -> None:
    """Serve until told to stop."""
    check_reach(address, token)
    host, port = address
    routes = build_server(context, tools).streamable_http_app(
        streamable_http_path=PATH,
        host=host,
        transport_security=security_of(address, allowed_hosts),
        max_request_body_size=MOST_BYTES,
    )
    # A redirect would name whatever host was asked for, before that is looked at.
    routes.router.redirect_slashes = False
    app: ASGIApp = routes if token is None else RequireToken(routes, token)
    log_in_lines()
    with _listening(host, port) as listener:
        reached = f"http://{address.shown}:{listener.getsockname()[1]}{PATH}"
        print(f"satchel: serving {reached}", file=sys.stderr, flush=True)
        # When there are no more descriptors, asyncio complains as many times a second as its backlog is long.
        config = uvicorn.Config(
            app, log_config=None, access_log=False, backlog=64, timeout_graceful_shutdown=2, lifespan="on"
        )
        try:
            uvicorn.Server(config).run(sockets=[listener])
        except KeyboardInterrupt:
            leave_within(INTERRUPTED_SECONDS, 128 + signal.SIGINT)
            raise


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family)
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"cannot listen on {host}:{port}: {reason or error}") from error
    # asyncio does so only where a socket names its protocol: the body of an answer waited for the client's
    # acknowledgement of its head, which is 40 ms.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener
