"""A store locked by another process: which calls wait, which do not, and closing never fails."""

import contextlib
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from operations import OPERATIONS, by_ref, fresh, inside, state, template

import satchel
from satchel.model.filters import Filter
from satchel.store.sqlite import connection as sqlite_connection
from satchel.store.sqlite import store as sqlite_store

# Fixtures, which the tests ask for by name.
__all__ = ["inside", "template"]


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_connection, "BUSY_SECONDS", 0.05)
    monkeypatch.setattr(sqlite_store, "CLOSING_SECONDS", 0.05)


HOLDER = """
import sys, apsw
db = apsw.Connection(sys.argv[1])
db.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.readline()
db.execute("COMMIT")
"""


@contextlib.contextmanager
def lock_held(path: Path) -> Iterator[Callable[[], None]]:
    """Another process holds the write lock, until the function is called."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdin is not None
    assert holder.stdout is not None

    def release() -> None:
        with contextlib.suppress(BrokenPipeError, ValueError):
            holder.communicate(b"\n", timeout=30)

    try:
        assert holder.stdout.readline() == b"held\n"
        yield release
    finally:
        release()


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Every nap that a connection took for want of a lock."""
    naps: list[int] = []
    original = sqlite_connection._Patience.wait

    def wait(self: Any, attempts: int) -> bool:
        naps.append(attempts)
        return original(self, attempts)

    monkeypatch.setattr(sqlite_connection._Patience, "wait", wait)
    return naps


@pytest.mark.parametrize("name", [name for name in OPERATIONS if name not in ("backup", "restore", "migration")])
def test_a_lock_held_for_too_long_is_said_and_nothing_is_changed(template: Path, inside: Path, impatient, name):
    fresh(template, inside)
    before = state(inside)
    with lock_held(inside), pytest.raises(satchel.StoreBusyError, match="try again") as refusal:
        OPERATIONS[name](inside, lambda: None)
    assert str(inside) in str(refusal.value)
    assert state(inside) == before


def test_a_lock_released_in_time_lets_the_write_through(template: Path, inside: Path, waits: list[int]):
    fresh(template, inside)
    with satchel.open(inside) as bag, lock_held(inside) as release:
        writer = threading.Thread(target=bag.add, args=("patience",))
        writer.start()
        waiting = threading.Event()
        while not waits and writer.is_alive():
            waiting.wait(0.001)
        assert writer.is_alive()
        assert bag.stats().memories == 3
        release()
        writer.join(timeout=30)
        assert not writer.is_alive()
        assert bag.recent(limit=1)[0].text == "patience"


def test_a_lock_does_not_hold_up_those_who_open_and_read(template: Path, inside: Path, waits: list[int]):
    fresh(template, inside)
    with lock_held(inside), satchel.open(inside) as bag:
        assert bag.stats().memories == 3
        assert len(bag.recent()) == 3
        assert len(list(bag.export())) == 5
        assert bag.backup(inside.with_name("copy.db")) > 0
        assert waits == []


def test_a_read_does_not_wait_for_a_writer_to_count_its_use(
    template: Path, inside: Path, impatient, waits: list[int]
):
    fresh(template, inside)
    with satchel.open(inside) as bag, lock_held(inside):
        apple = bag.search("apple")[0].memory
        assert bag.get(apple.id).text == "apple"
        assert len(list(bag.export())) == 5
        assert waits == []


def test_a_use_that_could_not_be_written_is_written_later(template: Path, inside: Path, impatient):
    fresh(template, inside)
    with satchel.open(inside) as bag:
        with lock_held(inside):
            apple = bag.get(by_ref(bag, "a"))
            with pytest.raises(satchel.StoreBusyError):
                bag.add("fig")
        bag.add("fig")
        assert bag._store.select(Filter(ids=(apple.id,)), limit=1)[0].access_count == 1


def lock(path: Path, stack: contextlib.ExitStack) -> None:
    stack.enter_context(lock_held(path))


def remove(path: Path, stack: contextlib.ExitStack) -> None:
    for file in path.parent.iterdir():
        if file.is_file():
            file.unlink()


def overwrite(path: Path, stack: contextlib.ExitStack) -> None:
    path.write_bytes(b"no longer a store" * 5000)


@pytest.mark.parametrize("trouble", [lock, remove, overwrite])
def test_closing_never_fails_when_the_uses_cannot_be_written(template: Path, inside: Path, impatient, trouble):
    fresh(template, inside)
    bag = satchel.open(inside)
    bag.search("apple")
    with contextlib.ExitStack() as stack:
        trouble(inside, stack)
        bag.close()
    with pytest.raises(satchel.StoreError, match="closed"):
        bag.stats()


FIRST_WRITE = """
import sys
import satchel
from satchel.store.sqlite.connection import write_transaction

def enter(self):
    begin(self)
    before.update(sys.modules)

def leave(self, *error):
    print(*sorted(sys.modules.keys() - before))
    return end(self, *error)

with satchel.open(sys.argv[1], embedder="static") as bag:
    before = set()
    begin, end = write_transaction.__enter__, write_transaction.__exit__
    write_transaction.__enter__, write_transaction.__exit__ = enter, leave
    bag.add("We rotate keys every hour.", tags=["auth"])
"""


def test_the_first_write_of_a_process_loads_no_module_while_it_holds_the_lock(template: Path, inside: Path):
    fresh(template, inside)
    command = [sys.executable, "-c", FIRST_WRITE, str(inside)]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == "\n"
