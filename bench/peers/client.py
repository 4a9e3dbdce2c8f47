"""Starts the worker of a system in its environment, and calls it."""

import contextlib
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from bench.peers.environments import ROOT

__all__ = ["Answer", "Peer", "Worker", "WorkerError", "bare_start", "environment"]


class WorkerError(Exception):
    """A system failed; the message says how, in one line."""


class Peer(NamedTuple):
    """A system, and the interpreter of its environment."""

    name: str
    python: Path


class Answer(NamedTuple):
    """The result of a call, and its time inside the system: wall-clock and CPU seconds."""

    seconds: float
    cpu: float
    result: Any


def environment() -> dict[str, str]:
    """Return the environment variables of a worker: it finds the sources, and keeps their bytecode."""
    paths = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return kept | {"PYTHONPATH": paths}


class Worker:
    """A system at work over a folder and a table of vectors, in a process that ends with the `with` block."""

    def __init__(self, peer: Peer, folder: Path, table: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - closed by __exit__
        command = [str(peer.python), "-m", "bench.peers.worker", peer.name, str(folder), str(table)]
        self.started = time.perf_counter()
        """When the process was started, by `time.perf_counter`."""
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            text=True,
            encoding="utf-8",
            cwd=ROOT,
            env=environment(),
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests, self._answers = self._process.stdin, self._process.stdout

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, kind: object, *raised: object) -> None:
        if kind is not None:
            self._process.kill()
        with contextlib.suppress(BrokenPipeError):
            self._requests.close()
        self._answers.close()
        self._process.wait()
        self._said.close()

    def call(self, name: str, **given: Any) -> Answer:
        """Make one call, and return its answer; a call that fails is a WorkerError."""
        line = ""
        with contextlib.suppress(BrokenPipeError):
            self._requests.write(json.dumps({"call": name} | given) + "\n")
            self._requests.flush()
            line = self._answers.readline()
        answered: Mapping[str, Any] = json.loads(line) if line else {"error": f"it ended: {self._last_words()}"}
        if "error" in answered:
            raise WorkerError(" ".join(f"{name}: {answered['error']}".split()))
        return Answer(**answered)

    def _last_words(self) -> str:
        self._process.wait()
        self._said.seek(0)
        lines = self._said.read().decode("utf-8", "replace").split("\n")
        return next((line for line in reversed(lines) if line.strip()), f"exit code {self._process.returncode}")


def bare_start(python: Path) -> float:
    """Return how long an interpreter takes to start and do nothing."""
    started = time.perf_counter()
    subprocess.run([str(python), "-c", "pass"], check=True, env=environment())
    return time.perf_counter() - started
