"""`python -m bench.sizing` with few small tenants."""

import re
import subprocess
import sys
from pathlib import Path

from pg_server import Server

ROOT = Path(__file__).parents[2]


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench.sizing", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=ROOT)


def numbers(output: str, label: str) -> list[float]:
    """The numbers of the first line that starts with a label."""
    line = next(line for line in output.splitlines() if re.match(rf"  {re.escape(label)}  ", line))
    return [float(each.replace(",", "")) for each in re.findall(r"[\d,.]*\d", line.removeprefix(f"  {label}"))]


def test_it_measures_bytes_and_calls_and_derives_the_number_of_nodes(pg: Server):
    done = bench("--db", pg.dsn(), "--tenants", "2", "--each", "100", "--queries", "5", "--node-tb", "1")
    assert done.returncode == 0, done.stderr
    (together,) = numbers(done.stdout, "together")
    assert 1_000 < together < 100_000
    for call in ("context, columns kept", "context, nothing kept", "add, one at a time", "add, 1,000 at a time"):
        clock, client, _ = numbers(done.stdout, call)
        assert clock > 0
        assert client >= 0
    disk, nodes, *_ = numbers(done.stdout, "1,000,000,000")
    assert abs(disk - together / 1000) < 0.01
    assert nodes == -(-1e9 // (0.7e12 // together))
