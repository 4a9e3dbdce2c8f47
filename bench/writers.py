"""Many processes writing one file: lost writes, and throughput compared with bare APSW in the same run.

python -m bench.writers [--processes 8] [--writes 250] [--rounds 3] [--openers 16] [--openings 20]
"""

import argparse
import multiprocessing
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import NamedTuple, TypeAlias

import apsw

import satchel
from bench.corpus import EMBEDDER
from bench.table import print_table
from satchel.api.saving import new_candidate
from satchel.embed.static import STATIC
from satchel.model.memory import Draft, Scope
from satchel.recall.indexer import packed
from satchel.store.index import passage_number
from satchel.store.rows import micros
from satchel.store.sqlite.connection import PRAGMAS, SqliteConnection, connect
from satchel.text.passages import parts_of

TEXT = "process {who} saw that key {number} was rotated and the cache of sessions was warm again"

Results: TypeAlias = "Queue[tuple[float, float, float, int]]"
"""Of each process: when it started and ended, its CPU seconds in between, and its errors."""
Worker = Callable[[str, int, int, Barrier, Results], None]


def ours(path: str, who: int, writes: int, barrier: Barrier, results: Results) -> None:
    with satchel.open(":memory:", embedder=EMBEDDER) as other:
        # A first write takes 40 ms. The bare loops prepare their rows before they start.
        other.add("loads the vocabulary, the vectors and the rules for secrets")
    bag = satchel.open(path, embedder=EMBEDDER)
    barrier.wait()
    errors = 0
    started, used = time.time(), time.process_time()
    for number in range(writes):
        try:
            bag.add(TEXT.format(who=who, number=number))
        except satchel.SatchelError:
            errors += 1
    results.put((started, time.time(), time.process_time() - used, errors))
    bag.close()


def bare(path: str, who: int, writes: int, barrier: Barrier, results: Results) -> None:
    """Insert the same rows into the same schema with the same pragmas, prepared beforehand; nothing else."""
    connection = SqliteConnection(path)
    connection.set_busy_timeout(60_000)
    for pragma in PRAGMAS:
        connection.execute(pragma)
    insert_all(connection, who, writes, barrier, results)


def bare_with_our_naps(path: str, who: int, writes: int, barrier: Barrier, results: Results) -> None:
    """The same, but waiting for the lock as Satchel does."""
    insert_all(connect(path), who, writes, barrier, results)


def insert_all(db: SqliteConnection, who: int, writes: int, barrier: Barrier, results: Results) -> None:
    memories = [
        new_candidate(Draft(TEXT.format(who=who, number=number)), Scope()).memory for number in range(writes)
    ]
    rows = [
        ((None, *db.row(memory)), ("default", memory.id, micros(memory.at), "add", "{}")) for memory in memories
    ]
    parts = [parts_of(memory)[0] for memory in memories]
    vectors = packed(STATIC.embed([part.text for part in parts]))
    marks = ", ".join("?" * len(rows[0][0]))
    insert, record = db.statement("insert_memories", values=f"({marks})"), db.statement("insert_history")
    passage = db.statement("insert_passage")
    current = db.vectors.generation()
    assert current is not None
    barrier.wait()
    errors = 0
    started, used = time.time(), time.process_time()
    for (row, entry), part, vector in zip(rows, parts, vectors, strict=True):
        try:
            db.execute("BEGIN IMMEDIATE")
            db.execute(insert, row)
            place = passage_number(db.last_insert_rowid(), 0)
            db.execute(record, entry)
            db.execute(passage, (place, part.start, part.end, part.flags, part.codes))
            db.vectors.write(current, [(place, *vector)])
            db.vectors.settle()
            db.execute("COMMIT")
        except apsw.Error:
            errors += 1
    results.put((started, time.time(), time.process_time() - used, errors))
    db.close()


class Measured(NamedTuple):
    """Writes per second over all processes, from the first start to the last end, and CPU µs for each write."""

    rate: float
    cpu: float
    errors: int


def measure(worker: Worker, path: str, processes: int, writes: int) -> Measured:
    barrier = multiprocessing.Barrier(processes)
    results: Results = multiprocessing.Queue()
    crew = [
        multiprocessing.Process(target=worker, args=(path, who, writes, barrier, results))
        for who in range(processes)
    ]
    for process in crew:
        process.start()
    told = [results.get(timeout=600) for _ in crew]
    for process in crew:
        process.join()
    starts, ends, cpu, errors = zip(*told, strict=True)
    total = processes * writes
    return Measured(total / (max(ends) - min(starts)), 1e6 * sum(cpu) / total, sum(errors))


def open_at_once(path: str, who: int, writes: int, barrier: Barrier, results: Results) -> None:
    barrier.wait()
    errors = 0
    started, used = time.time(), time.process_time()
    try:
        with satchel.open(path, embedder=EMBEDDER) as bag:
            for number in range(writes):
                bag.add(TEXT.format(who=who, number=number))
    except satchel.SatchelError as error:
        print(error, file=sys.stderr)
        errors = 1
    results.put((started, time.time(), time.process_time() - used, errors))


def stored(path: str) -> tuple[int, bool]:
    with satchel.open(path, embedder=EMBEDDER) as bag:
        return bag.stats().memories, all(check.state == "ok" for check in bag.checks())


def _cells(done: Measured) -> tuple[str, str]:
    return f"{done.rate:.0f}", f"{done.cpu:.0f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--writes", type=int, default=250)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--openers", type=int, default=16)
    parser.add_argument("--openings", type=int, default=20)
    options = parser.parse_args()
    total = options.processes * options.writes
    rows: list[Sequence[str]] = [
        (
            *("round", "satchel/s", "CPU µs", "bare/s", "CPU µs", "ratio", "bare, our naps/s", "CPU µs", "ratio"),
            *("errors", "rows", "doctor"),
        )
    ]
    ratios: list[float] = []
    lost = 0
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.rounds):
            rates = []
            for reference in (bare, bare_with_our_naps):
                plain = str(Path(folder, f"{reference.__name__}{number}.db"))
                with satchel.open(plain, embedder=EMBEDDER) as made:
                    made.forget([made.add("makes the tables of vectors").id], purge=True)
                rates.append(measure(reference, plain, options.processes, options.writes))
            path = str(Path(folder, f"ours{number}.db"))
            done = measure(ours, path, options.processes, options.writes)
            found, healthy = stored(path)
            lost += total - found + done.errors + (not healthy)
            ratios.append(done.rate / rates[0].rate)
            rows.append(
                (
                    str(number + 1),
                    *_cells(done),
                    *(cell for each in rates for cell in (*_cells(each), f"{done.rate / each.rate:.2f}")),
                    str(done.errors),
                    f"{found} of {total}",
                    "clean" if healthy else "NOT CLEAN",
                )
            )
        print_table(f"{options.processes} processes x {options.writes} adds on one new file", rows)
        print(f"  median ratio {statistics.median(ratios):.2f} (aim: at least 0.80)")
        bad = 0
        for number in range(options.openings):
            path = str(Path(folder, f"open{number}.db"))
            opened = measure(open_at_once, path, options.openers, 2)
            bad += opened.errors + (stored(path) != (2 * options.openers, True))
        print(f"  {options.openers} processes opening a new file at once, {options.openings} times: {bad} bad")
    return 1 if lost or bad else 0


if __name__ == "__main__":
    sys.exit(main())
