"""Metrics in Prometheus text format."""

import threading

from satchel.server.http.metrics import Metrics
from satchel.server.http.responses import Spent


def values(metrics: Metrics) -> dict[str, float]:
    lines = [line for line in metrics.text().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def test_buckets_add_up_to_the_count():
    metrics = Metrics()
    for seconds in (0.0005, 0.001, 0.002, 0.3, 99.0):
        metrics.called("search", "200", seconds)
    found = values(metrics)
    assert found['satchel_calls_total{operation="search",outcome="200"}'] == 5
    assert found['satchel_call_seconds_bucket{operation="search",le="0.001"}'] == 2
    assert found['satchel_call_seconds_bucket{operation="search",le="0.0025"}'] == 3
    assert found['satchel_call_seconds_bucket{operation="search",le="0.5"}'] == 4
    assert found['satchel_call_seconds_bucket{operation="search",le="+Inf"}'] == 5
    assert found['satchel_call_seconds_count{operation="search"}'] == 5
    assert abs(found['satchel_call_seconds_sum{operation="search"}'] - 99.3035) < 1e-6


def test_tokens_are_summed_by_operation():
    metrics = Metrics()
    metrics.spent("context", Spent(2000, 1500, 0, 7))
    metrics.spent("context", Spent(1000, 10, 5, 1))
    metrics.spent("stats", Spent())
    found = values(metrics)
    assert found['satchel_tokens_asked_total{operation="context"}'] == 3000
    assert found['satchel_tokens_used_total{operation="context"}'] == 1510
    assert found['satchel_tokens_omitted_total{operation="context"}'] == 5
    assert found['satchel_memories_omitted_total{operation="context"}'] == 8
    assert not any("stats" in name for name in found)


def test_nothing_is_lost_between_threads():
    metrics = Metrics()

    def count() -> None:
        for _ in range(2_000):
            metrics.called("get", "200", 0.0)
            metrics.refused("busy")

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = values(metrics)
    assert found['satchel_calls_total{operation="get",outcome="200"}'] == 8_000
    assert found['satchel_refusals_total{reason="busy"}'] == 8_000


def test_every_series_says_what_it_is():
    lines = Metrics().text().splitlines()
    helped = [line.split()[2] for line in lines if line.startswith("# HELP")]
    typed = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert helped == typed
    assert "satchel_in_flight" in helped
