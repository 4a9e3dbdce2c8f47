"""The size and shape of the source tree, and how many modules four common calls pass through.

python -m bench.tree [--source src/satchel] [--walks] [--fits]

Files, lines and protocol methods are read from the source with `ast`, so another checkout can be measured with
`--source`. The walks run the installed `satchel` in separate processes: a module is passed when one of its
functions runs, not counting imports; a switch is a call from a function of one module into another. `--fits` lists
the functions that fit text into tokens by trial: a loop that counts something and compares it with a budget.
"""

import argparse
import ast
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.table import print_table

__all__ = ["fitting_functions", "main", "walk"]

# Runs before the walk: records the modules of satchel whose functions run, outside of imports.
TRACER = """
import json, os, sys, threading
seen, switches, importing = set(), [0], threading.local()
def profile(frame, event, argument):
    if event not in ("call", "return"):
        return
    code = frame.f_code
    if code.co_name == "<module>":
        importing.depth = getattr(importing, "depth", 0) + (1 if event == "call" else -1)
        return
    if event == "return" or getattr(importing, "depth", 0) > 0:
        return
    name = frame.f_globals.get("__name__", "")
    if not name.startswith("satchel"):
        return
    seen.add(name)
    caller = frame.f_back
    if caller is not None and caller.f_globals.get("__name__", "") != name:
        switches[0] += 1
def report():
    sys.setprofile(None)
    threading.setprofile(None)
    with open(os.environ["SATCHEL_WALK"], "w") as file:
        json.dump([sorted(seen), switches[0]], file)
"""

# The command line exits by itself, so the report is written whatever it raises.
COMMAND = """
from satchel.cli.app import main
leave = os._exit
os._exit = lambda code: (report(), leave(code))
sys.argv[0] = "satchel"
threading.setprofile(profile)
sys.setprofile(profile)
try:
    main(sys.argv[1:])
finally:
    report()
"""

RESULT = """
import satchel
with satchel.open(sys.argv[1]) as bag:
    session = bag.session("walk")
    lines = [f"src/module_{number}.py:{number}: def rotate_{number}(token)" for number in range(3000)]
    session.result("search_content", "\\n".join(lines[:200]))
    threading.setprofile(profile)
    sys.setprofile(profile)
    session.result("search_content", "\\n".join(lines))
    report()
"""

QUESTION = "How do we rotate tokens?"
CALLS: tuple[dict[str, Any], ...] = (
    {
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "tree", "version": "1"},
        },
    },
    {"method": "notifications/initialized"},
    {
        "id": 2,
        "method": "tools/call",
        "params": {"name": "mem_context", "arguments": {"query": QUESTION, "max_tokens": 500}},
    },
)


def walk(script: str, *arguments: str, lines: Sequence[str] = ()) -> tuple[list[str], int]:
    """Return the modules that a call passes through, and how often it switches between modules.

    Lines go to standard input, which is closed once the last of them is answered.
    """
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "walk.json"
        command = [sys.executable, "-c", TRACER + script, *arguments]
        environment = {**_environment(), "SATCHEL_WALK": str(report)}
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=environment, text=True) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write("".join(f"{line}\n" for line in lines))
            process.stdin.flush()
            if lines:
                number = json.loads(lines[-1])["id"]
                while json.loads(process.stdout.readline()).get("id") != number:
                    pass
            _, said = process.communicate(timeout=120)
        if not report.exists():
            raise SystemExit(f"the walk {arguments} failed: {said[-500:]}")
        modules, switches = json.loads(report.read_text())
        return modules, switches


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("SATCHEL")}


def walks(store: Path) -> Iterator[tuple[str, list[str], int]]:
    """Yield the walks of search, mem_context, a tool's result and add, on a store with a few memories."""
    where = ("--db", str(store))
    yield "add", *walk(COMMAND, "add", "The build takes four minutes on two cores.", *where)
    yield "search", *walk(COMMAND, "search", QUESTION, "--token-budget", "300", *where)
    lines = [json.dumps({"jsonrpc": "2.0", **call}) for call in CALLS]
    yield "mem_context", *walk(COMMAND, "mcp", *where, lines=lines)
    yield "a tool's result", *walk(RESULT, str(store))


