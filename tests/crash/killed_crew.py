"""Many processes write to one store, are killed and go on: killed_crew.py PROCESSES WRITES KILLS SEED.

Each process has a list of what it has to write, and notes each write when it is acknowledged. A new process goes on
after the last note. So the last write before a kill may be done twice; its `ref` makes it one memory.
Prints what was done as JSON.
"""

import gc
import json
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import satchel

NOTE = "{:06}\n"
WIDTH = len(NOTE.format(0))
LONGEST_WAIT = 600.0


class Crewed(NamedTuple):
    writes: int
    kills: int
    lost: int
    seconds: float


def text(who: int, number: int) -> str:
    return f"process {who} saw that key {number} was rotated 記憶"


class Crew:
    def __init__(self, folder: Path, processes: int, writes: int) -> None:
        self.store = folder / "notes.db"
        self.writes = writes
        self.notes = [folder / f"{who}.txt" for who in range(processes)]
        for file in self.notes:
            file.touch()
        self.running: dict[int, int] = {}

    def start(self, who: int) -> None:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                self._write(who)
                code = 0
            finally:
                if code:
                    traceback.print_exc()
                # Whatever ended it, a child must not go on as a second crew.
                os._exit(code)
        self.running[child] = who

    def _write(self, who: int) -> None:
        notes = os.open(self.notes[who], os.O_WRONLY | os.O_APPEND)
        with satchel.open(self.store, embedder="static") as bag:
            for number in range(os.fstat(notes).st_size // WIDTH, self.writes):
                bag.add(text(who, number), ref=f"{who}-{number}", tags=["t"])
                os.write(notes, NOTE.format(number).encode())

    @property
    def acknowledged(self) -> int:
        return sum(file.stat().st_size for file in self.notes) // WIDTH

    def reap(self) -> None:
        """Take notice of processes that have written all."""
        for child in list(self.running):
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                assert os.waitstatus_to_exitcode(status) == 0, "a writer ended by itself"
                del self.running[child]

    def kill(self, child: int) -> int:
        """Kill a process and start another in its place. Returns 0 if it had just ended."""
        who = self.running[child]
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        del self.running[child]
        if not os.WIFSIGNALED(status):
            return 0
        self.start(who)
        return 1


def run(folder: Path, processes: int, writes: int, kills: int, seed: int) -> Crewed:
    chance = random.Random(seed)
    crew = Crew(folder, processes, writes)
    satchel.open(crew.store, embedder="static").close()
    started = time.monotonic()
    for who in range(processes):
        crew.start(who)
    total = processes * writes
    killed = progress = 0
    since = time.monotonic()
    # Spread over the whole work, each at a random moment after so many writes.
    for mark in sorted(chance.sample(range(total - total // 20), kills)):
        while (done := crew.acknowledged) < mark:
            crew.reap()
            if done > progress:
                progress, since = done, time.monotonic()
            assert time.monotonic() - since < LONGEST_WAIT, "the writers do not go on"
            time.sleep(0.002)
        time.sleep(chance.uniform(0.0, 0.01))
        crew.reap()
        if crew.running:
            killed += crew.kill(chance.choice(sorted(crew.running)))
    while crew.running:
        crew.reap()
        time.sleep(0.01)
    seconds = time.monotonic() - started
    return check(crew, killed)._replace(seconds=round(seconds, 1))


def check(crew: Crew, killed: int) -> Crewed:
    """Check that every write is there once, with its text, and that the store and its indexes are sound."""
    total = len(crew.notes) * crew.writes
    assert crew.acknowledged == total, "not all was acknowledged"
    expected = {
        f"{who}-{number}": text(who, number) for who in range(len(crew.notes)) for number in range(crew.writes)
    }
    with satchel.open(crew.store, embedder="static") as bag:
        found = [json.loads(line).get("memory") for line in bag.export()]
        memories = [memory for memory in found if memory]
        unwell = [check for check in bag.checks() if check.state != "ok"]
    times = Counter(memory["ref"] for memory in memories)
    lost = [ref for ref, content in expected.items() if times[ref] != 1]
    assert not lost, f"{len(lost)} writes are not there once: {lost[:5]}"
    assert {memory["ref"]: memory["text"] for memory in memories} == expected
    assert unwell == [], unwell
    return Crewed(total, killed, len(lost), 0.0)


if __name__ == "__main__":
    with satchel.open(":memory:", embedder="static") as bag:
        bag.add("loads all that is loaded late, once for every child")
    # Else each child would copy the memory that it shares as soon as it collects garbage.
    gc.freeze()
    with tempfile.TemporaryDirectory(prefix="satchel-", ignore_cleanup_errors=True) as place:
        processes, writes, kills, seed = map(int, sys.argv[1:])
        print(json.dumps(run(Path(place), processes, writes, kills, seed)._asdict()))
