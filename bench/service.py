"""The service under load: answers a second, their times, CPU and memory, and fairness between tenants.

python -m bench.service [--db postgresql://…] [--citus postgresql://…] [--tenants 20] [--each 1000]
                        [--large 20000] [--clients 1,10,100] [--seconds 20] [--processes N,N] [--plot FILE]

It always measures a SQLite file. With --db it also measures a PostgreSQL server: its login must be allowed to
create a database, which is dropped afterwards. With --citus it measures a database with the store of a cluster
(`satchel db init`, `satchel db distribute`), which must be empty; its tenants stay.

Each store has a number of tenants with synthetic memories. Clients request contexts of 2,000 tokens from
`satchel serve`, each with the token of its tenant and as soon as it has its last answer. A bare handler in as many
processes, which only reads the rows of the tenant, answers the same number of clients in the same run
(bench/bare_service.py).

The rate of the bare handler is 100 %. CPU time is that of all processes of the service, without the clients.

For fairness, half of the clients ask for one large tenant: the table compares the times of the small tenants with
and without them. Embedding questions is not measured: the stores have word vectors.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import psycopg

import satchel
from bench.corpus import EMBEDDER, Corpus, vocabulary
from bench.load import Held, percentile, run_load, satchel_service, service_of
from bench.plot import Series, line_chart, stacked
from bench.table import print_table
from bench.tenants import database
from satchel.errors import SatchelError

__all__ = ["main"]

QUESTIONS = 20
# Tenants with the same texts are isolated all the same.
VARIANTS = 4
LARGE = "large"
WARM_UP_SECONDS = 3.0


class Place(NamedTuple):
    """A store with its tenants, and what to ask for each."""

    name: str
    location: str
    questions: Mapping[str, Sequence[str]]

    @property
    def small(self) -> list[str]:
        return [org for org in self.questions if org != LARGE]


class Run(NamedTuple):
    """One service that was asked by a number of clients."""

    place: str
    service: str
    clients: int
    held: Held


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--db", metavar="URL", help="of a login that may create databases")
    parser.add_argument("--citus", metavar="URL", help="of the coordinator of a cluster")
    parser.add_argument("--tenants", type=int, default=20, metavar="N")
    parser.add_argument("--each", type=int, default=1000, metavar="N", help="memories of a small tenant")
    parser.add_argument(
        "--large", type=int, default=20_000, metavar="N", help="memories of the large one; 0 for none"
    )
    parser.add_argument("--clients", default="1,10,100", metavar="N,N…")
    parser.add_argument("--seconds", type=float, default=20.0, metavar="S", help="time of each measurement")
    parser.add_argument("--processes", default=str(os.cpu_count() or 1), metavar="N,N…")
    parser.add_argument("--threads", type=int, metavar="N", help="passed to `satchel serve`")
    parser.add_argument(
        "--settle", type=float, default=30.0, metavar="S", help="wait after building a store on a server"
    )
    parser.add_argument("--plot", type=Path, metavar="FILE", help="write a chart as SVG")
    given = parser.parse_args(arguments)
    try:
        clients, processes = _numbers("--clients", given.clients), _numbers("--processes", given.processes)
        for option, least in (("tenants", 1), ("each", 1), ("large", 0), ("threads", 1)):
            if (value := getattr(given, option)) is not None and value < least:
                raise ValueError(f"--{option} {value}: at least {least} is needed")
        if not given.seconds > 0:
            raise ValueError(f"--seconds {given.seconds:g}: more than 0 are needed")
        if given.plot is not None:
            given.plot.touch()
    except ValueError as error:
        print(f"bench.service: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"bench.service: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    runs: list[Run] = []
    try:
        for name, url in (("SQLite", None), ("PostgreSQL", given.db), ("Citus", given.citus)):
            if name == "SQLite" or url is not None:
                with _place(name, url, given.tenants, given.each, given.large, given.settle) as place:
                    runs += _measured(place, clients, processes, given.seconds, given.threads)
    except (SatchelError, psycopg.Error, RuntimeError) as error:
        print(f"bench.service: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    if given.plot is not None:
        given.plot.write_text(_chart(runs), encoding="utf-8")
        print(f"\nwrote {given.plot}")
    return 1 if any(run.held.errors for run in runs) else 0


def _numbers(option: str, text: str) -> list[int]:
    found = [each.strip() for each in text.split(",")]
    if not all(each.isascii() and each.isdigit() and int(each) for each in found):
        raise ValueError(f"{option} {text}: numbers above 0 are needed, such as 1,10,100")
    return list(map(int, found))


# Stores


@contextmanager
def _place(name: str, url: str | None, tenants: int, each: int, large: int, settle: float) -> Iterator[Place]:
    sizes = {f"tenant-{number:03}": each for number in range(tenants)} | ({LARGE: large} if large else {})
    variants = [Corpus(seed=variant, words=vocabulary()) for variant in range(VARIANTS)]
    corpora = {org: variants[number % VARIANTS] for number, org in enumerate(sizes)}
    rest = f", and one with {large:,}" if large else ""
    print(f"{name}: building {tenants:,} tenants with {each:,} memories{rest}", flush=True)
    questions = {org: [asked.text for asked in corpora[org].questions(sizes[org], QUESTIONS)] for org in sizes}
    with _location(url, owned=name == "PostgreSQL") as location:
        with satchel.open(location, embedder=EMBEDDER) as bag:
            for org, size in sizes.items():
                drafts = [satchel.Draft(**memory) for memory in corpora[org].days(size)]  # type: ignore[arg-type]
                bag.scoped(org=org).add_many(drafts)
        if url is not None:
            # Autovacuum takes the processor for a while after so many writes.
            time.sleep(settle)
        yield Place(name, location, questions)


@contextmanager
def _location(url: str | None, *, owned: bool) -> Iterator[str]:
    if url is None:
        with tempfile.TemporaryDirectory() as folder:
            yield str(Path(folder, "notes.db"))
    elif owned:
        with database(url, "service") as location:
            yield location
    else:
        yield url


# Measuring


def _measured(
    place: Place, clients: Sequence[int], processes: Sequence[int], seconds: float, threads: int | None
) -> list[Run]:
    runs = []
    options = [] if threads is None else ["--threads", str(threads)]
    for number in processes:
        bare = [sys.executable, "-m", "bench.bare_service", place.location, str(number)]
        with service_of(bare, {org: org for org in place.questions}) as service:
            name = f"bare, {_processes(number)}"
            for count in clients:
                asking = service.clients(_spread(place.small, count), place.questions)
                runs.append(Run(place.name, name, count, run_load(service, asking, seconds)))
        with satchel_service(
            place.location, list(place.questions), "--processes", str(number), *options
        ) as service:
            run_load(service, service.clients(place.small, place.questions), WARM_UP_SECONDS)
            name = f"satchel, {_processes(number)}"
            for count in clients:
                asking = service.clients(_spread(place.small, count), place.questions)
                runs.append(Run(place.name, name, count, run_load(service, asking, seconds)))
            _report(place, runs[-2 * len(clients) :])
            _report_processes(runs[-1])
            if LARGE in place.questions:
                half = max(1, clients[-1] // 2)
                small = service.clients(_spread(place.small, half), place.questions)
                large = service.clients([LARGE] * half, place.questions)
                alone, shared = run_load(service, small, seconds), run_load(service, [*small, *large], seconds)
                _report_fairness(half, alone, shared)
                runs.append(Run(place.name, f"beside a large tenant, {_processes(number)}", 2 * half, shared))
    return runs


def _processes(number: int) -> str:
    return f"{number} process{'es' if number > 1 else ''}"


def _spread(orgs: Sequence[str], clients: int) -> list[str]:
    return [orgs[number % len(orgs)] for number in range(clients)]


def _report(place: Place, runs: Sequence[Run]) -> None:
    bare = {run.clients: run.held for run in runs if run.service.startswith("bare")}
    rows: list[Sequence[str]] = [
        ("service", "clients", "answers/s", "of bare", "p50 ms", "p95 ms", "p99 ms", "CPU ms/answer", "errors")
    ]
    for run in runs:
        held = run.held
        share = held.rate / bare[run.clients].rate if bare[run.clients].rate else 0
        rows.append((
            run.service, str(run.clients), f"{held.rate:.1f}", f"{100 * share:.0f} %",
            *(f"{percentile(held.all, percent):.0f}" for percent in (50, 95, 99)),
            f"{1000 * held.cpu_seconds / max(1, len(held.all)):.1f}", str(held.errors),
        ))  # fmt: skip
    seconds = min(run.held.seconds for run in runs)
    print_table(f"{place.name}: {len(place.small)} tenants, each row asked for {seconds:.0f} s", rows)
    for run in runs:
        for problem in run.held.problems:
            print(f"  {run.service}: {problem}")
    sys.stdout.flush()


def _report_processes(run: Run) -> None:
    rows: list[Sequence[str]] = [("process", "CPU", "memory (PSS)")]
    rows += [
        (
            f"worker {number}" if number else "service itself",
            f"{100 * each.cpu_seconds / run.held.seconds:.0f} %",
            f"{each.megabytes:.0f} MB",
        )
        for number, each in enumerate(run.held.processes)
    ]
    print_table(f"{run.service}, {run.clients} clients: CPU as a share of one core", rows)


def _report_fairness(half: int, alone: Held, shared: Held) -> None:
    rows: list[Sequence[str]] = [("clients", "answers/s", "p50 ms", "p95 ms", "p99 ms", "errors")]
    large = shared.milliseconds.get(LARGE, ())
    small = [each for org, times in shared.milliseconds.items() if org != LARGE for each in times]
    named: tuple[tuple[str, Sequence[float], float, int], ...] = (
        (f"{half} of small tenants, alone", alone.all, alone.seconds, alone.errors),
        (f"{half} of small tenants, beside the large one", small, shared.seconds, shared.errors),
        (f"{half} of the large tenant", large, shared.seconds, shared.errors),
    )
    for name, times, seconds, errors in named:
        rows.append((
            name, f"{len(times) / seconds:.1f}",
            *(f"{percentile(times, percent):.0f}" for percent in (50, 95, 99)), str(errors),
        ))  # fmt: skip
    print_table("fairness: half of the clients ask for the large tenant", rows)
    for problem in (*alone.problems, *shared.problems):
        print(f"  {problem}")
    sys.stdout.flush()


def _chart(runs: Sequence[Run]) -> str:
    names = list(dict.fromkeys((run.place, run.service) for run in runs if "large" not in run.service))
    found = {name: [run for run in runs if (run.place, run.service) == name] for name in names}

    def series(value: str) -> list[Series]:
        return [
            Series(f"{place}: {service}", [
                (run.clients, run.held.rate if value == "rate" else percentile(run.held.all, 50)) for run in some
            ])
            for (place, service), some in found.items()
        ]  # fmt: skip

    rates = line_chart("Answers a second", "clients", "answers/s", series("rate"))
    times = line_chart("Median time of an answer", "clients", "ms", series("p50"))
    return stacked([rates, times], columns=2)


if __name__ == "__main__":
    sys.exit(main())
