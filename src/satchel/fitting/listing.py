"""Lists of memories as plain text or JSON, whole or within a budget.

Stored text is indented and cleaned, so that it can neither look like another entry nor send commands to a terminal.
`fit_portions` shows as much of a list as fits, and keeps the rest for later.
"""

import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple, get_args

import msgspec

from satchel.fitting.cutting import ELLIPSIS, first_character, shortened
from satchel.fitting.engine import Assembly, Attempt, Count, with_less_room
from satchel.model.memory import Hit, Memory, compact
from satchel.text.passages import telling_start

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
]


def as_json(value: object) -> str:
    """Encode as compact JSON; only control characters are escaped."""
    return msgspec.json.encode(value).decode()


def json_inside(text: str) -> str:
    """Return what is between the quotation marks of a JSON string; parts of a text can be joined in it."""
    return as_json(text)[1:-1]


# Entries as text and as JSON.


Detail = Literal["summary", "standard", "full"]
DETAILS: tuple[str, ...] = get_args(Detail)

SNIPPET = 300
INDENT = "    "

_LISTED = (
    "title", "scope", "status", "superseded_by", "valid_from", "invalid_at", "tags", "speaker",
    "importance", "confidence", "at",
)  # fmt: skip
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")


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
    """A heading line, and below it as much of the text as the detail asks for; a snippet is of what matched.

    `overtaken_by` is the short id of a newer memory that tells this one anew, `alike` the number of memories that
    say the same and are not listed, `relevance` how sure a hit is.
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
    sure = [] if relevance is None else [f"{100 * relevance:.0f}%"]
    heading = [short_id, *sure, f"[{memory.kind}]", *([title] if title else []), f"({', '.join(facts)})"]
    lines = [clean(" ".join(heading)).replace("\n", " ")]
    if detail != "summary":
        lines.append(indented(body(memory.text, detail, matched)))
    return "\n".join(lines) + "\n"


def indented(text: str) -> str:
    """Stored text, cleaned, away from the margin, where only our own lines begin."""
    return "\n".join(f"{INDENT}{line}".rstrip() for line in clean(text).split("\n"))


def join_entries(entries: Sequence[str]) -> str:
    return "\n".join(entries)


def entry_json(memory: Memory, *, detail: Detail, matched: int = 0) -> str:
    """One memory as a JSON object on a line of its own, without fields that are unset or only of use to the store.

    If the detail asks for less than the whole text, `shortened` is true.
    """
    fields = compact(memory)
    chosen: dict[str, Any] = {"id": memory.id, "kind": memory.kind, "tier": memory.tier}
    if detail == "summary":
        return as_json(chosen | {"title": memory.headline(), "tokens": memory.tokens, "shortened": True})
    chosen |= {name: fields[name] for name in _LISTED if name in fields}
    text = body(memory.text, detail, matched)
    chosen |= {"text": text} if text == memory.text else {"text": text, "shortened": True}
    return as_json(chosen)


def join_json(key: str, objects: Sequence[str], **facts: object) -> str:
    tail = "".join(f",{as_json(name)}:{as_json(value)}" for name, value in facts.items())
    return f"{{{as_json(key)}:[" + ",\n".join(objects) + f"]{tail}}}\n"


def body(text: str, detail: Detail, matched: int = 0) -> str:
    """The text whole, or cut at a word after at most 300 characters, from where it matched."""
    if detail == "full" or len(text) <= SNIPPET:
        return text
    # What matched at the very end comes with what stands before it.
    start = min(matched, len(text) - SNIPPET)
    if start > 0 and (word := re.compile(r"(?<=\s)\S").search(text, start)):
        start = word.start()
    snippet = text[start : start + SNIPPET]
    if start + SNIPPET < len(text):
        words = re.match(r"(?s).*\S(?=\s)", snippet)
        snippet = (words.group() if words and len(words.group()) > SNIPPET // 2 else snippet).rstrip() + "…"
    return ("…" if text[:start].strip() else "") + snippet.rstrip()


def matched_start(hit: Hit, sought: Sequence[str]) -> int:
    """Where a snippet of a hit begins: with the sentence that has most of what was sought."""
    text = hit.memory.text
    # A text of one passage has none that matched better than others; a short one is shown whole.
    return telling_start(text, hit.passage or (0, len(text)), sought) if len(text) > SNIPPET else 0


def clean(text: str) -> str:
    """Without control characters; line ends as plain newlines."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n").replace("\r", "\n"))


# A list within a budget: what fits, and what is left for later.


CONTINUED = " (continued)"


class Portion(NamedTuple):
    """One entry of a list: whole lines, such as a memory."""

    text: str
    section: str = ""
    """The heading above it; shown only with at least one of its portions."""
    rank: int = 0
    """Portions of lower rank are taken first; of equal ones, the earlier."""
    splits: bool = False
    """Whether its beginning may be shown if there is no room for the whole."""
    name: str = ""
    """Its name, such as an id; a portion that is continued later has it as its heading."""


Assemble = Callable[[Sequence[Portion], bool], str]
"""Returns the final text of some portions, given whether they are all, uncut."""


