"""Context packs: whole memories as one portable text within a budget, as markdown or JSON, and back."""

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from satchel.fitting.context import BlockFacts, ContextBlock, Frame, fitted_block, fitted_summary
from satchel.fitting.engine import self_counted
from satchel.fitting.formats import (
    BLOCK_OPENINGS,
    FENCE_OR_HTML,
    LAYOUTS,
    Heading,
    Layout,
    escape_line,
    one_line,
    unescape_line,
)
from satchel.fitting.listing import as_json, clean
from satchel.fitting.renditions import as_item
from satchel.model.memory import Hit, Memory, compact
from satchel.model.packing import Item, PackFormat, Pins, Placed, PolicyName, Receipt
from satchel.model.patterns import lazy_pattern
from satchel.model.result import FittedResult, Result
from satchel.text.tokens import Counter

__all__ = [
    "MOST",
    "PACK_VERSION",
    "ContextPack",
    "PackFacts",
    "PackResult",
    "PackedMemory",
    "pack_json",
    "pack_json_around",
    "pack_json_piece",
    "pack_markdown",
    "pack_markdown_around",
    "pack_markdown_piece",
    "parse_pack_markdown",
]


BETWEEN = "\n---\n\n"
MOST = 9_999_999

_FENCE = lazy_pattern(r"(`{3,}(?=[^`]*$)|~{3,})")
_FENCE_OR_HTML = lazy_pattern(rf"{BLOCK_OPENINGS}(?:{FENCE_OR_HTML})")
_WRAPPER = lazy_pattern(r"~{3,}")
_HEADING = lazy_pattern(r"## \[(\w+)\] (.*)")
_FACTS = lazy_pattern(r"\*(\d{4}-\d\d-\d\d) \| importance: ([\d.e-]+)(?: \| tags: (.*))?\*")
_IN_TAG = lazy_pattern(r"\\(?=[\\,]|$)|,")
_TAG = lazy_pattern(r"((?:[^,\\]|\\[\\,]|\\)++)(?:, |$)")


class PackedMemory(NamedTuple):
    """A memory as it reads in a pack."""

    kind: str
    title: str
    day: str
    importance: float
    tags: tuple[str, ...]
    text: str


def pack_markdown(
    memories: Sequence[Memory], *, project: str | None, count: Callable[[str], int]
) -> tuple[str, int]:
    """Return the whole pack, which states its own token count, and that count."""
    body = "".join(map(pack_markdown_piece, memories)).removesuffix(BETWEEN)
    return self_counted(lambda tokens: _pack_heading(len(memories), project, tokens) + body, count)


def pack_markdown_around(project: str | None) -> str:
    """Return what is around the memories of a pack, with numbers as long as any can be."""
    return _pack_heading(MOST, project, MOST)


def pack_markdown_piece(memory: Memory) -> str:
    """What a memory adds to the pack, with what stands between it and the next one."""
    facts = [memory.at.date().isoformat(), f"importance: {memory.importance}"]
    tags = [_IN_TAG.sub(r"\\\g<0>", tag) for each in memory.tags if (tag := one_line(each))]
    facts += [f"tags: {', '.join(tags)}"] if tags else []
    title = one_line(memory.headline()) or ""
    return f"## [{memory.kind}] {title}\n*{' | '.join(facts)}*\n\n{_contained(memory.text)}\n{BETWEEN}"


def parse_pack_markdown(text: str) -> list[PackedMemory]:
    """The memories of a pack, in order."""
    found: list[PackedMemory] = []
    lines = [*text.split("\n"), ""]
    starts = [place for place in _outside_fences(lines) if _HEADING.fullmatch(lines[place])]
    for start, end in pairwise([*starts, len(lines)]):
        heading, facts = _HEADING.fullmatch(lines[start]), _FACTS.fullmatch(lines[start + 1])
        if heading and facts:
            body = "\n".join(lines[start + 2 : end]).strip().removesuffix("\n---").strip()
            tags = tuple(re.sub(r"\\([\\,])", r"\1", tag) for tag in _TAG.findall(facts[3] or ""))
            found.append(PackedMemory(heading[1], heading[2], facts[1], float(facts[2]), tags, _released(body)))
    return found


def _pack_heading(memories: int, project: str | None, tokens: int) -> str:
    name = one_line(project)
    counted = "1 memory" if memories == 1 else f"{memories} memories"
    return f"# {f'Project Context: {name}' if name else 'Context'} ({counted}, ~{tokens} tokens)\n\n"


