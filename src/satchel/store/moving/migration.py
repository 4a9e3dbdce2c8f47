"""From one store to another, of whichever sort: begun again, it goes on where it was."""

import contextlib
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import msgspec

from satchel.errors import InputError, StoreReadOnlyError
from satchel.model.arguments import as_path
from satchel.model.fields import as_name
from satchel.model.memory import Scope
from satchel.store.contract import Store
from satchel.store.holdings import KINDS
from satchel.store.locations import open_store
from satchel.store.moving.comparing import Compared, compare
from satchel.store.moving.org import Move, Trouble

__all__ = ["Migrated", "Trouble", "migrate"]

Progress = Callable[[int, int], None]


class Migrated(msgspec.Struct, frozen=True, kw_only=True):
    """What was brought from one store to another, and how both compare now."""

    source: str
    target: str
    orgs: tuple[str, ...]
    added: int = 0
    updated: int = 0
    kept: int = 0
    """Memories and sessions that were there already."""
    newer: int = 0
    """Memories and sessions that are newer in the target, and stayed as they are."""
    refused: int = 0
    """Memories and sessions that the target cannot take beside what it has."""
    troubles: tuple[Trouble, ...] = ()
    """Some of those that are newer or were refused."""
    compared: tuple[Compared, ...] = ()

    @property
    def same(self) -> bool:
        """Whether all that the orgs have is the same in both stores."""
        return all(each.same for each in self.compared)

    @property
    def arrived(self) -> bool:
        """Whether the target has all that the source has; it may have had more before."""
        return all(each.arrived for each in self.compared)


def migrate(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    orgs: Sequence[str] = (),
    verify_only: bool = False,
    progress: Progress | None = None,
) -> Migrated:
    """Bring all that orgs have to another store, and compare both; all orgs, if none is named.

    Memories with their history, relations, uses and vectors, and the books of sessions. The source stays as it is.
    """
    with contextlib.ExitStack() as opened:
        here = opened.enter_context(_opened(as_path(source), create=False))
        names = _chosen(here, orgs)
        there = opened.enter_context(_opened(as_path(target), create=not verify_only))
        _refuse_the_same_place(here, there)
        if not verify_only:
            _refuse_other_embedders(here, there, names)
        return _migrated(here, there, names, verify_only=verify_only, progress=progress)


@contextlib.contextmanager
def _opened(location: str, *, create: bool) -> Iterator[Store]:
    if location == ":memory:":
        raise InputError("a store in memory is its process's own; name files or servers to migrate")
    with contextlib.closing(open_store(location, create=create)) as store:
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
    """Vectors of two embedders cannot be compared; in a file all orgs have the same."""
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
            # Others may write meanwhile.
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
