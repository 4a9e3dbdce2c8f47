"""As much as fits: the one place that holds the promise `count(final text) <= budget`.

Tokens of parts do not add up to the tokens of the whole, and a footer that says what was left out costs tokens
itself. So nothing here relies on estimates: whoever has more to say than there is room for tells how the *final*
text of a choice is made, with its headings, footers and punctuation. That text is made, counted, and taken or
refused. What is left to decide is which choice to try next. There are four ways:

- `largest` is for what is ordered, such as lines, entries or the characters of a text: the longest beginning that
  fits, found in a few tries, because more of it costs more.
- `Assembly` is for pieces of different worth. It takes a choice if its text fits, drops the least wanted pieces one
  by one until it does, or names the least that a single piece costs where nothing fits.
- `with_less_room` is for a choice that was made by prices: where the text costs more than its parts, the choice is
  made again for as many tokens less.
- `self_counted` and `budget_that_holds` are for a text that states its own number of tokens, or its budget.

The users decide what a piece is and what it is worth: `cutting` (one text), `listing` (search results, answers of
tools), `packing` (context blocks and packs), and the pages, work logs and messages of `satchel.session`.
"""

import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Generic, NamedTuple, TypeVar

__all__ = [
    "Assembly",
    "Attempt",
    "Count",
    "budget_that_holds",
    "largest",
    "self_counted",
    "with_less_room",
]

Count = Callable[[str], int]
"""The number of tokens of a text: exact, or an upper bound."""


T = TypeVar("T")


# The longest beginning of what is ordered.


def largest(number: int, fits: Callable[[int], bool], *, next_try: Callable[[int, int], int] | None = None) -> int:
    """How many of so many ordered things fit: a number from 0, which is never tried, up to `number`.

    `fits` is asked about a number of them, and must not say yes to more where it says no to fewer, but for the few
    tokens by which a longer text may cost less. The next try is the one in the middle; `next_try` may guess better,
    and is given the numbers between which it must choose, both included.
    """
    low, high = 0, number
    while low < high:
        tried = next_try(low + 1, high) if next_try else (low + high + 1) // 2
        if fits(tried):
            low = tried
        else:
            high = tried - 1
    return low


# Pieces of different worth.


class Assembly(Generic[T]):
    """The text that chosen pieces make together, which is never over its budget.

    A choice is a mapping from places to pieces; `make` gets it in the order of places and gives the final text.
    `chosen`, `text` and `token_count` are those of the last choice that was taken; at first nothing is.
    """

    def __init__(self, make: Callable[[Mapping[int, T]], str], *, budget: int, count: Count) -> None:
        self.budget = budget
        self.count = count
        self._make = make
        self.chosen: dict[int, T] = {}
        self.text = ""
        self.token_count = 0
        self.over = 0
        """By how many tokens the last choice that was tried is over the budget."""

    def take(self, choice: Mapping[int, T]) -> bool:
        """Take exactly these if their text fits; if not, what was taken before stays."""
        ordered = _in_order(choice)
        text = self._make(ordered)
        tokens = self.count(text)
        self.over = max(0, tokens - self.budget)
        if self.over:
            return False
        self.chosen, self.text, self.token_count = ordered, text, tokens
        return True

    def take_most(self, choice: dict[int, T], *, beside: Mapping[int, T] | None = None) -> None:
        """Take as many of these as fit: the last in the mapping is dropped, one after another, until the rest does.

        What is `beside` them stays in any case. Where not even one of them fits, what was taken before stays.
        """
        while choice and not self.take({**beside, **choice} if beside else choice):
            choice.popitem()

    def take_least(self, options: Iterable[tuple[int, T]]) -> int | None:
        """Of what can stand alone take the one that costs least; what it costs, where even that does not fit."""
        costs = [(self.cost({place: piece}), place, piece) for place, piece in options]
        if not costs:
            return None
        cost, place, piece = min(costs, key=lambda each: each[0])
        return None if self.take({place: piece}) else cost

    def cost(self, choice: Mapping[int, T]) -> int:
        """What the text of these costs, whether it fits or not."""
        return self.count(self._make(_in_order(choice)))


def _in_order(choice: Mapping[int, T]) -> dict[int, T]:
    return {place: choice[place] for place in sorted(choice)}


# What was chosen by prices, and costs more in the end.


class Attempt(NamedTuple, Generic[T]):
    """What was made for some room, and by how many tokens its final text is over the budget."""

    made: T
    over: int
    used: int | None = None
    """How much of the room its parts took, where that is known: the next one gets less than that."""


def with_less_room(room: int, attempt: Callable[[int], Attempt[T] | None], *, tries: int | None = None) -> T | None:
    """What is made for this room, or for as much less as the final text was over, until it fits.

    None where `attempt` gives up, which it must at some room, or after as many tries as are allowed.
    """
    for _ in itertools.count() if tries is None else range(tries):
        made = attempt(room)
        if made is None:
            return None
        if made.over <= 0:
            return made.made
        used = room if made.used is None else min(room, made.used)
        room = used - made.over
    return None


# Texts that state numbers about themselves.


def budget_that_holds(cost: Callable[[int], int], budget: int) -> int:
    """The least budget, from this one on, within which a text fits that may state the budget itself.

    `cost` tells what the text costs that is made for a budget: a larger number may be longer.
    """
    while (needed := cost(budget)) > budget:
        budget = needed
    return budget


ROUNDS = 8
FILLERS = 64


def self_counted(make: Callable[[int], str], count: Count, *, guess: int | None = None) -> tuple[str, int]:
    """The text that `make` gives for its own number of tokens, and that number, which a guess finds sooner.

    Some vocabularies spell a number and the next one at such lengths that neither is true. Then blank lines at
    the end move the sum until one is; a counter that defies all of them gets a text that states too much.
    """
    start = stated = count(make(0)) if guess is None else guess
    for filler in ("", *("\n" + " \n" * extra for extra in range(FILLERS))):
        for _ in range(ROUNDS):
            text = make(stated) + filler
            counted = count(text)
            if counted == stated:
                return text, counted
            stated = counted
    return _stating_too_much(make, count, start)


def _stating_too_much(make: Callable[[int], str], count: Count, start: int) -> tuple[str, int]:
    text = make(start)
    for stated in range(start, start + FILLERS):
        text = make(stated)
        if count(text) <= stated:
            break
    return text, count(text)
