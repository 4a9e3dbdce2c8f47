"""Type checkers know what an awaited call returns and which parameters it has."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import satchel
from satchel.api import aio

ROOT = Path(__file__).parents[3]

SNIPPET = """
import satchel

async def work() -> None:
    async with satchel.aopen("notes.db") as bag:
        reveal_type(bag)
        reveal_type(await bag.scoped(project="thesis").search("token rotation", limit=3, kind="decision"))
        reveal_type(await bag.context("How?", token_budget=500))
        reveal_type(await bag.add("text", tags="auth"))
        reveal_type(await bag.export())
        reveal_type(await bag.export("notes.jsonl"))
        session = await bag.session("work", budget=1000)
        reveal_type(session)
        reveal_type(await session.result("grep", "output", max_tokens=50))
        reveal_type(await bag.run(lambda sync: sync.stats().memories))
        await bag.search("token rotation", top_k=3)
        await session.record("user", "x", pin=True)
    reveal_type(await satchel.aopen())
"""
REVEALED = [
    "satchel.api.aio.AsyncSatchel",
    "satchel.fitting.hits.Hits",
    "satchel.fitting.context.ContextBlock",
    "satchel.model.memory.Memory",
    "list[bytes]",
    "int",
    "satchel.api.aio.AsyncSession",
    "satchel.session.results.Shown",
    "int",
    "satchel.api.aio.AsyncSatchel",
]


@pytest.mark.slow
def test_mypy_knows_the_results_of_awaited_calls_and_refuses_an_unknown_keyword(tmp_path: Path):
    file = tmp_path / "snippet.py"
    file.write_text(SNIPPET)
    options = ["--strict", "--no-incremental", "--config-file", str(ROOT / "pyproject.toml")]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, str(file)],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=tmp_path,
    )
    revealed = re.findall(r'Revealed type is "(.*)"', done.stdout)
    assert [each.replace("builtins.", "") for each in revealed] == REVEALED, done.stdout + done.stderr
    errors = re.findall(r"snippet.py:\d+: error: (.*)", done.stdout)
    assert len(errors) == 2, done.stdout
    assert 'Unexpected keyword argument "top_k" for "search"' in errors[0]
    assert 'Unexpected keyword argument "pin" for "record"' in errors[1]


def test_the_stub_has_every_method_of_the_twins():
    """That its signatures are those of the originals is what `docs/async_stub.py --check` compares."""
    stub = ast.parse(Path(aio.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    typed = {
        node.name: {each.name for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}
        for node in stub.body
        if isinstance(node, ast.ClassDef)
    }
    for twin in (satchel.AsyncSatchel, satchel.AsyncSession, satchel.Opening):
        public = {name for name in vars(twin) if not name.startswith("_") and callable(getattr(twin, name))}
        assert public == {name for name in typed[twin.__name__] if not name.startswith("_")}
