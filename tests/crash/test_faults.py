"""Faults at every step of a write: it is there whole or not at all, and the store goes on working."""

import contextlib
import ctypes
import errno
import json
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

import satchel
from conftest import Cli
from satchel.store.sqlite import connection as sqlite_connection
from satchel.store.sqlite import store as sqlite_store
from satchel.store.sqlite.connection import connect
from satchel.store.sqlite.migrations import MIGRATIONS, prepare

CHANGING = re.compile(rb"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d{4}-\d\d-\d\dT[0-9:.]+Z")
LINES = [b'{"text": "fig"}\n', b'{"text": "date", "tags": ["t"]}\n', b'{"text": "apple crumble", "ref": "a"}\n']
STEPS = 400
LOOKING = (apsw.SQLITE_READ, apsw.SQLITE_SELECT, apsw.SQLITE_FUNCTION)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("template")
    with satchel.open(folder / "notes.db") as bag:
        apple = bag.add("apple", ref="a", title="Fruit", tags=["t", "u"])
        pear = bag.add("pear 記憶", ref="p", topic_key="pears")
        bag.add("plum", importance=0.9)
        bag.relate(apple.id, pear.id, "related")
        bag.backup(folder / "other.db")
    with satchel.open(folder / "other.db") as other:
        other.add("only in the backup")
    migrations = folder / "migrations"
    migrations.mkdir()
    shutil.copy(MIGRATIONS / "0001_initial.sql", migrations)
    (migrations / "0002_extra.sql").write_text(
        "CREATE TABLE extra (id TEXT PRIMARY KEY, size INTEGER);"
        "INSERT INTO extra SELECT id, length(text) FROM memory;"
        "CREATE INDEX extra_size ON extra (size);"
    )
    return folder


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
    "purge": on_bag(lambda bag: bag.forget(by_ref(bag, "p"), purge=True)),
    "import": on_bag(lambda bag: bag.import_(LINES)),
    "strict import": on_bag(lambda bag: bag.import_(LINES, strict=True)),
    "a transaction of several": on_bag(several),
    "backup": on_bag(lambda bag: bag.backup(Path(bag._store.location).with_name("copy.db"))),
    "restore": restore,
    "migration": migrate,
}


def fresh(template: Path, path: Path) -> None:
    """The store of the template, alone in its folder."""
    shutil.rmtree(path.parent)
    shutil.copytree(template, path.parent)


def state(path: Path, *, more: str = "") -> bytes:
    """All that is stored, after a look at its health; a migrated store is looked at in its old form."""
    undo_migration(path)
    with satchel.open(path) as bag:
        assert [check for check in bag.checks() if check.state == "failed"] == []
        # The uses are best effort and no part of what was acknowledged.
        lines = [json.loads(line) for line in bag.export()]
        assert not more or bag.get(bag.add(more).id).text == more
    for line in lines:
        for name in ("access_count", "accessed_at"):
            line.get("memory", {}).pop(name, None)
    return json.dumps(lines).encode()


def undo_migration(path: Path) -> None:
    with contextlib.closing(apsw.Connection(str(path))) as db:
        if db.pragma("user_version") == 2:
            assert db.execute("SELECT count(*) FROM extra JOIN memory USING (id)").get == 3
            db.execute("DROP TABLE extra; PRAGMA user_version = 1")


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


class Weather:
    """When the disk fails: at its Nth change, once or from then on."""

    def __init__(self) -> None:
        self.left: int | None = None
        self.lasting = False
        self.reached = False
        self.reason = errno.EIO

    def arm(self, step: int, *, lasting: bool, reason: int = errno.EIO) -> Callable[[], None]:
        def begin() -> None:
            self.left, self.lasting, self.reason, self.reached = step, lasting, reason, False

        return begin

    def disarm(self) -> bool:
        self.left = None
        reached, self.reached = self.reached, False
        return reached

    def fails(self) -> bool:
        if self.left is None:
            return False
        self.left -= 1
        failing = self.left == 0 or (self.left < 0 and self.lasting)
        self.reached = self.reached or failing
        return failing


