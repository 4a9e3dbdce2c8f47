"""The scope of each caller: the org of its token, and its project and user if the token is bound to them."""

import threading
from http import HTTPStatus
from typing import Any

from satchel.api.satchel import Satchel
from satchel.model.memory import check_name
from satchel.server.http.access import Caller
from satchel.server.http.problems import RefusedError
from satchel.server.http.requests import Addition, AddManyRequest

__all__ = ["TenantViews"]

MAX_VIEWS = 10_000

_SCOPE_FIELDS = ("project", "user", "agent", "session")
# A new memory is compared with memories of other sessions too, so these fields alone narrow the view.
_SCOPE_OF_NEW = ("project", "user")


class TenantViews:
    """Views of the store, one for each org, project and user that tokens are bound to."""

    def __init__(self, bag: Satchel) -> None:
        self._bag = bag
        self._views: dict[tuple[str | None, ...], Satchel] = {}
        self._lock = threading.Lock()

    def of(self, caller: Caller) -> Satchel:
        """Return the view of everything a caller may read."""
        key = caller.org, caller.project, caller.user
        with self._lock:
            if key not in self._views:
                if len(self._views) >= MAX_VIEWS:
                    self._views.clear()
                self._views[key] = self._bag.scoped(org=caller.org, project=caller.project, user=caller.user)
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
    for field in ("org", "project", "user"):
        held, given = getattr(caller, field), check_name(field, getattr(named, field, None))
        if held is not None and given is not None and given != held:
            raise RefusedError(
                HTTPStatus.FORBIDDEN, "other-place", f"this token is bound to another {field} than the one given"
            )
