"""Libraries for MCP servers, each with an echo tool: start time, and the time of a call over the pipe.

Each needs a Python interpreter in its own environment with nothing else installed:

python -m bench.sdk --mcp PYTHON --fastmcp PYTHON [--runs 7] [--calls 200]
"""

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

from bench.mcp import Pipe
from bench.table import print_table

LOW_LEVEL = """
import anyio, mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

async def tools(context, params):
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    return types.ListToolsResult(tools=[types.Tool(name="echo", input_schema=schema)])

async def call(context, params):
    return types.CallToolResult(content=[types.TextContent(text=params.arguments["text"])])

async def main():
    server = Server("echo", on_list_tools=tools, on_call_tool=call)
    async with stdio_server() as streams:
        await server.run(*streams, server.create_initialization_options())

anyio.run(main)
"""
DECORATED = """
from {module} import {name}
server = {name}("echo")

@server.tool()
def echo(text: str) -> str:
    return text

server.run()
"""


def measured(python: str, script: str, calls: int) -> tuple[float, float]:
    """Return the seconds from spawn to the first answer, and the median of the calls after it."""
    started = time.perf_counter()
    with Pipe(python, script) as pipe:
        pipe.call("echo", text="x")
        first = time.perf_counter() - started
        times = []
        for _ in range(calls):
            asked = time.perf_counter()
            pipe.call("echo", text="x")
            times.append(time.perf_counter() - asked)
    return first, statistics.median(times)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--mcp", required=True, help="a Python that has mcp")
    parser.add_argument("--fastmcp", required=True, help="a Python that has fastmcp")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--calls", type=int, default=200)
    options = parser.parse_args()
    servers = {
        "mcp, low-level server": (options.mcp, LOW_LEVEL),
        "mcp, decorators": (options.mcp, DECORATED.format(module="mcp.server", name="MCPServer")),
        "FastMCP": (options.fastmcp, DECORATED.format(module="fastmcp", name="FastMCP")),
    }
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in servers}
    with tempfile.TemporaryDirectory() as folder:
        # One more round than is counted: the first compiles imported modules.
        for turn in range(options.runs + 1):
            for name, (python, code) in servers.items():
                script = Path(folder, "server.py")
                script.write_text(code, encoding="utf-8")
                measure = measured(python, str(script), options.calls)
                found[name] += [measure] if turn else []
    rows = [("library", "first answer s", "call ms")]
    for name, figures in found.items():
        first, call = (statistics.median(column) for column in zip(*figures, strict=True))
        rows.append((name, f"{first:.2f}", f"{1000 * call:.2f}"))
    print_table(f"an echo tool, medians of {options.runs} starts with {options.calls} calls each", rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
