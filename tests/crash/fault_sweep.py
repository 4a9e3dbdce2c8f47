"""Run a command again and again, with a fault at each of its points: fault_sweep.py FAULT OPERATION [POINTS].

FAULT is `kill` (the process is killed there) or `full` (from there on the disk is full). A point is a change of
the disk: a write of SQLite, or a file that is made, renamed or removed. For a migration to PostgreSQL it is a
statement. A clean run counts the points; then there is a run for each, or for POINTS of them at even
distances. After each, the store is checked, the command is repeated, and the result is compared with that of the
clean run.
Prints what was done as JSON.
"""

import contextlib
import errno
import json
import os
import shutil
import signal
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, NoReturn

# Run by its path, it finds what several suites share one folder up.
sys.path.append(str(Path(__file__).parent.parent))

from operations import CHANGING, MEMORY
from pg_proxy import Proxy
from weather import Weather, faulty_disk

import satchel
import satchel.cli.transfer
import satchel.cli.upkeep
import satchel.store.postgres.store
from in_step import differences
from old_store import make_old
from pg_server import Server, server
from satchel.api import transfer
from satchel.cli.app import main
from satchel.recall import indexer
from satchel.store import migrate
from satchel.store.partial_file import PREFIX

MEMORIES = 40
# Small, so that each operation has several transactions to be killed between.
BATCH = 8
NOTHING: Counter[str] = Counter()


class Operation(NamedTuple):
    """A command, and the store in which it changes something."""

    command: tuple[str, ...]
    again: tuple[str, ...] = ()
    """The command that continues, if it is another."""
    store: str = "notes.db"
    atomic: bool = True
    """Whether all of it happens or nothing; otherwise a part may have happened."""
    once: bool = False
    """Whether it cannot be repeated after it has happened."""
    copies: tuple[str, ...] = ()
    """Files that it makes. Each is absent, or complete."""
    unchanged: tuple[str, ...] = ()
    """Files that are only read."""


OPERATIONS = {
    "add": Operation(("add", "a new memory", "--tag", "t", "--db", "notes.db"), once=True),
    "purge": Operation(("forget", "--purge", "--yes", "--tag", "some", "--db", "notes.db")),
    "import": Operation(
        ("import", "lines.jsonl", "--db", "notes.db"), atomic=False, unchanged=("lines.jsonl",)
    ),
    "reembed": Operation(("reembed", "--embedder", "static", "--db", "words.db"), store="words.db"),
    "reembed to none": Operation(("reembed", "--embedder", "none", "--db", "notes.db")),
    "restore": Operation(
        ("restore", "other.db", "--force", "--db", "notes.db"),
        copies=("notes.db.before-restore-1", "notes.db.before-restore-2"),
        unchanged=("other.db",),
    ),
    "restore to a new file": Operation(
        ("restore", "other.db", "--db", "new.db"), store="new.db", once=True, unchanged=("other.db",)
    ),
    "restore over a single file": Operation(
        ("restore", "other.db", "--force", "--db", "single.db"),
        store="single.db",
        copies=("single.db.before-restore-1", "single.db.before-restore-2"),
        unchanged=("other.db",),
    ),
    "upgrade": Operation(
        ("stats", "--db", "old.db"),
        store="old.db",
        copies=("old.db.schema-1.backup", "old.db.schema-1-2.backup"),
    ),
    "backup": Operation(
        ("backup", "copy.db", "--db", "notes.db"),
        again=("backup", "second.db", "--db", "notes.db"),
        copies=("copy.db", "second.db"),
    ),
    "export": Operation(
        ("export", "-o", "out.jsonl", "--db", "notes.db"),
        again=("export", "-o", "second.jsonl", "--db", "notes.db"),
    ),
    "migrate to a file": Operation(
        ("migrate", "--from", "notes.db", "--to", "new.db"), store="new.db", atomic=False, unchanged=("notes.db",)
    ),
    "migrate to PostgreSQL": Operation(
        ("migrate", "--from", "notes.db", "--to", "{pg}"), store="{pg}", atomic=False, unchanged=("notes.db",)
    ),
    "migrate from PostgreSQL": Operation(
        ("migrate", "--from", "{pg}", "--to", "new.db"), store="new.db", atomic=False
    ),
}  # fmt: skip


class Ending(NamedTuple):
    """How a run of a command ended."""

    points: int
    killed: bool
    code: int
    said: str


class Swept(NamedTuple):
    """What a sweep has done. A run in which something was lost has raised an error instead."""

    operation: str
    points: int
    tried: int
    in_the_middle: int
    """Runs in which the fault came before the command had ended."""


