"""Whose memories a call sees: those of the caller's org, and of its project where it is bound to one."""

import threading
from http import HTTPStatus
from typing import Any

from satchel.api.satchel import Satchel
from satchel.model.fields import check_name
from satchel.server.http.access import Caller
from satchel.server.http.problems import RefusedError
from satchel.server.http.questions import NewMemories, NewMemory

__all__ = ["Places"]

_NARROWER = ("project", "user", "agent", "session")
# What is added to a session is compared with what other sessions have saved.
_AROUND_NEW = ("project", "user")


class Places:
    """Views of one store, one for each org and project that tokens are bound to."""

    def __init__(self, bag: Satchel) -> None:
        self._bag = bag
        self._views: dict[tuple[str | None, str | None], Satchel] = {}
        self._lock = threading.Lock()

    def of(self, caller: Caller) -> Satchel:
        key = caller.org, caller.project
        with self._lock:
            if key not in self._views:
                self._views[key] = self._bag.scoped(org=caller.org, project=caller.project)
            return self._views[key]

    def within(self, caller: Caller, query: Any, body: Any) -> Satchel:
        """The view that a request names, which must not be another tenant's."""
        for named in (query, body, *(body.memories if isinstance(body, NewMemories) else ())):
            _check(caller, named)
        # What is added names its place itself, and the view holds it inside.
        named_by = query or body
        fields = _AROUND_NEW if isinstance(named_by, NewMemory) else _NARROWER
        return self.of(caller).scoped(**{name: getattr(named_by, name, None) for name in fields})


def _check(caller: Caller, named: Any) -> None:
    for field in ("org", "project"):
        held, given = getattr(caller, field), check_name(field, getattr(named, field, None))
        if held is not None and given is not None and given != held:
            raise RefusedError(
                HTTPStatus.FORBIDDEN, "other-place", f"this token is for another {field} than the one named"
            )
