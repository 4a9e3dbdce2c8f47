"""The cost of building and querying a store as it grows, compared with the bare engines in the same run.

python -m bench.scale [--sizes 1k,10k,100k,1M] [--queries 50] [--plot scale.svg] [--keep FOLDER]
python -m bench.scale --db postgresql://… [--tenants 1000] [--each 1000] [--clients 100] [--seconds 60]

Each store is imported in a separate process from synthetic days of 20 projects: sessions of about forty turns,
notes with titles and tags, documents of several passages. A question contains four words of one sentence; `found`
is the share of questions whose memory is among the first ten hits, or in the context. All systems answer each
question one after the other, in rotating order, each over its own connection:

  bare FTS5        the 50 best by BM25 of any word of the question, from the store's own index;
                   `telling` without question words, as Satchel reads the question, or all words
  bare sqlite-vec  the 50 nearest by an exact scan of the store's vectors as float[256], in a
                   separate temporary file, about a kilobyte per passage
  bare, both       the sum of FTS5 with the telling words and sqlite-vec

Composing and embedding the query do not count for the bare engines. If other programs run, use the CPU time: by the
clock, a long call is interrupted more often than a short one. A million memories take about 4 GB of temporary
files. `--keep` leaves the stores in a folder, and queries again those that it finds there.

With --db, many tenants on a PostgreSQL server instead: see bench/tenants.py.
"""

import argparse
import contextlib
import json
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import satchel
from bench.bare import BareText, BareVectors
from bench.corpus import EMBEDDER, PROJECTS, Asked, Corpus, vocabulary
from bench.fresh import Building, build, in_fresh_process, peaks_of_asking
from bench.plot import Series, line_chart, stacked
from bench.table import print_table
from satchel.embed.embedder import resolve_embedder
from satchel.model.memory import utc_now
from satchel.recall.question import read_question
from satchel.text.terms import query_terms

BUDGET = 2000
FIRST = 10
# A process keeps what it reads of a large scope when it has asked ten times.
WARM_UPS = 12

SEARCH = "search"
CONTEXT = f"context of {BUDGET:,} tokens"
INSIDE = f"context, 1 of {PROJECTS} projects"
MISSPELT = "context, a word misspelt"
TELLING = "bare FTS5, telling words"
ALL_WORDS = "bare FTS5, all words"
VECTORS = "bare sqlite-vec"
BOTH = "bare, both"


class Built(NamedTuple):
    """A store's file, and the cost of building it; None for one that already existed."""

    size: int
    work: Building | None


class System(NamedTuple):
    """A system to query. Preparing its input and reading its answer are not timed."""

    ready: Callable[[Asked], Any]
    ask: Callable[[Any], Any]
    refs: Callable[[Any], Sequence[str]]


class Spent(NamedTuple):
    """The time of one call: wall-clock seconds, and CPU seconds, which other programs affect less."""

    seconds: float
    cpu: float


class Timing(NamedTuple):
    """Milliseconds, and the share of the questions whose memory was found."""

    p50: float
    p95: float
    cpu: float
    found: float | None


