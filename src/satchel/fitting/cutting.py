"""Cut one text to a number of tokens at a good place.

`longest_beginning` finds the place. `shortened` and `truncate` cut at the end of a sentence or a word and add an
ellipsis. The result pages of a session use it to cut at records, hunks or lines.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import msgspec

from satchel.errors import InputError
from satchel.fitting.engine import largest
from satchel.model.checks import check_budget
from satchel.model.patterns import lazy_pattern
from satchel.model.result import Result, quoted
from satchel.text.passages import continues, sentences
from satchel.text.tokens import DEFAULT_COUNTER, Counter
from satchel.text.tokens import counter as find_counter

__all__ = [
    "ELLIPSIS",
    "Beginning",
    "Bracket",
    "Cut",
    "Price",
    "Seam",
    "first_character",
    "longest_beginning",
    "shortened",
    "truncate",
]

ELLIPSIS = " …"

Price = Callable[[str], int]
"""Counts the tokens of a text."""

_ENOUGH_FOR_A_WORD = 2 / 3
_ENOUGH_OF_A_BUDGET = 0.9

_FIRST_REACH = 4
_WORD_END = lazy_pattern(r"(?<=\S)(?=\s)")


class Cut(Result, msgspec.Struct, frozen=True, kw_only=True):
    """A truncated text, its token count, and how much was left out."""

    text: str
    """The beginning that was kept, and an ellipsis if there was room for one."""
    token_count: int
    omitted_tokens: int
    omitted_characters: int
    whole: bool

    def _summary(self) -> str:
        return f"{self.token_count:,} tokens, {self.omitted_tokens:,} omitted: {quoted(self.text)}"


def truncate(text: str, *, token_budget: int | None, counter: str | Counter = DEFAULT_COUNTER) -> Cut:
    """Cut a text to a token budget: unchanged if it fits, otherwise its beginning and an ellipsis.

    It ends with a sentence if that uses nine tenths of the budget, otherwise with a word. It ends within a word
    only if a word's end would waste more than a third of the budget. With `token_budget=None` nothing is cut.
    """
    if not isinstance(text, str):
        raise InputError(f"text must be a string, not {type(text).__name__}")
    budget = check_budget(token_budget)
    count = find_counter(counter).count
    total = count(text)
    if budget is None or total <= budget:
        return Cut(text=text, token_count=total, omitted_tokens=0, omitted_characters=0, whole=True)
    kept = shortened(text, room=budget, price=count, enough=_ENOUGH_OF_A_BUDGET)
    short = kept + ELLIPSIS if kept else (kept := shortened(text, room=budget, price=count, ellipsis=""))
    return Cut(
        text=short,
        token_count=count(short),
        omitted_tokens=max(0, total - count(kept)),
        omitted_characters=len(text) - len(kept),
        whole=False,
    )


def shortened(text: str, *, room: int, price: Price, ellipsis: str = ELLIPSIS, enough: float = 2 / 3) -> str:
    """Return the longest beginning of a text that fits together with the ellipsis, without the ellipsis.

    It ends with a paragraph, line or sentence if that uses the share `enough` of the room, otherwise with a word or
    a character. It is empty if not even one character fits. `price` is called only for beginnings that are not much
    longer than what fits, so cutting a huge text is fast.
    """
    seams = (
        Seam(_sentence_ends, enough),
        Seam(_word_ends, min(enough, _ENOUGH_FOR_A_WORD)),
        Seam(_character_ends, 0.0),
    )
    kept = longest_beginning(
        text, room=room, price_at=lambda end: price(text[:end] + ellipsis), seams=seams, whole=len(text.rstrip())
    )
    return text[: kept.end]


def first_character(text: str) -> str:
    """Return the text up to the end of its first character that is not white space: the least `shortened` keeps."""
    end = len(text) - len(text.lstrip()) + 1
    while end < len(text) and not _ends_character(text, end):
        end += 1
    first = text[:end]
    return "" if first[-1:].isspace() else first


class Bracket(NamedTuple):
    """Two positions in a text and their prices: a beginning up to the first fits, up to the second it does not."""

    fits: int
    spent: int
    over: int
    excess: int


class Seam(NamedTuple):
    """A kind of place where a text may end, such as sentences or words."""

    ends: Callable[[str, int, Bracket], Sequence[int]]
    """Returns all such places inside a bracket, in order, given the text and the start position."""
    enough: float
    """The share of the room that must be used; otherwise the next kind of seam is tried."""
    back: Callable[[str, int, int], int] | None = None
    """Moves an end back to a place where the text may be split, such as between characters."""


class Beginning(NamedTuple):
    """Where a beginning ends and its price, which is a little too high if the end was moved back."""

    end: int
    price: int


def longest_beginning(
    text: str,
    *,
    start: int = 0,
    room: int,
    price_at: Callable[[int], int],
    seams: Iterable[Seam],
    whole: int | None = None,
) -> Beginning:
    """Find the longest beginning of `text[start:]` that fits into the room and ends at a seam.

    Kinds of seams are tried in turn until one uses enough of the room; the last kind is always accepted. The whole
    text, up to `whole`, needs no seam. If even the nearest seam is too far, the beginning is empty. The price need
    not be strictly monotone: a longer text may cost a token or two less.
    """
    if room <= 0 or start >= len(text):
        return Beginning(start, 0)
    bracket = _first_bracket(text, start, price_at, room, len(text) if whole is None else whole)
    if bracket.fits == bracket.over:
        return Beginning(bracket.fits, bracket.spent)
    end = bracket.fits
    for seam in seams:
        bracket = _narrowed(bracket, seam.ends(text, start, bracket), price_at, room)
        end = bracket.fits if seam.back is None else seam.back(text, start, bracket.fits)
        if bracket.fits > start and bracket.spent >= seam.enough * room:
            break
    return Beginning(end, bracket.spent)


def _first_bracket(text: str, start: int, price_at: Callable[[int], int], room: int, whole: int) -> Bracket:
    """Find a position that is too far, by doubling from a near one, so that a long text is never counted whole."""
    reach = _FIRST_REACH * room
    while start + reach < len(text):
        if (cost := price_at(start + reach)) > room:
            return Bracket(start, 0, start + reach, cost)
        reach *= 2
    cost = price_at(whole)
    if cost <= room and (whole == len(text) or not continues(text, whole)):
        return Bracket(whole, cost, whole, room + 1)
    return Bracket(start, 0, whole, max(cost, room + 1))


def _narrowed(bracket: Bracket, ends: Sequence[int], price_at: Callable[[int], int], room: int) -> Bracket:
    """Narrow a bracket to two neighbouring ends.

    The price is nearly linear in the length, so the next try is found by interpolation. Every third try is in the
    middle instead, which bounds the number of tries if the price is not linear.
    """
    tries = 0

    def next_try(low: int, high: int) -> int:
        nonlocal tries
        tries += 1
        if not tries % 3:
            return (low + high + 1) // 2
        fits, spent, over, excess = bracket
        target = fits + (over - fits) * (room - spent) // (excess - spent)
        return min(max(low, bisect_right(ends, target, low - 1, high)), high)

    def fits(number: int) -> bool:
        nonlocal bracket
        end = ends[number - 1]
        cost = price_at(end)
        if cost <= room:
            bracket = bracket._replace(fits=end, spent=cost)
        else:
            bracket = bracket._replace(over=end, excess=cost)
        return cost <= room

    largest(len(ends), fits, next_try=next_try)
    return bracket


def _sentence_ends(text: str, start: int, within: Bracket) -> list[int]:
    # The last one is the end of the searched part, not of a sentence.
    found = [end for _, end in sentences(text[: within.over])[:-1]]
    return [end for end in found if end > within.fits and _ends_character(text, end)]


def _word_ends(text: str, start: int, within: Bracket) -> list[int]:
    found = (match.start() for match in _WORD_END.finditer(text, within.fits + 1, within.over))
    return [end for end in found if _ends_character(text, end)]


def _character_ends(text: str, start: int, within: Bracket) -> list[int]:
    return [end for end in range(within.fits + 1, within.over) if _ends_character(text, end)]


def _ends_character(text: str, end: int) -> bool:
    return not text[end - 1].isspace() and not continues(text, end)
