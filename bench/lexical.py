"""Bulk import, and BM25 search next to the bare FTS5 query it runs.

python -m bench.lexical [--memories 100000] [--queries 100]
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import satchel
from bench.corpus import EMBEDDER, Corpus
from bench.table import print_table
from satchel.store.sqlite.connection import connect
from satchel.store.sqlite.search import match_expression
from satchel.text.terms import query_terms

BARE = (
    "SELECT rowid, bm25(memory_fts, 4.0, 1.0, 2.0) AS score FROM memory_fts "
    "WHERE memory_fts MATCH ? ORDER BY score LIMIT 10"
)


def timed(call: Callable[[str], object], argument: str) -> float:
    started = time.perf_counter()
    call(argument)
    return 1000 * (time.perf_counter() - started)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--memories", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=100)
    options = parser.parse_args()
    corpus = Corpus()
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "memories.jsonl")
        with open(source, "w", encoding="utf-8") as lines:
            lines.writelines(json.dumps(memory) + "\n" for memory in corpus.memories(options.memories))
        path = str(Path(folder, "bench.db"))
        with satchel.open(path, embedder=EMBEDDER) as bag:
            bag.counter.count("loads the vocabulary")
            started = time.perf_counter()
            done = bag.import_(source)
            seconds = time.perf_counter() - started
            assert done.added == options.memories, done
            size = Path(path).stat().st_size
            print_table(
                "bulk import",
                [
                    ("memories", "seconds", "memories/s", "bytes/memory"),
                    (
                        f"{done.added:,}",
                        f"{seconds:.1f}",
                        f"{done.added / seconds:,.0f}",
                        f"{size / done.added:,.0f}",
                    ),
                ],
            )
            bare = connect(path)

            def fts(query: str) -> object:
                return bare.execute(BARE, (match_expression(query_terms(query)),)).fetchall()

            views: dict[str, Callable[[str], object]] = {
                "search, whole store": bag.search,
                "search, 1 of 20 projects": bag.scoped(project="project-7").search,
                "search, budget of 800": lambda query: bag.search(query, token_budget=800),
            }
            times: dict[str, list[float]] = {"bare FTS5": [], **{name: [] for name in views}}
            for query in [corpus.query() for _ in range(options.queries)]:
                # Back to back for each query, so that all run under the same load.
                fts(query)
                times["bare FTS5"].append(timed(fts, query))
                for name, search in views.items():
                    times[name].append(timed(search, query))
            reference = statistics.median(times["bare FTS5"])
            rows = [("query", "p50 ms", "p95 ms", "p50 / bare")]
            for name, found in times.items():
                p50, p95 = statistics.median(found), statistics.quantiles(found, n=20)[-1]
                rows.append((name, f"{p50:.2f}", f"{p95:.2f}", f"{p50 / reference:.2f}"))
            print_table(f"BM25 over {options.memories:,} memories, {options.queries} queries", rows)
            bare.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
