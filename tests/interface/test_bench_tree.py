"""`python -m bench.tree` measures what it says."""

import ast
from pathlib import Path

import pytest
from bench.tree import code_lines, fitting_functions, main, protocol_methods, walks

import satchel

SAMPLE = '''
"""A module."""

from typing import Protocol


class Reads(Protocol):
    """What can be read."""

    def one(self) -> str: ...
    def two(self) -> str: ...


# A comment.
def longest(lines, budget, count):
    while lines and count(lines) > budget:
        lines = lines[:-1]
    return lines


def shortest(lines):
    while lines:
        lines = lines[:-1]
    return lines
'''


def test_lines_of_code_protocol_methods_and_trying_functions_are_counted(tmp_path: Path):
    path = tmp_path / "store" / "sample.py"
    path.parent.mkdir()
    path.write_text(SAMPLE)
    trees = {path: ast.parse(SAMPLE)}
    assert code_lines(path, trees[path]) == 12
    assert protocol_methods(trees) == 2
    assert fitting_functions(trees) == ["sample.longest"]


@pytest.mark.slow
def test_the_walks_pass_the_modules_that_do_the_work(tmp_path: Path):
    passed = {name: set(modules) for name, modules, _ in walks(tmp_path / "walks.db")}
    assert {"satchel.cli.save", "satchel.store.memories"} <= passed["add"]
    assert {"satchel.cli.search", "satchel.recall.ranking", "satchel.fitting.engine"} <= passed["search"]
    assert {"satchel.server.mcp.reading_tools", "satchel.fitting.packing"} <= passed["mem_context"]
    assert {"satchel.session.results", "satchel.session.ledger"} <= passed["a tool's result"]
    # Modules that are only imported are not passed.
    assert "satchel.fitting.packing" not in passed["search"]


@pytest.mark.slow
def test_the_tree_is_printed_with_its_walks(capsys: pytest.CaptureFixture[str]):
    source = Path(satchel.__file__).parent
    assert main(["--source", str(source)]) == 0
    said = capsys.readouterr().out
    files = len(list(source.rglob("*.py")))
    assert f" {files}\n" in said
    assert "mem_context" in said
