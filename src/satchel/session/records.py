"""Records, lines or characters: what the parts of an output are counted in."""

import re
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

__all__ = ["Measure", "measure", "separators"]

_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}]|,\s*+', re.DOTALL)
_OPENING, _CLOSING = "[{", "]}"

_raw_list = msgspec.json.Decoder(list[msgspec.Raw])
_raw_object = msgspec.json.Decoder(dict[str, msgspec.Raw])


class Measure(NamedTuple):
    """How many parts an output has, and what they are called."""

    total: int
    unit: str
    level: int = 0
    """How deep in brackets the records stand."""

    def within(self, text: str, start: int, stop: int) -> int:
        """How many of them a page shows; one that goes on from the page before counts where it ends."""
        if self.unit == "records":
            # A page starts where a record does, or where the text does.
            level = 0 if start else self.level
            shown = sum(1 for depth, end in separators(text, start, stop) if depth == level and end <= stop)
            return min(self.total, shown + (stop == len(text)))
        if self.unit == "lines":
            return text.count("\n", start, stop) + (stop == len(text) and not text.endswith("\n"))
        return stop - start


def measure(text: str, shape: str) -> Measure:
    """Records of JSON where there are several, else lines, or characters where there is one line only."""
    if shape == "json" and (found := _records(text)) is not None:
        return found
    lines = text.count("\n") + (not text.endswith("\n") and text != "")
    return Measure(lines, "lines") if lines > 1 else Measure(len(text), "characters")


def separators(text: str, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """For each comma between values of JSON: its depth, counted from the start, and where the next value begins."""
    depth = 0
    for token in _TOKEN.finditer(text, start, stop):
        mark = token[0][0]
        if mark == ",":
            yield depth, token.end()
        elif mark in _OPENING:
            depth += 1
        elif mark in _CLOSING:
            depth -= 1


def _records(text: str) -> Measure | None:
    """The values of an array, or of the largest array in an object."""
    try:
        if text.lstrip()[:1] == "[":
            return _several(len(_raw_list.decode(text)), level=1)
        longest = max(_raw_object.decode(text).values(), key=len, default=None)
        return None if longest is None else _several(len(_raw_list.decode(longest)), level=2)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return None


def _several(number: int, *, level: int) -> Measure | None:
    return Measure(number, "records", level) if number > 1 else None
