"""The server's own answers in the books of a session: entered behind the back of whoever waits for one."""

import sys
import threading
from queue import SimpleQueue

from satchel.bag import Satchel
from satchel.budget import Session
from satchel.errors import SatchelError
from satchel.mcp.process import short_line

__all__ = ["Recorder"]

# Closing waits this long for what is still to be entered.
CLOSING_SECONDS = 1.0


class Recorder:
    """Enters answers in a thread of its own, as many at once as have come; a failure ends it, with one line."""

    def __init__(self, bag: Satchel, name: str) -> None:
        self._bag = bag
        self._name = name
        self._waiting: SimpleQueue[tuple[str, str, bool] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._failed = False

    def enter(self, tool: str, text: str, *, error: bool = False) -> None:
        """Have an answer entered soon; no session is begun before the first."""
        if self._failed:
            return
        self._waiting.put((tool, text, error))
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Enter what has come so far; the store may be closed then."""
        self._waiting.put(None)
        if self._thread is not None:
            self._thread.join(CLOSING_SECONDS)

    def _work(self) -> None:
        try:
            session = self._bag.session(self._name, holds="whole")
            while (first := self._waiting.get()) is not None:
                if not self._enter_all(session, first):
                    break
        except SatchelError as error:
            self._failed = True
            print(f"satchel: answers are not recorded any more: {short_line(str(error))}", file=sys.stderr)

    def _enter_all(self, session: Session, first: tuple[str, str, bool]) -> bool:
        """One transaction for all that waits; whether there will be more."""
        answers, goes_on = [first], True
        while goes_on and not self._waiting.empty():
            if (answer := self._waiting.get()) is None:
                goes_on = False
            else:
                answers.append(answer)
        with self._bag.transaction():
            for tool, text, error in answers:
                session.answered(tool, text, error=error)
        return goes_on