def _contained(text: str) -> str:
    """The text, so that nothing in it is a heading or a rule, or swallows what comes after it.

    Lines get a backslash where they need one, except in a block of code that starts and ends at the margin. Where
    there is HTML or any other fence, it is hard to say what markdown will make of the lines after it; then all of
    the text stands in a fence of its own.
    """
    lines = clean(text).strip().split("\n")
    outside = _outside_fences(lines)
    if lines[0].startswith("~~~") or any(_FENCE_OR_HTML.match(lines[place]) for place in outside):
        longest = max((len(run) for run in _WRAPPER.findall("\n".join(lines))), default=2)
        wrapper = "~" * (longest + 1)
        return "\n".join([wrapper, *lines, wrapper])
    for place in outside:
        lines[place] = escape_line(lines[place])
    return "\n".join(lines)


def _released(body: str) -> str:
    """The text that `_contained` made this of."""
    lines = body.split("\n")
    if _WRAPPER.fullmatch(lines[0]):
        return "\n".join(lines[1:-1])
    for place in _outside_fences(lines):
        lines[place] = unescape_line(lines[place])
    return "\n".join(lines)


def _outside_fences(lines: Sequence[str]) -> list[int]:
    """The places of all lines that are in no block of code at the margin; one that never ends is none."""
    outside: list[int] = []
    start, closing = 0, None
    for place, line in enumerate(lines):
        if closing:
            closing = None if closing.fullmatch(line) else closing
        elif fence := _FENCE.match(line):
            start, closing = place, re.compile(rf" {{0,3}}{fence[1]}{fence[1][0]}*[ \t]*")
        else:
            outside.append(place)
    return outside + list(range(start, len(lines))) if closing else outside


# The pack as JSON: one object, a memory on each line.


PACK_VERSION = 1

_ALWAYS = ("id", "text", "kind")
_WHERE_TELLING = (
    "title", "tags", "importance", "confidence", "pinned", "at", "speaker", "source", "ref", "topic_key",
    "metadata", "valid_from", "invalid_at", "project", "user", "agent", "session",
)  # fmt: skip


class PackFacts(NamedTuple):
    """What a pack says of itself."""

    project: str | None
    counter: str
    token_budget: int | None


def pack_json(memories: Sequence[Memory], facts: PackFacts, *, count: Callable[[str], int]) -> tuple[str, int]:
    """Return the whole pack, which states its own token count, and that count."""
    body = "".join(map(pack_json_piece, memories)).removesuffix(",\n")
    return self_counted(lambda tokens: _whole(facts, tokens, body), count)


def pack_json_around(facts: PackFacts) -> str:
    """Return what is around the memories of a pack, with a number as long as any can be."""
    return _whole(facts, MOST, "\n")


def _whole(facts: PackFacts, tokens: int, body: str) -> str:
    told = {"satchel": "context-pack", "version": PACK_VERSION, **facts._asdict(), "token_count": tokens}
    listed = f"\n{body}\n" if body else ""
    return f'{as_json(told)[:-1]},"memories":[{listed}]}}\n'


def pack_json_piece(memory: Memory) -> str:
    """What a memory adds to the pack: its line, without what only its keeper needs."""
    fields = {name: getattr(memory, name) for name in _ALWAYS}
    telling = compact(memory) | compact(memory.scope)
    fields |= {name: telling[name] for name in _WHERE_TELLING if name in telling}
    # Last, since after a known word an end without a comma is sure to cost no more than one with it.
    return as_json(fields | {"tier": memory.tier}) + ",\n"


# The pack within a budget.


class _Portable:
    """A form of the pack as a layout: no sections, no groups, the order of rank."""

    def __init__(
        self,
        name: str,
        piece: Callable[[Memory], str],
        whole: Callable[[Sequence[Memory]], str],
        around: str,
        memories: Mapping[str, Memory],
    ) -> None:
        self.name = name
        self.around = around
        self._piece = piece
        self._whole = whole
        self._memories = memories

    def section(self, item: Item) -> Heading:
        return Heading(None, "")

    group = section

    def lines(self, placed: Placed) -> str:
        return self._piece(self._memories[placed.item.id])

    def block(self, placed: Sequence[Placed]) -> str:
        return self._whole([self._memories[each.item.id] for each in placed]) if placed else ""


class PackResult(FittedResult, frozen=True, kw_only=True):
    """Whole memories as one text to carry elsewhere, and what went into it."""

    format: str
    project: str | None
    tier_breakdown: dict[str, int]
    """How many of each tier were included."""
    memories: tuple[Memory, ...]
    """What is in the text, best first."""
    receipt: Receipt | None = None
    """What became of every candidate, if it was asked for."""


