"""A bounded part of a long text, by whole lines: its beginning, its end, and windows spread evenly between them."""

import re
from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["LONGEST_LINE", "Sample", "plain", "sample", "split_lines"]

LONGEST_LINE = 1_000

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")


class Sample(NamedTuple):
    """Lines of a text in their order, each cut at a thousand characters."""

    lines: Sequence[str]
    whole: bool
    """Whether these are all the lines there are."""


def sample(text: str, *, whole: int, head: int, windows: int, window: int) -> Sample:
    """All lines of a text of at most `whole` characters; of a longer one its beginning and some windows."""
    if len(text) <= whole:
        return Sample(split_lines(text), True)
    lines = split_lines(_up_to_line_end(text, 0, head))
    # The last window is the end of the text.
    step = (len(text) - window - head) // windows
    for number in range(1, windows + 1):
        start = head + step * number if number < windows else len(text) - window
        newline = text.find("\n", start, start + window)
        start = newline + 1 if newline >= 0 else start
        lines += split_lines(_up_to_line_end(text, start, len(text) if number == windows else start + window))
    return Sample(lines, False)


def split_lines(text: str) -> list[str]:
    """Lines without their ends, each cut at a thousand characters."""
    lines = plain(text).split("\n")
    if not lines[-1]:
        lines.pop()
    return [line[:LONGEST_LINE] for line in lines] if len(text) > LONGEST_LINE else lines


def plain(text: str) -> str:
    """Without colours and other commands to a terminal, with line ends as newlines."""
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text


def _up_to_line_end(text: str, start: int, end: int) -> str:
    if end < len(text) and (newline := text.rfind("\n", start, end)) >= 0:
        end = newline
    return text[start:end]
