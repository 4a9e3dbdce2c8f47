"""The token-bucket rate limiter."""

import pytest

from satchel.server.http import gate
from satchel.server.http.gate import RateLimiter


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_burst_is_let_through_and_then_the_rate():
    clock = Clock()
    asked = RateLimiter(2.0, 4.0, clock=clock)
    assert [asked.take("a") for _ in range(6)] == [0, 0, 0, 0, 1, 1]
    clock.now = 0.5
    assert [asked.take("a") for _ in range(2)] == [0, 1]
    clock.now = 100.0
    assert [asked.take("a") for _ in range(5)] == [0, 0, 0, 0, 1]


def test_one_does_not_use_up_what_another_has():
    asked = RateLimiter(1.0, 1.0, clock=Clock())
    assert [asked.take("a"), asked.take("a"), asked.take("b")] == [0, 1, 0]


def test_a_slow_rate_says_how_long_to_wait():
    asked = RateLimiter(0.1, 1.0, clock=Clock())
    assert [asked.take("a"), asked.take("a")] == [0, 10]


def test_names_that_are_made_up_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(gate, "MAX_BUCKETS", 10)
    asked = RateLimiter(1.0, 1.0, clock=Clock())
    for number in range(1000):
        asked.take(str(number))
    assert len(asked._levels) == 10
