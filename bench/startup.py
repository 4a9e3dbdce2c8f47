"""How long commands and servers take from a cold start, as a multiple of `python -c "import click"`.

python -m bench.startup [--memories 10000] [--runs 21] [--store FILE] [--against SRC]

A server is timed from its spawn to its answer to `tools/list` and, for `satchel mcp`, to its first `mem_search`.
The client asks for one thing after the other, without a pause. The gateway has one server, and has run once before.
With --against, the same is measured with the sources in another folder, in the same run.
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import satchel
from bench.corpus import Corpus
from bench.table import print_table

REFERENCE = 'python -c "import click"'
HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
# A server behind the gateway that starts quickly: it needs nothing but the standard library.
UPSTREAM = """
import json, sys
RESULTS = {
    "initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                   "serverInfo": {"name": "quick", "version": "1"}},
    "tools/list": {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]},
}
for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        answer = {"jsonrpc": "2.0", "id": asked["id"], "result": RESULTS.get(asked["method"], {})}
        print(json.dumps(answer), flush=True)
"""

Environment = Mapping[str, str]
Call = tuple[str, Mapping[str, Any]]


class Timed:
    """The wall times and the CPU times of the runs of one command."""

    def __init__(self) -> None:
        self.wall: list[float] = []
        self.cpu: list[float] = []

    def row(self, name: str, reference: float) -> tuple[str, ...]:
        wall, cpu = statistics.median(self.wall), statistics.median(self.cpu)
        return name, f"{1000 * wall:.0f}", f"{wall / reference:.2f}", f"{1000 * cpu:.0f}"


@contextlib.contextmanager
def process(words: Sequence[str], environment: Environment, timed: Timed) -> Iterator[subprocess.Popen[bytes]]:
    """Start a command, close its input at the end of the block, and note its CPU time."""
    running = subprocess.Popen(
        words, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert running.stdin is not None
    assert running.stdout is not None
    yield running
    running.stdin.close()
    running.stdout.close()
    _, _, used = os.wait4(running.pid, 0)
    running.returncode = 0
    timed.cpu.append(used.ru_utime + used.ru_stime)


def run(words: Sequence[str], environment: Environment, timed: Timed) -> None:
    """Time a command from its start to its end."""
    started = time.perf_counter()
    with process(words, environment, timed) as running:
        assert running.stdout is not None
        running.stdout.read()
    timed.wall.append(time.perf_counter() - started)


def serve(
    words: Sequence[str], environment: Environment, timed: Timed, calls: Sequence[Call], *, stay: float = 0.0
) -> None:
    """Time a server from its spawn to the answer to the last of these calls; then `stay` for some seconds."""
    started = time.perf_counter()
    with process(words, environment, timed) as running:
        for number, (method, params) in enumerate([("initialize", HELLO), *calls]):
            _ask(running, number, method, params)
        timed.wall.append(time.perf_counter() - started)
        time.sleep(stay)


def _ask(running: "subprocess.Popen[bytes]", number: int, method: str, params: Mapping[str, Any]) -> None:
    assert running.stdin is not None
    assert running.stdout is not None
    request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    running.stdin.write(json.dumps(request).encode() + b"\n")
    running.stdin.flush()
    for line in running.stdout:
        answer = json.loads(line)
        if answer.get("id") == number:
            assert not answer["result"].get("isError"), answer
            return
    raise RuntimeError(f"{method} was not answered")


def measure(environment: Environment, query: str, timed: dict[str, Timed], mark: str, *, stay: float = 0.0) -> None:
    """Run each command once. Clients of servers `stay` for some seconds after the last answer."""
    command = str(Path(sys.executable).with_name("satchel"))
    commands = {
        "satchel --version": [command, "--version"],
        "satchel search": [command, "search", query],
        "satchel search --token-budget 800": [command, "search", query, "--token-budget", "800"],
        "satchel context": [command, "context", query],
        "satchel list": [command, "list"],
        "satchel add": [command, "add", "a note"],
    }
    lists: Call = ("tools/list", {})
    search: Call = ("tools/call", {"name": "mem_search", "arguments": {"query": query, "max_tokens": 800}})
    gateway = [command, "gateway", "--", sys.executable, "-c", UPSTREAM]
    servers = {
        "satchel mcp to tools/list": ([command, "mcp"], [lists]),
        "satchel mcp to the first mem_search": ([command, "mcp"], [lists, search]),
        "satchel gateway to tools/list": (gateway, [lists]),
    }
    for name, words in commands.items():
        run(words, environment, timed.setdefault(name + mark, Timed()))
    for name, (words, calls) in servers.items():
        serve(words, environment, timed.setdefault(name + mark, Timed()), calls, stay=stay)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--memories", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=21)
    parser.add_argument("--store", type=Path, help="a store to use, instead of a new one")
    parser.add_argument("--against", type=Path, help="a folder with other sources of Satchel")
    options = parser.parse_args()
    corpus = Corpus()
    with tempfile.TemporaryDirectory() as folder:
        path = options.store or Path(folder, "bench.db")
        if options.store is None:
            with satchel.open(path) as bag:
                bag.import_(json.dumps(each).encode() for each in corpus.memories(options.memories))
                bag.catch_up()
        query = corpus.query()
        timed: dict[str, Timed] = {REFERENCE: Timed()}
        environment = os.environ | {"SATCHEL_DB": str(path), "XDG_CACHE_HOME": folder}
        versions = {"": environment}
        if options.against is not None:
            versions[f", {options.against}"] = environment | {"PYTHONPATH": str(options.against)}
        for number in range(options.runs + 1):
            if number == 1:
                # The first round only makes caches, such as what the gateway remembers of its servers.
                timed = {REFERENCE: Timed()}
            run([sys.executable, "-c", "import click"], environment, timed[REFERENCE])
            for mark, each in versions.items():
                measure(each, query, timed, mark, stay=0.0 if number else 2.0)
    reference = statistics.median(timed[REFERENCE].wall)
    rows = [
        ("command", "p50 ms", "multiple", "CPU ms"),
        *(found.row(name, reference) for name, found in timed.items()),
    ]
    print_table(f"cold start, {options.memories:,} memories, median of {options.runs} runs", rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
