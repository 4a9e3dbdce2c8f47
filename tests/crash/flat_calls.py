"""Send many mixed calls to a server, and watch its memory and open files: flat_calls.py SERVER CALLS.

SERVER is `mcp`, `service` or `gateway`, each a real process with word vectors. Prints what was found as JSON.

Memory is flat if the line through the samples of the last three quarters rises by less than `MOST_GROWTH` kilobytes
per 1,000 calls. The cache of SQLite grows with the file, and the allocator still settles: with a constant number of
Python objects, 150 to 270 were measured. A leak of one kilobyte per call would add 1,000.
"""

import contextlib
import http.client
import itertools
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

# Run by its path, it finds what several suites share one folder up, and the gateway's client beside it.
sys.path.append(str(Path(__file__).parent.parent))
sys.path.append(str(Path(__file__).parents[1] / "interface"))

from gateway_client import config, gateway_pipe, upstream

import satchel
from mcp_pipe import LONGEST_WAIT, Pipe
from satchel.server.mcp.stdio import READING_AHEAD
from satchel.store.sqlite.store import CONNECTIONS
from service_client import Served

SAMPLES = 80
MOST_GROWTH = 400.0
# The pool of the store opens a connection, with its file and its log, when more threads read at once than before.
POOL_FILES = 2 * CONNECTIONS
TOPICS = 40
WORDS = ("rotate", "keys", "cache", "sessions", "build", "deploy", "password", "budget", "tokens", "hour")
LINES = "line of a result that is kept\n"

Call = Callable[[int], object]

# What searches keep grows with the memories up to a limit of its own, which these calls do not reach.
os.environ["SATCHEL_CACHE_MB"] = "0"


class Sample(NamedTuple):
    calls: int
    resident: int
    """Kilobytes."""
    files: int


class Flat(NamedTuple):
    server: str
    calls: int
    growth: float
    """Kilobytes per 1,000 calls over the last three quarters."""
    resident: int
    """Kilobytes at the end."""
    files: tuple[int, int]
    """The most open files in the second quarter, and in the last."""
    seconds: float

    @property
    def is_flat(self) -> bool:
        return self.growth < MOST_GROWTH and self.files[1] <= self.files[0] + POOL_FILES


def sampled(pid: int, calls: int) -> Sample:
    status = Path(f"/proc/{pid}/status").read_text()
    resident = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:"))
    return Sample(calls, resident, sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir()))


def slope(samples: list[Sample]) -> float:
    """Return the rise of the regression line, in kilobytes per 1,000 calls."""
    xs = [sample.calls / 1000 for sample in samples]
    ys = [float(sample.resident) for sample in samples]
    middle, height = sum(xs) / len(xs), sum(ys) / len(ys)
    over = sum((x - middle) * (y - height) for x, y in zip(xs, ys, strict=True))
    return over / sum((x - middle) ** 2 for x in xs)


def text(number: int) -> str:
    return " ".join(WORDS[(number * step) % len(WORDS)] for step in (1, 3, 7, 9)) + f" {number % 1000}"


# The servers, each as a process id and a function that makes the Nth call.


@contextlib.contextmanager
def mcp(folder: Path) -> Iterator[tuple[int, Call]]:
    with Pipe(folder, "--db", "notes.db") as pipe:

        def call(number: int) -> object:
            match number % 10:
                case 0:
                    return pipe.call("mem_save", text=text(number), topic_key=f"topic/{number % TOPICS}")
                case 1 | 2 | 3:
                    return pipe.call("mem_search", query=text(number))
                case 4 | 5:
                    return pipe.call("mem_context", query=text(number), max_tokens=400)
                case 6:
                    return pipe.call("mem_stats")
                case 7:
                    return pipe.answer(pipe.start("no_such_tool", value=number))
                case 8:
                    return pipe.answer(pipe.ask("tools/list", {}))
                case _:
                    return pipe.answer(pipe.start("mem_search", query=text(number), max_tokens="many"))

        # It loads what it needs later when no call waits, a second after its first calls.
        call(1)
        time.sleep(3 * READING_AHEAD)
        yield pipe.process.pid, forgetful(pipe, call)


