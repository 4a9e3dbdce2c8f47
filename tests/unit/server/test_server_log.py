"""Log lines: no input of a client can forge or break them."""

import logging

import pytest

from satchel.server.logs import RepeatFilter, _OneLine
from satchel.server.process import LONGEST_LINE


def logged(said: str, **options: object) -> str:
    return _OneLine().format(logging.LogRecord("mcp", logging.WARNING, "", 1, "Host: %s", (said,), **options))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ("evil\x1b[31m", r"evil\x1b[31m"),
        ("a\x00b\x07\x7f\x9b2J", r"a\x00b\x07\x7f\x9b2J"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
        ("one\r\ntwo\u2028three", "one two three"),
        ("Grüße, 東京", "Grüße, 東京"),
    ],
)
def test_what_a_terminal_would_obey_is_spelled_out(said: str, line: str):
    assert logged(said, exc_info=None) == f"satchel: Host: {line}"


def test_a_long_line_is_cut_after_it_is_spelled_out():
    line = logged("\x1b" * 1_000, exc_info=None)
    assert len(line) <= len("satchel: ") + LONGEST_LINE + 2
    assert line.endswith(" …")


def test_an_error_is_named_in_the_same_line():
    error = ValueError("no\x1b[2J")
    assert logged("x", exc_info=(ValueError, error, None)) == r"satchel: Host: x: ValueError: no\x1b[2J"


def test_a_message_that_repeats_is_written_once_a_minute_with_the_number_left_out():
    now = 0.0
    repeats = RepeatFilter(clock=lambda: now)

    def passed(said: str, **extra: str) -> str | None:
        record = logging.LogRecord("asyncio", logging.ERROR, "", 1, "%s", (said,), None)
        record.__dict__.update(extra)
        return record.getMessage() if repeats.filter(record) else None

    assert passed("no descriptors") == "no descriptors"
    assert [passed("no descriptors") for _ in range(10_000)] == [None] * 10_000
    assert passed("another thing") == "another thing"
    assert passed("from 10.0.0.1", repeats_as="connections") == "from 10.0.0.1"
    assert passed("from 10.0.0.2", repeats_as="connections") is None
    now = 61.0
    assert passed("no descriptors") == "no descriptors (left out since: 10,000 such lines)"
    assert passed("from 10.0.0.3", repeats_as="connections") == "from 10.0.0.3 (left out since: 1 such lines)"
