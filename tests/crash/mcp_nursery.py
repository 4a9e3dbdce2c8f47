"""Fork MCP servers and kill each at a random moment while it saves: mcp_nursery.py STORE KILLS AT_ONCE SAVES SEED.

A fork takes milliseconds where a new `satchel mcp` takes a second. Prints, for each, the ids that it acknowledged.
"""

import json
import os
import random
import signal
import sys
from pathlib import Path
from typing import BinaryIO, NamedTuple

# Run by its path, it finds what several suites share one folder up.
sys.path.append(str(Path(__file__).parent.parent))

# Loaded once for every child, as `satchel mcp` would load them late.
import satchel.server.mcp.catalog
import satchel.server.mcp.stdio  # noqa: F401
from mcp_pipe import HELLO, request, tool_call
from satchel.cli.app import main


class Child(NamedTuple):
    pid: int
    asking: int
    """Open until its death: the end of its input must not be what ends it."""
    answers: BinaryIO


def spawn(store: str, saves: int) -> Child:
    asked, asking = os.pipe()
    answered, answering = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.dup2(asked, 0)
            os.dup2(answering, 1)
            os.closerange(3, 256)
            main(["mcp", "--db", store, "--embedder", "static"])
        finally:
            # Whatever ended it, a child must not go on as a second nursery.
            os._exit(1)
    os.close(asked)
    os.close(answering)
    lines = [request(0, "initialize", HELLO)]
    lines += [
        tool_call(number, "mem_save", text=f"{pid} note {number} about keys") for number in range(1, saves + 1)
    ]
    os.write(asking, b"".join(line + b"\n" for line in lines))
    return Child(pid, asking, os.fdopen(answered, "rb"))


def acknowledged(line: bytes) -> list[str]:
    """The id in an answer, once it is there whole."""
    if not line.endswith(b"\n"):
        return []
    message = json.loads(line)
    assert not message["result"].get("isError"), message
    return [message["result"]["structuredContent"]["id"]] if message["id"] else []


def kill(child: Child, after: int) -> list[str]:
    """All that it acknowledged by its death, which comes after so many answers."""
    ids: list[str] = []
    for _ in range(after):
        line = child.answers.readline()
        assert line, "a server ended by itself"
        ids += acknowledged(line)
    os.kill(child.pid, signal.SIGKILL)
    _, status = os.waitpid(child.pid, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL, "a server ended by itself"
    for line in child.answers:
        ids += acknowledged(line)
    child.answers.close()
    os.close(child.asking)
    return ids


def run(store: str, kills: int, at_once: int, saves: int, seed: int) -> None:
    chance = random.Random(seed)
    running = [spawn(store, saves) for _ in range(at_once)]
    for number in range(kills):
        victim = running.pop(chance.randrange(len(running)))
        # Some die while they start, most in the middle of saving.
        after = chance.choice((0, 1, chance.randrange(2, 40), chance.randrange(2, 40)))
        print(*kill(victim, after))
        if number < kills - at_once:
            running.append(spawn(store, saves))


if __name__ == "__main__":
    run(sys.argv[1], *map(int, sys.argv[2:]))
