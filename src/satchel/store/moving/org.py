"""One org's way from store to store, in batches that are each stored whole or not at all.

Nothing is noted down on the way: what the target has already says where to go on, after a crash and beside
another process that does the same.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar

import msgspec

from satchel.errors import InputError
from satchel.store.contract import Store
from satchel.store.holdings import Held, Packet, Row

__all__ = ["Move", "Trouble"]

BATCH = 200
CONTENTS = 8
TROUBLES = 100


class Trouble(msgspec.Struct, frozen=True):
    """What was not brought over, and why."""

    org: str
    id: str
    message: str


class Move:
    """What became of the memories and sessions of one org."""

    KINDS: ClassVar[tuple[Held, ...]] = ("memories", "relations", "contents", "sessions")

    def __init__(self, source: Store, target: Store, org: str, advance: Callable[[int], None]) -> None:
        self.org = org
        self.outcomes: Counter[str] = Counter()
        self.troubles: list[Trouble] = []
        self._source = source.holdings(org)
        self._target = target.holdings(org)
        self._store = target.within(org)
        self._advance = advance

    def run(self) -> None:
        """Contents before the entries that name them, memories before their relations."""
        self._embedding = self._source.embedding()
        if self._embedding is not None:
            self._store.adopt(self._embedding)
        self._bring_memories()
        for rows in _batches(self._source.purged(), BATCH):
            self._target.take_purged(rows)
        for rows in _batches(self._source.rows("relations"), BATCH):
            self._target.take_relations(rows)
            self._advance(len(rows))
        for rows in _batches(self._source.rows("contents"), CONTENTS):
            self._target.take_contents(rows)
            self._advance(len(rows))
        for session in self._source.rows("sessions"):
            self._bring_session(session)
            self._advance(1)

    def _bring_memories(self) -> None:
        """In the order of their numbers, which decide between equal hits."""
        last = -1
        while page := self._source.marks(after=last, limit=BATCH):
            last = page[-1].number
            held = self._target.marks_of([mark.id for mark in page])
            wanted = [mark for mark in page if mark.id not in held or held[mark.id].state != mark.state]
            self.outcomes["kept"] += len(page) - len(wanted)
            if wanted:
                self._take(self._source.packets(wanted))
            self._advance(len(page))

    def _take(self, packets: Sequence[Packet]) -> None:
        """All at once; where one is refused, halves of it, until that one stands alone."""
        try:
            outcomes = self._target.take(packets, self._embedding)
        except InputError as error:
            if len(packets) == 1:
                self._trouble("refused", packets[0].memory.id, str(error))
                return
            middle = len(packets) // 2
            self._take(packets[:middle])
            self._take(packets[middle:])
            return
        for packet, outcome in zip(packets, outcomes, strict=True):
            if outcome == "newer":
                self._trouble("newer", packet.memory.id, "is newer in the target, and stays as it is there")
            else:
                self.outcomes[outcome] += 1

    def _bring_session(self, session: Row) -> None:
        id = str(session.key[0])
        if self._target.session(id) == session and self._same_rows(id):
            self.outcomes["kept"] += 1
            return
        entries, turns = self._source.rows_of_session("entries", id), self._source.rows_of_session("turns", id)
        try:
            outcome = self._target.take_session(session, entries, turns)
        except InputError as error:
            self._trouble("refused", id, str(error))
            return
        if outcome == "newer":
            self._trouble("newer", id, "has gone on in the target, and stays as it is there")
        else:
            self.outcomes[outcome] += 1

    def _same_rows(self, session: str) -> bool:
        return all(
            ours == theirs
            for kind in ("entries", "turns")
            for ours, theirs in itertools.zip_longest(
                self._source.rows_of_session(kind, session), self._target.rows_of_session(kind, session)
            )
        )

    def _trouble(self, outcome: str, id: str, message: str) -> None:
        self.outcomes[outcome] += 1
        if len(self.troubles) < TROUBLES:
            self.troubles.append(Trouble(self.org, id, message))


def _batches(rows: Iterator[Row], size: int) -> Iterator[list[Row]]:
    while batch := list(itertools.islice(rows, size)):
        yield batch