class ContextPack(Result):
    """Whole memories as one text, best first.

    `text` has the chosen format. `to_markdown` and `to_json` give the others; each is within the budget by
    itself, so they may hold different memories. `to_dict` and `json` describe the pack: its text, its memories and
    its numbers.
    """

    def __init__(
        self,
        hits: Sequence[Hit],
        *,
        relevant: Sequence[bool],
        project: str | None,
        token_budget: int | None,
        counter: Counter,
        format: PackFormat = "markdown",
        policy: PolicyName = "best",
        pins: Pins = "strict",
        best_first: bool = False,
        frame: Frame | None = None,
        matched: bool = True,
    ) -> None:
        self._hits = list(hits)
        self._items = [as_item(hit, relevant=each) for hit, each in zip(hits, relevant, strict=True)]
        self._counter = counter
        self._policy: PolicyName = policy
        self._pins: Pins = pins
        self._best_first = best_first
        self._frame = frame
        self._matched = matched
        self.project = project
        self.token_budget = token_budget
        self.format = format
        # Where the pinned do not fit, that is said now.
        self._fitted = self._fit(format)

    @property
    def text(self) -> str:
        """The pack in its format."""
        return self._fitted.text

    @property
    def body(self) -> str:
        """The text without the frame around it; the same as `text` if there is no frame."""
        return self._fitted.body

    @property
    def facts(self) -> BlockFacts:
        """The numbers that a frame states."""
        return self._fitted.facts

    @property
    def token_count(self) -> int:
        """What `text` costs."""
        return self._fitted.token_count

    @property
    def memories(self) -> tuple[Memory, ...]:
        """What is in `text`, best first."""
        return tuple(hit.memory for hit in self._fitted.hits)

    @property
    def included(self) -> int:
        """How many memories are in `text`."""
        return self._fitted.included

    @property
    def omitted(self) -> int:
        """How many relevant memories did not fit into the budget."""
        return self._fitted.omitted

    @property
    def tokens_omitted(self) -> int:
        """What the texts of those would cost."""
        return self._fitted.tokens_omitted

    @property
    def irrelevant(self) -> int:
        """How many candidates were below `min_relevance`."""
        return self._fitted.irrelevant

    @property
    def complete(self) -> bool:
        """Whether everything relevant is included."""
        return self._fitted.complete

    @property
    def matched(self) -> bool:
        """False if nothing matched: then these are the newest and most important that pass the filters."""
        return self._fitted.matched

    @property
    def smallest_budget(self) -> int | None:
        """If nothing fitted though something was found: the smallest budget that holds a memory."""
        return self._fitted.smallest_budget

    @property
    def tier_breakdown(self) -> dict[str, int]:
        """How many of each tier were included."""
        return self._fitted.tier_breakdown

    @property
    def receipt(self) -> Receipt:
        """What became of every candidate; computed when first asked for."""
        return self._fitted.receipt

    def to_markdown(self) -> str:
        """Return the pack as markdown, within its budget."""
        return self._as("markdown")

    def to_json(self) -> str:
        """Return the pack as one JSON object that `import_` reads, within its budget."""
        return self._as("json")

    def result(self, *, receipt: bool = False) -> PackResult:
        """Return the pack as the value that `to_dict`, `json` and the HTTP service encode.

        With `receipt` it has the receipt too.
        """
        return PackResult(
            text=self.text,
            format=self.format,
            project=self.project,
            token_count=self.token_count,
            token_budget=self.token_budget,
            included=self.included,
            omitted=self.omitted,
            tokens_omitted=self.tokens_omitted,
            irrelevant=self.irrelevant,
            complete=self.complete,
            matched=self.matched,
            smallest_budget=self.smallest_budget,
            tier_breakdown=self.tier_breakdown,
            memories=self.memories,
            receipt=self.receipt if receipt else None,
        )

    def _plain(self) -> PackResult:
        return self.result()

    def _summary(self) -> str:
        counts = fitted_summary(self.included, self.omitted, self.token_count, self.token_budget)
        return f"{self.format}: {counts}"

    def _as(self, format: PackFormat) -> str:
        return self.text if format == self.format else self._fit(format).text

    def _fit(self, format: PackFormat) -> ContextBlock:
        return fitted_block(
            self._items,
            budget=self.token_budget,
            counter=self._counter,
            layout=self._layout(format),
            policy=self._policy,
            pins=self._pins,
            hits=self._hits,
            whole=True,
            best_first=self._best_first,
            frame=self._frame,
            matched=self._matched,
        )

    def _layout(self, format: PackFormat) -> Layout:
        memories = {hit.memory.id: hit.memory for hit in self._hits}
        count = self._counter.count
        if format == "markdown":
            return _Portable(
                format,
                pack_markdown_piece,
                lambda chosen: pack_markdown(chosen, project=self.project, count=count)[0],
                pack_markdown_around(self.project),
                memories,
            )
        if format == "json":
            facts = PackFacts(self.project, self._counter.name, self.token_budget)
            return _Portable(
                format,
                pack_json_piece,
                lambda chosen: pack_json(chosen, facts, count=count)[0],
                pack_json_around(facts),
                memories,
            )
        return LAYOUTS[format]
