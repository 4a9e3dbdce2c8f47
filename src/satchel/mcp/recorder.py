"""The server's own answers in the books of a session."""

from functools import cached_property, partial

from satchel.bag import Satchel
from satchel.budget import Session
from satchel.mcp.behind import Behind

__all__ = ["Recorder"]


class Recorder:
    """Enters answers after they are given; no session is begun before the first."""

    def __init__(self, bag: Satchel, name: str) -> None:
        self._bag = bag
        self._name = name
        self._behind = Behind(bag)

    def enter(self, tool: str, text: str, *, error: bool = False) -> None:
        self._behind.do(partial(self._entered, tool, text, error=error))

    def close(self) -> None:
        """Enter what has come so far; the store may be closed then."""
        self._behind.close()

    def _entered(self, tool: str, text: str, *, error: bool) -> None:
        self._session.answered(tool, text, error=error)

    @cached_property
    def _session(self) -> Session:
        return self._bag.session(self._name, holds="whole")
