"""The server's own answers in the books of a session."""

from functools import cached_property

from satchel.api.satchel import Satchel
from satchel.server.mcp.behind import Behind
from satchel.session.session import Answer, Session

__all__ = ["Recorder"]

# Nothing is known by these entries but by who looks at the books; seldom and together they slow no search.
GATHERING_SECONDS = 0.5


class Recorder:
    """Enters answers after they are given; no session is begun before the first."""

    def __init__(self, bag: Satchel, name: str) -> None:
        self._bag = bag
        self._name = name
        self._behind: Behind[Answer] = Behind(self._write, gathering_seconds=GATHERING_SECONDS)

    def enter(self, tool: str, text: str, *, error: bool = False) -> None:
        self._behind.do(Answer(tool.strip() or "(no name)", text, error))

    def close(self) -> None:
        """Enter what has come so far; the store may be closed then."""
        self._behind.close()

    def _write(self, answers: list[Answer]) -> None:
        self._session.answered(answers)

    @cached_property
    def _session(self) -> Session:
        return self._bag.session(self._name, holds="whole")
