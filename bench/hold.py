"""A service under load: clients that request contexts, each as soon as it has its last answer."""

import http.client
import itertools
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from satchel.server.http.access import add_token, new_token

__all__ = ["Held", "hold"]

BUDGET = 2000
PATIENCE = 60


class Held(NamedTuple):
    """What a service answered under load."""

    seconds: float
    milliseconds: list[float]
    errors: int
    problems: list[str]


class Load:
    """All clients together."""

    def __init__(self, port: int, questions: Sequence[str], seconds: float) -> None:
        self.port = port
        self.questions = questions
        self.until = time.monotonic() + seconds
        self.milliseconds: list[float] = []
        self.problems: Counter[str] = Counter()

    def ask(self, number: int, token: str) -> None:
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        for place in itertools.count(number):
            if time.monotonic() > self.until:
                break
            body = json.dumps({"query": self.questions[place % len(self.questions)], "token_budget": BUDGET})
            started = time.perf_counter()
            try:
                line.request("POST", "/v1/context", body, headers)
                answer = line.getresponse()
                content = answer.read()
            except (OSError, http.client.HTTPException) as error:
                self.problems[repr(error)] += 1
                line.close()
                continue
            if answer.status != 200 or not json.loads(content)["text"]:
                self.problems[f"{answer.status} {content[:200]!r}"] += 1
            self.milliseconds.append(1000 * (time.perf_counter() - started))
        line.close()


def hold(url: str, orgs: Sequence[str], clients: int, seconds: float, questions: Sequence[str]) -> Held:
    """Serve a store in a separate process, and let this many clients query it at once."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "tokens.jsonl")
        tokens = []
        for org in orgs:
            token, kept = new_token(access="read", org=org)
            add_token(file, kept)
            tokens.append(token)
        satchel = str(Path(sys.executable).with_name("satchel"))
        command = [satchel, "serve", "--db", url, "--http", "127.0.0.1:0", "--tokens", str(file)]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            told = process.stderr.readline()
            port = int(told.rpartition(":")[2])
            # Keep reading its output, so that it never blocks on a full pipe.
            threading.Thread(target=process.stderr.read, daemon=True).start()
            load = Load(port, questions, seconds)
            crew = [
                threading.Thread(target=load.ask, args=(number, tokens[number % len(tokens)]))
                for number in range(clients)
            ]
            started = time.monotonic()
            for each in crew:
                each.start()
            for each in crew:
                each.join()
            spent = time.monotonic() - started
            process.terminate()
    problems = [f"{count} × {problem}" for problem, count in load.problems.most_common(5)]
    return Held(spent, load.milliseconds, sum(load.problems.values()), problems)
