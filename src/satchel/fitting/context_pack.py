"""Whole memories as one text to carry elsewhere, within a budget."""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, get_args

from satchel.fitting.choice import Policy
from satchel.fitting.context import ContextBlock, Frame, Wrap, fitted_block
from satchel.fitting.documents import as_item
from satchel.fitting.formats import LAYOUTS
from satchel.fitting.layout import Heading, Layout
from satchel.fitting.packing import Pins
from satchel.fitting.portable import pack_markdown, pack_markdown_around, pack_markdown_piece
from satchel.fitting.portable_json import PackFacts, pack_json, pack_json_around, pack_json_piece
from satchel.model.item import Item, Placed
from satchel.model.memory import Hit, Memory
from satchel.model.receipt import Receipt
from satchel.text.tokens.counter import Counter

__all__ = ["PACK_FORMATS", "ContextPack", "PackFormat"]

PackFormat = Literal["markdown", "json", "system_prompt", "raw"]
PACK_FORMATS: tuple[str, ...] = get_args(PackFormat)


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


class ContextPack:
    """Whole memories as one text, best first. Each form of it is within the budget by itself."""

    def __init__(
        self,
        hits: Sequence[Hit],
        *,
        relevant: Sequence[bool],
        project: str | None,
        token_budget: int | None,
        counter: Counter,
        format: PackFormat = "markdown",
        policy: Policy = "best",
        pins: Pins = "strict",
        best_first: bool = False,
        frame: Frame | Wrap | None = None,
    ) -> None:
        self._hits = list(hits)
        self._items = [as_item(hit, relevant=each) for hit, each in zip(hits, relevant, strict=True)]
        self._counter = counter
        self._policy: Policy = policy
        self._pins: Pins = pins
        self._best_first = best_first
        self._frame = frame
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
    def token_count(self) -> int:
        return self._fitted.token_count

    @property
    def memories(self) -> tuple[Memory, ...]:
        """What is in `text`, best first."""
        return tuple(hit.memory for hit in self._fitted.hits)

    @property
    def omitted(self) -> int:
        """How many candidates are not in it, whatever the reason: the receipt names it."""
        return self._fitted.facts_omitted

    @property
    def tokens_omitted(self) -> int:
        """What the texts of those would cost."""
        return self._fitted.tokens_omitted

    @property
    def wanted(self) -> int:
        """How many there would be if there were room for all that is worth its tokens."""
        return self._fitted.facts_wanted

    @property
    def smallest_budget(self) -> int | None:
        """Where nothing fitted though something was found: the least budget that holds a memory."""
        return self._fitted.smallest_budget

    @property
    def irrelevant(self) -> int:
        """How many candidates were left out because they are not relevant enough."""
        return self._fitted.irrelevant

    @property
    def receipt(self) -> Receipt:
        return self._fitted.receipt

    def to_markdown(self) -> str:
        return self._as("markdown")

    def to_json(self) -> str:
        """One JSON object that `import_` reads."""
        return self._as("json")

    def __repr__(self) -> str:
        return f"<ContextPack: {self.token_count} tokens, {len(self.memories)} memories, {self.omitted} omitted>"

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
