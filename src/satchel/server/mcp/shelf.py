"""What of an answer did not fit, kept for whoever comes back with its cursor."""

from collections import OrderedDict
from collections.abc import Sequence
from hashlib import blake2b
from threading import Lock

import msgspec

from satchel.errors import InputError
from satchel.fitting.portions import Portion

__all__ = ["Rest", "Shelf", "cursor_for"]

MOST_RESTS = 64
MOST_CHARACTERS = 64_000_000


class Rest(msgspec.Struct, frozen=True):
    """The portions still to be shown, of how many, by the tool that made them."""

    tool: str
    portions: tuple[Portion, ...]
    total: int
    noun: str

    @property
    def size(self) -> int:
        return sum(len(portion.text) for portion in self.portions)


def cursor_for(tool: str, portions: Sequence[Portion], budget: int) -> str:
    """The name of what will be left; the same answer within the same budget always has the same."""
    digest = blake2b(f"{tool} {budget}".encode(), digest_size=5)
    for portion in portions:
        digest.update(portion.text.encode("utf-8", "replace"))
    return digest.hexdigest()


class Shelf:
    """Rests by their cursors, the last ones; safe to share between threads."""

    def __init__(self) -> None:
        self._rests: OrderedDict[str, Rest] = OrderedDict()
        self._size = 0
        self._lock = Lock()

    def put(self, cursor: str, rest: Rest) -> None:
        with self._lock:
            self._drop(cursor)
            self._rests[cursor] = rest
            self._size += rest.size
            while len(self._rests) > 1 and (len(self._rests) > MOST_RESTS or self._size > MOST_CHARACTERS):
                self._drop(next(iter(self._rests)))

    def get(self, cursor: str, tool: str) -> Rest:
        """What is left under a cursor, which stays there: an answer may have been lost on its way."""
        with self._lock:
            rest = self._rests.get(cursor)
            if rest is None or rest.tool != tool:
                raise InputError(
                    f"the cursor {cursor[:20]!r} is not known to {tool} any more; ask again without it"
                )
            self._rests.move_to_end(cursor)
            return rest

    def _drop(self, cursor: str) -> None:
        if (rest := self._rests.pop(cursor, None)) is not None:
            self._size -= rest.size
