"""A statement that is interrupted or denied at any moment is stored completely or not at all."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest
from operations import STEPS, assert_whole_or_not_at_all, fresh, inside, template

import satchel

# Fixtures, which the tests ask for by name.
__all__ = ["inside", "template"]

LOOKING = (apsw.SQLITE_READ, apsw.SQLITE_SELECT, apsw.SQLITE_FUNCTION)


class Hooks:
    """Denies the Nth action of a statement, or interrupts at the Nth moment, on every connection."""

    def __init__(self, every: int = 40) -> None:
        self.every = every
        self.left: int | None = None
        self.reached = False

    def arm(self, step: int) -> Callable[[], None]:
        def begin() -> None:
            self.left, self.reached = step, False

        return begin

    def disarm(self) -> bool:
        self.left = None
        reached, self.reached = self.reached, False
        return reached

    def due(self) -> bool:
        if self.left is None:
            return False
        self.left -= 1
        if self.left == 0:
            self.reached = True
            return True
        return False

    def authorize(self, connection: apsw.Connection) -> None:
        def decide(action: int, *_: object) -> int:
            return apsw.SQLITE_DENY if action not in LOOKING and self.due() else apsw.SQLITE_OK

        connection.authorizer = decide

    def interrupt(self, connection: apsw.Connection) -> None:
        connection.set_progress_handler(self.due, self.every)


@pytest.fixture
def hooks() -> Iterator[Hooks]:
    kept = list(apsw.connection_hooks)
    yield Hooks()
    apsw.connection_hooks[:] = kept


# The other operations are the same statements again.
@pytest.mark.parametrize("name", ["add", "update", "supersede", "purge", "import", "reembed", "restore"])
def test_an_interruption_at_any_moment_leaves_it_whole_or_undone(template: Path, inside: Path, hooks: Hooks, name):
    apsw.connection_hooks.append(hooks.interrupt)
    failures = assert_whole_or_not_at_all(template, inside, name, hooks.arm, hooks.disarm)
    assert failures >= 2


@pytest.mark.parametrize("name", ["add", "purge", "supersede", "reembed", "migration"])
def test_a_statement_that_fails_at_any_point_leaves_it_whole_or_undone(
    template: Path, inside: Path, hooks: Hooks, name
):
    apsw.connection_hooks.append(hooks.authorize)
    failures = assert_whole_or_not_at_all(template, inside, name, hooks.arm, hooks.disarm)
    assert failures >= 10


def test_a_failure_caught_inside_a_transaction_never_leaves_a_part_of_it(
    template: Path, inside: Path, hooks: Hooks
):
    """Some failures make SQLite take back the whole transaction, not only the statement that failed."""
    hooks.every = 5
    apsw.connection_hooks.append(hooks.interrupt)
    wholes = ({"one", "three"}, {"one", "two", "three"}, set())
    for step in range(1, STEPS):
        fresh(template, inside)
        with satchel.open(inside) as bag:
            known = {memory.id for memory in bag.recent()}
            with contextlib.suppress(satchel.StoreError), bag.transaction():
                bag.add("one")
                hooks.arm(step)()
                with contextlib.suppress(satchel.StoreError):
                    bag.add("two")
                reached = hooks.disarm()
                bag.add("three")
            added = {memory.text for memory in bag.recent() if memory.id not in known}
            assert added in wholes, step
            if not reached:
                return
    raise AssertionError("the transaction never got through")
