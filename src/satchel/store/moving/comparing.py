"""The rows of two stores side by side: counted, summed up, and told apart."""

import hashlib
from collections.abc import Callable, Iterator

import msgspec

from satchel.store.holdings import Held, Holdings, Row

__all__ = ["Compared", "Tally", "compare"]

EXAMPLES = 5
STEP = 200

_encode = msgspec.msgpack.Encoder().encode


class Tally(msgspec.Struct, frozen=True):
    """How many rows a store has of a kind, and a checksum over all of their bytes."""

    count: int
    checksum: str


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """The rows of one kind that an org has in two stores."""

    org: str
    kind: Held
    source: Tally
    target: Tally
    missing: int = 0
    """Rows that only the source has."""
    extra: int = 0
    """Rows that only the target has."""
    differing: int = 0
    examples: tuple[str, ...] = ()
    """The keys of some rows that are not the same in both."""

    @property
    def same(self) -> bool:
        return self.source == self.target

    @property
    def arrived(self) -> bool:
        """Whether the target has all of the source's, whatever else it has."""
        return not self.missing and not self.differing


class _Summed:
    """Goes through rows in the order of their keys, and sums them up on the way."""

    def __init__(self, rows: Iterator[Row], advance: Callable[[int], None] | None = None) -> None:
        self._rows = rows
        self._advance = advance
        self._sum = hashlib.blake2b(digest_size=16)
        self.count = 0
        self.row = next(rows, None)

    def step(self) -> None:
        self._sum.update(_encode(self.row))
        self.count += 1
        self.row = next(self._rows, None)
        if self._advance is not None and self.count % STEP == 0:
            self._advance(STEP)

    def tally(self) -> Tally:
        return Tally(self.count, self._sum.hexdigest())


def compare(org: str, kind: Held, source: Holdings, target: Holdings, advance: Callable[[int], None]) -> Compared:
    """Both are read a page at a time; neither is ever in memory."""
    ours, theirs = _Summed(source.rows(kind), advance), _Summed(target.rows(kind))
    found = {"missing": 0, "extra": 0, "differing": 0}
    examples: list[str] = []

    def note(what: str, row: Row) -> None:
        found[what] += 1
        if len(examples) < EXAMPLES:
            examples.append(" ".join(part.hex() if isinstance(part, bytes) else str(part) for part in row.key))

    while (our := ours.row) is not None or theirs.row is not None:
        their = theirs.row
        if our is not None and (their is None or our.key < their.key):
            note("missing", our)
            ours.step()
        elif their is not None and (our is None or their.key < our.key):
            note("extra", their)
            theirs.step()
        elif our is not None and their is not None:
            if our.values != their.values:
                note("differing", our)
            ours.step()
            theirs.step()
    advance(ours.count % STEP)
    return Compared(
        org=org, kind=kind, source=ours.tally(), target=theirs.tally(), examples=tuple(examples), **found
    )
