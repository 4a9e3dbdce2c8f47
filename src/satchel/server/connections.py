"""Connections of the HTTP servers: how many there may be, and how long a client may take to send or to read.

`ConnectionGuard` is given to uvicorn in two places: `protocol` as its protocol class, which sees connections open
and close, and `guarded` around the application, which sees requests begin and end. Whoever checks tokens calls
`mark_trusted` for a valid one.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware
from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["BACKLOG", "Connection", "ConnectionGuard", "ConnectionLimits", "mark_trusted", "most_connections"]

HEAD_SECONDS = 10.0
PRESSED_HEAD_SECONDS = 2.0
READ_SECONDS = 30.0
LEAST_READ = 64 * 1024
BACKLOG = 128
# Descriptors for the store, and for connections that are accepted in one step of the event loop before they count.
RESERVED_DESCRIPTORS = BACKLOG + 64

_SCOPE_KEY = "satchel.connection"
_PROXIES_ON_THIS_MACHINE = "127.0.0.1,::1"
_REFUSED = (
    b'{"type":"urn:satchel:problem:too-many-connections","title":"Too many connections","status":503,'
    b'"detail":"too many connections are open; try again"}'
)
_REFUSAL = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/problem+json\r\nContent-Length: %d\r\n"
    b"Retry-After: 1\r\nConnection: close\r\n\r\n%b" % (len(_REFUSED), _REFUSED)
)

_log = logging.getLogger(__name__)


class ConnectionLimits(NamedTuple):
    """How many connections a server keeps open."""

    most: int = 1_000
    most_per_address: int = 100
    """Of those that have not shown a valid token yet; 0 is no limit."""


def most_connections(wanted: int, *, reserved: int = 0) -> int:
    """Return how many connections the process has descriptors for, at most `wanted`.

    `reserved` is the number of descriptors that the process needs besides those of its store.
    """
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return wanted
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    return max(1, min(wanted, soft - min(RESERVED_DESCRIPTORS, soft // 2) - reserved))


class Connection(H11Protocol):
    """An HTTP connection that is closed if a request head is late or the client stops reading."""

    guard: "ConnectionGuard"
    peer: tuple[str, int] = ("unknown", 0)
    trusted = False
    """Whether a request on this connection had a valid token."""
    requests = 0
    """Requests that are being answered."""
    waiting_since = 0.0
    _late: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.peer = self.client or self.peer
        if self.guard.admit(self):
            self.expect_head()
        else:
            transport.write(_REFUSAL)
            transport.close()

    # A response is buffered whole until the client has read it; the code that sends it does not wait.
    def pause_writing(self) -> None:
        super().pause_writing()
        self._expect_reader()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_watching()
        if not self.requests:
            self._expect_reader()

    def connection_lost(self, exc: Exception | None) -> None:
        self.guard.release(self)
        self._stop_waiting()
        super().connection_lost(exc)
        self._stop_watching()

    def request_begins(self) -> None:
        self.requests += 1
        self._stop_waiting()

    def request_ends(self) -> None:
        self.requests -= 1
        if not self.requests and not self.transport.is_closing():
            self.expect_head()
            self._expect_reader()

    def expect_head(self) -> None:
        """Close the connection unless a request comes in time."""
        self._stop_waiting()
        self._late = self.loop.call_later(self.guard.head_seconds(self), self.transport.close)

    def abort(self) -> None:
        """Close the connection at once."""
        self._stop_waiting()
        self.transport.abort()

    def _unsupported_upgrade_warning(self) -> None:
        """No warning: an upgrade request is answered over plain HTTP, and nobody needs to act on it."""

    def _stop_waiting(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _expect_reader(self) -> None:
        if (size := self.transport.get_write_buffer_size()) and self._unread is None:
            self._unread = self.loop.call_later(READ_SECONDS, self._check_reader, size)

    def _check_reader(self, before: int) -> None:
        """Abort if the client has read nothing; closing would wait until it has read everything."""
        self._unread = None
        if self.transport.get_write_buffer_size() > max(0, before - LEAST_READ):
            self.transport.abort()
        else:
            self._expect_reader()

    def _stop_watching(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None


_Waiting = dict[Connection, None]


class ConnectionGuard:
    """Bounds the connections of a server, in all and for each address before a valid token was shown.

    A new connection over a limit replaces the one that has waited longest without a request, first among those
    without a valid token. So a client that opens connections and sends nothing closes its own, and a request is
    still answered. If all are busy, the new one is refused. Above half of a limit, a connection without a valid
    token has `PRESSED_HEAD_SECONDS` instead of `HEAD_SECONDS` to send a request.
    """

    def __init__(
        self,
        limits: ConnectionLimits,
        *,
        on_refusal: Callable[[str], None] = lambda reason: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limits = limits
        self._on_refusal = on_refusal
        self._clock = clock
        self._open: dict[tuple[str, int], Connection] = {}
        # In the order in which they began to wait.
        self._waiting: dict[bool, _Waiting] = {False: {}, True: {}}
        self._untrusted: dict[str, _Waiting] = {}

    @property
    def protocol(self) -> type[Connection]:
        """The protocol class for `uvicorn.Config(http=…)`."""
        guard_of_all = self

        class GuardedConnection(Connection):
            guard = guard_of_all

        return GuardedConnection

    def config(self, app: ASGIApp, **options: Any) -> uvicorn.Config:
        """Return the configuration of a guarded server."""
        # uvicorn would replace the client's address before the guard sees it.
        behind_proxy: Any = ProxyHeadersMiddleware(app, _PROXIES_ON_THIS_MACHINE)  # type: ignore[arg-type]
        return uvicorn.Config(self.guarded(behind_proxy), http=self.protocol, proxy_headers=False, **options)

    def guarded(self, app: ASGIApp) -> ASGIApp:
        """Return the application with each request noted at its connection."""

        async def noted(scope: Scope, receive: Receive, send: Send) -> None:
            client = scope.get("client") if scope["type"] == "http" else None
            connection = self._open.get(tuple(client)) if client else None
            if connection is None:
                await app(scope, receive, send)
                return
            self._stop_waiting(connection)
            connection.request_begins()
            try:
                await app({**scope, _SCOPE_KEY: (self, connection)}, receive, send)
            finally:
                connection.request_ends()
                if not connection.requests and self._open.get(connection.peer) is connection:
                    self._wait(connection)

        return noted

    def admit(self, connection: Connection) -> bool:
        """Take a new connection, if necessary in place of one that waits; False if all are busy."""
        own = self._untrusted.setdefault(connection.peer[0], {})
        self._close_late(own)
        room = self._make_room_at_address(own) and self._make_room()
        if room:
            self._open[connection.peer] = connection
            self._untrusted.setdefault(connection.peer[0], {})[connection] = None
            self._wait(connection)
            return True
        if not own:
            self._untrusted.pop(connection.peer[0], None)
        self._complain("too-many-connections", connection, "all connections are in use: a new one is refused")
        return False

    def release(self, connection: Connection) -> None:
        """Forget a connection that is closed."""
        if self._open.get(connection.peer) is connection:
            del self._open[connection.peer]
        self._stop_waiting(connection)
        self._forget_untrusted(connection)

    def trust(self, connection: Connection) -> None:
        """Note that a request of this connection had a valid token."""
        if not connection.trusted:
            self._stop_waiting(connection)
            self._forget_untrusted(connection)
            connection.trusted = True

    def head_seconds(self, connection: Connection) -> float:
        """Return how long a connection may take to send a request head."""
        if connection.trusted:
            return HEAD_SECONDS
        own = len(self._untrusted.get(connection.peer[0], ()))
        of_address = self._limits.most_per_address
        pressed = len(self._open) > self._limits.most / 2 or (of_address and own > of_address / 2)
        return PRESSED_HEAD_SECONDS if pressed else HEAD_SECONDS

    @property
    def open_connections(self) -> int:
        return len(self._open)

    def _make_room_at_address(self, own: _Waiting) -> bool:
        most = self._limits.most_per_address
        if not most or len(own) < most:
            return True
        return self._replace(next((each for each in own if not each.requests), None))

    def _make_room(self) -> bool:
        if len(self._open) < self._limits.most:
            return True
        return self._replace(next(iter(self._waiting[False]), None) or next(iter(self._waiting[True]), None))

    def _replace(self, oldest: Connection | None) -> bool:
        if oldest is None:
            return False
        self._complain("idle-connection", oldest, "too many connections: those that send no request are closed")
        self._close(oldest)
        return True

    def _close_late(self, own: _Waiting) -> None:
        """Close the connections whose time to send a head became shorter since they began to wait."""
        now = self._clock()
        for waiting in (own, self._waiting[False]):
            for each in [*waiting]:
                if now - each.waiting_since < PRESSED_HEAD_SECONDS:
                    break
                if not each.requests and now - each.waiting_since >= self.head_seconds(each):
                    self._close(each)

    def _close(self, connection: Connection) -> None:
        # The transport reports the end later; until then the connection must not count.
        self.release(connection)
        connection.abort()

    def _wait(self, connection: Connection) -> None:
        connection.waiting_since = self._clock()
        self._waiting[connection.trusted][connection] = None
        if (own := self._untrusted.get(connection.peer[0])) is not None and own.pop(connection, 0) is None:
            own[connection] = None

    def _stop_waiting(self, connection: Connection) -> None:
        self._waiting[connection.trusted].pop(connection, None)

    def _forget_untrusted(self, connection: Connection) -> None:
        if (own := self._untrusted.get(connection.peer[0])) is not None:
            own.pop(connection, None)
            if not own:
                del self._untrusted[connection.peer[0]]

    def _complain(self, reason: str, connection: Connection, message: str) -> None:
        self._on_refusal(reason)
        _log.warning("%s; one is from %s", message, connection.peer[0], extra={"repeats_as": reason})


def mark_trusted(scope: Scope) -> None:
    """Note that the request of this scope had a valid token, so its connection no longer counts as unknown."""
    if (noted := scope.get(_SCOPE_KEY)) is not None:
        guard, connection = noted
        guard.trust(connection)
