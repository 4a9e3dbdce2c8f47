"""The fitting engine: the one place that holds the promise `count(final text) <= budget`.

The tokens of parts do not add up to the tokens of the whole, and a footer that says what was left out costs tokens
itself. So nothing is accepted because of an estimate. The caller provides a function that assembles the final text
of a choice, with headings, footers and punctuation. The engine calls it, counts the text, and accepts or rejects
the choice. It has several ways to find a choice that fits:

- `largest`: for a sequence, such as lines, entries or the characters of a text. A binary search for the longest
  beginning that fits.
- `Assembly`: for pieces of different value. Accepts a choice if its text fits, drops the last pieces until it
  does, or finds the cheapest single piece if nothing fits.
- `with_less_room`: for a choice made by the prices of parts. If the whole text costs more, the choice is made again
  with that much less room.
- `self_counted` and `budget_that_holds`: for a text that states its own token count or its budget.

The callers define the pieces and their value: `cutting` (one text), `listing` (search results, MCP answers),
`packing` (context blocks and packs), and in `satchel.session` the result pages, work logs, provider messages and
found lines.
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
"""Counts the tokens of a text: exactly, or as an upper bound."""


T = TypeVar("T")


# Sequences: the longest beginning that fits.


def largest(number: int, fits: Callable[[int], bool], *, next_try: Callable[[int, int], int] | None = None) -> int:
    """Return the largest n from 0 to `number` for which `fits(n)` is true; 0 is assumed to fit.

    `fits` should be monotone: if n does not fit, n + 1 does not either. If it is not quite (a longer text may cost
    a token less), the result still fits, but may not be the largest. The search tries the middle of what is left,
    or what `next_try` returns for the lowest and the highest number left.
    """
    low, high = 0, number
    while low < high:
        tried = next_try(low + 1, high) if next_try else (low + high + 1) // 2
        if fits(tried):
            low = tried
        else:
            high = tried - 1
    return low


# Pieces of different value: choices that are accepted only if their text fits.


class Assembly(Generic[T]):
    """A text assembled from chosen pieces, never over its budget.

    A choice maps places to pieces. `make` receives the choice ordered by place and returns the final text.
    `chosen`, `text` and `token_count` describe the last choice that was accepted; at first they are empty.
    """

    def __init__(self, make: Callable[[Mapping[int, T]], str], *, budget: int, count: Count) -> None:
        self.budget = budget
        self.count = count
        self._make = make
        self.chosen: dict[int, T] = {}
        self.text = ""
        self.token_count = 0
        self.over = 0
        """By how many tokens the last choice that was tried exceeded the budget; 0 if it was accepted."""

    def take(self, choice: Mapping[int, T]) -> bool:
        """Accept a choice if its text fits, and return whether it does. Otherwise the previous choice stays."""
        ordered = _in_order(choice)
        text = self._make(ordered)
        tokens = self.count(text)
        self.over = max(0, tokens - self.budget)
        if self.over:
            return False
        self.chosen, self.text, self.token_count = ordered, text, tokens
        return True

    def take_most(self, choice: dict[int, T], *, beside: Mapping[int, T] | None = None) -> None:
        """Accept as many pieces as fit: drop the last of the mapping, one at a time, until the rest fits.

        The pieces in `beside` are added and never dropped. If not even the first fits, the previous choice stays.
        """
        while choice and not self.take({**beside, **choice} if beside else choice):
            choice.popitem()

    def take_least(self, options: Iterable[tuple[int, T]]) -> int | None:
        """Accept the cheapest single piece. Return its cost if even that does not fit, otherwise None."""
        costs = [(self.cost({place: piece}), place, piece) for place, piece in options]
        if not costs:
            return None
        cost, place, piece = min(costs, key=lambda each: each[0])
        return None if self.take({place: piece}) else cost

    def cost(self, choice: Mapping[int, T]) -> int:
        """Count the text of a choice without accepting it."""
        return self.count(self._make(_in_order(choice)))


def _in_order(choice: Mapping[int, T]) -> dict[int, T]:
    return {place: choice[place] for place in sorted(choice)}


# Choices made by prices: made again with less room until the text fits.


class Attempt(NamedTuple, Generic[T]):
    """A result made for a given room, and by how many tokens its final text exceeds the budget."""

    made: T
    over: int
    used: int | None = None
    """How much of the room was used, if known: the next attempt gets less than that."""


def with_less_room(room: int, attempt: Callable[[int], Attempt[T] | None], *, tries: int | None = None) -> T | None:
    """Call `attempt` with this room, then with less room by the excess of its text, until that fits.

    Returns what the last attempt made. Returns None after `tries`, or if `attempt` gives up by returning None,
    which it must do for some small room.
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


# Texts that state their own token count or budget.


def budget_that_holds(cost: Callable[[int], int], budget: int) -> int:
    """Return the smallest budget, from the given one up, that holds a text which states that budget.

    `cost(budget)` counts the text that states a budget. It may grow with the number, which may have more digits.
    """
    while (needed := cost(budget)) > budget:
        budget = needed
    return budget


ROUNDS = 8
FILLERS = 64


def self_counted(make: Callable[[int], str], count: Count, *, guess: int | None = None) -> tuple[str, int]:
    """Return a text that states its own token count, and that count; a close `guess` saves tries.

    `make` writes the text for a number. With some vocabularies no number is true, because the text with one number
    costs as much as another number says; then blank lines at the end are added until one is true. If that does not
    help either, the text states a higher count than its own.
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
