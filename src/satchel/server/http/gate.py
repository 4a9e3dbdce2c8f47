"""Access control: authentication and rate limits."""

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.datastructures import Headers
from starlette.types import Scope

from satchel.server.connections import mark_trusted
from satchel.server.http.access import (
    TOKEN_FILE_SECONDS,
    Access,
    Caller,
    Keyring,
    UnreadableTokensError,
    anonymous_caller,
    is_own_token,
)
from satchel.server.http.metrics import Metrics
from satchel.server.http.problems import SOON, RefusedError

if TYPE_CHECKING:
    # Imported only if an issuer is configured.
    from satchel.server.http.oauth import OAuth

__all__ = ["Gate", "RateLimiter"]

FAILED_LOGINS_PER_SECOND = 10.0
FAILED_LOGINS_BURST = 500.0
_GRANTED_BY: dict[Access, tuple[Access, ...]] = {
    "read": ("read", "write"),
    "write": ("write",),
    "metrics": ("metrics",),
}


class Gate:
    """Authenticates requests by their tokens and limits their rate.

    A token is one of the token file, or an access token of the OAuth issuer. Without either everyone has access, as
    one org; then the service listens only on this machine.
    """

    def __init__(
        self,
        tokens: Path | None,
        *,
        org: str | None = None,
        rate: float,
        token_file_seconds: float = TOKEN_FILE_SECONDS,
        oauth: "OAuth | None" = None,
    ) -> None:
        self.metrics = Metrics()
        self._oauth = oauth
        self._anonymous = None if tokens or oauth else anonymous_caller(org)
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
        return self._anonymous is not None

    def on_change(self, listener: Callable[[frozenset[str]], None]) -> None:
        """Register a callback that gets the ids of all tokens whenever they change."""
        self._listeners.append(listener)

    async def caller(self, headers: Headers, scope: Scope) -> Caller:
        """Return the caller of a request; rejects an unknown token and a caller over its rate limit."""
        caller = self._anonymous or await self._known(headers, scope)
        mark_trusted(scope)
        if wait := self._requests.take(caller.id):
            raise _too_often("this token sends too many requests", wait)
        return caller

    def check(self, caller: Caller, needed: Access) -> None:
        """Reject a caller whose token does not grant the needed access; without tokens everyone has it."""
        if caller is self._anonymous or caller.access in _GRANTED_BY[needed]:
            return
        if self._oauth is not None and caller.is_oauth and needed != "metrics":
            raise self._oauth.insufficient(self._oauth.scope_for(needed))
        raise RefusedError(
            HTTPStatus.FORBIDDEN, "not-allowed", f"this token grants {caller.access}, but this needs {needed}"
        )

    def metadata_at(self, path: str) -> bytes | None:
        """Return the OAuth metadata of the service if it is at this path, else None."""
        return None if self._oauth is None else self._oauth.metadata_at(path)

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

    async def _known(self, headers: Headers, scope: Scope) -> Caller:
        given = headers.getlist("authorization")
        try:
            return await self._caller_of(given[0] if len(given) == 1 else "")
        except RefusedError as error:
            if error.status == HTTPStatus.UNAUTHORIZED:
                peer = scope.get("client") or ("unknown", 0)
                if wait := self._failed_logins.take(peer[0]):
                    raise _too_often("too many requests without a valid token", wait) from error
            raise

    async def _caller_of(self, authorization: str) -> Caller:
        scheme, _, token = authorization.partition(" ")
        if self._oauth is not None and scheme.lower() == "bearer" and not is_own_token(token.strip()):
            return await self._oauth.caller(token.strip())
        if self._keyring is not None:
            with self._reading(self._keyring):
                if (caller := self._keyring.caller(authorization)) is not None:
                    return caller
        challenge = 'Bearer realm="satchel"' if self._oauth is None else self._oauth.challenge()
        raise RefusedError(
            HTTPStatus.UNAUTHORIZED, "unauthorized", "a valid bearer token is required", WWW_Authenticate=challenge
        )

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
