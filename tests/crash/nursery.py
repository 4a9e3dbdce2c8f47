"""Forks writers and kills each at a random moment: nursery.py STORE FOLDER KILLS AT_ONCE SEED.

A fork takes milliseconds where a new interpreter takes a second, so that many kills fit into a test.
"""

import os
import random
import signal
import sys
import time
from pathlib import Path

from writer import write_for_ever

import satchel


def spawn(store: str, acknowledgements: Path) -> int:
    child = os.fork()
    if child == 0:
        output = os.open(acknowledgements, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            write_for_ever(store, acknowledgements.stem, lambda line: os.write(output, line.encode()))
        finally:
            # Whatever ended it, a child must not go on as a second nursery.
            os._exit(1)
    return child


def main(store: str, folder: Path, kills: int, at_once: int, seed: int) -> None:
    chance = random.Random(seed)
    with satchel.open(":memory:") as bag:
        bag.add("loads all that is loaded late, once for every child")
    running: list[int] = []
    for number in range(kills):
        running.append(spawn(store, folder / f"w{number}.txt"))
        if len(running) == at_once or number >= kills - at_once:
            time.sleep(chance.uniform(0.0, 0.08))
            victim = running.pop(chance.randrange(len(running)))
            os.kill(victim, signal.SIGKILL)
            _, status = os.waitpid(victim, 0)
            assert os.WTERMSIG(status) == signal.SIGKILL, "a writer ended by itself"
    for victim in running:
        os.kill(victim, signal.SIGKILL)
        os.waitpid(victim, 0)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *map(int, sys.argv[3:]))
