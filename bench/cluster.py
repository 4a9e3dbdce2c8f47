"""The same tenants in a Citus cluster and in one PostgreSQL server: the time of a context, and of loading.

python -m bench.cluster --db postgresql://… --citus postgresql://… [--sizes 400,20000] [--queries 100]

--db is a server whose login may create databases; the one that is made is dropped afterwards. --citus is the store
of a cluster (`satchel db init`, `satchel db distribute`), which must have no tenants named size-…; they are erased
afterwards. Both answer the same questions, in alternating order. The ratio is of the medians.
"""

import argparse
import statistics
import time
from collections.abc import Sequence
from typing import NamedTuple

import satchel
from bench.corpus import EMBEDDER, Corpus, vocabulary
from bench.load import percentile
from bench.table import print_table
from bench.tenants import database

__all__ = ["main"]

BUDGET = 2000
WARM_UPS = 5
BATCH = 1000


class Timed(NamedTuple):
    """What one tenant took in one store."""

    load_seconds: float
    first_context: float
    """Milliseconds of the first context after the store was opened, which reads the columns of the tenant."""
    contexts: list[float]
    """Milliseconds of the others."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--db", required=True, metavar="URL", help="of a login that may create databases")
    parser.add_argument("--citus", required=True, metavar="URL", help="of the application's login on the cluster")
    parser.add_argument("--sizes", default="400,20000", metavar="N,N…", help="memories of each tenant")
    parser.add_argument("--queries", type=int, default=100, metavar="N")
    parser.add_argument(
        "--settle", type=float, default=60.0, metavar="S", help="time for autovacuum between loading and asking"
    )
    given = parser.parse_args(arguments)
    rows: list[Sequence[str]] = [("memories", "", "PostgreSQL", "Citus", "ratio")]
    with database(given.db, "cluster") as plain:
        for size in map(int, given.sizes.split(",")):
            rows += _rows(size, *_measured([plain, given.citus], size, given.queries, given.settle))
    print_table("one tenant in PostgreSQL and on Citus", rows)
    return 0


def _measured(locations: Sequence[str], size: int, queries: int, settle: float) -> list[Timed]:
    corpus, org = Corpus(seed=0, words=vocabulary()), f"size-{size}"
    drafts = [satchel.Draft(**memory) for memory in corpus.days(size)]  # type: ignore[arg-type]
    asked = [each.text for each in corpus.questions(size, queries + WARM_UPS)]
    loaded = [_load(location, org, drafts) for location in locations]
    # Until then, new words are read from the unsorted part of their index, most of all in the store loaded last.
    time.sleep(settle)
    bags = [satchel.open(location) for location in locations]
    try:
        views = [bag.scoped(org=org) for bag in bags]
        first = [_milliseconds(view, asked[0]) for view in views]
        times: list[list[float]] = [[], []]
        for number, question in enumerate(asked):
            for place in (0, 1) if number % 2 else (1, 0):
                spent = _milliseconds(views[place], question)
                if number >= WARM_UPS:
                    times[place].append(spent)
        for view in views:
            view.forget(purge=True, everything=True)
    finally:
        for bag in bags:
            bag.close()
    return [Timed(*each) for each in zip(loaded, first, times, strict=True)]


def _load(location: str, org: str, drafts: Sequence[satchel.Draft]) -> float:
    with satchel.open(location, embedder=EMBEDDER) as bag:
        view = bag.scoped(org=org)
        started = time.perf_counter()
        for start in range(0, len(drafts), BATCH):
            view.add_many(drafts[start : start + BATCH])
        return time.perf_counter() - started


def _milliseconds(view: satchel.Satchel, question: str) -> float:
    started = time.perf_counter()
    view.context(question, token_budget=BUDGET)
    return 1000 * (time.perf_counter() - started)


def _rows(size: int, plain: Timed, citus: Timed) -> list[Sequence[str]]:
    def row(name: str, one: float, other: float) -> Sequence[str]:
        return (f"{size:,}", name, f"{one:,.1f}", f"{other:,.1f}", f"{other / one:.2f}")

    return [
        row("load, memories/s", size / plain.load_seconds, size / citus.load_seconds),
        row("first context, ms", plain.first_context, citus.first_context),
        row("context p50, ms", statistics.median(plain.contexts), statistics.median(citus.contexts)),
        row("context p95, ms", percentile(plain.contexts, 95), percentile(citus.contexts, 95)),
    ]


if __name__ == "__main__":
    raise SystemExit(main())
