"""What memories and calls cost in PostgreSQL, and how many nodes follow from that.

python -m bench.sizing --db postgresql://… [--tenants 50] [--each 1000] [--queries 100]

The server must run on this machine, so that the CPU time of its processes can be read, and the login must be
allowed to create a database, which is dropped afterwards. The first tables are measured. The last one is derived:
it multiplies what was measured, and divides it by what one node is assumed to have (`--node-tb`, `--node-cores`,
`--hot`). It knows nothing of other loads, of larger tenants or of a network in between.
"""

import argparse
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import psycopg

import satchel
from bench.corpus import EMBEDDER, Corpus, vocabulary
from bench.table import print_table
from bench.tenants import database

__all__ = ["main"]

BUDGET = 2000
WARM_UPS = 12
VARIANTS = 8
TICKS = os.sysconf("SC_CLK_TCK")
# Of a disk and of the cores, so that there is room for vacuum, upgrades and peaks.
FILLED = 0.7
BUSY = 0.6
SIZES = (1_000_000, 10_000_000, 100_000_000, 1_000_000_000)
PARTS = {
    "texts and fields": ("memory",),
    "passages": ("passage",),
    "vectors": ("passage_vector",),
    "history and uses": ("history", "usage"),
    "words": ("word",),
}


class Cost(NamedTuple):
    """Milliseconds of one call."""

    name: str
    clock: float
    client: float
    """CPU of the process that calls the library: a worker of the service."""
    server: float
    """CPU of PostgreSQL."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--db", required=True, metavar="URL", help="of a login that may create databases")
    parser.add_argument("--tenants", type=int, default=50, metavar="N")
    parser.add_argument("--each", type=int, default=1000, metavar="N", help="memories of each tenant")
    parser.add_argument("--queries", type=int, default=100, metavar="N")
    parser.add_argument("--node-tb", type=float, default=2.0, metavar="TB", help="disk of a node")
    parser.add_argument("--node-cores", type=int, default=16, metavar="N")
    parser.add_argument(
        "--hot", type=float, default=5.0, metavar="%", help="share of the memories in use at a time"
    )
    given = parser.parse_args(arguments)
    with database(given.db, "sizing") as location:
        postmaster = _postmaster(location)
        corpora = [Corpus(seed=variant, words=vocabulary()) for variant in range(VARIANTS)]
        added = _load(location, corpora, given.tenants, given.each, postmaster)
        memories = given.tenants * given.each
        sizes = _sizes(location, memories)
        costs, kept = _ask(location, corpora[0], given.each, given.queries, postmaster)
    _report_sizes(sizes, memories)
    _report_costs([*costs, added], given.each, kept)
    _report_derived(sum(sizes.values()), kept, costs, added, given)
    return 0


# Measuring


def _postmaster(location: str) -> int:
    """Return the process of the server; a backend is its child."""
    with psycopg.connect(location) as raw:
        row = raw.execute("SELECT pg_backend_pid()").fetchone()
        assert row is not None
        stat = Path(f"/proc/{row[0]}/stat")
        if not stat.exists() or "(postgres)" not in (told := stat.read_text()):
            raise SystemExit("bench.sizing: the server is not on this machine, so its CPU time cannot be read")
    return int(told.rpartition(")")[2].split()[1])


def _server_seconds(postmaster: int) -> float:
    """Return the CPU time of the server and of all its processes, those that have ended included."""
    pids = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
    spent = 0
    for pid, fields in ((str(postmaster), slice(11, 15)), *((pid, slice(11, 13)) for pid in pids)):
        try:
            told = Path(f"/proc/{pid}/stat").read_text()
        except FileNotFoundError:
            continue
        spent += sum(map(int, told.rpartition(")")[2].split()[fields]))
    return spent / TICKS


def _timed(name: str, work: Callable[[], Any], count: int, postmaster: int) -> Cost:
    clock, client, server = time.perf_counter(), time.process_time(), _server_seconds(postmaster)
    work()
    spent = (time.perf_counter() - clock, time.process_time() - client, _server_seconds(postmaster) - server)
    return Cost(name, *(1000 * each / count for each in spent))


def _load(location: str, corpora: Sequence[Corpus], tenants: int, each: int, postmaster: int) -> Cost:
    drafts = [
        [satchel.Draft(**memory) for memory in corpus.days(each)]  # type: ignore[arg-type]
        for corpus in corpora[:tenants]
    ]
    with satchel.open(location, embedder=EMBEDDER) as bag:

        def load() -> None:
            for number in range(tenants):
                bag.scoped(org=f"tenant-{number:05}").add_many(drafts[number % len(drafts)])

        return _timed("add, 1,000 at a time", load, tenants * each, postmaster)


def _sizes(location: str, memories: int) -> dict[str, float]:
    """Return bytes per memory on disk, with indexes, by what they are for."""
    with psycopg.connect(location, autocommit=True) as raw:
        raw.execute("VACUUM ANALYZE")
        rows: dict[str, int] = dict(
            raw.execute(
                "SELECT relname, pg_total_relation_size(oid) FROM pg_class "
                "WHERE relnamespace = 'satchel'::regnamespace AND relkind = 'r'"
            ).fetchall()
        )
        row = raw.execute("SELECT pg_relation_size('satchel.memory_words')").fetchone()
    assert row is not None
    found = {name: sum(rows.pop(table) for table in tables) / memories for name, tables in PARTS.items()}
    index = row[0] / memories
    found["texts and fields"] -= index
    return found | {"index of words": index, "other tables": sum(rows.values()) / memories}


def _ask(location: str, corpus: Corpus, each: int, queries: int, postmaster: int) -> tuple[list[Cost], float]:
    """Return the costs of contexts and single adds, and how many bytes a process keeps for each memory."""
    asked = [question.text for question in corpus.questions(each, queries + WARM_UPS)]
    costs = []
    for name, cache_mb in (("context, columns kept", None), ("context, nothing kept", 0)):
        with satchel.open(location, create=False, cache_mb=cache_mb) as bag:
            view = bag.scoped(org="tenant-00000")

            def ask(texts: Sequence[str], view: satchel.Satchel = view) -> None:
                for text in texts:
                    view.context(text, token_budget=BUDGET)

            ask(asked[:WARM_UPS])
            costs.append(_timed(name, lambda: ask(asked[WARM_UPS:]), queries, postmaster))
            if cache_mb is None:
                kept = view.stats().cache_bytes / each
    with satchel.open(location, create=False) as bag:
        view = bag.scoped(org="tenant-00001")

        def add() -> None:
            for number in range(queries):
                view.add(f"{asked[number]} It was said again as number {number}.")

        costs.append(_timed("add, one at a time", add, queries, postmaster))
    return costs, kept


# Reporting


def _report_sizes(sizes: dict[str, float], memories: int) -> None:
    rows: list[Sequence[str]] = [("measured: on disk, with indexes", "bytes/memory")]
    rows += [(name, f"{size:,.0f}") for name, size in sizes.items()]
    rows.append(("together", f"{sum(sizes.values()):,.0f}"))
    print_table(f"{memories:,} memories", rows)


def _report_costs(costs: Sequence[Cost], each: int, kept: float) -> None:
    rows: list[Sequence[str]] = [("measured: one call", "ms", "CPU ms of the caller", "CPU ms of PostgreSQL")]
    rows += [(cost.name, f"{cost.clock:.2f}", f"{cost.client:.2f}", f"{cost.server:.2f}") for cost in costs]
    print_table(f"a tenant with {each:,} memories", rows)
    print(f"  a process keeps {kept:,.0f} bytes for each memory of a tenant that is asked")


def _report_derived(
    size: float, kept: float, costs: Sequence[Cost], added: Cost, given: argparse.Namespace
) -> None:
    warm, cold = costs[0], costs[1]
    a_node = FILLED * given.node_tb * 1e12 / size
    rows: list[Sequence[str]] = [("derived: memories", "disk", "nodes", "kept by services", "hours to load")]
    for memories in SIZES:
        nodes = max(1, -(-memories // int(a_node)))
        hours = memories * (added.client + added.server) / 1000 / BUSY / given.node_cores / nodes / 3600
        rows.append((
            f"{memories:,}", f"{memories * size / 1e12:,.2f} TB", str(int(nodes)),
            f"{memories * given.hot / 100 * kept / 1e9:,.1f} GB", f"{hours:,.1f}",
        ))  # fmt: skip
    print_table(
        f"nodes with {given.node_tb:g} TB, {100 * FILLED:.0f} % of it used, and {given.node_cores} cores; "
        f"{given.hot:g} % of the memories in use",
        rows,
    )
    print(f"  derived: a node holds {a_node / 1e6:,.0f} million memories")
    print(
        f"  derived: with {100 * BUSY:.0f} % of its cores busy, a node supports "
        f"{_a_second(cold.server, given.node_cores)} contexts a second for services that keep nothing, and "
        f"{_a_second(warm.server, given.node_cores)} for services that keep their columns"
    )
    print(f"  derived: a core of a service answers {_a_second(warm.client, 1)} contexts a second")


def _a_second(milliseconds: float, cores: int) -> str:
    """Return how many calls so many cores take; the CPU time of few calls is less than a tick of the clock."""
    return f"{BUSY * cores * 1000 / milliseconds:,.0f}" if milliseconds else "?"


if __name__ == "__main__":
    raise SystemExit(main())
