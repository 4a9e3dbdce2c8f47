"""Many tenants in one PostgreSQL database: latency of one tenant, and throughput of a service for all of them.

python -m bench.scale --db postgresql://… [--tenants 1000] [--each 1000] [--clients 100] [--seconds 60] [--keep]

The login must be allowed to create databases: one for all tenants, another for the first of them only. Memories are
added in rotation, so that those of one tenant are scattered among those of others. Both databases answer the same
questions, in alternating order. Then clients request contexts from `satchel serve`, each with its own token and as
soon as it has its last answer. Both databases are dropped afterwards, unless --keep is given.
"""

import contextlib
import itertools
import multiprocessing
import os
import secrets
import statistics
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple
from urllib.parse import urlencode

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

import satchel
from bench.corpus import EMBEDDER, Asked, Corpus, vocabulary
from bench.load import Held, percentile, run_load, satchel_service
from bench.table import print_table

__all__ = ["database", "measure_tenants"]

BUDGET = 2000
# Tenants with the same texts are isolated all the same.
VARIANTS = 16
TURN = 250
WARM_UPS = 5


class Compared(NamedTuple):
    """Milliseconds of a context in the shared database, and in a database with only this tenant."""

    shared: list[float]
    alone: list[float]
    identical: int


def measure_tenants(
    url: str, *, tenants: int, each: int, queries: int, clients: int, seconds: float, keep: bool
) -> int:
    print(f"{tenants:,} tenants with {each:,} memories, {queries} questions", flush=True)
    with database(url, "all", keep=keep) as shared, database(url, "one", keep=keep) as alone:
        with satchel.open(shared, embedder=EMBEDDER), satchel.open(alone, embedder=EMBEDDER):
            pass
        started = time.perf_counter()
        _load(shared, tenants, each)
        spent = time.perf_counter() - started
        _load(alone, 1, each)
        size = _settle(shared)
        _settle(alone)
        rate = tenants * each / spent
        print(f"  loaded in {spent:,.0f} s, {rate:,.0f} memories/s; {size / tenants / each:,.0f} bytes a memory")
        compared = _compare(shared, alone, each, queries)
        _report(compared)
        questions = {
            _org(number): [asked.text for asked in _questions(number, each, 20)]
            for number in range(min(tenants, clients))
        }
        orgs = list(questions)
        with satchel_service(shared, orgs) as service:
            asking = service.clients([orgs[number % len(orgs)] for number in range(clients)], questions)
            held = run_load(service, asking, seconds)
        _report_held(held, clients)
    return 1 if held.errors else 0


@contextlib.contextmanager
def database(url: str, name: str, *, keep: bool = False) -> Iterator[str]:
    """Create a database on a server, and drop it afterwards."""
    made = f"satchel_bench_{name}_{secrets.token_hex(4)}"
    with psycopg.connect(url, autocommit=True) as raw:
        raw.execute(sql.SQL("CREATE DATABASE {} TEMPLATE template0 ENCODING 'UTF8'").format(sql.Identifier(made)))
    try:
        yield _url(url, made)
    finally:
        if keep:
            print(f"  kept: {made}")
        else:
            with psycopg.connect(url, autocommit=True) as raw:
                raw.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(made)))


def _url(url: str, database: str) -> str:
    """Return the URL of another database on the same server."""
    parts = {**conninfo_to_dict(url), "dbname": database}
    return "postgresql:///?" + urlencode({name: value for name, value in parts.items() if value is not None})


def _org(number: int) -> str:
    return f"tenant-{number:05}"


def _corpus(variant: int) -> Corpus:
    return Corpus(seed=variant, words=vocabulary())


def _questions(number: int, each: int, queries: int) -> list[Asked]:
    return _corpus(number % VARIANTS).questions(each, queries)


def _load(url: str, tenants: int, each: int) -> None:
    crew = min(tenants, os.cpu_count() or 1)
    with ProcessPoolExecutor(crew, mp_context=multiprocessing.get_context("spawn")) as pool:
        list(
            pool.map(
                _load_some, [url] * crew, [range(first, tenants, crew) for first in range(crew)], [each] * crew
            )
        )


def _load_some(url: str, numbers: Sequence[int], each: int) -> None:
    drafts = {
        variant: [satchel.Draft(**memory) for memory in _corpus(variant).days(each)]  # type: ignore[arg-type]
        for variant in {number % VARIANTS for number in numbers}
    }
    with satchel.open(url, embedder=EMBEDDER) as bag:
        for start, number in itertools.product(range(0, each, TURN), numbers):
            bag.scoped(org=_org(number)).add_many(drafts[number % VARIANTS][start : start + TURN])


def _settle(url: str) -> int:
    """Do what autovacuum would do later, and return the size of the database."""
    with psycopg.connect(url, autocommit=True) as raw:
        raw.execute("VACUUM ANALYZE")
        raw.execute("CHECKPOINT")
        row = raw.execute("SELECT pg_database_size(current_database())").fetchone()
    assert row is not None
    return int(row[0])


def _compare(shared: str, alone: str, each: int, queries: int) -> Compared:
    with satchel.open(shared, create=False) as many, satchel.open(alone, create=False) as one:
        views = [bag.scoped(org=_org(0)) for bag in (many, one)]
        asked = _questions(0, each, queries + WARM_UPS)
        times: list[list[float]] = [[], []]
        identical = 0
        for number, question in enumerate(asked):
            texts = ["", ""]
            for place in (0, 1) if number % 2 else (1, 0):
                started = time.perf_counter()
                texts[place] = views[place].context(question.text, token_budget=BUDGET).text
                if number >= WARM_UPS:
                    times[place].append(1000 * (time.perf_counter() - started))
            identical += number >= WARM_UPS and texts[0] == texts[1]
    return Compared(times[0], times[1], identical)


def _report(compared: Compared) -> None:
    rows: list[Sequence[str]] = [("context of one tenant, ms", "p50", "p95")]
    named = (("among all", compared.shared), ("alone in its database", compared.alone))
    for name, values in named:
        rows.append((name, f"{statistics.median(values):.1f}", f"{percentile(values, 95):.1f}"))
    p50 = statistics.median(compared.shared) / statistics.median(compared.alone)
    p95 = percentile(compared.shared, 95) / percentile(compared.alone, 95)
    rows.append(("ratio", f"{p50:.2f}", f"{p95:.2f}"))
    print_table("one tenant among many", rows)
    print(f"  identical contexts: {compared.identical} of {len(compared.shared)}", flush=True)


def _report_held(held: Held, clients: int) -> None:
    rows = [
        ("clients", "answers", "errors", "answers/s", "p50 ms", "p95 ms", "p99 ms"),
        (
            str(clients), f"{len(held.all):,}", str(held.errors), f"{held.rate:.1f}",
            *(f"{percentile(held.all, percent):.0f}" for percent in (50, 95, 99)),
        ),
    ]  # fmt: skip
    print_table(f"`satchel serve` asked for contexts for {held.seconds:.0f} s", rows)
    for problem in held.problems:
        print(f"  {problem}")
