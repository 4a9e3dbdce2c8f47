"""Who is let in, how often, and to what."""

from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path

from starlette.datastructures import Headers
from starlette.types import Scope

from satchel.server.http.access import Access, Caller, nobody_in_particular
from satchel.server.http.buckets import Buckets
from satchel.server.http.keyring import Keyring
from satchel.server.http.metrics import Metrics
from satchel.server.http.problems import RefusedError

__all__ = ["Gate"]

FAILURES_A_SECOND = 10.0
FAILURES_AT_ONCE = 500.0
_ENOUGH: dict[Access, tuple[Access, ...]] = {
    "read": ("read", "write"),
    "write": ("write",),
    "metrics": ("metrics",),
}


class Gate:
    """Lets in whoever carries a token; without a file of tokens anyone, as one org."""

    def __init__(self, tokens: Path | None, *, org: str | None = None, rate: float) -> None:
        self.metrics = Metrics()
        self._anyone = None if tokens else nobody_in_particular(org)
        self._told: list[Callable[[frozenset[str]], None]] = []
        self._keyring = Keyring(tokens, changed=self._tell) if tokens else None
        self._asked = Buckets(rate, 2 * rate)
        # A guess costs as much as a call; who carries a token is let in whatever others of its address do.
        self._failed = Buckets(FAILURES_A_SECOND, FAILURES_AT_ONCE)

    @property
    def one_org(self) -> bool:
        """Whether whoever is let in belongs to the same org."""
        return self._keyring is None

    def on_change(self, told: Callable[[frozenset[str]], None]) -> None:
        """Have the ids of the tokens told whenever they change."""
        self._told.append(told)

    def caller(self, headers: Headers, scope: Scope) -> Caller:
        caller = self._known(headers, scope)
        if wait := self._asked.take(caller.id):
            raise _too_often("this token asks too often", wait)
        return caller

    def check(self, caller: Caller, needed: Access) -> None:
        """That a caller may do what needs this access; a service without tokens has nothing to hide here."""
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
