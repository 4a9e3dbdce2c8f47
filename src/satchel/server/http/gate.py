"""Access control: authentication, rate limits, and the scope of each caller."""

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any

from starlette.datastructures import Headers
from starlette.types import Scope

from satchel.api.satchel import Satchel
from satchel.model.memory import check_name
from satchel.server.connections import mark_trusted
from satchel.server.http.access import (
    TOKEN_FILE_SECONDS,
    Access,
    Caller,
    Keyring,
    UnreadableTokensError,
    anonymous_caller,
)
from satchel.server.http.metrics import Metrics
from satchel.server.http.problems import SOON, RefusedError
from satchel.server.http.requests import Addition, AddManyRequest

__all__ = ["Gate", "RateLimiter", "TenantViews"]

FAILED_LOGINS_PER_SECOND = 10.0
FAILED_LOGINS_BURST = 500.0
_GRANTED_BY: dict[Access, tuple[Access, ...]] = {
    "read": ("read", "write"),
    "write": ("write",),
    "metrics": ("metrics",),
}


class Gate:
    """Authenticates requests by their tokens and limits their rate.

    Without a token file everyone has access, as one org; then the service listens only on this machine.
    """

    def __init__(
        self,
        tokens: Path | None,
        *,
        org: str | None = None,
        rate: float,
        token_file_seconds: float = TOKEN_FILE_SECONDS,
    ) -> None:
        self.metrics = Metrics()
        self._anonymous = None if tokens else anonymous_caller(org)
        self._listeners: list[Callable[[frozenset[str]], None]] = []
        self._keyring = (
            Keyring(tokens, patience=token_file_seconds, changed=self._notify) if tokens is not None else None
        )
        self._requests = RateLimiter(rate, 2 * rate)
        # Failed logins are limited by address. Callers with a valid token are not affected by others at theirs.
        self._failed_logins = RateLimiter(FAILED_LOGINS_PER_SECOND, FAILED_LOGINS_BURST)

    @property
    def one_org(self) -> bool:
        """Whether all callers belong to the same org."""
        return self._keyring is None

    def on_change(self, listener: Callable[[frozenset[str]], None]) -> None:
        """Register a callback that gets the ids of all tokens whenever they change."""
        self._listeners.append(listener)

    def caller(self, headers: Headers, scope: Scope) -> Caller:
        """Return the caller of a request; rejects an unknown token and a caller over its rate limit."""
        caller = self._known(headers, scope)
        mark_trusted(scope)
        if wait := self._requests.take(caller.id):
            raise _too_often("this token sends too many requests", wait)
        return caller

    def check(self, caller: Caller, needed: Access) -> None:
        """Reject a caller whose token does not grant the needed access; without tokens everyone has it."""
        if caller is not self._anonymous and caller.access not in _GRANTED_BY[needed]:
            raise RefusedError(
                HTTPStatus.FORBIDDEN, "not-allowed", f"this token grants {caller.access}, but this needs {needed}"
            )

    def check_token_file(self) -> None:
        """Reject the request if the token file has been unreadable for too long."""
        if self._keyring is not None:
            with self._reading(self._keyring):
                self._keyring.check()

    @contextmanager
    def _reading(self, keyring: Keyring) -> Iterator[None]:
        try:
            yield
        except UnreadableTokensError as error:
            raise RefusedError(
                HTTPStatus.SERVICE_UNAVAILABLE, "unreadable-tokens", str(error), Retry_After=str(SOON)
            ) from error
        finally:
            self.metrics.token_file_unreadable_seconds = keyring.unreadable_seconds

    def _known(self, headers: Headers, scope: Scope) -> Caller:
        if self._keyring is None:
            assert self._anonymous is not None
            return self._anonymous
        given = headers.getlist("authorization")
        with self._reading(self._keyring):
            caller = self._keyring.caller(given[0]) if len(given) == 1 else None
        if caller is None:
            peer = scope.get("client") or ("unknown", 0)
            if wait := self._failed_logins.take(peer[0]):
                raise _too_often("too many requests without a valid token", wait)
            raise RefusedError(
                HTTPStatus.UNAUTHORIZED,
                "unauthorized",
                "a valid bearer token is required",
                WWW_Authenticate='Bearer realm="satchel"',
            )
        return caller

    def _notify(self, ids: frozenset[str]) -> None:
        for listener in self._listeners:
            listener(ids)


def _too_often(detail: str, wait: int) -> RefusedError:
    return RefusedError(HTTPStatus.TOO_MANY_REQUESTS, "too-often", detail, Retry_After=str(wait))


# Rate limiting

MAX_BUCKETS = 10_000


class RateLimiter:
    """Token-bucket rate limiter with one bucket per name.

    Only the most recently used buckets are kept; a dropped bucket starts full again.
    """

    def __init__(self, rate: float, burst: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, name: str) -> int:
        """Take one token. Returns 0 if the request may proceed, otherwise the number of seconds to wait."""
        now = self._clock()
        level, at = self._levels.get(name, (self._burst, now))
        level = min(self._burst, level + (now - at) * self._rate)
        wait = 0 if level >= 1 else math.ceil((1 - level) / self._rate)
        self._levels[name] = (level if wait else level - 1, now)
        self._levels.move_to_end(name)
        if len(self._levels) > MAX_BUCKETS:
            self._levels.popitem(last=False)
        return wait


# Scope: the caller's org, and its project if the token is bound to one

_SCOPE_FIELDS = ("project", "user", "agent", "session")
# A new memory is compared with memories of other sessions too, so these fields alone narrow the view.
_SCOPE_OF_NEW = ("project", "user")


class TenantViews:
    """Views of the store, one for each org and project that tokens are bound to."""

    def __init__(self, bag: Satchel) -> None:
        self._bag = bag
        self._views: dict[tuple[str | None, str | None], Satchel] = {}
        self._lock = threading.Lock()

    def of(self, caller: Caller) -> Satchel:
        """Return the view of everything a caller may read."""
        key = caller.org, caller.project
        with self._lock:
            if key not in self._views:
                self._views[key] = self._bag.scoped(org=caller.org, project=caller.project)
            return self._views[key]

    def within(self, caller: Caller, query: Any, body: Any) -> Satchel:
        """Return the view for the scope of a request; rejects another org or project than the caller's."""
        for named in (query, body, *(body.memories if isinstance(body, AddManyRequest) else ())):
            _check(caller, named)
        # A new memory names its own scope, which must be inside the view.
        named_by = query or body
        fields = _SCOPE_OF_NEW if isinstance(named_by, Addition) else _SCOPE_FIELDS
        return self.of(caller).scoped(**{name: getattr(named_by, name, None) for name in fields})


def _check(caller: Caller, named: Any) -> None:
    for field in ("org", "project"):
        held, given = getattr(caller, field), check_name(field, getattr(named, field, None))
        if held is not None and given is not None and given != held:
            raise RefusedError(
                HTTPStatus.FORBIDDEN, "other-place", f"this token is bound to another {field} than the one given"
            )
