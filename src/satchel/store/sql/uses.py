"""Uses of memories that are not written yet."""

import os
import threading
from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from satchel.model.memory import Memory

__all__ = ["Uses"]


class Uses:
    """Counted here until a write takes them along, so that no read has to write."""

    def __init__(self) -> None:
        self._waiting: dict[str, tuple[int, datetime]] = {}
        self._since: datetime | None = None
        self._lock = threading.Lock()
        self._pid = os.getpid()

    def __bool__(self) -> bool:
        self._leave_to_parent()
        return bool(self._waiting)

    def count(self, ids: Sequence[str], moment: datetime) -> float:
        """Count a use of each; for how many seconds the oldest one has been waiting."""
        self._leave_to_parent()
        with self._lock:
            if self._since is None:
                self._since = moment
            for identifier in ids:
                count, _ = self._waiting.get(identifier, (0, moment))
                self._waiting[identifier] = (count + 1, moment)
            return (moment - self._since).total_seconds()

    def take(self) -> dict[str, tuple[int, datetime]]:
        """Hand all of them over to a write."""
        self._leave_to_parent()
        with self._lock:
            taken, self._waiting, self._since = self._waiting, {}, None
        return taken

    def give_back(self, taken: Mapping[str, tuple[int, datetime]]) -> None:
        """The write failed: they wait again."""
        with self._lock:
            for identifier, (count, last) in taken.items():
                later, newest = self._waiting.get(identifier, (0, last))
                self._waiting[identifier] = (count + later, newest)
                self._since = min(self._since or last, last)

    def added_to(self, memory: Memory) -> Memory:
        """The memory with the uses that wait for it."""
        if (waiting := self._waiting.get(memory.id)) is None:
            return memory
        count, last = waiting
        return msgspec.structs.replace(memory, access_count=memory.access_count + count, accessed_at=last)

    def _leave_to_parent(self) -> None:
        """In a forked child: what the parent counted is the parent's to write."""
        if self._pid != os.getpid():
            self._waiting, self._since, self._lock = {}, None, threading.Lock()
            self._pid = os.getpid()
