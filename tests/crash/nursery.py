"""Fork writers and kill each at a random moment: nursery.py WORK STORE FOLDER KILLS AT_ONCE SEED.

A fork takes milliseconds where a new interpreter takes a second, so that many kills fit into a test.
"""

import gc
import os
import random
import signal
import sys
import time
from pathlib import Path

from writer import churn_for_ever, deliver_for_ever, write_for_ever

import satchel

WORKS = {"write": write_for_ever, "churn": churn_for_ever, "deliver": deliver_for_ever}
LONGEST_START = 20.0


def spawn(work: str, store: str, acknowledgements: Path) -> int:
    child = os.fork()
    if child == 0:
        output = os.open(acknowledgements, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            WORKS[work](store, acknowledgements.stem, lambda line: os.write(output, line.encode()))
        finally:
            # Whatever ended it, a child must not go on as a second nursery.
            os._exit(1)
    return child


def wait_for_its_first(acknowledgements: Path) -> None:
    deadline = time.monotonic() + LONGEST_START
    while not (acknowledgements.exists() and acknowledgements.stat().st_size):
        assert time.monotonic() < deadline, "a writer never got to write"
        time.sleep(0.001)


def main(work: str, store: str, folder: Path, kills: int, at_once: int, seed: int) -> None:
    chance = random.Random(seed)
    with satchel.open(":memory:") as bag:
        bag.add("loads all that is loaded late, once for every child")
        bag.session("warm").result("warm", "up")
    # Else each child would copy the memory that it shares as soon as it collects garbage.
    gc.freeze()
    running: list[tuple[int, Path]] = []
    for number in range(kills):
        acknowledgements = folder / f"w{seed}-{number}.txt"
        running.append((spawn(work, store, acknowledgements), acknowledgements))
        if len(running) == at_once or number >= kills - at_once:
            victim, said = running.pop(chance.randrange(len(running)))
            if number % 4:
                # Else most would be killed while they open the store, and few while they write.
                wait_for_its_first(said)
            time.sleep(chance.uniform(0.0, 0.08))
            os.kill(victim, signal.SIGKILL)
            _, status = os.waitpid(victim, 0)
            assert os.WTERMSIG(status) == signal.SIGKILL, "a writer ended by itself"
    for victim, _ in running:
        os.kill(victim, signal.SIGKILL)
        os.waitpid(victim, 0)


if __name__ == "__main__":
    main(*sys.argv[1:3], Path(sys.argv[3]), *map(int, sys.argv[4:]))