class Measured(NamedTuple):
    """All measurements of a store of one size."""

    memories: int
    passages: int
    built: Built
    idle: int
    asking: int
    timings: dict[str, Timing]

    def ratio(self, name: str) -> float:
        return self.timings[name].p50 / self.timings[BOTH].p50

    def cpu_ratio(self, name: str) -> float:
        return self.timings[name].cpu / self.timings[BOTH].cpu


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--sizes", default="1k,10k,100k,1M", metavar="N,N…")
    parser.add_argument("--queries", type=int, default=50, metavar="N")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="write charts of it all as SVG")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="where the stores are left")
    server = parser.add_argument_group("many tenants on a server")
    server.add_argument("--db", metavar="URL", help="of a login that may make databases")
    server.add_argument("--tenants", type=int, default=1000, metavar="N")
    server.add_argument("--each", type=int, default=1000, metavar="N", help="memories of each tenant")
    server.add_argument("--clients", type=int, default=100, metavar="N")
    server.add_argument("--seconds", type=float, default=60, metavar="N", help="how long they ask")
    options = parser.parse_args(arguments)
    if options.db is not None:
        return _on_server(options)
    try:
        sizes = parsed_sizes(options.sizes)
        if options.queries < 1:
            raise ValueError(f"--queries {options.queries}: at least 1 is needed")
        if options.keep is not None:
            options.keep.mkdir(parents=True, exist_ok=True)
        if options.plot is not None:
            # Check before hours of measuring, not after.
            options.plot.touch()
    except ValueError as error:
        print(f"bench.scale: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"bench.scale: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    corpus = Corpus(words=vocabulary())
    measured: list[Measured] = []
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            measured.append(measure(corpus, size, options.queries, Path(folder), options.keep))
        report(measured[-1], options.queries)
    summarise(measured)
    if options.plot is not None:
        options.plot.write_text(charts(measured), encoding="utf-8")
    return 0


def _on_server(options: argparse.Namespace) -> int:
    # Imported here, because the driver is an optional extra.
    from bench.tenants import measure_tenants

    return measure_tenants(
        options.db,
        tenants=options.tenants,
        each=options.each,
        queries=options.queries,
        clients=options.clients,
        seconds=options.seconds,
        keep=options.keep is not None,
    )


def parsed_sizes(text: str, *, option: str = "--sizes") -> list[int]:
    """Parse numbers of memories, in order; `k` and `M` mean thousands and millions."""
    sizes = set()
    for each in text.split(","):
        found = re.fullmatch(r"([1-9]\d*)([kM]?)", each.strip())
        if found is None:
            raise ValueError(f"{option} {text}: {each!r} is not a number of memories such as 500, 10k or 1M")
        sizes.add(int(found[1]) * {"": 1, "k": 1_000, "M": 1_000_000}[found[2]])
    return sorted(sizes)


def measure(corpus: Corpus, size: int, queries: int, folder: Path, keep: Path | None) -> Measured:
    asked = corpus.questions(size, queries)
    warming = corpus.questions(size, queries + WARM_UPS)[:WARM_UPS]
    store = (keep or folder) / f"scale-{size}.db"
    built = _built(corpus, size, store, folder)
    idle, asking = in_fresh_process(peaks_of_asking, store, [each.text for each in asked], BUDGET)
    with contextlib.ExitStack() as stack:
        # Satchel's connections are closed last, so that the log is written back into the store.
        ours = _ours(store, stack)
        vectors = stack.enter_context(contextlib.closing(BareVectors(store, folder / "exact.db")))
        systems = ours | _bare(store, stack, vectors)
        timings = timed(systems, warming, asked)
        return Measured(size, vectors.count, built, idle, asking, timings)


def _built(corpus: Corpus, size: int, store: Path, folder: Path) -> Built:
    if store.exists():
        return Built(store.stat().st_size, None)
    source = folder / "memories.jsonl"
    with source.open("w", encoding="utf-8") as lines:
        lines.writelines(json.dumps(memory) + "\n" for memory in corpus.days(size))
    # A store gets its final name only when it is complete.
    part = store.with_suffix(".part")
    part.unlink(missing_ok=True)
    work = in_fresh_process(build, source, part, size)
    part.rename(store)
    source.unlink()
    return Built(store.stat().st_size, work)


def _ours(store: Path, stack: contextlib.ExitStack) -> dict[str, System]:
    # A store is opened for each system, so that none benefits from what another has just read.
    searched, whole, inside, misspelt = (stack.enter_context(satchel.open(store, create=False)) for _ in range(4))

    def refs(hits: Sequence[satchel.Hit]) -> list[str]:
        return [hit.memory.ref or "" for hit in hits]

    def context(bag: satchel.Satchel, question: str) -> satchel.ContextBlock:
        return bag.context(question, token_budget=BUDGET)

    return {
        SEARCH: System(lambda asked: asked.text, searched.search, lambda hits: refs(hits[:FIRST])),
        CONTEXT: System(lambda asked: asked.text, partial(context, whole), lambda block: refs(block.hits)),
        INSIDE: System(
            lambda asked: (inside.scoped(project=asked.project), asked.text),
            lambda given: context(*given),
            lambda block: refs(block.hits),
        ),
        MISSPELT: System(lambda asked: asked.misspelt, partial(context, misspelt), lambda block: refs(block.hits)),
    }


def _bare(store: Path, stack: contextlib.ExitStack, vectors: BareVectors) -> dict[str, System]:
    few, many = (stack.enter_context(contextlib.closing(BareText(store))) for _ in range(2))
    embed = resolve_embedder(EMBEDDER).embed

    def telling(asked: Asked) -> str:
        question = read_question(asked.text, now=utc_now())
        return few.ready(question.searchable)

    return {
        TELLING: System(telling, few.ask, lambda found: few.refs(found[:FIRST])),
        ALL_WORDS: System(
            lambda asked: many.ready(query_terms(asked.text)), many.ask, lambda found: many.refs(found[:FIRST])
        ),
        VECTORS: System(
            lambda asked: vectors.ready(embed([asked.text])[0]),
            vectors.ask,
            lambda found: vectors.refs(found)[:FIRST],
        ),
    }


def timed(systems: dict[str, System], warming: Sequence[Asked], asked: Sequence[Asked]) -> dict[str, Timing]:
    times: dict[str, list[Spent]] = {name: [] for name in systems}
    found: dict[str, list[bool]] = {name: [] for name in systems}
    for question in warming:
        for system in systems.values():
            system.ask(system.ready(question))
    for number, question in enumerate(asked):
        for name in _turned(list(systems), number):
            system = systems[name]
            given = system.ready(question)
            started, used = time.perf_counter(), time.process_time()
            answer = system.ask(given)
            times[name].append(Spent(time.perf_counter() - started, time.process_time() - used))
            found[name].append(question.ref in system.refs(answer))
    timings = {name: timing_of(times[name], statistics.fmean(found[name])) for name in systems}
    pairs = zip(times[TELLING], times[VECTORS], strict=True)
    both = [Spent(text.seconds + near.seconds, text.cpu + near.cpu) for text, near in pairs]
    return timings | {BOTH: timing_of(both, None)}


def _turned(names: list[str], by: int) -> Iterator[str]:
    by %= len(names)
    yield from names[by:]
    yield from names[:by]


def timing_of(spent: Sequence[Spent], found: float | None) -> Timing:
    """Return the percentiles of some calls, in milliseconds."""
    ordered = sorted(1000 * each.seconds for each in spent)
    p95 = ordered[min(len(ordered) - 1, len(ordered) * 95 // 100)]
    return Timing(statistics.median(ordered), p95, statistics.median(1000 * each.cpu for each in spent), found)


def report(measured: Measured, queries: int) -> None:
    rows: list[Sequence[str]] = [
        ("asked", "p50 ms", "p95 ms", "/ bare, both", "CPU ms", "/ bare, both", "found, %")
    ]
    for name, timing in measured.timings.items():
        clock = (f"{timing.p50:.2f}", f"{timing.p95:.2f}", f"{measured.ratio(name):.2f}")
        cpu = (f"{timing.cpu:.2f}", f"{measured.cpu_ratio(name):.2f}")
        rows.append((name, *clock, *cpu, "" if timing.found is None else f"{100 * timing.found:.0f}"))
    title = f"{measured.memories:,} memories, {measured.passages:,} passages, {queries} questions"
    print_table(title, rows)
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    print(
        f"  load of this machine in the last 1, 5 and 15 minutes: {load}; {os.cpu_count()} processors", flush=True
    )


def summarise(measured: Sequence[Measured]) -> None:
    rows: list[Sequence[str]] = [
        ("memories", "memories/s", "CPU µs/memory", "bytes/memory", "MB to build", "MB to ask", "before opening")
    ]
    for each in measured:
        work, count = each.built.work, each.memories
        rate, cpu, building = "–", "–", "–"
        if work is not None:
            rate, cpu = f"{count / work.seconds:,.0f}", f"{1e6 * work.cpu / count:,.0f}"
            building = _megabytes(work.peak)
        size = f"{each.built.size / count:,.0f}"
        rows.append((f"{count:,}", rate, cpu, size, building, _megabytes(each.asking), _megabytes(each.idle)))
    print_table("building a store, and the memory it takes", rows)
    names = list(measured[0].timings)
    rows = [("p50, ms", *(f"{each.memories:,}" for each in measured))]
    rows += [(name, *(f"{each.timings[name].p50:.2f}" for each in measured)) for name in names]
    rows.append(("context / bare, both", *(f"{each.ratio(CONTEXT):.2f}" for each in measured)))
    rows.append(("the same in CPU time", *(f"{each.cpu_ratio(CONTEXT):.2f}" for each in measured)))
    print_table("latency by the number of memories", rows)
    if steps := list(pairwise(measured)):
        rows = [("growth of p50", *(f"{_short(old.memories)} to {_short(new.memories)}" for old, new in steps))]
        for name in names:
            rows.append((name, *(f"{new.timings[name].p50 / old.timings[name].p50:.2f}" for old, new in steps)))
        rows.append(
            (
                "context, CPU time",
                *(f"{new.timings[CONTEXT].cpu / old.timings[CONTEXT].cpu:.2f}" for old, new in steps),
            )
        )
        print_table("by what factor", rows)


def charts(measured: Sequence[Measured]) -> str:
    def line(name: str, value: Callable[[Measured], float]) -> Series:
        return Series(name, [(each.memories, value(each)) for each in measured])

    def latency(name: str) -> Series:
        return line(name, lambda each: each.timings[name].p50)

    fresh = [(each.memories, each.memories / work.seconds) for each in measured if (work := each.built.work)]
    panels = [
        line_chart("Answering", "memories", "p50, ms", [*map(latency, (CONTEXT, INSIDE, SEARCH, BOTH, TELLING))]),
        line_chart(
            "Resident memory",
            "memories",
            "MB at most",
            [
                line("asking", lambda each: each.asking / 1e6),
                line("before opening", lambda each: each.idle / 1e6),
            ],
        ),
        line_chart(
            "Size", "memories", "bytes a memory", [line("store", lambda each: each.built.size / each.memories)]
        ),
    ]
    if fresh:
        panels.append(line_chart("Building", "memories", "memories a second", [Series("import", fresh)]))
    return stacked(panels, columns=2)


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f}"


def _short(size: int) -> str:
    return next(
        (f"{size // unit}{name}" for unit, name in ((10**6, "M"), (1000, "k")) if size % unit == 0), str(size)
    )


if __name__ == "__main__":
    sys.exit(main())
