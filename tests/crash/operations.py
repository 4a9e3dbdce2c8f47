"""Every operation that writes, on a store of its own, and what a fault may leave of it."""

import contextlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import apsw
import pytest

import satchel
from in_step import Letters, differences
from old_store import make_old
from satchel.store.sqlite.connection import connect
from satchel.store.sqlite.header import MIGRATIONS, SCHEMA_VERSION
from satchel.store.sqlite.migrations import prepare

CHANGING = re.compile(rb"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d{4}-\d\d-\d\dT[0-9:.]+Z")
LINES = [b'{"text": "fig"}\n', b'{"text": "date", "tags": ["t"]}\n', b'{"text": "apple crumble", "ref": "a"}\n']
STEPS = 400
MEMORY = Path("/dev/shm")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, migrations = tmp_path_factory.mktemp("template"), tmp_path_factory.mktemp("migrations")
    with satchel.open(folder / "notes.db") as bag:
        apple = bag.add("apple", ref="a", title="Fruit", tags=["t", "u"])
        pear = bag.add("pear 記憶", ref="p", topic_key="pears")
        bag.add("plum", importance=0.9)
        bag.relate(apple.id, pear.id, "related")
        bag.backup(folder / "other.db")
    with satchel.open(folder / "other.db") as other:
        other.add("only in the backup")
    make_old(folder / "notes.db", folder / "old.db")
    (folder / "migrations").symlink_to(migrations)
    add_future_migration(migrations)
    return folder


def add_future_migration(folder: Path) -> None:
    """Fill a folder with the migrations of the next version of the program."""
    shutil.copytree(MIGRATIONS, folder, dirs_exist_ok=True)
    (folder / f"{SCHEMA_VERSION + 1:04}_extra.sql").write_text(
        "CREATE TABLE extra (id TEXT PRIMARY KEY, size INTEGER);"
        "INSERT INTO extra SELECT id, length(text) FROM memory;"
        "CREATE INDEX extra_size ON extra (size);"
    )


@pytest.fixture
def inside(tmp_path: Path) -> Iterator[Path]:
    """A store in a folder that can be thrown away as a whole.

    The faults are ours, at the calls above the disk; a real one would only be waited for, thousands of times.
    """
    with TemporaryDirectory(dir=MEMORY if os.access(MEMORY, os.W_OK) else tmp_path) as folder:
        path = Path(folder, "inside", "notes.db")
        path.parent.mkdir()
        yield path


def by_ref(bag: satchel.Satchel, ref: str) -> str:
    return next(memory.id for memory in bag.recent(limit=99) if memory.ref == ref)


def on_bag(act: Callable[[satchel.Satchel], object]) -> Callable[[Path, Callable[[], object]], object]:
    """The store is opened and read before the faults begin."""

    def run(path: Path, begin: Callable[[], object]) -> None:
        with satchel.open(path) as bag:
            bag.search("apple")
            begin()
            act(bag)

    return run


def restore(path: Path, begin: Callable[[], object]) -> None:
    begin()
    satchel.restore(path.with_name("other.db"), path, replace=True)


def migrate(path: Path, begin: Callable[[], object]) -> None:
    with contextlib.closing(connect(str(path))) as db:
        begin()
        prepare(db, str(path), path.with_name("migrations"))


def upgrade(path: Path, begin: Callable[[], object]) -> None:
    """The same memories as the first version of the schema kept them, opened by this one."""
    shutil.copy(path.with_name("old.db"), path)
    begin()
    satchel.open(path).close()


def reembed(bag: satchel.Satchel) -> None:
    """Twice, so that tables of vectors are made, filled, put in place and dropped."""
    bag.reembed(Letters())
    bag.reembed("none")


def take_back(bag: satchel.Satchel) -> None:
    """What was forgotten and superseded in the same transaction is restored."""
    ends = by_ref(bag, "a"), by_ref(bag, "p")
    with bag.transaction():
        bag.unforget(at=bag.forget(ends[0]).at)
        bag.relate(*ends, "supersedes")
        bag.unrelate(*ends)


