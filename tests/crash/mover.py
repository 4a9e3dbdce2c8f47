"""Fork migrations and kill each at a random moment: mover.py SOURCE TARGET KILLS SEED."""

import os
import random
import signal
import sys
import time
from functools import partial

import satchel.store.postgres
import satchel.store.sqlite  # noqa: F401
from satchel.store import migrate as org
from satchel.store.migrate import migrate

# Small, so that there is much to be killed between.
BATCH = 4
MOST_STEPS = 30


def tell(pipe: int, done: int, total: int) -> None:
    os.write(pipe, b".")


def main(source: str, target: str, kills: int, seed: int) -> None:
    chance = random.Random(seed)
    org.BATCH = BATCH
    for _ in range(kills):
        steps, told = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                migrate(source, target, progress=partial(tell, told))
            finally:
                # Whatever ended it, a child must not go on as a second killer.
                os._exit(0)
        os.close(told)
        for _ in range(chance.randrange(1, MOST_STEPS)):
            if not os.read(steps, 1):
                break
        time.sleep(chance.uniform(0.0, 0.01))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(steps)


if __name__ == "__main__":
    main(*sys.argv[1:3], *map(int, sys.argv[3:]))