# The calls through which SQLite changes a disk, below anything that Python could see or soften.
SYSTEM_CALLS = {
    "write": (ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t),
    "pwrite": (ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64),
    "pwrite64": (ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64),
    "ftruncate": (ctypes.c_int, ctypes.c_int, ctypes.c_int64),
    "unlink": (ctypes.c_int, ctypes.c_char_p),
}


def faulty_call(weather: Weather, name: str, kind: Any, original: Any) -> Any:
    def call(*arguments: Any) -> int:
        # A full disk can still shrink and delete.
        if ("write" in name or weather.reason != errno.ENOSPC) and weather.fails():
            ctypes.set_errno(weather.reason)
            return -1
        return int(original(*arguments))

    return kind(call)


@pytest.fixture
def weather() -> Iterator[Weather]:
    weather = Weather()
    system = apsw.VFS("system", "unix")
    calls = []
    for name, signature in SYSTEM_CALLS.items():
        if address := system.xGetSystemCall(name):
            kind = ctypes.CFUNCTYPE(*signature, use_errno=True)
            calls.append(faulty_call(weather, name, kind, kind(address)))
            system.xSetSystemCall(name, ctypes.cast(calls[-1], ctypes.c_void_p).value)
    assert len(calls) >= 3
    yield weather
    system.xSetSystemCall(None, 0)
    system.unregister()


class UnsyncedFile(apsw.VFSFile):
    def __init__(self, base: str, weather: Weather, name: Any, flags: list[int]) -> None:
        super().__init__(base, name, flags)
        self.weather = weather

    def xSync(self, flags: int) -> None:  # noqa: N802
        if self.weather.fails():
            raise apsw.IOError("the disk failed")
        super().xSync(flags)

    def excepthook(self, *_: object) -> None:
        """SQLite passes the error on as it sees fit; Python need not print it."""


class UnsyncedDisk(apsw.VFS):
    """The system's files, on a disk that cannot say that it has written them."""

    def __init__(self, weather: Weather) -> None:
        self.weather = weather
        self.base = apsw.vfs_names()[0]
        super().__init__("unsynced", self.base, makedefault=True)

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        return UnsyncedFile(self.base, self.weather, name, flags)


class ClosingConnection(apsw.Connection):
    """SQLite closes whatever the disk says; only APSW raises what a disk written in Python raised."""

    def close(self, force: bool = False) -> None:
        with contextlib.suppress(apsw.IOError):
            super().close(force)


@pytest.fixture
def unsynced(monkeypatch: pytest.MonkeyPatch) -> Iterator[Weather]:
    monkeypatch.setattr(apsw, "Connection", ClosingConnection)
    weather = Weather()
    disk = UnsyncedDisk(weather)
    yield weather
    disk.unregister()


@pytest.fixture
def inside(tmp_path: Path) -> Path:
    """A store in a folder that can be thrown away as a whole."""
    (tmp_path / "inside").mkdir()
    return tmp_path / "inside" / "notes.db"


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "from then on"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_a_disk_that_fails_at_any_write_leaves_it_whole_or_undone(
    template: Path, inside: Path, weather: Weather, name, lasting
):
    failures = assert_whole_or_not_at_all(
        template, inside, name, lambda step: weather.arm(step, lasting=lasting), weather.disarm
    )
    assert failures >= 2


@pytest.mark.parametrize("name", ["add", "supersede", "purge", "import", "a transaction of several"])
def test_a_disk_that_cannot_be_synced_leaves_it_whole_or_undone(
    template: Path, inside: Path, unsynced: Weather, name
):
    failures = assert_whole_or_not_at_all(
        template, inside, name, lambda step: unsynced.arm(step, lasting=False), unsynced.disarm
    )
    assert failures >= 1


