"""`python -m bench.scale` on very small stores."""

import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

import satchel

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SVG = "{http://www.w3.org/2000/svg}"


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=ROOT)


def bench(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return run("-m", "bench.scale", *arguments)


def row(output: str, label: str) -> list[str]:
    """The cells of the first line that starts with a label."""
    line = next(line for line in output.splitlines() if re.match(rf"  {re.escape(label)}  ", line))
    return line.removeprefix(f"  {label}").split()


def texts(svg: str) -> list[str]:
    return [each.text or "" for each in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_it_builds_and_asks_stores_of_each_size_and_draws_what_it_measured(tmp_path: Path):
    chart, kept = tmp_path / "scale.svg", tmp_path / "stores"
    done = bench("--sizes", "200,50", "--queries", "3", "--plot", chart, "--keep", kept)
    assert done.returncode == 0, done.stderr
    assert "50 memories, 50 passages, 3 questions" in done.stdout
    for asked in ("search", "context of 2,000 tokens", "context, 1 of 20 projects", "context, a word misspelt"):
        assert row(done.stdout, asked)[5] == "100"
    assert row(done.stdout, "bare FTS5, telling words")[5] == "100"
    assert (cells := row(done.stdout, "bare, both"))[2] == cells[4] == "1.00"
    assert [len(row(done.stdout, size)) for size in ("50", "200")] == [6, 6]
    assert row(done.stdout, "growth of p50") == ["50", "to", "200"]
    told = texts(chart.read_text(encoding="utf-8"))
    assert {"Answering", "Resident memory", "Size", "Building", "context of 2,000 tokens"} <= set(told)
    assert sorted(each.name for each in kept.iterdir()) == ["scale-200.db", "scale-50.db"]
    with satchel.open(kept / "scale-200.db", create=False) as bag:
        stats = bag.stats()
        assert (stats.memories, set(stats.by_tier)) == (200, {"conversation", "knowledge"})
        assert all(check.state == "ok" for check in bag.checks())
    again = bench("--sizes", "50", "--queries", "1", "--keep", kept)
    assert row(again.stdout, "50")[0] == "–"


@pytest.mark.parametrize("sizes", ["many", "1k,", "0", "-5", "1.5k", "2G"])
def test_a_size_that_is_none_gives_one_line(sizes: str):
    done = bench(f"--sizes={sizes}")
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(r"bench\.scale: --sizes .*: '.*' is not a number of memories such as .*\n", done.stderr)


def test_a_chart_that_cannot_be_written_is_told_before_anything_is_measured(tmp_path: Path):
    done = bench("--sizes", "50", "--plot", tmp_path / "nowhere" / "scale.svg")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"bench.scale: {tmp_path / 'nowhere' / 'scale.svg'}: No such file or directory\n"


def test_the_words_of_a_question_stand_together_in_one_memory_and_a_larger_corpus_keeps_the_smaller():
    script = (
        "from bench.corpus import Corpus\n"
        "from satchel.recall.question import read_question\n"
        "from satchel.model.memory import utc_now\n"
        "few, many = list(Corpus().days(100)), list(Corpus().days(300))\n"
        "assert many[:100] == few and len(many) == 300\n"
        "texts = {memory['ref']: memory['text'].lower() for memory in many}\n"
        "for asked in Corpus().questions(300, 20):\n"
        "    assert asked.misspelt != asked.text\n"
        "    terms = read_question(asked.text, now=utc_now()).searchable\n"
        "    print(sum(term in texts[asked.ref] for term in terms) >= 4)\n"
    )
    done = run("-c", script)
    assert done.stdout.split() == ["True"] * 20, done.stderr


def test_a_chart_is_well_formed_whatever_its_names_and_needs_values_above_zero():
    script = (
        "from bench.plot import Series, line_chart, stacked\n"
        "one = line_chart('a < b & c', 'x', 'y', [Series(\"'quoted' <b>\", [(10, 3)]), Series('none', [])])\n"
        "two = line_chart('d', 'x', 'y', [Series(str(n), [(1, 1), (10**n, 2)]) for n in range(1, 10)])\n"
        "print(stacked([one, two, one], columns=2))\n"
        "line_chart('e', 'x', 'y', [Series('f', [(0, 1)])])\n"
    )
    done = run("-c", script)
    told = texts(done.stdout)
    assert told.count("a < b & c") == told.count("'quoted' <b>") == 2
    assert {"1k", "1M", "1G"} <= set(told)
    assert done.stderr.endswith("ValueError: a logarithmic axis needs values above zero\n")