def several(bag: satchel.Satchel) -> None:
    with bag.transaction():
        bag.add("fig")
        bag.update(by_ref(bag, "a"), title="Fruits", tags=["v"])
        bag.forget(by_ref(bag, "p"), purge=True)


OPERATIONS: dict[str, Callable[[Path, Callable[[], object]], object]] = {
    "add": on_bag(lambda bag: bag.add("fig", tags=["t", "new"], title="Another")),
    "add of the same ref": on_bag(lambda bag: bag.add("apple pie", ref="a")),
    "update": on_bag(lambda bag: bag.update(by_ref(bag, "a"), text="apple tart", tags=["w"])),
    "supersede": on_bag(lambda bag: bag.relate(by_ref(bag, "a"), by_ref(bag, "p"), "supersedes")),
    "forget": on_bag(lambda bag: bag.forget(by_ref(bag, "a"))),
    "taking back": on_bag(take_back),
    "purge": on_bag(lambda bag: bag.forget(by_ref(bag, "p"), purge=True)),
    "import": on_bag(lambda bag: bag.import_(LINES)),
    "strict import": on_bag(lambda bag: bag.import_(LINES, strict=True)),
    "a transaction of several": on_bag(several),
    "backup": on_bag(lambda bag: bag.backup(Path(bag._store.location).with_name("copy.db"))),
    "reembed": on_bag(reembed),
    "restore": restore,
    "upgrade": upgrade,
    "migration": migrate,
}


def fresh(template: Path, path: Path) -> None:
    """The store of the template, alone in its folder."""
    shutil.rmtree(path.parent)
    shutil.copytree(template, path.parent, symlinks=True)


def state(path: Path, *, more: str = "") -> bytes:
    """All that is stored, after a look at its health; a migrated store is looked at in its old form."""
    undo_migration(path)
    with satchel.open(path) as bag:
        assert [check for check in bag.checks() if check.state == "failed"] == []
        assert differences(bag) == []
        # The uses are best effort and no part of what was acknowledged.
        lines = [json.loads(line) for line in bag.export()]
        assert not more or bag.get(bag.add(more).id).text == more
    for line in lines:
        for name in ("access_count", "accessed_at"):
            line.get("memory", {}).pop(name, None)
    return json.dumps(lines).encode()


def undo_migration(path: Path) -> None:
    with contextlib.closing(apsw.Connection(str(path))) as db:
        if db.pragma("user_version") == SCHEMA_VERSION + 1:
            copied, there = "SELECT count(*) FROM extra JOIN memory USING (id)", "SELECT count(*) FROM memory"
            assert db.execute(copied).get == db.execute(there).get > 0
            db.execute("DROP TABLE extra")
            db.pragma("user_version", SCHEMA_VERSION)


def form(content: bytes) -> bytes:
    """The content without what differs between two runs of the same operation."""
    return CHANGING.sub(b"*", content)


def assert_whole_or_not_at_all(
    template: Path, path: Path, name: str, arm: Callable[[int], Callable[[], object]], disarm: Callable[[], bool]
) -> int:
    """Put a fault at step 1, 2, 3 … of an operation until it is not reached; how many there were."""
    path.parent.mkdir(exist_ok=True)
    fresh(template, path)
    before = state(path)
    OPERATIONS[name](path, lambda: None)
    after = form(state(path))
    for step in range(1, STEPS):
        fresh(template, path)
        failure = failure_of(lambda begin: OPERATIONS[name](path, begin), arm(step))
        reached = disarm()
        assert failure is None or str(path.parent) in failure
        if (copy := path.with_name("copy.db")).exists():
            assert state(copy) == before
        found = state(path, more="it goes on")
        if failure:
            assert found == before or form(found) == after, step
        else:
            assert form(found) == after, step
        if not reached:
            return step - 1
    raise AssertionError(f"{name} did not get through in {STEPS} steps")


def failure_of(operation: Callable[[Callable[[], object]], object], begin: Callable[[], object]) -> str | None:
    try:
        operation(begin)
    except satchel.StoreError as error:
        return str(error)
    return None
