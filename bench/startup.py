"""How long commands take from a cold start, as a multiple of `python -c "import click"`.

python -m bench.startup [--memories 10000] [--runs 21]
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import satchel
from bench.corpus import Corpus
from bench.table import print_table


def run(command: list[str], environment: dict[str, str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    return time.perf_counter() - started


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--memories", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=21)
    options = parser.parse_args()
    corpus = Corpus()
    command = str(Path(sys.executable).with_name("satchel"))
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "bench.db"))
        with satchel.open(path) as bag:
            bag.import_(json.dumps(each).encode() for each in corpus.memories(options.memories))
            bag.catch_up()
        environment = os.environ | {"SATCHEL_DB": path}
        query = corpus.query()
        commands = {
            'python -c "import click"': [sys.executable, "-c", "import click"],
            "satchel --version": [command, "--version"],
            "satchel search": [command, "search", query],
            "satchel search --token-budget 800": [command, "search", query, "--token-budget", "800"],
            "satchel context": [command, "context", query],
            "satchel list": [command, "list"],
            "satchel add": [command, "add", "a note"],
        }
        times: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(options.runs):
            for name, words in commands.items():
                times[name].append(run(words, environment))
    reference = statistics.median(next(iter(times.values())))
    rows = [("command", "p50 ms", "multiple")]
    for name, found in times.items():
        median = statistics.median(found)
        rows.append((name, f"{1000 * median:.0f}", f"{median / reference:.2f}"))
    print_table(f"cold start, {options.memories:,} memories, median of {options.runs} runs", rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
