"""Kill a gateway at each of its writes while it stores results: gateway_sweep.py [POINTS].

What it has answered must be stored completely: the rest of a page is asked for by its handle.
Prints what was done as JSON.
"""

import contextlib
import json
import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import BinaryIO, NamedTuple

# Run by its path, it finds what several suites share one folder up.
sys.path.append(str(Path(__file__).parent.parent))

# Loaded once for every child, as `satchel gateway` would load it late.
from fault_sweep import Swept, become, chosen
from operations import MEMORY
from weather import Weather

import satchel
import satchel.server.gateway.router
from gateway_upstream import sample
from mcp_pipe import HELLO, request, tool_call

UPSTREAM = Path(__file__).parents[1] / "gateway_upstream.py"
COMMAND = ("gateway", "--db", "notes.db", "--session", "work", "--", sys.executable, str(UPSTREAM))
# Larger than a page, so that each answer has a handle for its rest.
SIZES = (60_000, 90_000, 120_000)


class Outcome(NamedTuple):
    points: int
    killed: bool
    answers: int
    """How many results the client has got."""


def run(folder: Path, step: int) -> Outcome:
    """Run a gateway until it is killed, or until all is answered; then its input ends, and so does it."""
    asked, asking = os.pipe()
    answered, answering = os.pipe()
    report, reporting = os.pipe()
    child = os.fork()
    if child == 0:
        for ours in (asking, answered, report):
            os.close(ours)
        become(COMMAND, folder, lambda weather: _kill_at(step, weather), (asked, answering, 2), reporting)
    for theirs in (asked, answering, reporting):
        os.close(theirs)
    with open(answered, "rb") as answers, open(report, "rb") as reports:
        got = _talk(asking, answers)
        os.close(asking)
        passed = reports.read()
    _, status = os.waitpid(child, 0)
    killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    assert killed != bool(passed), "it ended otherwise"
    return Outcome(int(passed or 0), killed, got)


def _kill_at(step: int, weather: Weather) -> None:
    weather.deadly = True
    weather.arm(step or sys.maxsize, lasting=False)()


def _talk(asking: int, answers: BinaryIO) -> int:
    """Call one tool after the other, and return how many answers came whole."""
    with contextlib.suppress(BrokenPipeError):
        os.write(asking, request("hello", "initialize", HELLO) + b"\n")
        if _answer(answers, "hello") is None:
            return 0
        for number, size in enumerate(SIZES):
            os.write(asking, tool_call(number, "bulk", shape="lines", size=size) + b"\n")
            answer = _answer(answers, number)
            if answer is None:
                return number
            assert not answer["result"].get("isError"), answer
        return len(SIZES)
    return 0


def _answer(answers: BinaryIO, identifier: object) -> dict | None:
    for line in answers:
        if line.endswith(b"\n") and (message := json.loads(line)).get("id") == identifier:
            return message
    return None


def check(folder: Path, outcome: Outcome) -> None:
    """All that was answered is stored; nothing is stored in part; and the session goes on."""
    expected = [sample("lines", size) for size in SIZES]
    with satchel.open(folder / "notes.db", embedder="static") as bag:
        assert [each for each in bag.checks() if each.state == "failed"] == []
        session = bag.session("work")
        stored = [session.expand(each.handle) for each in session.results(limit=99)]
        assert all(content in expected for content in stored), "a result is stored in part"
        assert all(content in stored for content in expected[: outcome.answers]), "a result was lost"
        more = session.result("say", "it goes on\n" * 5_000)
        assert session.expand(more.handle) == "it goes on\n" * 5_000


def sweep(most: int | None) -> Swept:
    place = MEMORY if os.access(MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=place, ignore_cleanup_errors=True) as root:

        def tried(step: int) -> Outcome:
            folder = Path(root, str(step))
            folder.mkdir()
            # Made before, so that the points are those of results and not of a new store.
            satchel.open(folder / "notes.db", embedder="static").close()
            outcome = run(folder, step)
            check(folder, outcome)
            return outcome

        clean = tried(0)
        assert clean.answers == len(SIZES), clean
        steps = chosen(clean.points, most)
        done = [tried(step) for step in steps]
    middle = sum(outcome.killed for outcome in done)
    return Swept("kill: gateway result", clean.points, len(steps), middle)


if __name__ == "__main__":
    print(json.dumps(sweep(int(sys.argv[1]) if len(sys.argv) > 1 else None)._asdict()))
