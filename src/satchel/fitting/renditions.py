"""The levels of detail of an item: its title, its first sentences or the passages that matched, the whole text."""

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from satchel.fitting.listing import Detail, body, matched_start
from satchel.model.memory import Hit
from satchel.model.packing import Item, Level, Span
from satchel.model.patterns import lazy_pattern
from satchel.text.passages import best_sentence_start, continues, sentences

__all__ = ["ELLIPSIS", "Rendition", "as_item", "first_word", "renditions", "tail"]

ELLIPSIS = "…"

# The share of its value that an item has if only its title is shown.
TITLE_SHARE = 0.05
# The value of a part is its share of the text, but of at most so many characters: even of a book, a question needs
# only a few pages. It is at most LARGEST_PART of the whole.
LONG_TEXT = 4_000
LARGEST_PART = 0.95

# Longer texts offer parts beside the whole.
SHORT_TEXT = 400
SUMMARY_LENGTH = 300
# The most passages of an excerpt.
MOST_PASSAGES = 4

_WORD = lazy_pattern(r"\s*\S{1,24}")
_BLANK = lazy_pattern(r"\s*")


class Rendition(NamedTuple):
    """One level of detail: spans of the text, and their share of the item's value."""

    level: Level
    spans: tuple[Span, ...]
    share: float

    def text(self, item: Item) -> str:
        """Return the spans in the order of the text, with an ellipsis wherever text is left out."""
        return item.text.strip() if self.level == "full" else _joined(item.text, self.spans)

    @property
    def characters(self) -> int:
        """The length of all spans."""
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
    """Convert a hit to a candidate for packing, with as much of its text as `detail` allows.

    With `superseded=False`, a newer version of the memory does not exclude it. `needed` are the passages that are
    enough for the question. With a `short_id`, the block shows that id and the kind of the memory.
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
    """Return the levels of detail of an item, lowest first; the last is the whole text or all that is needed.

    With `sentence`, a short text also offers one sentence; with `of_long`, a long text does too.
    """
    length = len(item.text)
    found = [Rendition("title", (), TITLE_SHARE)] if item.title else []
    if sentence and (of_long or length <= SHORT_TEXT):
        found += _sentence(item)
    if length > SHORT_TEXT:
        if item.passages:
            several = min(MOST_PASSAGES, (len(item.passages) + 1) // 2)
            if item.needed:
                several = min(several, len(item.needed) - 1)
            numbers = dict.fromkeys(number for number in (1, several) if number)
            found += [_part("excerpt", item.passages[:number], length) for number in numbers]
        else:
            found.append(_part("summary", (_beginning(item.text),), length))
    if item.needed:
        # An excerpt that equals what is needed is not offered twice.
        short = [each for each in found if each.spans != item.needed]
        return (*short, Rendition("passages", item.needed, 1.0))
    return (*found, Rendition("full", ((0, length),), 1.0))


def tail(item: Item) -> tuple[str, str]:
    """Return the text from its best match on, and an ellipsis to put before it if text before it is left out.

    The ellipsis comes first in the pair; it is empty if the match is at the beginning.
    """
    start = best_sentence_start(item.text, item.passages[0], item.sought) if item.passages else 0
    return ELLIPSIS + " " if item.text[:start].strip() else "", item.text[start:].strip()


def first_word(text: str) -> str:
    """Return the first word of a text: the least that is worth showing."""
    word = _WORD.match(text)
    end = word.end() if word else 0
    while end < len(text) and continues(text, end):
        end += 1
    return text[:end]


def _part(level: Level, spans: Sequence[Span], length: int) -> Rendition:
    part = sum(end - start for start, end in spans)
    return Rendition(level, tuple(spans), min(LARGEST_PART, part / min(length, LONG_TEXT)))


def _sentence(item: Item) -> list[Rendition]:
    """Return the sentence of the best passage with the most words of the query, if the passage has several."""
    first, end = item.passages[0] if item.passages else (0, len(item.text))
    spans = [(first + start, first + stop) for start, stop in sentences(item.text[first:end])]
    if len(spans) < 2:
        return []
    start = best_sentence_start(item.text, (first, end), item.sought)
    chosen = next((span for span in spans if span[0] == start), spans[0])
    return [_part("excerpt", [chosen], len(item.text))]


def _beginning(text: str) -> Span:
    """Return the span of the first sentences: as many as fit into `SUMMARY_LENGTH`, but at least one."""
    start = end = 0
    # Only the first page of a long text is split into sentences.
    for number, span in enumerate(sentences(text[: 4 * SUMMARY_LENGTH])):
        if number and span[1] - start > SUMMARY_LENGTH:
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
