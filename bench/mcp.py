"""The overhead of the MCP server: its start against importing the SDK, a call over the pipe against the library.

python -m bench.mcp [--memories 10000] [--runs 11] [--calls 300]
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import satchel
from bench.corpus import Corpus
from bench.table import print_table
from satchel.text.tokens import count_tokens

SERVER = (str(Path(sys.executable).with_name("satchel")), "mcp")
IMPORT = "import mcp.server.lowlevel, mcp.server.stdio"
HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "bench", "version": "1"},
}


class Pipe:
    """A server in a separate process, addressed as by a client, but without a client's own cost."""

    def __init__(self, *command: str) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self._number = 0
        self.hello = self.ask("initialize", HELLO)
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(timeout=10)
        assert self._process.stdout
        self._process.stdout.close()

    def ask(self, method: str, params: Mapping[str, Any]) -> Any:
        self._number += 1
        self._send({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        assert self._process.stdout
        while True:
            answer = json.loads(self._process.stdout.readline())
            if answer.get("id") == self._number:
                return answer["result"]

    def call(self, tool: str, **arguments: Any) -> Any:
        return self.ask("tools/call", {"name": tool, "arguments": arguments})

    def _send(self, message: Mapping[str, Any]) -> None:
        assert self._process.stdin
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()


def timed_import() -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", IMPORT], check=True)
    return time.perf_counter() - started


def timed_start(path: str, query: str) -> float:
    started = time.perf_counter()
    with Pipe(*SERVER, "--db", path) as pipe:
        pipe.call("mem_search", query=query, max_tokens=800)
        return time.perf_counter() - started


def timed_calls(path: str, queries: list[str]) -> tuple[float, float]:
    """Return the median times of library and server calls, alternating on one store."""
    library, piped = [], []
    with satchel.open(path) as bag, Pipe(*SERVER, "--db", path) as pipe:
        for number, query in enumerate(queries):
            started = time.perf_counter()
            bag.search(query, detail="standard", token_budget=800)
            between = time.perf_counter()
            pipe.call("mem_search", query=query, max_tokens=800)
            # Skip the first calls, which load modules and data.
            if number >= len(queries) // 10:
                library.append(between - started)
                piped.append(time.perf_counter() - between)
    return statistics.median(library), statistics.median(piped)


def costs(*options: str) -> int:
    """Return the tokens that a client puts into a model's context before any call."""
    with Pipe(*SERVER, "--db", ":memory:", *options) as pipe:
        tools = pipe.ask("tools/list", {})["tools"]
        return count_tokens(json.dumps(tools, ensure_ascii=False, separators=(",", ":"))) + count_tokens(
            pipe.hello["instructions"]
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--memories", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=11)
    parser.add_argument("--calls", type=int, default=300)
    options = parser.parse_args()
    corpus = Corpus()
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "bench.db"))
        with satchel.open(path) as bag:
            bag.import_(json.dumps(each).encode() for each in corpus.memories(options.memories))
            bag.catch_up()
        queries = [corpus.query() for _ in range(options.calls)]
        imports, starts = [], []
        for _ in range(options.runs):
            imports.append(timed_import())
            starts.append(timed_start(path, queries[0]))
        library, piped = timed_calls(path, queries)
    imported, started = statistics.median(imports), statistics.median(starts)
    print_table(
        f"MCP server, {options.memories:,} memories, medians of {options.runs} starts and {options.calls} calls",
        [
            ("what", "p50 ms", "multiple"),
            ("importing the SDK alone", f"{1000 * imported:.0f}", "1.00"),
            ("spawn to the first mem_search answer", f"{1000 * started:.0f}", f"{started / imported:.2f}"),
            ("search, library call", f"{1000 * library:.2f}", "1.00"),
            ("mem_search over the pipe", f"{1000 * piped:.2f}", f"{piped / library:.2f}"),
        ],
    )
    print_table(
        "tokens of tools/list and the instructions (o200k_base)",
        [("tools", "tokens"), ("all", f"{costs():,}"), ("core", f"{costs('--tools', 'core'):,}")],
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