@pytest.mark.parametrize("name", ["add", "import", "backup", "migration"])
def test_a_disk_that_is_full_at_any_write_says_so(template: Path, inside: Path, weather: Weather, name):
    fresh(template, inside)
    with pytest.raises(satchel.StoreFullError, match="free some disk space"):
        OPERATIONS[name](inside, weather.arm(1, lasting=True, reason=errno.ENOSPC))
    weather.disarm()
    failures = assert_whole_or_not_at_all(
        template,
        inside,
        name,
        lambda step: weather.arm(step, lasting=True, reason=errno.ENOSPC),
        weather.disarm,
    )
    assert failures >= 2


def test_a_store_on_a_full_disk_is_opened_or_the_reason_is_said(template: Path, inside: Path, weather: Weather):
    """SQLite wants a little room even to read; "disk I/O error" would send people to the wrong place."""
    fresh(template, inside)
    before = state(inside)
    weather.arm(1, lasting=True, reason=errno.ENOSPC)()
    failure = failure_of(lambda _: satchel.open(inside).close(), lambda: None)
    weather.disarm()
    assert failure is None or "free some disk space" in failure
    assert state(inside) == before


def test_a_disk_that_fails_while_a_store_is_made_leaves_one_that_can_be_made_again(path: Path, weather: Weather):
    for step in range(1, STEPS):
        weather.arm(step, lasting=step % 2 == 0)()
        failure = failure_of(lambda _: satchel.open(path).close(), lambda: None)
        reached = weather.disarm()
        assert failure is None or (reached and str(path) in failure)
        with satchel.open(path) as bag:
            bag.add("first")
            assert bag.stats().memories == 1
            assert [check for check in bag.checks() if check.state != "ok"] == []
        for file in path.parent.iterdir():
            file.unlink()
        if not reached:
            break
    assert 5 < step < STEPS - 1


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "from then on"])
@pytest.mark.parametrize("name", ["backup", "restore", "migration"])
def test_a_copy_that_fails_leaves_no_part_of_itself(template: Path, inside: Path, weather: Weather, name, lasting):
    for step in range(1, STEPS):
        fresh(template, inside)
        failure_of(lambda begin: OPERATIONS[name](inside, begin), weather.arm(step, lasting=lasting))
        assert [file.name for file in inside.parent.iterdir() if "partial" in file.name] == [], step
        if not weather.disarm():
            return


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
@pytest.mark.parametrize("name", ["add", "update", "supersede", "purge", "import", "restore"])
def test_an_interruption_at_any_moment_leaves_it_whole_or_undone(template: Path, inside: Path, hooks: Hooks, name):
    apsw.connection_hooks.append(hooks.interrupt)
    failures = assert_whole_or_not_at_all(template, inside, name, hooks.arm, hooks.disarm)
    assert failures >= 2


@pytest.mark.parametrize("name", ["purge", "supersede", "migration"])
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


def test_a_full_page_limit_says_that_the_disk_is_full_and_loses_nothing(path: Path):
    with satchel.open(path) as bag:
        bag.add("acknowledged")
        before = b"".join(bag.export())
        with bag._store._pool.connection() as db:
            pages = db.pragma("page_count")
            db.pragma("max_page_count", pages + 2)
        with pytest.raises(satchel.StoreFullError, match="free some disk space") as refusal:
            bag.add("long " * 10_000)
        assert str(path) in str(refusal.value)
        assert b"".join(bag.export()) == before
        with pytest.raises(satchel.StoreFullError):
            bag.add_many([satchel.Draft("short"), satchel.Draft("long " * 10_000)])
        assert b"".join(bag.export()) == before
        with bag._store._pool.connection() as db:
            db.pragma("max_page_count", pages + 1000)
        bag.add("long " * 10_000)
        assert bag.stats().memories == 2
        assert [check for check in bag.checks() if check.state != "ok"] == []