def _fill(store: Path) -> None:
    import satchel

    with satchel.open(store) as bag:
        bag.add("We rotate JWTs every hour.", title="JWT rotation", kind="decision", tags=["auth"], importance=0.8)
        bag.add("The token signing key lives in the vault of the harbor cluster.", kind="fact")
        bag.add("Rotation of tokens failed on 3 May because the clock was wrong.", kind="error")


def sources(folder: Path) -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text()) for path in sorted(folder.rglob("*.py"))}


def code_lines(path: Path, tree: ast.Module) -> int:
    """Count the lines with code: no blank lines, comments or docstrings."""
    texts = {
        number
        for each in ast.walk(tree)
        if isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant) and isinstance(each.value.value, str)
        for number in range(each.lineno, (each.end_lineno or each.lineno) + 1)
    }
    lines = enumerate(path.read_text().splitlines(), 1)
    return sum(bool(line.strip()) and not line.lstrip().startswith("#") and n not in texts for n, line in lines)


def protocol_methods(trees: dict[Path, ast.Module]) -> int:
    """Count the methods of the protocols that stores implement."""
    found = 0
    for path, tree in trees.items():
        if "store" not in path.parts:
            continue
        for each in ast.walk(tree):
            if isinstance(each, ast.ClassDef) and any("Protocol" in ast.unparse(base) for base in each.bases):
                found += sum(isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef) for inner in each.body)
    return found


COUNTED = re.compile(r"\b(count|_count|price|price_at|cost|costs|spent|token_count)\b")
LIMIT = re.compile(r"\b(budget|token_budget|room|allocation|allowed)\b")


def fitting_functions(trees: dict[Path, ast.Module]) -> list[str]:
    """Return the functions with a loop that counts something and compares it with a number of tokens."""
    return sorted(
        f"{path.stem}.{each.name}"
        for path, tree in trees.items()
        for each in ast.walk(tree)
        if isinstance(each, ast.FunctionDef) and any(_tries(loop) for loop in _own_loops(each))
    )


def _own_loops(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """Yield its loops, and its binary searches with `bisect`."""
    for each in ast.walk(function):
        bisects = isinstance(each, ast.Call) and ast.unparse(each.func).startswith("bisect")
        if bisects or isinstance(each, ast.While | ast.For):
            yield each


def _tries(loop: ast.AST) -> bool:
    compared = (ast.unparse(each) for each in ast.walk(loop) if isinstance(each, ast.Compare | ast.Call))
    return bool(COUNTED.search(ast.unparse(loop))) and any(LIMIT.search(text) for text in compared)


def layers(project: Path) -> int:
    """Return the number of levels in the layers contract."""
    contracts = tomllib.loads(project.read_text())["tool"]["importlinter"]["contracts"]
    return max(len(each["layers"]) for each in contracts if each["type"] == "layers")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--source", type=Path, default=Path("src/satchel"), metavar="DIR")
    parser.add_argument("--walks", action="store_true", help="name the modules of each walk")
    parser.add_argument("--fits", action="store_true", help="name the functions that fit text into tokens")
    options = parser.parse_args(arguments)
    trees = sources(options.source)
    entries = [each for each in options.source.iterdir() if not each.name.startswith(("__", "py.typed"))]
    tries = fitting_functions(trees)
    print_table(
        "The tree",
        [
            ("of the source", "number"),
            ("files", f"{len(trees):,}"),
            ("lines", f"{sum(len(path.read_text().splitlines()) for path in trees):,}"),
            ("lines of code", f"{sum(code_lines(*each) for each in trees.items()):,}"),
            ("top-level entries", str(len(entries))),
            ("layers", str(layers(options.source.parents[1] / "pyproject.toml"))),
            ("methods of the stores' protocols", str(protocol_methods(trees))),
            ("functions that try what fits", str(len(tries))),
        ],
    )
    if options.fits:
        print("\n" + "\n".join(f"  {each}" for each in tries))
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "walks.db"
        _fill(store)
        rows = list(walks(store))
    print_table(
        "The walks",
        [("call", "modules", "switches"), *((name, str(len(passed)), f"{n:,}") for name, passed, n in rows)],
    )
    if options.walks:
        for name, passed, _ in rows:
            print(f"\n{name}: {', '.join(passed)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
