"""`python -m bench.service` on a very small store."""

import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SVG = "{http://www.w3.org/2000/svg}"


def bench(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench.service", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=ROOT)


def row(output: str, label: str) -> list[str]:
    """The cells of the first line that starts with a label."""
    line = next(line for line in output.splitlines() if re.match(rf"  {re.escape(label)}  ", line))
    return line.removeprefix(f"  {label}").split()


def test_it_measures_the_service_beside_a_bare_handler_and_draws_what_it_measured(tmp_path: Path):
    chart = tmp_path / "service.svg"
    sizes = ("--tenants", "2", "--each", "30", "--large", "60")
    done = bench(*sizes, "--clients", "1,4", "--seconds", "1", "--processes", "2", "--plot", chart)
    assert (done.returncode, done.stderr) == (0, "")
    bare, served = row(done.stdout, "bare, 2 processes"), row(done.stdout, "satchel, 2 processes")
    assert (bare[0], bare[2:4], bare[-1]) == ("1", ["100", "%"], "0")
    assert (served[0], served[-1]) == ("1", "0")
    assert float(served[1]) > 0
    assert [len(row(done.stdout, name)) for name in ("service itself", "worker 1", "worker 2")] == [4, 4, 4]
    for clients in (
        "2 of small tenants, alone",
        "2 of small tenants, beside the large one",
        "2 of the large tenant",
    ):
        assert row(done.stdout, clients)[-1] == "0"
    told = [each.text or "" for each in ElementTree.fromstring(chart.read_text("utf-8")).iter(f"{SVG}text")]
    assert {"Answers a second", "SQLite: satchel, 2 processes", "SQLite: bare, 2 processes"} <= set(told)


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--clients", "many", "--clients many: numbers above 0 are needed, such as 1,10,100"),
        ("--clients", "1,,2", "--clients 1,,2: numbers above 0"),
        ("--processes", "0", "--processes 0: numbers above 0"),
        ("--tenants", "0", "--tenants 0: at least 1 is needed"),
        ("--large", "-1", "--large -1: at least 0 is needed"),
        ("--threads", "0", "--threads 0: at least 1 is needed"),
        ("--seconds", "0", "--seconds 0: more than 0 are needed"),
        ("--plot", "nowhere/service.svg", "nowhere/service.svg: No such file or directory"),
    ],
)
def test_a_wrong_option_gives_one_line_before_anything_is_measured(option: str, value: str, words: str):
    done = bench(f"{option}={value}")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"bench.service: {words}")
    assert done.stderr.count("\n") == 1


def test_a_server_that_does_not_answer_gives_one_line():
    done = bench(
        *("--tenants", "1", "--each", "5", "--large", "0", "--clients", "1", "--seconds", "0.1"),
        *("--db", "postgresql://127.0.0.1:1/none"),
    )
    assert done.returncode == 1
    assert re.fullmatch(r"bench\.service: connection failed: .*\n", done.stderr)
