"""What stands in front of PostgreSQL: the same calls directly, through PgBouncer, and with a replica for reads.

python -m bench.front --db postgresql://… [--pooled postgresql://…] [--read-db postgresql://…] [--calls 200]

All addresses lead to one store, in which a tenant of its own gets 1,000 memories. The ways take turns call by call.
A context after an add waits for no replica: the primary answers as long as the replica is behind.
"""

import argparse
import contextlib
import itertools
import statistics
import time
from collections.abc import Callable, Mapping, Sequence

import satchel
from bench.corpus import EMBEDDER, Corpus
from bench.load import percentile
from bench.table import print_table
from satchel import Draft, Satchel

ORG = "bench front"
MEMORIES = 1000
BUDGET = 2000
WARM_UPS = 12
DIRECTLY = "directly"
HEADING = ("call", "way", "p50 ms", "p95 ms", "p50, ratio", "p95, ratio")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--db", required=True)
    parser.add_argument("--pooled")
    parser.add_argument("--read-db")
    parser.add_argument("--calls", type=int, default=200)
    options = parser.parse_args(arguments)
    addresses: dict[str, tuple[str, str | None]] = {DIRECTLY: (options.db, None)}
    if options.pooled:
        addresses["through PgBouncer"] = (options.pooled, None)
    if options.read_db:
        addresses["with a replica"] = (options.db, options.read_db)
    corpus = Corpus()
    with contextlib.ExitStack() as stack:
        ways = {
            name: stack.enter_context(satchel.open(db, read_db=read_db, embedder=EMBEDDER)).scoped(org=ORG)
            for name, (db, read_db) in addresses.items()
        }
        own = ways[DIRECTLY]
        own.add_many(Draft(str(each["text"])) for each in itertools.islice(corpus.memories(MEMORIES), MEMORIES))
        questions = [corpus.query() for _ in range(options.calls + WARM_UPS)]

        def ask(bag: Satchel, turn: int) -> None:
            bag.context(questions[turn], token_budget=BUDGET)

        def add(bag: Satchel, turn: int) -> None:
            bag.add(corpus.text(20))

        def add_before(turn: int) -> None:
            own.add(corpus.text(20))

        rows: list[Sequence[str]] = [HEADING]
        rows += _rows(f"context of {BUDGET:,} tokens", _timed(ways, ask, options.calls))
        rows += _rows("add", _timed(ways, add, options.calls))
        rows += _rows("context after an add", _timed(ways, ask, options.calls, before=add_before))
        own.erase()
    print_table(f"{options.calls} calls each, {MEMORIES:,} memories", rows)
    return 0


def _timed(
    ways: Mapping[str, Satchel],
    call: Callable[[Satchel, int], None],
    calls: int,
    *,
    before: Callable[[int], None] | None = None,
) -> dict[str, list[float]]:
    """Return the seconds of each call, without those that warm up."""
    spent: dict[str, list[float]] = {name: [] for name in ways}
    names = list(ways)
    for turn in range(calls + WARM_UPS):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            if before is not None:
                before(turn)
            start = time.perf_counter()
            call(ways[name], turn)
            spent[name].append(time.perf_counter() - start)
    return {name: times[WARM_UPS:] for name, times in spent.items()}


def _rows(call: str, spent: Mapping[str, list[float]]) -> list[Sequence[str]]:
    own = statistics.median(spent[DIRECTLY]), percentile(spent[DIRECTLY], 95)
    rows: list[Sequence[str]] = []
    for name, times in spent.items():
        ours = statistics.median(times), percentile(times, 95)
        ratios = [f"{one / other:.2f}" for one, other in zip(ours, own, strict=True)]
        rows.append((call, name, *(f"{1000 * each:.1f}" for each in ours), *ratios))
    return rows


if __name__ == "__main__":
    raise SystemExit(main())
