"""A text cut to the room there is, where its writer would cut it, with what was left out."""

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from satchel.errors import InputError
from satchel.model.checks import check_budget
from satchel.text.passages import continues, sentences
from satchel.text.tokens import DEFAULT_COUNTER, Counter
from satchel.text.tokens import counter as find_counter

__all__ = ["ELLIPSIS", "Bracket", "Cut", "Price", "cut", "first_character", "narrowed", "truncate"]

ELLIPSIS = " …"

Price = Callable[[str], int]

_ENOUGH_FOR_A_WORD = 2 / 3
_ENOUGH_OF_A_BUDGET = 0.9

_FIRST_REACH = 4
_WORD_END = re.compile(r"(?<=\S)(?=\s)")


class Cut(msgspec.Struct, frozen=True, kw_only=True):
    """What is left of a text, what that costs, and how much of the text is not in it."""

    text: str
    """The beginning that was kept, with the ellipsis after it where there was room for one."""
    token_count: int
    omitted_tokens: int
    omitted_characters: int
    whole: bool


def truncate(text: str, *, token_budget: int | None, counter: str | Counter = DEFAULT_COUNTER) -> Cut:
    """The text within the budget: unchanged where it fits, otherwise its beginning and an ellipsis.

    It ends with a sentence where that uses nine tenths of the budget, else with a word, and within a word
    only where that one would leave much of the budget unused. Without a budget nothing is cut.
    """
    if not isinstance(text, str):
        raise InputError(f"text must be a string, not {type(text).__name__}")
    budget = check_budget(token_budget)
    count = find_counter(counter).count
    total = count(text)
    if budget is None or total <= budget:
        return Cut(text=text, token_count=total, omitted_tokens=0, omitted_characters=0, whole=True)
    kept = cut(text, room=budget, price=count, enough=_ENOUGH_OF_A_BUDGET)
    short = kept + ELLIPSIS if kept else (kept := cut(text, room=budget, price=count, ellipsis=""))
    return Cut(
        text=short,
        token_count=count(short),
        omitted_tokens=max(0, total - count(kept)),
        omitted_characters=len(text) - len(kept),
        whole=False,
    )


def cut(text: str, *, room: int, price: Price, ellipsis: str = ELLIPSIS, enough: float = 2 / 3) -> str:
    """The longest beginning of a text that fits together with the ellipsis; comes without it.

    It ends with a paragraph, line or sentence where that uses `enough` of the room, else with a word, else
    with a character; empty where not even one fits. The price may go down a little as the text grows, as
    that of tokens does; it is asked for beginnings not much longer than what fits.
    """
    if room <= 0:
        return ""

    def price_at(end: int) -> int:
        return price(text[:end] + ellipsis)

    bracket = _first_bracket(text, price_at, room)
    for ends, share in (
        (_sentence_ends, enough),
        (_word_ends, min(enough, _ENOUGH_FOR_A_WORD)),
        (_character_ends, 0.0),
    ):
        bracket = narrowed(bracket, ends(text, bracket), price_at, room)
        if bracket.fits and bracket.spent >= share * room:
            break
    return text[: bracket.fits]


def first_character(text: str) -> str:
    """The least that `cut` keeps of a text: up to the end of the first character that is not white space."""
    end = len(text) - len(text.lstrip()) + 1
    while end < len(text) and not _ends_character(text, end):
        end += 1
    first = text[:end]
    return "" if first[-1:].isspace() else first


class Bracket(NamedTuple):
    """An end of a beginning that fits and a later one that does not, with the price of each."""

    fits: int
    spent: int
    over: int
    excess: int


def _first_bracket(text: str, price_at: Callable[[int], int], room: int) -> Bracket:
    """From the start to an end that is too far, doubled from a near one, so that no long text is priced whole."""
    end = _FIRST_REACH * room
    while end < len(text):
        if (cost := price_at(end)) > room:
            return Bracket(0, 0, end, cost)
        end *= 2
    end = len(text.rstrip())
    cost = price_at(end)
    if cost <= room and (end == len(text) or not continues(text, end)):
        return Bracket(end, cost, end, room + 1)
    return Bracket(0, 0, end, max(cost, room + 1))


def narrowed(bracket: Bracket, ends: Sequence[int], price_at: Callable[[int], int], room: int) -> Bracket:
    """The same bracket with neighbouring ends.

    The price is nearly linear in the length, so the next end to try is where the room would be used up;
    each third is the one in the middle, which bounds the number of tries where it is not.
    """
    fits, spent, over, excess = bracket
    first, last = 0, len(ends)
    tries = 0
    while first < last:
        tries += 1
        middle = (first + last) // 2
        if tries % 3:
            target = fits + (over - fits) * (room - spent) // (excess - spent)
            middle = min(max(first, bisect_right(ends, target, first, last) - 1), last - 1)
        cost = price_at(ends[middle])
        if cost <= room:
            fits, spent, first = ends[middle], cost, middle + 1
        else:
            over, excess, last = ends[middle], cost, middle
    return Bracket(fits, spent, over, excess)


def _sentence_ends(text: str, within: Bracket) -> list[int]:
    # The last is where the text was cut off for the search.
    found = [end for _, end in sentences(text[: within.over])[:-1]]
    return [end for end in found if end > within.fits and _ends_character(text, end)]


def _word_ends(text: str, within: Bracket) -> list[int]:
    found = (match.start() for match in _WORD_END.finditer(text, within.fits + 1, within.over))
    return [end for end in found if _ends_character(text, end)]


def _character_ends(text: str, within: Bracket) -> list[int]:
    return [end for end in range(within.fits + 1, within.over) if _ends_character(text, end)]


def _ends_character(text: str, end: int) -> bool:
    return not text[end - 1].isspace() and not continues(text, end)
