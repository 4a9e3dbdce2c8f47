"""The MCP sessions of one token: which are in use, and which has rested longest."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["Conversations"]


class Conversations:
    """Sessions in the order of their last use; one that has ended by itself stays until it is the oldest."""

    def __init__(self) -> None:
        self._rested: dict[str, None] = {}
        self._in_use: Counter[str] = Counter()

    def begun(self, session: str) -> None:
        self._rested[session] = None

    @contextmanager
    def used(self, session: str) -> Iterator[None]:
        """Keep a session while a request of it is answered, a stream that its client listens to as well."""
        self._in_use[session] += 1
        try:
            yield
        finally:
            self._in_use[session] -= 1
            if not self._in_use[session]:
                del self._in_use[session]
            if session in self._rested:
                del self._rested[session]
                self._rested[session] = None

    def beyond(self, most: int) -> str | None:
        """Where there are so many, the one to end: that which has rested longest, if any rests. It is forgotten."""
        if len(self._rested) < most:
            return None
        oldest = next((each for each in self._rested if each not in self._in_use), None)
        if oldest is not None:
            del self._rested[oldest]
        return oldest
