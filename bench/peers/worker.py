"""Runs one system in its own process and environment: `python -m bench.peers.worker SYSTEM FOLDER TABLE`.

Each line of standard input is a request `{"call": NAME, …}`, and each line of standard output its answer with the
time inside the system: `{"seconds", "cpu", "result"}`, or `{"error"}`. What a library prints goes to the standard
error. The process ends with its input.
"""

import importlib
import importlib.metadata
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.peak import peak_bytes
from bench.peers.system import Memory, System
from bench.peers.vectors import VectorTable

__all__ = ["main"]


def main(name: str, folder: str, table: str) -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    calls: dict[str, Callable[..., Any]] = {}

    def opened() -> None:
        adapter: type[System] = importlib.import_module(f"bench.peers.systems.{name}").Adapter
        calls.update(_calls(adapter(Path(folder), VectorTable(Path(table)))))

    calls["open"] = opened
    for line in sys.stdin:
        request = json.loads(line)
        call = calls[request.pop("call")]
        started, used = time.perf_counter(), time.process_time()
        try:
            result = call(**request)
            answer = {
                "seconds": time.perf_counter() - started,
                "cpu": time.process_time() - used,
                "result": result,
            }
        except Exception as error:  # noqa: BLE001 - reported in the row of the system
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _calls(system: System) -> dict[str, Callable[..., Any]]:
    def ingest(memories: list[list[Any]]) -> None:
        system.ingest([Memory(*each) for each in memories])

    def about() -> dict[str, Any]:
        versions = [f"{each} {importlib.metadata.version(each)}" for each in system.packages]
        return {"versions": ", ".join(versions), "setup": system.setup, "missed": getattr(system, "missed", 0)}

    calls: dict[str, Callable[..., Any]] = {
        "about": about,
        "add": lambda memory: system.add(Memory(*memory)),
        "close": system.close,
        "ingest": ingest,
        "peak": peak_bytes,
        "search": lambda query, limit: [(hit.id, hit.score) for hit in system.search(query, limit)],
    }
    return calls | {name: getattr(system, name) for name in ("context", "ranked") if hasattr(system, name)}


if __name__ == "__main__":
    main(*sys.argv[1:])
