"""Load on an HTTP service: clients that ask, each as soon as it has its last answer, and what the service used."""

import http.client
import itertools
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from satchel.server.http.access import add_token, new_token

__all__ = ["Client", "Held", "Process", "Service", "percentile", "run_load", "satchel_service", "service_of"]

BUDGET = 2000
PATIENCE = 60
TICKS = os.sysconf("SC_CLK_TCK")


class Client(NamedTuple):
    """One client: the org it asks for, the token it sends, and its questions, in rotation."""

    org: str
    token: str
    questions: Sequence[str]


class Process(NamedTuple):
    """What one process used during a load."""

    cpu_seconds: float
    megabytes: float
    """Its share of the resident memory (PSS)."""


class Held(NamedTuple):
    """What a service answered under load. The first process is the service, the others are its children."""

    seconds: float
    milliseconds: Mapping[str, Sequence[float]]
    """The times of the answers by org, in their order; errors are no answers."""
    errors: int
    problems: Sequence[str]
    processes: Sequence[Process] = ()

    @property
    def all(self) -> list[float]:
        return sorted(itertools.chain.from_iterable(self.milliseconds.values()))

    @property
    def rate(self) -> float:
        return len(self.all) / self.seconds

    @property
    def cpu_seconds(self) -> float:
        return sum(each.cpu_seconds for each in self.processes)


class Service(NamedTuple):
    """A running service, the port it listens on, and the tokens of its orgs."""

    process: "subprocess.Popen[str]"
    port: int
    tokens: Mapping[str, str]

    def clients(self, orgs: Sequence[str], questions: Mapping[str, Sequence[str]]) -> list[Client]:
        return [Client(org, self.tokens[org], questions[org]) for org in orgs]


def percentile(values: Sequence[float], percent: int) -> float:
    """Return a percentile; 0 if there are no values."""
    return sorted(values)[min(len(values) - 1, len(values) * percent // 100)] if values else 0.0


def run_load(service: Service, clients: Sequence[Client], seconds: float) -> Held:
    """Let all clients ask for this long. They run in a process of their own."""
    before = _used(service.process.pid)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        held = pool.submit(_ask_all, service.port, list(clients), seconds).result()
    after = _used(service.process.pid)
    processes = [
        process._replace(cpu_seconds=process.cpu_seconds - before[pid].cpu_seconds if pid in before else 0)
        for pid, process in after.items()
    ]
    return held._replace(processes=processes)


class _Load:
    """All clients together."""

    def __init__(self, port: int, seconds: float) -> None:
        self.port = port
        self.until = time.monotonic() + seconds
        self.milliseconds: dict[str, list[float]] = {}
        self.problems: Counter[str] = Counter()

    def ask(self, client: Client) -> None:
        times = self.milliseconds.setdefault(client.org, [])
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        headers = {"Authorization": f"Bearer {client.token}", "Content-Type": "application/json"}
        bodies = [json.dumps({"query": each, "token_budget": BUDGET}) for each in client.questions]
        for body in itertools.cycle(bodies):
            if time.monotonic() > self.until:
                break
            started = time.perf_counter()
            try:
                line.request("POST", "/v1/context", body, headers)
                answer = line.getresponse()
                content = answer.read()
            except (OSError, http.client.HTTPException) as error:
                self.problems[repr(error)] += 1
                line.close()
                continue
            if answer.status != 200 or b'"text":""' in content:
                self.problems[f"{answer.status} {content[:200]!r}"] += 1
                continue
            times.append(1000 * (time.perf_counter() - started))
        line.close()


def _ask_all(port: int, clients: Sequence[Client], seconds: float) -> Held:
    load = _Load(port, seconds)
    crew = [threading.Thread(target=load.ask, args=(client,)) for client in clients]
    started = time.monotonic()
    for each in crew:
        each.start()
    for each in crew:
        each.join()
    spent = time.monotonic() - started
    problems = [f"{count} × {problem}" for problem, count in load.problems.most_common(5)]
    return Held(spent, load.milliseconds, load.problems.total(), problems)


# Services


@contextmanager
def satchel_service(url: str, orgs: Sequence[str], *options: str) -> Iterator[Service]:
    """Run `satchel serve` on a store, with a token for each org."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "tokens.jsonl")
        tokens = {}
        for org in orgs:
            tokens[org], kept = new_token(access="read", org=org)
            add_token(file, kept)
        command = [str(Path(sys.executable).with_name("satchel")), "serve", "--http", "127.0.0.1:0"]
        command += ["--tokens", str(file), *options]
        with service_of(command, tokens, SATCHEL_DB=url) as service:
            yield service


@contextmanager
def service_of(command: Sequence[str], tokens: Mapping[str, str], **environment: str) -> Iterator[Service]:
    """Run a service that prints its address as the last word of its first line on standard error."""
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env=os.environ | environment, start_new_session=True
    ) as process:
        assert process.stderr is not None
        told = process.stderr.readline()
        try:
            port = int(told.rpartition(":")[2])
        except ValueError:
            raise RuntimeError(f"{command[0]} did not start: {told}{process.stderr.read()}") from None
        # Keep reading its output, so that it never blocks on a full pipe.
        threading.Thread(target=process.stderr.read, daemon=True).start()
        try:
            yield Service(process, port, tokens)
        finally:
            process.terminate()


# What processes use, from /proc


def _used(root: int) -> dict[int, Process]:
    """Return what a process and its descendants have used so far."""
    return {pid: _process(pid) for pid in _descendants(root)} if Path("/proc/self/stat").exists() else {}


def _descendants(root: int) -> list[int]:
    found = [root]
    for pid in found:
        for tasks in Path(f"/proc/{pid}/task").glob("*/children"):
            found += map(int, tasks.read_text().split())
    return found


def _process(pid: int) -> Process:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    shares = Path(f"/proc/{pid}/smaps_rollup").read_text()
    kilobytes = next(int(line.split()[1]) for line in shares.splitlines() if line.startswith("Pss:"))
    return Process((int(fields[11]) + int(fields[12])) / TICKS, kilobytes / 1024)
