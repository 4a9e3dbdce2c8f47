"""Migrate orgs from one store to another, and compare both."""

import contextlib
import hashlib
import itertools
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar

import msgspec

from satchel.errors import InputError, StoreReadOnlyError
from satchel.model.checks import as_path
from satchel.model.memory import Scope, as_name
from satchel.store import index
from satchel.store.contract import KINDS, Held, Packet, Row
from satchel.store.locations import open_store
from satchel.store.store import Store
from satchel.store.transfer import Holdings

__all__ = ["Compared", "Migrated", "Move", "Tally", "Trouble", "compare", "migrate"]


EXAMPLES = 5
STEP = 200

_encode = msgspec.msgpack.Encoder().encode


class Tally(msgspec.Struct, frozen=True):
    """The number of rows of a kind in a store, and a checksum over their bytes."""

    count: int
    checksum: str


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """The comparison of the rows of one kind between two stores."""

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
    """The keys of some rows that differ."""

    @property
    def same(self) -> bool:
        return self.source == self.target

    @property
    def arrived(self) -> bool:
        """Whether the target has all rows of the source. It may have more."""
        return not self.missing and not self.differing


class _Summed:
    """Iterates over rows in the order of their keys, and computes their checksum."""

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
    """Compare the rows of a kind in two stores. Both are read page by page."""
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


# Moving one org, in batches that are each one transaction.
#
# Progress is not recorded: the rows in the target show where to continue, after a crash or beside another process
# that does the same.


BATCH = 200
CONTENTS = 8
TROUBLES = 100


class Trouble(msgspec.Struct, frozen=True):
    """A memory or session that was not migrated, and the reason."""

    org: str
    id: str
    message: str


class Move:
    """Moves one org, and counts the outcomes for its memories and sessions."""

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
        """Move everything: memories before their relations, contents before the entries that use them."""
        self._embedding = self._source.embedding()
        if self._embedding is not None:
            with self._store.writing() as tx:
                index.adopt(tx, self._embedding)
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
        """Move memories in the order of their numbers, because numbers break ties between equal hits."""
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
        """Store packets in one transaction. If that fails, store their halves, down to the one that is refused."""
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


# Migration between any two stores. If it is interrupted, running it again continues.


Progress = Callable[[int, int], None]


class Migrated(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a migration: the outcomes, and the comparison of both stores."""

    source: str
    target: str
    orgs: tuple[str, ...]
    added: int = 0
    updated: int = 0
    kept: int = 0
    """Memories and sessions that the target had already."""
    newer: int = 0
    """Memories and sessions that are newer in the target and were left unchanged."""
    refused: int = 0
    """Memories and sessions that conflict with others in the target."""
    troubles: tuple[Trouble, ...] = ()
    """Some of the newer and refused ones."""
    compared: tuple[Compared, ...] = ()

    @property
    def same(self) -> bool:
        """Whether all rows of the orgs are the same in both stores."""
        return all(each.same for each in self.compared)

    @property
    def arrived(self) -> bool:
        """Whether the target has all rows of the source. It may have more."""
        return all(each.arrived for each in self.compared)


def migrate(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    orgs: Sequence[str] = (),
    verify_only: bool = False,
    progress: Progress | None = None,
) -> Migrated:
    """Copy orgs to another store, by default all of them, and compare the two.

    Copies memories with their history, relations, uses and vectors, and sessions with their ledgers. The source is
    not changed.
    """
    with contextlib.ExitStack() as opened:
        # On a cluster only the owner sees all orgs, and cannot act as the role that is bound.
        here = opened.enter_context(_opened(as_path(source), create=False, unbound=True))
        names = _chosen(here, orgs)
        there = opened.enter_context(_opened(as_path(target), create=not verify_only))
        _refuse_the_same_place(here, there)
        if not verify_only:
            _refuse_other_embedders(here, there, names)
        return _migrated(here, there, names, verify_only=verify_only, progress=progress)


@contextlib.contextmanager
def _opened(location: str, *, create: bool, unbound: bool = False) -> Iterator[Store]:
    if location == ":memory:":
        raise InputError("a store in memory is its process's own; name files or servers to migrate")
    with contextlib.closing(open_store(location, create=create, unbound=unbound)) as store:
        yield store


def _chosen(store: Store, orgs: Sequence[str]) -> list[str]:
    if not orgs:
        try:
            return store.orgs()
        except StoreReadOnlyError:
            raise InputError(
                f"{store.location}: this login sees one org at a time; name each with --org, or use the login that "
                "owns the store"
            ) from None
    names = list(dict.fromkeys(as_name("org", org) for org in orgs))
    for name in names:
        if not store.holdings(name).exists():
            raise InputError(f"there is no org {name!r} in {store.location}")
    return names


def _refuse_the_same_place(here: Store, there: Store) -> None:
    org = Scope().org
    if here.holdings(org).whereabouts() == there.holdings(org).whereabouts():
        raise InputError(f"source and target are the same store: {there.location}")


def _refuse_other_embedders(here: Store, there: Store, orgs: Sequence[str]) -> None:
    """Refuse to mix vectors of two embedders. In a file, all orgs share one embedder."""
    together = len({id(there.within(org)) for org in orgs}) < len(orgs)
    held = None
    for org in orgs:
        wanted = here.holdings(org).embedding()
        held = there.holdings(org).embedding() or (held if together else None)
        if wanted is not None and held is not None and wanted != held:
            raise InputError(
                f"the vectors of org {org!r} are by {wanted.name} in {here.location}, and by {held.name} in "
                f"{there.location}; run `satchel reembed` on one of them first"
            )
        held = held or wanted


def _migrated(
    here: Store, there: Store, orgs: Sequence[str], *, verify_only: bool, progress: Progress | None
) -> Migrated:
    amounts = [here.holdings(org).amounts() for org in orgs]
    steps = sum(sum(each.values()) for each in amounts)
    if not verify_only:
        steps += sum(each[kind] for each in amounts for kind in Move.KINDS)
    done = 0

    def advance(amount: int) -> None:
        nonlocal done
        done += amount
        if progress is not None and amount:
            # Others may be writing, so the total can grow.
            progress(done, max(steps, done))

    outcomes: Counter[str] = Counter()
    troubles: list[Trouble] = []
    for org in () if verify_only else orgs:
        move = Move(here, there, org, advance)
        move.run()
        outcomes += move.outcomes
        troubles += move.troubles
    compared = tuple(
        compare(org, kind, here.holdings(org), there.holdings(org), advance) for org in orgs for kind in KINDS
    )
    return Migrated(
        source=here.location,
        target=there.location,
        orgs=tuple(orgs),
        troubles=tuple(troubles),
        compared=compared,
        **outcomes,
    )
