"""Where a page ends: at a record, a hunk or a line if it can, within its tokens, never inside a character."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from satchel.session.records import separators
from satchel.text.cutting import Bracket, Price, narrowed
from satchel.text.passages import continues

__all__ = ["Stop", "page_stop"]

# A page that ends at a better place may leave this much of its room unused.
_ENOUGH = 0.6
# An end of a line is good enough where it uses this much; a line as long as a page is cut between words.
_ENOUGH_OF_LINES = 0.3

_FIRST_REACH = 4
_FILE_OF_A_DIFF = re.compile(r"^(?=diff --git |Index: |--- \S)", re.MULTILINE)
_HUNK = re.compile(r"^(?=@@ )", re.MULTILINE)
_LINE_END = re.compile(r"\n")
_WORD_END = re.compile(r"(?<=\s)(?=\S)")

Ends = Callable[[str, int, Bracket], Sequence[int]]


class Stop(NamedTuple):
    """Where a page ends, and what it costs, which may be a little less where it was cut inside a word."""

    place: int
    price: int


def page_stop(text: str, start: int, *, room: int, price: Price, shape: str) -> Stop:
    """The end of the page that starts here; the start itself where not even a character has room.

    The price of a beginning may go down a little as it grows, as that of tokens does.
    """

    def price_at(stop: int) -> int:
        return price(text[start:stop])

    if room <= 0 or start >= len(text):
        return Stop(start, 0)
    bracket = _first_bracket(text, start, price_at, room)
    if bracket.fits == len(text):
        return Stop(bracket.fits, bracket.spent)
    for ends, share in _kinds_of_ends(shape):
        bracket = narrowed(bracket, ends(text, start, bracket), price_at, room)
        if bracket.fits > start and bracket.spent >= share * room:
            return Stop(bracket.fits, bracket.spent)
    last = narrowed(bracket, _anywhere(bracket), price_at, room)
    return Stop(_between_characters(text, start, last.fits), last.spent)


def _first_bracket(text: str, start: int, price_at: Callable[[int], int], room: int) -> Bracket:
    """From the start to an end that is too far, doubled from a near one, so that no long text is priced whole."""
    reach = _FIRST_REACH * room
    while start + reach < len(text):
        if (cost := price_at(start + reach)) > room:
            return Bracket(start, 0, start + reach, cost)
        reach *= 2
    cost = price_at(len(text))
    if cost <= room:
        return Bracket(len(text), cost, len(text), room + 1)
    return Bracket(start, 0, len(text), cost)


def _kinds_of_ends(shape: str) -> Iterator[tuple[Ends, float]]:
    """The best places first, with how much of the room a page must use to end there."""
    if shape == "json":
        for depth in range(3):
            yield _ends_of_records(depth), _ENOUGH
    elif shape == "diff":
        yield _matches_of(_FILE_OF_A_DIFF), _ENOUGH
        yield _matches_of(_HUNK), _ENOUGH
    yield _matches_of(_LINE_END), _ENOUGH_OF_LINES
    yield _matches_of(_WORD_END), _ENOUGH_OF_LINES


def _matches_of(pattern: re.Pattern[str]) -> Ends:
    def ends(text: str, start: int, within: Bracket) -> Sequence[int]:
        found = (match.end() for match in pattern.finditer(text, within.fits, within.over))
        return [end for end in found if within.fits < end < within.over]

    return ends


def _ends_of_records(depth: int) -> Ends:
    """After a comma of the outermost level that has any here, or of the next, or of the one below that."""

    def ends(text: str, start: int, within: Bracket) -> Sequence[int]:
        found = list(separators(text, start, within.over))
        levels = sorted({level for level, _ in found})
        if depth >= len(levels):
            return []
        return [end for level, end in found if level == levels[depth] and within.fits < end < within.over]

    return ends


def _anywhere(within: Bracket) -> Sequence[int]:
    return range(within.fits + 1, within.over)


def _between_characters(text: str, start: int, stop: int) -> int:
    """Back to where no character is cut, nor a line end of two; a character longer than the room stays out."""
    while start < stop < len(text) and (continues(text, stop) or text[stop - 1 : stop + 1] == "\r\n"):
        stop -= 1
    return stop
