"""Lists of memories as plain text or JSON, whole or within a budget.

Stored text is indented and stripped of control characters, so it can neither look like another entry nor send
escape sequences to a terminal. `fit_portions` returns as much of a list as fits, and the rest for a later page.
"""

import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple, get_args

from satchel.fitting.cutting import ELLIPSIS, first_character, shortened
from satchel.fitting.engine import Assembly, Attempt, Count, with_less_room
from satchel.model.invisible import json_bytes, visible
from satchel.model.memory import Hit, Memory, compact
from satchel.text.passages import best_sentence_start

__all__ = [
    "CONTINUED",
    "DETAILS",
    "INDENT",
    "Assemble",
    "Detail",
    "FittedPortions",
    "Portion",
    "as_json",
    "clean",
    "entry",
    "entry_json",
    "fit_portions",
    "indented",
    "join_entries",
    "join_json",
    "join_portions",
    "json_inside",
    "matched_start",
    "most_as_json",
]


def as_json(value: object) -> str:
    """Encode as compact JSON; only control characters and hidden characters are escaped."""
    return json_bytes(value).decode()


def most_as_json(value: object, count: Count) -> int:
    """Return the most tokens that a value needs as JSON, however a client writes it.

    Clients write it compact, with spaces or indented. Text that is not ASCII costs the most where it is escaped.
    """
    import json

    layouts: tuple[dict[str, Any], ...] = ({"separators": (",", ":")}, {}, {"indent": 2})
    return max(count(json.dumps(value, **layout)) for layout in layouts)


def json_inside(text: str) -> str:
    """Return a text escaped for JSON, without quotation marks; escaped parts of a text can be joined."""
    return as_json(text)[1:-1]


# Entries as text and as JSON.


Detail = Literal["summary", "standard", "full"]
DETAILS: tuple[str, ...] = get_args(Detail)

SNIPPET_LENGTH = 300
INDENT = "    "

_LISTED_FIELDS = (
    "title", "scope", "status", "superseded_by", "valid_from", "invalid_at", "tags", "metadata", "speaker",
    "importance", "confidence", "at",
)  # fmt: skip


def entry(
    memory: Memory,
    *,
    short_id: str,
    detail: Detail,
    matched: int = 0,
    overtaken_by: str | None = None,
    alike: int = 0,
    relevance: float | None = None,
) -> str:
    """Return a heading line with id, kind, title and facts, and below it as much of the text as `detail` allows.

    `matched` is where a snippet starts. `overtaken_by` is the short id of a newer memory about the same thing,
    `alike` the number of duplicates that are not listed, `relevance` that of a search hit (0 to 1).
    """
    facts = [memory.at.date().isoformat()]
    facts += [memory.scope.project] if memory.scope.project else []
    facts += [memory.status] if memory.status != "active" else []
    facts += [f"from {memory.valid_from.date()}"] if memory.valid_from else []
    facts += [f"until {memory.invalid_at.date()}"] if memory.invalid_at else []
    facts += [f"#{tag}" for tag in memory.tags]
    facts += [f"older; see {overtaken_by}"] if overtaken_by else []
    facts += [f"+{alike} alike"] if alike else []
    title = memory.headline() if detail == "summary" else memory.title
    percentage = [] if relevance is None else [f"{100 * relevance:.0f}%"]
    heading = [short_id, *percentage, f"[{memory.kind}]", *([title] if title else []), f"({', '.join(facts)})"]
    lines = [clean(" ".join(heading)).replace("\n", " ")]
    if detail != "summary":
        lines.append(indented(body(memory.text, detail, matched)))
    return "\n".join(lines) + "\n"


def indented(text: str) -> str:
    """Return stored text cleaned and indented. Only lines that Satchel writes start at the margin."""
    return "\n".join(f"{INDENT}{line}".rstrip() for line in clean(text).split("\n"))


def join_entries(entries: Sequence[str]) -> str:
    """Join entries with a blank line between them."""
    return "\n".join(entries)


def entry_json(memory: Memory, *, detail: Detail, matched: int = 0) -> str:
    """One memory as a JSON object on a line of its own, without fields that are unset or only of use to the store.

    If the detail asks for less than the whole text, `shortened` is true.
    """
    fields = compact(memory)
    chosen: dict[str, Any] = {"id": memory.id, "kind": memory.kind, "tier": memory.tier}
    if detail == "summary":
        return as_json(chosen | {"title": memory.headline(), "tokens": memory.tokens, "shortened": True})
    chosen |= {name: fields[name] for name in _LISTED_FIELDS if name in fields}
    text = body(memory.text, detail, matched)
    chosen |= {"text": text} if text == memory.text else {"text": text, "shortened": True}
    return as_json(chosen)