class FittedPortions(NamedTuple):
    """The final text, the portions in it, and the portions (or remainders) that are not."""

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

    With `in_turn` it stops at the first that does not fit instead of skipping it. If room is left, one portion that
    may be split is cut: within its indented text or between lines, never within a line at the margin.
    """
    if budget is None:
        return FittedPortions(assemble(portions, True), tuple(portions), ())
    answer = _Answer(portions, budget, count, assemble)
    if answer.take(dict(enumerate(portions))):
        return answer.done()
    order = sorted(range(len(portions)), key=lambda place: portions[place].rank)
    answer.take_most(answer.affordable(order, in_turn=in_turn))
    left = [place for place in order if place not in answer.chosen]
    next_ones = left[:1] if in_turn else left
    answer.take_beginning(next_ones)
    if not answer.chosen and next_ones:
        smallest = answer.take_least(answer.alone(next_ones))
        if smallest is not None:
            return FittedPortions(answer.without_any(), (), tuple(portions), smallest)
    return answer.done() if answer.chosen else FittedPortions(answer.without_any(), (), ())


class _Answer(Assembly[Portion]):
    """The text of the portions that are shown."""

    def __init__(self, portions: Sequence[Portion], budget: int, count: Count, assemble: Assemble) -> None:
        super().__init__(self._assembled, budget=budget, count=count)
        self._portions = portions
        self._assemble = assemble

    def done(self) -> FittedPortions:
        rest = tuple(
            _remainder(portion, self.chosen[place]) if place in self.chosen else portion
            for place, portion in enumerate(self._portions)
            if self.chosen.get(place) is not portion
        )
        return FittedPortions(self.text, tuple(self.chosen.values()), rest)

    def without_any(self) -> str:
        text = self._assemble((), False)
        return text if self.count(text) <= self.budget else ""

    def affordable(self, order: Sequence[int], *, in_turn: bool) -> dict[int, Portion]:
        """Return the portions that fit by the sum of their prices, in order of rank."""
        room = self.budget - self.cost({})
        affordable: dict[int, Portion] = {}
        headed = {""}
        for place in order:
            portion = self._portions[place]
            price = self.count(portion.text) + self._heading(portion, headed)
            if price <= room:
                affordable[place] = portion
                headed.add(portion.section)
                room -= price
            elif in_turn:
                break
        return affordable

    def take_beginning(self, places: Sequence[int]) -> None:
        """Add the beginning of the first of these portions that may be split and has room for a beginning."""
        left = self.budget - self.cost(self.chosen)
        headed = {"", *(portion.section for portion in self.chosen.values())}
        for place in places:
            portion = self._portions[place]
            if not portion.splits or not (least := _least_of(portion.text)):
                continue
            room = left - self._heading(portion, headed)
            if with_less_room(room, partial(self._with_beginning, place, least)) is not None:
                return

    def _with_beginning(self, place: int, least: str, room: int) -> Attempt[Portion] | None:
        """Add as much of a portion as this room holds; give up if that is less than the least worth showing."""
        portion = self._portions[place]
        if self.count(least) >= room:
            return None
        kept = _at_a_seam(shortened(portion.text, room=room, price=self.count), portion.text)
        if len(kept) < len(least):
            return None
        short = _shortened(portion, kept) if len(kept) < len(portion.text.rstrip()) else portion
        self.take(self.chosen | {place: short})
        return Attempt(short, self.over)

    def alone(self, places: Sequence[int]) -> Iterator[tuple[int, Portion]]:
        """Yield each portion whole, which may need a shorter footer, and cut as short as possible."""
        for place in places:
            portion = self._portions[place]
            yield place, portion
            beginning = _least_of(portion.text) if portion.splits else ""
            if 0 < len(beginning) < len(portion.text.rstrip()):
                yield place, _shortened(portion, beginning)

    def _heading(self, portion: Portion, headed: Container[str]) -> int:
        """The price of a portion's heading, 0 if it is there already."""
        return 0 if portion.section in headed else self.count(f"\n{portion.section}\n")

    def _assembled(self, chosen: Mapping[int, Portion]) -> str:
        shown = list(chosen.values())
        # By identity: what was cut is another portion.
        whole = len(shown) == len(self._portions) and all(
            one is other for one, other in zip(shown, self._portions, strict=True)
        )
        return self._assemble(shown, whole)


def _shortened(portion: Portion, kept: str) -> Portion:
    return portion._replace(text=f"{kept}{ELLIPSIS}\n")


def _remainder(portion: Portion, short: Portion) -> Portion:
    """The rest of a portion from the character at which it was cut, under its name."""
    kept = short.text.removesuffix(f"{ELLIPSIS}\n")
    left = portion.text[len(kept) :]
    heading = f"{portion.name}{CONTINUED}\n" if portion.name else ""
    in_text = kept.startswith(INDENT, kept.rfind("\n") + 1)
    return portion._replace(text=heading + (INDENT + left if in_text else left.removeprefix("\n")))


def _least_of(text: str) -> str:
    """The least worth showing: the heading, and the first line or character below it."""
    if text.startswith(INDENT):
        return first_character(text)
    heading, _, below = text.partition("\n")
    least = first_character(below) if below.startswith((INDENT, "\n")) else below.partition("\n")[0]
    return f"{heading}\n{least}" if least else ""


def _at_a_seam(kept: str, text: str) -> str:
    """The beginning without an incomplete line at the margin."""
    start = kept.rfind("\n") + 1
    inside = text.startswith(INDENT, start) or text[len(kept) : len(kept) + 1] in ("", "\n")
    return kept if inside else kept[:start].rstrip()


def join_portions(portions: Sequence[Portion]) -> str:
    """Join portions under their headings."""
    lines: list[str] = []
    section = ""
    for portion in portions:
        if portion.section != section:
            section = portion.section
            lines.append(f"\n{section}\n" if lines else f"{section}\n")
        lines.append(portion.text)
    return "".join(lines)
