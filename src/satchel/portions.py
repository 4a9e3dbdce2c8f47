"""An answer made of portions that is fitted to a budget on its final text, and what of it is left for later."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from satchel.pack.cut import ELLIPSIS, cut, first_character
from satchel.render import INDENT

__all__ = ["Assemble", "Portion", "Portioned", "joined", "portioned"]


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
    """What tells a program which one it is, such as an id."""


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

    `in_turn` stops at the first that does not fit instead. What can be split is, where room is left.
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
    next_ones = [place for place in (left[:1] if in_turn else left) if portions[place].splits]
    if next_ones and (beginning := making.beginning(chosen, next_ones[0])):
        return making.done(chosen | {next_ones[0]: beginning})
    if not chosen and left:
        smallest, place, least = min(making.least(left), key=lambda each: each[0])
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

    def beginning(self, chosen: dict[int, Portion], place: int) -> Portion | None:
        """As much of a portion as fits beside what is chosen."""
        portion = self._portions[place]
        room = self._budget - self._cost(chosen) - self._count(f"\n{portion.section}\n")
        while room > 0:
            kept = cut(portion.text, room=room, price=self._count)
            if not kept:
                return None
            short = _shortened(portion, kept)
            over = self._cost(chosen | {place: short}) - self._budget
            if over <= 0:
                return short
            room -= over
        return None

    def least(self, places: Sequence[int]) -> Iterator[tuple[int, int, Portion]]:
        """What each would cost alone, cut as short as it can be."""
        for place in places:
            portion = self._portions[place]
            least = _shortened(portion, first_character(portion.text)) if portion.splits else portion
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
    """What of a portion comes after its beginning, from the very character on."""
    kept = len(short.text) - len(ELLIPSIS) - 1
    return portion._replace(text=INDENT + portion.text[kept:])


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
