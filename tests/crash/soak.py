"""Faults at full size, which takes about half an hour on two cores: soak.py [--points N] [--only WORD].

Runs the scripts beside it, two at a time, and prints a row for each: how often it was tried, how often the fault
came in the middle of the work, and how many acknowledged writes were lost. `test_soak.py` runs the same at a small
size.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from fault_sweep import OPERATIONS

# Each operation is tried at all of its points, or at so many at even distances.
POINTS = 200
PROCESSES, WRITES, KILLS = 32, 2_000, 640
CALLS = 20_000
ROUNDS, WRITERS = 50, 4
SEED = 20261117

HEADINGS = ("what", "points", "tried", "in the middle", "lost", "seconds")
# The disk of a PostgreSQL is its own affair.
ON_A_DISK = tuple(name for name in OPERATIONS if name != "migrate to PostgreSQL")


class Job(NamedTuple):
    name: str
    script: str
    arguments: tuple[object, ...]
    row: Callable[[dict[str, Any]], tuple[object, object, object, object]]
    """Makes points, tried, in the middle and lost of what the script has found."""


class FailedError(Exception):
    """A script has found something lost, or could not run."""


def script(name: str, *arguments: object) -> dict[str, Any]:
    """Run a script of this folder, and return what it prints."""
    command = [sys.executable, str(Path(__file__).with_name(f"{name}.py")), *map(str, arguments)]
    # A fork has none of the threads of numpy.
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"OPENBLAS_NUM_THREADS": "1"})
    if done.returncode != 0:
        raise FailedError(f"{name} {' '.join(map(str, arguments))}: {done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def swept(found: dict[str, Any]) -> tuple[object, object, object, object]:
    # A sweep that finds anything lost ends with an error.
    return found["points"], found["tried"], found["in_the_middle"], 0


def crewed(found: dict[str, Any]) -> tuple[object, object, object, object]:
    return f"{found['writes']:,} writes", f"{found['kills']} kills", found["kills"], found["lost"]


def raced(found: dict[str, Any]) -> tuple[object, object, object, object]:
    if found["late"] or found["refused"] != found["rounds"] * WRITERS:
        raise FailedError(f"not every older process was refused: {found}")
    return f"{found['acknowledged']:,} writes", f"{found['rounds']} upgrades", found["refused"], found["lost"]


def flat(found: dict[str, Any]) -> tuple[object, object, object, object]:
    if not found["flat"]:
        raise FailedError(f"memory or open files grow: {found}")
    first, last = found["files"]
    grown = f"{found['growth']:+.0f} KB per 1,000"
    return f"{found['calls']:,} calls", grown, f"{found['resident'] // 1024} MB, {last} files", f"{last - first:+}"


def jobs(points: int) -> list[Job]:
    return [
        Job("32 processes killed", "killed_crew", (PROCESSES, WRITES, KILLS, SEED), crewed),
        *(Job(f"kill: {name}", "fault_sweep", ("kill", name, points), swept) for name in OPERATIONS),
        Job("kill: gateway result", "gateway_sweep", (points,), swept),
        *(Job(f"disk full: {name}", "fault_sweep", ("full", name, points), swept) for name in ON_A_DISK),
        Job("upgrade under older writers", "upgrade_race", (ROUNDS, WRITERS, SEED), raced),
        *(Job(f"calls: {name}", "flat_calls", (name, CALLS), flat) for name in ("mcp", "service", "gateway")),
    ]


def run(job: Job) -> bool:
    started = time.monotonic()
    try:
        row = job.row(script(job.script, *job.arguments))
    except FailedError as error:
        print(f"FAILED {job.name}: {error}", flush=True)
        return False
    show(job.name, *row, f"{time.monotonic() - started:.0f}")
    return True


def show(*row: object) -> None:
    print("| " + " | ".join(map(str, row)) + " |", flush=True)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--points", type=int, default=POINTS, metavar="N", help="try at most N points of each")
    options.add_argument("--only", default="", metavar="WORD", help="only what has this in its name")
    chosen = options.parse_args()
    show(*HEADINGS)
    show(*["---"] * len(HEADINGS))
    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(run, [job for job in jobs(chosen.points) if chosen.only in job.name]))
    return 0 if all(done) else 1


if __name__ == "__main__":
    sys.exit(main())
