"""Access control: who is let in, how often, and to whose memories."""

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import Any

from starlette.datastructures import Headers
from starlette.types import Scope

from satchel.api.satchel import Satchel
from satchel.model.memory import check_name
from satchel.server.http.access import Access, Caller, Keyring, anonymous_caller
from satchel.server.http.metrics import Metrics
from satchel.server.http.problems import RefusedError
from satchel.server.http.requests import Addition, NewMemories

__all__ = ["Gate", "RateLimiter", "TenantViews"]

FAILURES_A_SECOND = 10.0
FAILURES_AT_ONCE = 500.0
_ENOUGH: dict[Access, tuple[Access, ...]] = {
    "read": ("read", "write"),
    "write": ("write",),
    "metrics": ("metrics",),
}


class Gate:
    """Authenticates requests by their tokens and limits their rate.

    Without a file of tokens everyone is let in, as one org; the service listens on this machine alone then.
    """

    def __init__(self, tokens: Path | None, *, org: str | None = None, rate: float) -> None:
        self.metrics = Metrics()
        self._anyone = None if tokens else anonymous_caller(org)
        self._told: list[Callable[[frozenset[str]], None]] = []
        self._keyring = Keyring(tokens, changed=self._tell) if tokens else None
        self._asked = RateLimiter(rate, 2 * rate)
        # A guess costs as much as a call; who carries a token is let in whatever others of its address do.
        self._failed = RateLimiter(FAILURES_A_SECOND, FAILURES_AT_ONCE)

    @property
    def one_org(self) -> bool:
        """Whether all callers belong to the same org."""
        return self._keyring is None

    def on_change(self, told: Callable[[frozenset[str]], None]) -> None:
        """Call `told` with the ids of all tokens whenever they change."""
        self._told.append(told)

    def caller(self, headers: Headers, scope: Scope) -> Caller:
        """Who sent a request; refuses one without a known token, or from a caller that asks too often."""
        caller = self._known(headers, scope)
        if wait := self._asked.take(caller.id):
            raise _too_often("this token asks too often", wait)
        return caller

    def check(self, caller: Caller, needed: Access) -> None:
        """Refuse a caller whose token does not give the access that is needed; without tokens everyone has it."""
        if caller is not self._anyone and caller.access not in _ENOUGH[needed]:
            raise RefusedError(
                HTTPStatus.FORBIDDEN, "not-allowed", f"this token is for {caller.access}, and this needs {needed}"
            )

    def _known(self, headers: Headers, scope: Scope) -> Caller:
        if self._keyring is None:
            assert self._anyone is not None
            return self._anyone
        given = headers.getlist("authorization")
        caller = self._keyring.caller(given[0]) if len(given) == 1 else None
        if caller is None:
            peer = scope.get("client") or ("unknown", 0)
            if wait := self._failed.take(peer[0]):
                raise _too_often("too many requests without a token that is known", wait)
            raise RefusedError(
                HTTPStatus.UNAUTHORIZED,
                "unauthorized",
                "a bearer token that is known is needed",
                WWW_Authenticate='Bearer realm="satchel"',
            )
        return caller

    def _tell(self, ids: frozenset[str]) -> None:
        for told in self._told:
            told(ids)


def _too_often(detail: str, wait: int) -> RefusedError:
    return RefusedError(HTTPStatus.TOO_MANY_REQUESTS, "too-often", detail, Retry_After=str(wait))


# How often

MOST_NAMES = 10_000


class RateLimiter:
    """Token-bucket rate limiter with a bucket for each name.

    Only the buckets used last are kept; one that was dropped starts full again.
    """

    def __init__(self, rate: float, burst: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, name: str) -> int:
        """Take one token: 0 if the request may go on, else the number of seconds to wait."""
        now = self._clock()
        level, at = self._levels.get(name, (self._burst, now))
        level = min(self._burst, level + (now - at) * self._rate)
        wait = 0 if level >= 1 else math.ceil((1 - level) / self._rate)
        self._levels[name] = (level if wait else level - 1, now)
        self._levels.move_to_end(name)
        if len(self._levels) > MOST_NAMES:
            self._levels.popitem(last=False)
        return wait


# Whose memories: those of the caller's org, and of its project if the token is bound to one

_NARROWER = ("project", "user", "agent", "session")
# What is added to a session is compared with what other sessions have saved.
_AROUND_NEW = ("project", "user")


class TenantViews:
    """Views of the store, one for each org and project that tokens are bound to."""

    def __init__(self, bag: Satchel) -> None:
        self._bag = bag
        self._views: dict[tuple[str | None, str | None], Satchel] = {}
        self._lock = threading.Lock()

    def of(self, caller: Caller) -> Satchel:
        """The view of all that a caller may see."""
        key = caller.org, caller.project
        with self._lock:
            if key not in self._views:
                self._views[key] = self._bag.scoped(org=caller.org, project=caller.project)
            return self._views[key]

    def within(self, caller: Caller, query: Any, body: Any) -> Satchel:
        """The view that a request names; refuses one of another org or project than the caller's."""
        for named in (query, body, *(body.memories if isinstance(body, NewMemories) else ())):
            _check(caller, named)
        # What is added names its place itself, and the view holds it inside.
        named_by = query or body
        fields = _AROUND_NEW if isinstance(named_by, Addition) else _NARROWER
        return self.of(caller).scoped(**{name: getattr(named_by, name, None) for name in fields})


def _check(caller: Caller, named: Any) -> None:
    for field in ("org", "project"):
        held, given = getattr(caller, field), check_name(field, getattr(named, field, None))
        if held is not None and given is not None and given != held:
            raise RefusedError(
                HTTPStatus.FORBIDDEN, "other-place", f"this token is for another {field} than the one named"
            )