def join_json(key: str, objects: Sequence[str], **facts: object) -> str:
    """Return a JSON object with a list of encoded objects, one per line, under `key`, followed by the facts."""
    tail = "".join(f",{as_json(name)}:{as_json(value)}" for name, value in facts.items())
    return f"{{{as_json(key)}:[" + ",\n".join(objects) + f"]{tail}}}\n"


def body(text: str, detail: Detail, matched: int = 0) -> str:
    """Return the whole text, or a snippet of at most 300 characters from where it matched, cut at a word."""
    if detail == "full" or len(text) <= SNIPPET_LENGTH:
        return text
    # A match near the end is shown with the text before it.
    start = min(matched, len(text) - SNIPPET_LENGTH)
    if start > 0 and (word := re.compile(r"(?<=\s)\S").search(text, start)):
        start = word.start()
    snippet = text[start : start + SNIPPET_LENGTH]
    if start + SNIPPET_LENGTH < len(text):
        words = re.match(r"(?s).*\S(?=\s)", snippet)
        snippet = (words.group() if words and len(words.group()) > SNIPPET_LENGTH // 2 else snippet).rstrip() + "…"
    return ("…" if text[:start].strip() else "") + snippet.rstrip()


def matched_start(hit: Hit, sought: Sequence[str]) -> int:
    """Return where a snippet of a hit starts: at the sentence with the most words of the query."""
    text = hit.memory.text
    # Without a passage that matched, the whole text is searched. A short text is shown whole.
    return best_sentence_start(text, hit.passage or (0, len(text)), sought) if len(text) > SNIPPET_LENGTH else 0


def clean(text: str) -> str:
    """Return stored text without control characters and hidden characters, with plain newlines."""
    return visible(text)


# A list within a budget: what fits, and the rest for later.


CONTINUED = " (continued)"


class Portion(NamedTuple):
    """One entry of a list: whole lines, such as a memory."""

    text: str
    section: str = ""
    """The heading above it, shown if at least one portion under it is."""
    rank: int = 0
    """Portions of lower rank are taken first; of equal ranks, the earlier."""
    splits: bool = False
    """Whether its beginning may be shown if there is no room for the whole."""
    name: str = ""
    """A name, such as an id. It is the heading of the rest if the portion is split."""


Assemble = Callable[[Sequence[Portion], bool], str]
"""Returns the final text of some portions, given whether these are all portions, uncut."""


class FittedPortions(NamedTuple):
    """The final text, the portions in it, and the portions (or remainders of them) that did not fit."""

    text: str
    shown: tuple[Portion, ...]
    rest: tuple[Portion, ...]
    smallest_budget: int | None = None
    """If nothing fitted: the smallest budget that shows something."""


def fit_portions(
    portions: Sequence[Portion],
    *,
    budget: int | None,
    count: Count,
    assemble: Assemble,
    in_turn: bool = False,
) -> FittedPortions:
    """Fit portions into a budget by rank, skipping those that do not fit; they are shown in the order given.

    With `in_turn`, it stops at the first portion that does not fit. If room is left, one portion that may be split
    is cut: within its indented text or between lines, never within a line at the margin. If nothing fits, the
    result says which budget would be enough.
    """
    if budget is None:
        return FittedPortions(assemble(portions, True), tuple(portions), ())
    listing = _Listing(portions, budget, count, assemble)
    if listing.take(dict(enumerate(portions))):
        return listing.done()
    order = sorted(range(len(portions)), key=lambda place: portions[place].rank)
    listing.take_most(listing.affordable(order, in_turn=in_turn))
    left = [place for place in order if place not in listing.chosen]
    next_ones = left[:1] if in_turn else left
    listing.take_beginning(next_ones)
    if not listing.chosen and next_ones:
        smallest = listing.take_least(listing.alone(next_ones))
        if smallest is not None:
            return FittedPortions(listing.without_any(), (), tuple(portions), smallest)
    return listing.done() if listing.chosen else FittedPortions(listing.without_any(), (), ())


class _Listing(Assembly[Portion]):
    """A list under construction: portions whose assembled text is within the budget."""

    def __init__(self, portions: Sequence[Portion], budget: int, count: Count, assemble: Assemble) -> None:
        super().__init__(self._assembled, budget=budget, count=count)
        self._portions = portions
        self._assemble = assemble

    def done(self) -> FittedPortions:
        """Return the list as it is, and the rest."""
        rest = tuple(
            _remainder(portion, self.chosen[place]) if place in self.chosen else portion
            for place, portion in enumerate(self._portions)
            if self.chosen.get(place) is not portion
        )
        return FittedPortions(self.text, tuple(self.chosen.values()), rest)

    def without_any(self) -> str:
        """Return the text of an empty list; empty if even that does not fit."""
        text = self._assemble((), False)
        return text if self.count(text) <= self.budget else ""

    def affordable(self, order: Sequence[int], *, in_turn: bool) -> dict[int, Portion]:
        """Return the portions that fit by the sum of their prices, in order of rank."""
        room = self.budget - self.cost({})
        affordable: dict[int, Portion] = {}
        headings = {""}
        for place in order:
            portion = self._portions[place]
            price = self.count(portion.text) + self._heading(portion, headings)
            if price <= room:
                affordable[place] = portion
                headings.add(portion.section)
                room -= price
            elif in_turn:
                break
        return affordable

    def take_beginning(self, places: Sequence[int]) -> None:
        """Add the beginning of the first of these portions that may be split and has room for a beginning."""
        left = self.budget - self.cost(self.chosen)
        headings = {"", *(portion.section for portion in self.chosen.values())}
        for place in places:
            portion = self._portions[place]
            if not portion.splits or not (least := _shortest_beginning(portion.text)):
                continue
            room = left - self._heading(portion, headings)
            if with_less_room(room, partial(self._with_beginning, place, least)) is not None:
                return

    def _with_beginning(self, place: int, least: str, room: int) -> Attempt[Portion] | None:
        """Add as much of a portion as this room holds; give up if that is less than `least`."""
        portion = self._portions[place]
        if self.count(least) >= room:
            return None
        kept = _without_partial_line(shortened(portion.text, room=room, price=self.count), portion.text)
        if len(kept) < len(least):
            return None
        short = _shortened(portion, kept) if len(kept) < len(portion.text.rstrip()) else portion
        self.take(self.chosen | {place: short})
        return Attempt(short, self.over)

    def alone(self, places: Sequence[int]) -> Iterator[tuple[int, Portion]]:
        """Yield each portion cut as short as possible, and whole, which may have a shorter footer."""
        for place in places:
            portion = self._portions[place]
            yield place, portion
            beginning = _shortest_beginning(portion.text) if portion.splits else ""
            if 0 < len(beginning) < len(portion.text.rstrip()):
                yield place, _shortened(portion, beginning)

    def _heading(self, portion: Portion, headings: Container[str]) -> int:
        """Return the price of a portion's heading; 0 if it is shown already."""
        return 0 if portion.section in headings else self.count(f"\n{portion.section}\n")

    def _assembled(self, chosen: Mapping[int, Portion]) -> str:
        shown = list(chosen.values())
        # Compared by identity: a portion that was cut is another object.
        whole = len(shown) == len(self._portions) and all(
            one is other for one, other in zip(shown, self._portions, strict=True)
        )
        return self._assemble(shown, whole)


def _shortened(portion: Portion, kept: str) -> Portion:
    return portion._replace(text=f"{kept}{ELLIPSIS}\n")


def _remainder(portion: Portion, short: Portion) -> Portion:
    """Return the rest of a portion from where it was cut, with its name as the heading."""
    kept = short.text.removesuffix(f"{ELLIPSIS}\n")
    left = portion.text[len(kept) :]
    heading = f"{portion.name}{CONTINUED}\n" if portion.name else ""
    in_text = kept.startswith(INDENT, kept.rfind("\n") + 1)
    return portion._replace(text=heading + (INDENT + left if in_text else left.removeprefix("\n")))


def _shortest_beginning(text: str) -> str:
    """Return the shortest part worth showing: the heading and the first line or character below it."""
    if text.startswith(INDENT):
        return first_character(text)
    heading, _, below = text.partition("\n")
    least = first_character(below) if below.startswith((INDENT, "\n")) else below.partition("\n")[0]
    return f"{heading}\n{least}" if least else ""


def _without_partial_line(kept: str, text: str) -> str:
    """Return a beginning without the last line if that starts at the margin and is incomplete."""
    start = kept.rfind("\n") + 1
    inside = text.startswith(INDENT, start) or text[len(kept) : len(kept) + 1] in ("", "\n")
    return kept if inside else kept[:start].rstrip()


def join_portions(portions: Sequence[Portion]) -> str:
    """Join portions, each heading above its first portion."""
    lines: list[str] = []
    section = ""
    for portion in portions:
        if portion.section != section:
            section = portion.section
            lines.append(f"\n{section}\n" if lines else f"{section}\n")
        lines.append(portion.text)
    return "".join(lines)
