"""Upgrade a store while processes of this version write to it: upgrade_race.py ROUNDS WRITERS SEED.

The newer program is this one with one more migration, which copies all memories to a table of its own. So a memory
that is not in that table was written by an older program after the upgrade. Prints what was done as JSON.
"""

import contextlib
import json
import os
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

# Run by its path, it finds what several suites share one folder up.
sys.path.append(str(Path(__file__).parent.parent))

from operations import MEMORY, add_future_migration, undo_migration
from writer import write_for_ever

import satchel
from satchel.recall import indexer
from satchel.store.sqlite.connection import connect
from satchel.store.sqlite.migrations import prepare

LONGEST_START = 60.0
REFUSED = 7


class Raced(NamedTuple):
    rounds: int
    acknowledged: int
    refused: int
    """Writers that were told, in one line, that another version had upgraded the store."""
    late: int
    """Memories that were written after the upgrade by the version before it."""
    lost: int


def start(store: Path, said: Path) -> int:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            output = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            write_for_ever(str(store), said.stem, lambda line: os.write(output, line.encode()))
        except satchel.StoreVersionError as error:
            code = REFUSED if "restart this process" in str(error) and "\n" not in str(error) else 2
        finally:
            # Whatever ended it, a child must not go on as a second race.
            os._exit(code)
    return child


def race(folder: Path, migrations: Path, writers: int, chance: random.Random) -> Raced:
    store = folder / "notes.db"
    satchel.open(store).close()
    files = [folder / f"w{number}.txt" for number in range(writers)]
    crew = [start(store, file) for file in files]
    deadline = time.monotonic() + LONGEST_START
    while not all(file.exists() and file.stat().st_size for file in files):
        assert time.monotonic() < deadline, "a writer never got to write"
        time.sleep(0.001)
    time.sleep(chance.uniform(0.0, 0.05))
    with contextlib.closing(connect(str(store))) as db:
        prepare(db, str(store), migrations)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in crew]
    with contextlib.closing(connect(str(store))) as db:
        late = db.execute("SELECT count(*) FROM memory WHERE id NOT IN (SELECT id FROM extra)").get
    undo_migration(store)
    said = {line.split()[0]: int(line.split()[1]) for file in files for line in file.read_text().splitlines()}
    with satchel.open(store) as bag:
        stored = {memory.id: memory.revision for memory in bag.recent(limit=10_000)}
        assert [check for check in bag.checks() if check.state != "ok"] == []
    lost = sum(stored.get(id, 0) < revision for id, revision in said.items())
    return Raced(1, len(said), codes.count(REFUSED), late, lost)


def main(rounds: int, writers: int, seed: int) -> Raced:
    chance = random.Random(seed)
    done = []
    place = MEMORY if os.access(MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=place) as root:
        migrations = Path(root, "migrations")
        migrations.mkdir()
        add_future_migration(migrations)
        for number in range(rounds):
            folder = Path(root, str(number))
            folder.mkdir()
            done.append(race(folder, migrations, writers, chance))
    return Raced(*map(sum, zip(*done, strict=True)))


if __name__ == "__main__":
    indexer.DEFAULT_EMBEDDER = "static"
    with satchel.open(":memory:") as bag:
        bag.add("loads all that is loaded late, once for every child")
    print(json.dumps(main(*map(int, sys.argv[1:]))._asdict()))
