"""The levels of detail of an item: its title, its beginning or the passages that matched, the whole text."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from satchel.fitting.listing import Detail, body, matched_start
from satchel.model.memory import Hit
from satchel.model.packing import Item, Level, Span
from satchel.text.passages import continues, sentences, telling_start

__all__ = ["ELLIPSIS", "Rendition", "as_item", "first_word", "renditions", "tail"]

ELLIPSIS = "…"

# A title says that there is something, and hardly what.
TITLE_SHARE = 0.05
# A part is worth its share of the text; but of a whole book a question needs no more than of a few pages.
LONG = 4_000
MOST_OF_IT = 0.95

# From this length on a part is offered beside the whole.
SHORT = 400
SUMMARY = 300
# How many passages a longer excerpt has at most.
SEVERAL = 4

_WORD = re.compile(r"\s*\S{1,24}")
_BLANK = re.compile(r"\s*")


class Rendition(NamedTuple):
    """One level of detail: spans of the text, and the share of the item's value that they have."""

    level: Level
    spans: tuple[Span, ...]
    share: float

    def text(self, item: Item) -> str:
        """The spans in the order of the text, with an ellipsis wherever something is left out."""
        return item.text.strip() if self.level == "full" else _joined(item.text, self.spans)

    @property
    def characters(self) -> int:
        return sum(end - start for start, end in self.spans)


def as_item(
    hit: Hit,
    *,
    detail: Detail = "full",
    sought: tuple[str, ...] = (),
    superseded: bool = True,
    relevant: bool = True,
    needed: tuple[tuple[int, int], ...] = (),
    short_id: str | None = None,
) -> Item:
    """A hit as a candidate for packing, with no more of its text than the detail asks for.

    Without `superseded` what came after it does not count against it. With a `short_id`, the block shows that id
    and the kind of the memory.
    """
    memory, scope = hit.memory, hit.memory.scope
    item = Item(
        id=memory.id,
        text=memory.text,
        short_id=short_id,
        title=memory.title,
        speaker=memory.speaker,
        kind=memory.kind,
        tier=memory.tier,
        confidence=memory.confidence,
        at=memory.at,
        thread=(scope.project, scope.user, scope.agent, scope.session) if scope.session else None,
        value=hit.score,
        relevant=relevant,
        pinned=memory.pinned,
        tokens=memory.tokens,
        passages=hit.passages,
        needed=needed,
        sought=sought,
        superseded_by=memory.superseded_by if superseded else None,
        overtaken_by=hit.overtaken_by,
    )
    if detail == "full":
        return item
    text = memory.headline() if detail == "summary" else body(memory.text, detail, matched_start(hit, sought))
    title = None if detail == "summary" else memory.title
    return (
        item if text == memory.text else replace(item, text=text, title=title, tokens=None, passages=(), needed=())
    )


def renditions(item: Item, *, sentence: bool = False, of_long: bool = False) -> tuple[Rendition, ...]:
    """Return the levels of detail of an item, the least first, the whole text last.

    With `sentence`, a short item also offers one sentence; with `of_long`, a long one does too.
    """
    length = len(item.text)
    found = [Rendition("title", (), TITLE_SHARE)] if item.title else []
    if sentence and (of_long or length <= SHORT):
        found += _sentence(item)
    if length > SHORT:
        if item.passages:
            several = min(SEVERAL, (len(item.passages) + 1) // 2)
            if item.needed:
                several = min(several, len(item.needed) - 1)
            numbers = dict.fromkeys(number for number in (1, several) if number)
            found += [_part("excerpt", item.passages[:number], length) for number in numbers]
        else:
            found.append(_part("summary", (_beginning(item.text),), length))
    if item.needed:
        # One passage that is all that is needed is no excerpt beside itself.
        short = [each for each in found if each.spans != item.needed]
        return (*short, Rendition("passages", item.needed, 1.0))
    return (*found, Rendition("full", ((0, length),), 1.0))


def tail(item: Item) -> tuple[str, str]:
    """Return the text from its best match on, preceded by the ellipsis for what is left out before, if anything."""
    start = telling_start(item.text, item.passages[0], item.sought) if item.passages else 0
    return ELLIPSIS + " " if item.text[:start].strip() else "", item.text[start:].strip()


def first_word(text: str) -> str:
    """Return the first word, the least of a text that is worth showing."""
    word = _WORD.match(text)
    end = word.end() if word else 0
    while end < len(text) and continues(text, end):
        end += 1
    return text[:end]


def _part(level: Level, spans: Sequence[Span], length: int) -> Rendition:
    part = sum(end - start for start, end in spans)
    return Rendition(level, tuple(spans), min(MOST_OF_IT, part / min(length, LONG)))


def _sentence(item: Item) -> list[Rendition]:
    """The sentence of the best passage that has most of what was sought, or the first, where there are others."""
    first, end = item.passages[0] if item.passages else (0, len(item.text))
    spans = [(first + start, first + stop) for start, stop in sentences(item.text[first:end])]
    if len(spans) < 2:
        return []
    start = telling_start(item.text, (first, end), item.sought)
    chosen = next((span for span in spans if span[0] == start), spans[0])
    return [_part("excerpt", [chosen], len(item.text))]


def _beginning(text: str) -> Span:
    """The first sentences, as many as fit into some 300 characters, but one at least."""
    start = end = 0
    # Of a book not more than its first page is looked at.
    for number, span in enumerate(sentences(text[: 4 * SUMMARY])):
        if number and span[1] - start > SUMMARY:
            break
        start, end = (start if number else span[0]), span[1]
    return start, end


def _joined(text: str, spans: Sequence[Span]) -> str:
    runs: list[list[int]] = []
    for start, end in sorted(spans):
        if runs and _blank_between(text, runs[-1][1], start):
            runs[-1][1] = max(runs[-1][1], end)
        else:
            runs.append([start, end])
    if not runs:
        return ""
    parts = [text[start:end].strip() for start, end in runs]
    before = "" if _blank_between(text, 0, runs[0][0]) else ELLIPSIS + " "
    after = "" if _blank_between(text, runs[-1][1], len(text)) else " " + ELLIPSIS
    return before + f" {ELLIPSIS}\n".join(parts) + after


def _blank_between(text: str, start: int, end: int) -> bool:
    blank = _BLANK.match(text, start, end) if start < end else None
    return start >= end or (blank is not None and blank.end() == end)