@contextlib.contextmanager
def gateway(folder: Path) -> Iterator[tuple[int, Call]]:
    servers = config(folder, one=upstream("--name", "one"))
    with gateway_pipe(folder, "--db", "notes.db", "--config", servers, "--session", "work") as pipe:

        def call(number: int) -> object:
            match number % 10:
                case 0:
                    return pipe.call("bulk", shape="lines", size=40_000 + number % TOPICS)
                case 1:
                    return pipe.answer(pipe.start("no_such_tool", value=number))
                case 2:
                    return pipe.call("budget_status")
                case 3 | 4:
                    return pipe.call("bulk", shape="json", size=2_000 + number % TOPICS)
                case _:
                    return pipe.call("echo", text=text(number))

        yield pipe.process.pid, forgetful(pipe, call)


def forgetful(pipe: Pipe, call: Call) -> Call:
    """Keep only the last answers, because this process would grow as the server must not."""

    def made(number: int) -> object:
        answer = call(number)
        if number % 100 == 0:
            del pipe.lines[:-100]
            for old in sorted(pipe.answers, key=int)[:-100]:
                del pipe.answers[old]
        return answer

    return made


@contextlib.contextmanager
def service(folder: Path) -> Iterator[tuple[int, Call]]:
    with Served(folder, "--db", str(folder / "notes.db"), "--rate", "100000/s") as served:
        kept = [http.client.HTTPConnection("127.0.0.1", served.port, timeout=LONGEST_WAIT) for _ in range(4)]
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {served.token}"}
        served.done("PUT", "/v1/sessions/busy", {})

        def ask(number: int, method: str, path: str, body: object = None, *, status: int = 200) -> None:
            line = kept[number % len(kept)]
            if number % 50 == 0:
                # The next request opens a connection again.
                line.close()
            line.request(method, path, None if body is None else json.dumps(body), headers)
            answer = line.getresponse()
            content = answer.read()
            assert answer.status == status, (answer.status, content)

        def call(number: int) -> object:
            match number % 10:
                case 0:
                    body = {"text": text(number), "ref": str(number % TOPICS)}
                    return ask(number, "POST", "/v1/memories", body, status=201)
                case 1 | 2 | 3:
                    return ask(number, "POST", "/v1/search", {"query": text(number)})
                case 4 | 5:
                    return ask(number, "POST", "/v1/context", {"query": text(number), "token_budget": 400})
                case 6:
                    return ask(number, "GET", "/v1/stats")
                case 7:
                    return ask(number, "GET", "/v1/memories/nonesuch", status=404)
                case 8:
                    body = {"tool": "say", "output": LINES * (1 + number % TOPICS)}
                    return ask(number, "POST", "/v1/sessions/busy/results", body, status=201)
                case _:
                    return ask(number, "GET", "/v1/memories?limit=5")

        yield served.process.pid, call
        for each in kept:
            each.close()


SERVERS = {"mcp": mcp, "service": service, "gateway": gateway}


def run(name: str, calls: int) -> tuple[Flat, list[Sample]]:
    with tempfile.TemporaryDirectory(prefix="satchel-", ignore_cleanup_errors=True) as place:
        folder = Path(place)
        with satchel.open(folder / "notes.db", embedder="static") as bag:
            bag.add_many([satchel.Draft(f"{text(number)} in note {number}") for number in range(300)])
        started = time.monotonic()
        with SERVERS[name](folder) as (pid, call):
            samples = []
            for number in itertools.count(1):
                call(number)
                if number % max(calls // SAMPLES, 1) == 0:
                    samples.append(sampled(pid, number))
                if number == calls:
                    break
        seconds = time.monotonic() - started
    quarter = len(samples) // 4
    files = [max(each.files for each in part) for part in (samples[quarter : 2 * quarter], samples[-quarter:])]
    growth = round(slope(samples[quarter:]), 1)
    return Flat(name, calls, growth, samples[-1].resident, (files[0], files[1]), round(seconds, 1)), samples


if __name__ == "__main__":
    found, samples = run(sys.argv[1], int(sys.argv[2]))
    if "--samples" in sys.argv:
        for each in samples:
            print(*each, file=sys.stderr)
    print(json.dumps({**found._asdict(), "flat": found.is_flat}))
