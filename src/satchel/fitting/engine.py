"""Answers fitted to a budget on their final text, and what of them is left."""

from collections.abc import Callable

__all__ = ["self_counted"]


ROUNDS = 8
FILLERS = 64


def self_counted(
    make: Callable[[int], str], count: Callable[[str], int], *, guess: int | None = None
) -> tuple[str, int]:
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


def _stating_too_much(make: Callable[[int], str], count: Callable[[str], int], start: int) -> tuple[str, int]:
    text = make(start)
    for stated in range(start, start + FILLERS):
        text = make(stated)
        if count(text) <= stated:
            break
    return text, count(text)
