"""The overhead of the gateway for a tool call, and whether its memory grows with what it records.

python -m bench.gateway [--calls 1000] [--large 15] [--results 10000]
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.mcp import Pipe
from bench.table import print_table
from satchel.text.tokens import counter

SATCHEL = str(Path(sys.executable).with_name("satchel"))
UPSTREAM = (sys.executable, "-m", "bench.gateway", "--upstream")
SMALL = "The build passed: 212 tests in 41 seconds."
LARGE_BYTES = 1_000_000
PAUSE_SECONDS = 0.05


class Gateway(Pipe):
    """A gateway in front of the test server, with its own store."""

    def __init__(self, store: Path) -> None:
        super().__init__(SATCHEL, "--db", str(store), "gateway", "--", *UPSTREAM)

    @property
    def resident(self) -> int:
        """Return the resident memory of its process in megabytes."""
        for line in Path(f"/proc/{self._process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) // 1024
        raise ValueError("this system does not report the memory of a process")


def large() -> str:
    """Return a megabyte of search result lines."""
    lines: list[str] = []
    size = 0
    while size < LARGE_BYTES:
        number = len(lines)
        lines.append(
            f"src/part_{number % 17}/module_{number}.py:{number * 7 % 900}: def handler_{number}(request):\n"
        )
        size += len(lines[-1])
    return "".join(lines)


def serve() -> None:
    """Serve a typical server: the official SDK over standard input and output."""
    import anyio
    import mcp_types as types
    from mcp.server.lowlevel import Server
    from mcp.server.stdio import stdio_server

    texts = {"small": SMALL, "large": large()}

    async def list_tools(ctx: Any, params: object) -> types.ListToolsResult:
        return types.ListToolsResult(
            tools=[types.Tool(name=name, input_schema={"type": "object"}) for name in texts]
        )

    async def call_tool(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        text = texts[params.name]
        # Results must differ, because equal contents are stored only once.
        mark = f"{params.arguments['mark']} " if params.arguments else ""
        return types.CallToolResult(content=[types.TextContent(type="text", text=mark + text)])

    async def run() -> None:
        server: Server[Any] = Server("bench", on_list_tools=list_tools, on_call_tool=call_tool)
        async with stdio_server() as (messages, answers):
            await server.run(messages, answers, server.create_initialization_options())

    anyio.run(run)


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def compared(direct: Pipe, gateway: Pipe, tool: str, number: int) -> tuple[float, float]:
    """Return the median times of direct and gateway calls, measured in alternating batches.

    Not call by call: what the gateway writes after an answer would slow down the next direct call.
    """
    taken: dict[Pipe, list[float]] = {direct: [], gateway: []}
    block = max(1, number // 10)
    for start in range(0, number + block, block):
        for way, times in taken.items():
            some = [
                seconds(lambda mark=mark: way.call(tool, mark=mark))  # type: ignore[misc]  # noqa: B023
                for mark in range(start, start + block)
            ]
            time.sleep(PAUSE_SECONDS)
            # Skip the first calls, which load modules and data.
            times += some if start else []
    return statistics.median(taken[direct]), statistics.median(taken[gateway])


def counting(text: str, number: int) -> float:
    count = counter("o200k_base").count
    return statistics.median(seconds(lambda: count(text)) for _ in range(number))


def growth(folder: Path, number: int) -> tuple[int, int]:
    """Return its memory after a tenth of this many results, and after all."""
    with Gateway(folder / "growth.db") as gateway:
        for place in range(number // 10):
            gateway.call("small", mark=place)
        before = gateway.resident
        for place in range(number // 10, number):
            gateway.call("small", mark=place)
        return before, gateway.resident


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--calls", type=int, default=1_000)
    parser.add_argument("--large", type=int, default=15)
    parser.add_argument("--results", type=int, default=10_000)
    parser.add_argument("--upstream", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.upstream:
        serve()
        return 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with Pipe(*UPSTREAM) as direct, Gateway(folder / "bench.db") as gateway:
            small = compared(direct, gateway, "small", options.calls)
            big = compared(direct, gateway, "large", options.large)
        counted = counting(large(), options.large)
        before, after = growth(folder, options.results)
    print_table(
        f"a tool of another server, medians of {options.calls} small and {options.large} large calls",
        [
            ("what", "p50 ms", "multiple"),
            (f"{len(SMALL)} bytes, direct", f"{1000 * small[0]:.2f}", "1.00"),
            (f"{len(SMALL)} bytes, gateway", f"{1000 * small[1]:.2f}", f"{small[1] / small[0]:.2f}"),
            ("1 MB, direct", f"{1000 * big[0]:.1f}", ""),
            ("1 MB, gateway", f"{1000 * big[1]:.1f}", ""),
            ("counting 1 MB", f"{1000 * counted:.1f}", "1.00"),
            (
                "1 MB, what the gateway adds",
                f"{1000 * (big[1] - big[0]):.1f}",
                f"{(big[1] - big[0]) / counted:.2f}",
            ),
        ],
    )
    print_table(
        "resident memory of the gateway",
        [
            ("results recorded", "MB"),
            (f"{options.results // 10:,}", f"{before}"),
            (f"{options.results:,}", f"{after}"),
        ],
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
