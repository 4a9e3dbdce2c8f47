"""Answers fitted to a budget on their final text, and what of them is left."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from satchel.fitting.cutting import ELLIPSIS, cut, first_character
from satchel.fitting.listing import INDENT

__all__ = ["CONTINUED", "Assemble", "Portion", "Portioned", "joined", "portioned", "self_counted"]


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


# An answer made of portions that is fitted to a budget on its final text, and what of it is left for later.


CONTINUED = " (continued)"


class Portion(NamedTuple):
    """Whole lines of an answer, such as one memory."""

    text: str
    section: str = ""
    """The heading line it stands under, which is there only with one of its portions."""
    rank: int = 0
    """What is taken first where not all fit; of two that are equal the earlier one."""
    splits: bool = False
    """Whether a beginning of it is better than nothing."""
    name: str = ""
    """Which one it is, such as an id; what is left of it for later stands under this."""


Assemble = Callable[[Sequence[Portion], bool], str]
"""Makes the final text of some portions, told whether they are all there is."""


class Portioned(NamedTuple):
    """The final text, what stands in it, and what does not."""

    text: str
    shown: tuple[Portion, ...]
    rest: tuple[Portion, ...]
    smallest_budget: int | None = None
    """Where nothing fitted: the least budget that shows something."""


def portioned(
    portions: Sequence[Portion],
    *,
    budget: int | None,
    count: Callable[[str], int],
    assemble: Assemble,
    in_turn: bool = False,
) -> Portioned:
    """As many portions as fit, those of the lowest rank first and the others skipped; shown in the order given.

    `in_turn` stops at the first that does not fit instead. What can be split is, where room is left: within
    its indented text or between its lines, never within a line at the margin.
    """
    if budget is None:
        return Portioned(assemble(portions, True), tuple(portions), ())
    making = _Making(portions, budget, count, assemble)
    if making.fits(everything := dict(enumerate(portions))):
        return making.done(everything)
    order = sorted(range(len(portions)), key=lambda place: portions[place].rank)
    chosen = making.taken(order, in_turn=in_turn)
    while chosen and not making.fits(chosen):
        chosen.popitem()
    left = [place for place in order if place not in chosen]
    next_ones = left[:1] if in_turn else left
    chosen |= making.beginning(chosen, next_ones)
    if not chosen and next_ones:
        smallest, place, least = min(making.least(next_ones), key=lambda each: each[0])
        if smallest > budget:
            return Portioned(making.without_any(), (), tuple(portions), smallest)
        chosen = {place: least}
    return making.done(chosen) if chosen else Portioned(making.without_any(), (), ())


class _Making:
    """An answer in the making; chosen portions are held by their places."""

    def __init__(
        self, portions: Sequence[Portion], budget: int, count: Callable[[str], int], assemble: Assemble
    ) -> None:
        self._portions = portions
        self._budget = budget
        self._count = count
        self._assemble = assemble

    def done(self, chosen: dict[int, Portion]) -> Portioned:
        shown = tuple(chosen[place] for place in sorted(chosen))
        rest = tuple(
            _remainder(portion, chosen[place]) if place in chosen else portion
            for place, portion in enumerate(self._portions)
            if chosen.get(place) is not portion
        )
        return Portioned(self._text(chosen), shown, rest)

    def without_any(self) -> str:
        text = self._assemble((), False)
        return text if self._count(text) <= self._budget else ""

    def fits(self, chosen: dict[int, Portion]) -> bool:
        return self._cost(chosen) <= self._budget

    def taken(self, order: Sequence[int], *, in_turn: bool) -> dict[int, Portion]:
        """What fits by the sum of its parts, in the order of rank."""
        room = self._budget - self._count(self._assemble((), False))
        chosen: dict[int, Portion] = {}
        headed = {""}
        for place in order:
            portion = self._portions[place]
            price = self._count(portion.text)
            price += 0 if portion.section in headed else self._count(f"\n{portion.section}\n")
            if price <= room:
                chosen[place] = portion
                headed.add(portion.section)
                room -= price
            elif in_turn:
                break
        return chosen

    def beginning(self, chosen: dict[int, Portion], places: Sequence[int]) -> dict[int, Portion]:
        """As much of the first of these portions as fits beside what is chosen, of which it can be split."""
        left = self._budget - self._cost(chosen)
        headed = {"", *(portion.section for portion in chosen.values())}
        for place in places:
            portion = self._portions[place]
            least = _least_of(portion.text) if portion.splits else ""
            room = left - (0 if portion.section in headed else self._count(f"\n{portion.section}\n"))
            while least and self._count(least) < room:
                kept = _at_a_seam(cut(portion.text, room=room, price=self._count), portion.text)
                if len(kept) < len(least):
                    break
                short = _shortened(portion, kept) if len(kept) < len(portion.text.rstrip()) else portion
                over = self._cost(chosen | {place: short}) - self._budget
                if over <= 0:
                    return {place: short}
                room -= over
        return {}

    def least(self, places: Sequence[int]) -> Iterator[tuple[int, int, Portion]]:
        """What each would cost alone: cut as short as it can be, or whole, which needs fewer words about it."""
        for place in places:
            portion = self._portions[place]
            yield self._cost({place: portion}), place, portion
            beginning = _least_of(portion.text) if portion.splits else ""
            if 0 < len(beginning) < len(portion.text.rstrip()):
                least = _shortened(portion, beginning)
                yield self._cost({place: least}), place, least

    def _cost(self, chosen: dict[int, Portion]) -> int:
        return self._count(self._text(chosen))

    def _text(self, chosen: dict[int, Portion]) -> str:
        shown = [chosen[place] for place in sorted(chosen)]
        # By identity: what was cut is another portion.
        whole = len(shown) == len(self._portions) and all(
            one is other for one, other in zip(shown, self._portions, strict=True)
        )
        return self._assemble(shown, whole)


def _shortened(portion: Portion, kept: str) -> Portion:
    return portion._replace(text=f"{kept}{ELLIPSIS}\n")


def _remainder(portion: Portion, short: Portion) -> Portion:
    """What of a portion comes after its beginning, from the very character on, under the name of the whole."""
    kept = short.text.removesuffix(f"{ELLIPSIS}\n")
    left = portion.text[len(kept) :]
    heading = f"{portion.name}{CONTINUED}\n" if portion.name else ""
    in_text = kept.startswith(INDENT, kept.rfind("\n") + 1)
    return portion._replace(text=heading + (INDENT + left if in_text else left.removeprefix("\n")))


def _least_of(text: str) -> str:
    """The least that is worth showing: the heading, and of what is below it the first line or character."""
    if text.startswith(INDENT):
        return first_character(text)
    heading, _, below = text.partition("\n")
    least = first_character(below) if below.startswith((INDENT, "\n")) else below.partition("\n")[0]
    return f"{heading}\n{least}" if least else ""


def _at_a_seam(kept: str, text: str) -> str:
    """As much of a beginning as does not end within a line at the margin."""
    start = kept.rfind("\n") + 1
    inside = text.startswith(INDENT, start) or text[len(kept) : len(kept) + 1] in ("", "\n")
    return kept if inside else kept[:start].rstrip()


def joined(portions: Sequence[Portion]) -> str:
    """Portions under their headings."""
    lines: list[str] = []
    section = ""
    for portion in portions:
        if portion.section != section:
            section = portion.section
            lines.append(f"\n{section}\n" if lines else f"{section}\n")
        lines.append(portion.text)
    return "".join(lines)
