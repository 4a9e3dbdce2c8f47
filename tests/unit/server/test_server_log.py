"""Log lines: no input of a client can forge or break them."""

import logging

import pytest

from satchel.server.process import LONGEST_LINE, _OneLine


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
