"""A block of text: sections for the tiers, in them the days, under each day a bullet for each item.

All that starts at the margin is ours, and so nothing stored can stand for a tag, a heading, a date or a footer.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import date
from typing import NamedTuple

from satchel.fitting.layout import Heading, Parsed
from satchel.fitting.lines import BULLETS, lines, unlined
from satchel.fitting.sections import day_of, in_sections
from satchel.model.fields import Tier
from satchel.model.item import Item, Placed

__all__ = ["Ends", "Outline"]

_DATE = re.compile(r"(\d{4}-\d\d-\d\d):")


class Ends(NamedTuple):
    """What opens a part of a block, and what closes it."""

    opening: str
    closing: str = ""


class Outline:
    """A layout that is told by what its block and its sections are framed."""

    def __init__(self, name: str, *, block: Ends, sections: Mapping[Tier, Ends]) -> None:
        self.name = name
        self._block = block
        self._sections = sections
        self._tiers = {frame.opening.strip(): tier for tier, frame in sections.items()}

    @property
    def around(self) -> str:
        return "".join(self._block)

    def section(self, item: Item) -> Heading:
        return Heading(item.tier, "".join(self._sections[item.tier]))

    def group(self, item: Item) -> Heading:
        day = day_of(item)
        return Heading((item.tier, day), _date_line(day))

    def lines(self, placed: Placed) -> str:
        return lines(placed)

    def block(self, placed: Sequence[Placed]) -> str:
        if not placed:
            return ""
        parts = [self._block.opening]
        for tier, days in in_sections(placed).items():
            frame = self._sections[tier]
            parts.append(frame.opening)
            for place, (day, members) in enumerate(days.items()):
                parts.append(_date_line(day) if place else _date_line(day).lstrip())
                parts += map(lines, members)
            parts.append(frame.closing)
        return "".join([*parts, self._block.closing])

    def parse(self, text: str) -> list[Parsed]:
        found: list[Parsed] = []
        tier = day = None
        of_item: list[str] = []
        for line in [*text.split("\n"), "end"]:
            if not line or line.startswith(" "):
                of_item += [line] if of_item else []
                continue
            if of_item:
                found.append(unlined("\n".join(of_item))._replace(tier=tier, day=day))
                of_item = []
            if line.startswith(BULLETS):
                of_item = [line]
            elif line in self._tiers:
                tier, day = self._tiers[line], None
            elif date_line := _DATE.fullmatch(line):
                day = date_line[1]
        return found


def _date_line(day: date | None) -> str:
    # After a blank line, which costs nothing, since without it markdown takes this for a part of the bullet
    # above. "### 2023-05-08" costs 9 tokens, this 7.
    return f"\n{day.isoformat()}:\n" if day else ""