# The stores that the commands work on.


def make_template(folder: Path) -> None:
    with satchel.open(folder / "notes.db", embedder="static") as bag:
        # Never opened, so it has no log yet, and SQLite writes to it with a journal.
        bag.backup(folder / "single.db")
        first, *others = bag.add_many(
            [
                satchel.Draft(
                    f"memory {number} about rotating keys 記憶 " * (1 + number % 7),
                    ref=str(number),
                    tags=["t"] if number % 5 else ["some"],
                )
                for number in range(MEMORIES)
            ]
        )
        for other in others[:10]:
            bag.relate(first.id, other.id)
        for number in range(3):
            bag.session(f"work {number}").result("say", f"result {number}\n" * 500)
        bag.backup(folder / "other.db")
    with satchel.open(folder / "other.db") as other:
        other.add("only in the backup")
    shutil.copy(folder / "notes.db", folder / "words.db")
    with satchel.open(folder / "words.db") as words:
        words.reembed("none")
    make_old(folder / "notes.db", folder / "old.db")
    lines = [{"text": f"imported {number}", "tags": ["t"]} for number in range(3 * BATCH)]
    lines.append({"text": "memory 3 has changed", "ref": "3"})
    (folder / "lines.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def state(store: Path | str) -> Counter[str]:
    """What a store holds, as lines in which ids and times are left out, after a check of its health."""
    if isinstance(store, Path) and not store.exists():
        return NOTHING
    with satchel.open(store) as bag:
        assert [check for check in bag.checks() if check.state == "failed"] == []
        assert differences(bag) == []
        records = [json.loads(line) for line in bag.export()][1:]
    for record in records:
        for name in ("access_count", "accessed_at"):
            record.get("memory", {}).pop(name, None)
    return Counter(CHANGING.sub(b"*", json.dumps(record, sort_keys=True).encode()).decode() for record in records)


# Runs, each in a fork that stands for a new process of the command.


def run(
    command: tuple[str, ...], folder: Path, begin: Callable[[Weather], object], *, victim: Proxy | None
) -> Ending:
    """Run a command in a fork, and wait for its end. The fork reports how many points it has passed."""
    report, reporting = os.pipe()
    with tempfile.TemporaryFile() as said:
        child = os.fork()
        if child == 0:
            null = os.open(os.devnull, os.O_RDWR)
            become(command, folder, begin, (null, null, said.fileno()), reporting)
        os.close(reporting)
        if victim is not None:
            victim.aim(child)
        with open(report, "rb") as reports:
            passed = reports.read()
        _, status = os.waitpid(child, 0)
        said.seek(0)
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        assert not (killed and passed), "it was killed after the command had ended"
        code = -1 if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        return Ending(int(passed or 0), killed, code, said.read().decode())


def become(
    command: tuple[str, ...],
    folder: Path,
    begin: Callable[[Weather], object],
    streams: tuple[int, int, int],
    reporting: int,
) -> NoReturn:
    """Run a command with these standard streams in place of this fork, and end. `begin` sets the faults."""
    code = 99
    try:
        os.chdir(folder)
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        with faulty_disk() as weather:
            begin(weather)
            try:
                main(command)
            except SystemExit as end:
                code = int(end.code or 0)
            os.write(reporting, str(weather.points).encode())
    finally:
        if code == 99:
            traceback.print_exc()
        # Whatever ended it, a child must not go on as a second sweep.
        os._exit(code)


# Sweeps.


def chosen(points: int, most: int | None) -> list[int]:
    """Return the points to try: all, or some at even distances with the first and the last."""
    count = min(points, most or points)
    return sorted({1 + number * (points - 1) // max(count - 1, 1) for number in range(count)})


class Sweep:
    """All runs of one operation, in a folder that is made anew for each."""

    def __init__(self, name: str, fault: str, folder: Path, pg: Server | None) -> None:
        self.name = name
        self.fault = fault
        self.operation = OPERATIONS[name]
        self.template, self.folder = folder / "template", folder / "run"
        self.template.mkdir()
        make_template(self.template)
        self.url = ""
        self.pg = pg
        self.proxy: Proxy | None = None

    def run(self, most: int | None) -> Swept:
        with self.server():
            self.fresh()
            self.before = self.state()
            # The look may have upgraded it.
            self.fresh()
            clean = self.started(self.operation.command, step=0)
            assert clean.code == 0, clean
            self.after = self.state()
            points = clean.points
            assert points > 1, f"{self.name} has no points"
            steps = chosen(points, most)
            middles = sum(self.one(step) for step in steps)
        return Swept(f"{self.fault}: {self.name}", points, len(steps), middles)

    @contextlib.contextmanager
    def server(self) -> Iterator[None]:
        """A database, and in front of it a proxy that counts statements if they are the points."""
        if self.pg is None:
            yield
            return
        self.url = self.pg.new_database()
        try:
            with Proxy(self.url) as proxy:
                self.proxy = proxy
                yield
        finally:
            self.pg.drop(self.url)

    def fresh(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.template, self.folder)
        if self.pg is not None:
            self.pg.drop(self.url)
            self.pg.new_database(url=self.url)
            if self.operation.store != "{pg}":
                migrate.migrate(self.folder / "notes.db", self.url)

    def state(self, store: str = "") -> Counter[str]:
        name = store or self.operation.store
        if name == "{pg}":
            return state(self.url)
        return state(self.folder / name)

    def started(self, command: tuple[str, ...], *, step: int) -> Ending:
        """Run a command with a fault at a point; at none for 0."""
        by_statement = self.operation.store == "{pg}"
        victim = self.proxy if by_statement else None
        if victim is not None:
            victim.arm(step)

        def begin(weather: Weather) -> None:
            weather.watch(self.folder)
            weather.deadly = self.fault == "kill"
            at = step or sys.maxsize
            weather.arm(sys.maxsize if by_statement else at, lasting=True, reason=errno.ENOSPC)()

        address = self.proxy.url if self.proxy is not None else ""
        given = tuple(address if word == "{pg}" else word for word in command)
        ending = run(given, self.folder, begin, victim=victim)
        return ending._replace(points=victim.points) if victim is not None else ending

    def one(self, step: int) -> bool:
        """Put a fault at a point, and check everything; returns whether it came before the command's end."""
        self.fresh()
        kept = {name: self.state(name) for name in self.operation.unchanged if name.endswith(".db")}
        lines = {name: (self.folder / name).read_bytes() for name in self.operation.unchanged if name not in kept}
        ending = self.started(self.operation.command, step=step)
        try:
            self.check_ending(ending)
            found = self.check_store()
            assert "nothing was written" not in ending.said or not self.operation.atomic or found == self.before
            self.check_copies()
            for name, content in kept.items():
                assert self.state(name) == content, f"{name} has changed"
            for name, data in lines.items():
                assert (self.folder / name).read_bytes() == data, f"{name} has changed"
            if not (self.operation.once and found == self.after):
                again = self.started(self.operation.again or self.operation.command, step=0)
                assert again.code == 0, again
            assert self.state() == self.after
            self.check_copies()
            left = [file.name for file in self.folder.iterdir() if PREFIX in file.name or "journal" in file.name]
            assert left == [], left
        except BaseException:
            print(f"{self.fault} at point {step} of {self.name}: {ending}", file=sys.stderr)
            raise
        return ending.killed or ending.code != 0

    def check_ending(self, ending: Ending) -> None:
        if self.fault == "kill":
            assert ending.killed or ending.code == 0, ending
            return
        # A full disk that only a later clean-up meets is no failure of the command.
        assert ending.code in (0, 1), ending
        if ending.code == 1:
            assert ending.said.startswith("satchel: "), ending
            assert ending.said.count("\n") == 1, ending
            assert "free some disk space" in ending.said or "No space left" in ending.said, ending

    def check_store(self) -> Counter[str]:
        found = self.state()
        if self.operation.atomic:
            assert found in (self.before, self.after), "it is neither as before nor complete"
        assert (self.before & self.after) <= found <= (self.before | self.after), "something was lost"
        return found

    def check_copies(self) -> None:
        for name in self.operation.copies:
            path = self.folder / name
            if path.exists():
                # The second copy is made by the repeated command, which may have found its work done.
                complete = (self.before, self.after) if name == self.operation.copies[-1] else (self.before,)
                assert self.state(name) in complete, f"{name} is not complete"


def swept(fault: str, name: str, most: int | None) -> Swept:
    # In memory: the faults are at calls above the disk, which a real one would only slow down.
    place = MEMORY if os.access(MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=place, ignore_cleanup_errors=True) as folder:
        pg = server(Path(folder)) if "PostgreSQL" in name else None
        return Sweep(name, fault, Path(folder), pg).run(most)


if __name__ == "__main__":
    indexer.DEFAULT_EMBEDDER = "static"
    transfer.BATCH = migrate.BATCH = indexer.BATCH = BATCH
    fault, name, *most = sys.argv[1:]
    print(json.dumps(swept(fault, name, int(most[0]) if most else None)._asdict()))
