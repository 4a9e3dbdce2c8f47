"""Metrics of the service in Prometheus text format."""

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator

from satchel.server.http.responses import Spent

__all__ = ["Metrics"]

BUCKET_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
METRICS_MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_TOKENS = {
    "satchel_tokens_asked_total": "Token budgets of calls, given or default.",
    "satchel_tokens_used_total": "Tokens of the texts in responses.",
    "satchel_tokens_omitted_total": "Tokens left out or left for later pages.",
    "satchel_memories_omitted_total": "Memories found but left out.",
}


class Metrics:
    """Counters of calls, durations, tokens and rejected requests. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: Counter[tuple[str, str]] = Counter()
        self._buckets: dict[str, list[int]] = {}
        self._seconds: Counter[str] = Counter()
        self._spent: dict[str, list[int]] = {}
        self._refused: Counter[str] = Counter()
        self.in_flight = 0
        self.token_file_unreadable_seconds = 0.0
        self.workers_ready = 0
        self.worker_restarts = 0

    def called(self, operation: str, outcome: str, seconds: float) -> None:
        """Count a finished call. The outcome is an HTTP status, or `ok` or `error` for an MCP tool."""
        with self._lock:
            self._calls[operation, outcome] += 1
            buckets = self._buckets.setdefault(operation, [0] * (len(BUCKET_BOUNDS) + 1))
            buckets[bisect_left(BUCKET_BOUNDS, seconds)] += 1
            # Counter is typed for int, but sums floats too.
            self._seconds[operation] += seconds  # type: ignore[assignment]

    def spent(self, operation: str, spent: Spent) -> None:
        if any(spent):
            with self._lock:
                sums = self._spent.setdefault(operation, [0] * len(spent))
                for place, value in enumerate(spent):
                    sums[place] += value

    def refused(self, reason: str) -> None:
        """Count a rejected request, by reason: token, rate, size, or overload."""
        with self._lock:
            self._refused[reason] += 1

    def text(self) -> str:
        """Return all metrics in Prometheus text format."""
        with self._lock:
            return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        yield from _head("satchel_calls_total", "counter", "Calls by operation and outcome.")
        for (operation, outcome), count in sorted(self._calls.items()):
            yield f'satchel_calls_total{{operation="{operation}",outcome="{outcome}"}} {count}'
        yield from _head("satchel_call_seconds", "histogram", "Duration of calls.")
        for operation, buckets in sorted(self._buckets.items()):
            total = 0
            for bound, count in zip((*map(str, BUCKET_BOUNDS), "+Inf"), buckets, strict=True):
                total += count
                yield f'satchel_call_seconds_bucket{{operation="{operation}",le="{bound}"}} {total}'
            yield f'satchel_call_seconds_sum{{operation="{operation}"}} {self._seconds[operation]:.6f}'
            yield f'satchel_call_seconds_count{{operation="{operation}"}} {total}'
        for place, (name, about) in enumerate(_TOKENS.items()):
            yield from _head(name, "counter", about)
            for operation, sums in sorted(self._spent.items()):
                yield f'{name}{{operation="{operation}"}} {sums[place]}'
        yield from _head("satchel_refusals_total", "counter", "Rejected requests by reason.")
        for reason, count in sorted(self._refused.items()):
            yield f'satchel_refusals_total{{reason="{reason}"}} {count}'
        yield from _head("satchel_in_flight", "gauge", "Calls that are running or waiting for a thread.")
        yield f"satchel_in_flight {self.in_flight}"
        about = "Worker processes that can run calls; 0 if the service runs them itself."
        yield from _head("satchel_workers_ready", "gauge", about)
        yield f"satchel_workers_ready {self.workers_ready}"
        yield from _head(
            "satchel_worker_restarts_total", "counter", "Worker processes that died and were replaced."
        )
        yield f"satchel_worker_restarts_total {self.worker_restarts}"
        name = "satchel_token_file_unreadable_seconds"
        yield from _head(name, "gauge", "How long the token file could not be read; 0 if it can.")
        yield f"{name} {self.token_file_unreadable_seconds:.3f}"


def _head(name: str, kind: str, about: str) -> Iterator[str]:
    yield f"# HELP {name} {about}"
    yield f"# TYPE {name} {kind}"