FULL = """
import json, os, resource, subprocess, sys, satchel
folder, way, command = sys.argv[1:]
path, filler = folder + "/notes.db", folder + "/filler"
if way == "disk":
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", folder])
    if done.returncode:
        sys.exit(77)
    with open(filler, "wb") as file:
        file.write(bytes(1_000_000))
else:
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (800_000, hard))

bag = satchel.open(path)
said, error = [], None
while error is None and len(said) < 2000:
    try:
        said.append(bag.add(f"note {len(said)} " + "word " * 300).id)
    except satchel.StoreError as caught:
        error = caught
result = {"said": len(said), "error": type(error).__name__, "message": str(error)}
there = {memory.id for memory in bag.recent(limit=10_000)}
result["exact"] = there == set(said)

def run(*arguments, text=""):
    done = subprocess.run([command, *arguments, "--db", path], input=text, capture_output=True, text=True)
    return [done.returncode, done.stdout, done.stderr]

result["add"] = run("add", "-", text="long " * 100_000)
result["stats"] = run("stats")
bag.close()
if way == "disk":
    os.unlink(filler)
else:
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
with satchel.open(path) as bag:
    result["exact afterwards"] = {memory.id for memory in bag.recent(limit=10_000)} == set(said)
    bag.add("there is room again " * 100)
    result["more"] = bag.stats().memories - len(said)
    result["unwell"] = [check.name for check in bag.checks() if check.state != "ok"]
print(json.dumps(result))
"""


@pytest.mark.parametrize("way", ["disk", "limit"])
def test_a_full_disk_loses_nothing_that_was_acknowledged(tmp_path: Path, way):
    folder = tmp_path / "small"
    folder.mkdir()
    command = [sys.executable, "-c", FULL, folder, way, Path(sys.executable).with_name("satchel")]
    if way == "disk":
        command = ["unshare", "--mount", *command]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=60)
    if way == "disk" and (done.returncode == 77 or "unshare" in done.stderr):
        pytest.skip("only root can mount a small disk; a limit on the file's size is tested instead")
    assert (done.returncode, done.stderr) == (0, "")
    result = json.loads(done.stdout)
    assert result["said"] > 9
    assert result["error"] == ("StoreFullError" if way == "disk" else "StoreError")
    assert str(folder / "notes.db") in result["message"]
    assert "\n" not in result["message"]
    assert result["exact"]
    code, output, complaint = result["add"]
    assert (code, output, complaint.count("\n")) == (1, "", 1)
    assert str(folder / "notes.db") in complaint
    code, output, _ = result["stats"]
    assert (code, str(result["said"]) in output) == (0, True)
    assert result["exact afterwards"]
    assert result["more"] == 1
    assert result["unwell"] == []


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
        assert bag._store.select(satchel.store.Filter(ids=(apple.id,)), limit=1)[0].access_count == 1


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


def test_closing_never_fails_on_a_disk_that_does(template: Path, inside: Path, weather: Weather):
    for reason in (errno.EIO, errno.ENOSPC, errno.EROFS):
        fresh(template, inside)
        before = state(inside)
        bag = satchel.open(inside)
        bag.search("apple")
        weather.arm(1, lasting=True, reason=reason)()
        bag.close()
        assert weather.disarm()
        assert state(inside) == before


def test_a_disk_that_fails_gives_the_command_one_line_and_code_1(template: Path, inside: Path, cli: Cli):
    fresh(template, inside)
    before = state(inside)
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, "add", "long " * 20_000, "--db", str(inside)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert done.stderr.startswith(f"satchel: {inside}")
    assert state(inside) == before
    assert cli("add", "short", "--db", inside).returncode == 0


LIMITED = """
import resource, sys, satchel.cli
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
satchel.cli.main(sys.argv[1:])
"""


@pytest.mark.parametrize("reason", [errno.ENOSPC, errno.EIO])
def test_a_backup_that_cannot_be_moved_into_place_leaves_nothing(bag, path: Path, monkeypatch, reason):
    bag.add("apple")

    def fail(*_: object) -> None:
        raise OSError(reason, "the disk failed")

    monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises(satchel.StoreError, match=r"copy\.db"):
        bag.backup(path.with_name("copy.db"))
    assert not [file for file in path.parent.iterdir() if "copy" in file.name]
