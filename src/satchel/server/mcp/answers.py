"""Answers of tools: cut to their token budget, footers included, with the remainder kept for a cursor."""

from collections import OrderedDict
from collections.abc import Sequence
from hashlib import blake2b
from threading import Lock
from typing import Any, NamedTuple

import msgspec

from satchel.errors import InputError
from satchel.fitting.engine import Count, budget_that_holds, self_counted
from satchel.fitting.listing import FittedPortions, Portion, as_json, fit_portions, join_portions

__all__ = [
    "RELEVANT",
    "Allowance",
    "Answer",
    "Footer",
    "PageCache",
    "Remainder",
    "answer_of",
    "cursor_for",
    "fitted",
    "nothing_fitted",
    "said",
    "with_footer",
]


# What is counted where a question was asked.
RELEVANT = "relevant memories"


class Footer(msgspec.Struct, frozen=True, kw_only=True):
    """The facts that the footer of an answer states."""

    budget: int
    shown: int
    total: int
    whole: bool
    """True if nothing was left out because of the budget."""
    noun: str = "memories"
    cursor: str | None = None
    """The cursor of the next page; None if there is none."""
    asked: bool = False
    """True if the caller set the budget; False if it is the limit of the server."""


def with_footer(body: str, footer: Footer, count: Count) -> tuple[str, int]:
    """Return the text with its footer, and its token count, which the footer states."""
    above = f"{body}\n" if body else ""

    def make(tokens: int) -> str:
        return above + "\n".join([*_budget_lines(footer, tokens), f"📏 {_cost(footer, tokens)}"])

    return self_counted(make, count)


def _cost(footer: Footer, tokens: int) -> str:
    """Return the cost line; if nothing relevant was left out, it also says how many memories there are."""
    if footer.noun != RELEVANT or not footer.whole or not footer.shown:
        return f"~{tokens:,} tokens"
    noun = RELEVANT if footer.shown != 1 else "relevant memory"
    budget = f" of {footer.budget:,}" if footer.asked else ""
    return f"{footer.shown:,} {noun}, ~{tokens:,}{budget} tokens"


def _budget_lines(footer: Footer, tokens: int) -> list[str]:
    if footer.whole:
        return []
    lines = [
        f"⚡ Budget: ~{tokens:,}/{footer.budget:,} tokens used. "
        f"{footer.shown:,} of {footer.total:,} {footer.noun} shown. "
        "Increase max_tokens or use detail_level=summary for more."
    ]
    if footer.cursor is not None:
        lines.insert(0, f"➡ The rest: cursor={footer.cursor}")
    return lines


# Answers within their budget: the final text is counted, footers included.


class Allowance(NamedTuple):
    """The token budget of an answer, and whether the caller set it."""

    tokens: int
    given: bool


class Answer(NamedTuple):
    """The answer of a tool: text for a model, and the same as data for a program."""

    text: str
    data: dict[str, Any]
    most: int | None = None
    """The budget of the text and of the data; None for the short answer to a write."""

    def structured(self, count: Count) -> dict[str, Any] | None:
        """Return the data, or None if they need more tokens than the budget allows."""
        return self.data if self.most is None or count(as_json(self.data)) <= self.most else None


class Page(NamedTuple):
    """One page of an answer, and the portions that did not fit."""

    answer: Answer
    rest: tuple[Portion, ...]


def fitted(
    portions: Sequence[Portion],
    allowance: Allowance,
    count: Count,
    *,
    total: int,
    noun: str = "memories",
    cursor: str | None = None,
    in_turn: bool = False,
) -> Page:
    """Return as many of the portions as fit the budget, as one page."""

    def made_for(budget: int) -> FittedPortions:
        def assemble(shown: Sequence[Portion], whole: bool) -> str:
            footer = Footer(
                budget=budget,
                shown=len(shown),
                total=total,
                whole=whole,
                noun=noun,
                cursor=cursor,
                asked=allowance.given,
            )
            return with_footer(join_portions(shown), footer, count)[0]

        return fit_portions(portions, budget=budget, count=count, assemble=assemble, in_turn=in_turn)

    made = made_for(allowance.tokens)
    if (needed := made.smallest_budget) is not None:
        # The footer that names a larger budget may be longer itself.
        needed = budget_that_holds(lambda budget: made_for(budget).smallest_budget or 0, needed)
        return Page(nothing_fitted(needed, total, allowance, count, noun=noun), made.rest)
    used = cursor if made.rest else None
    answer = answer_of(made.text, count(made.text), allowance, shown=len(made.shown), total=total, cursor=used)
    return Page(answer, made.rest)


def answer_of(
    text: str,
    tokens: int,
    allowance: Allowance,
    *,
    shown: int,
    total: int,
    cursor: str | None = None,
) -> Answer:
    # The text once more: many clients show a model the data alone where there are any.
    data: dict[str, Any] = {"text": text, "token_count": tokens, "included": shown, "omitted": total - shown}
    return Answer(text, data | {"cursor": cursor} if cursor else data, allowance.tokens)


def said(text: str, allowance: Allowance, count: Count) -> Answer:
    """Return a remark in place of memories, such as "Nothing matched.", or only its footer if it does not fit."""
    whole = Footer(budget=allowance.tokens, shown=0, total=0, whole=True)
    return _first_that_fits([with_footer(text, whole, count), with_footer("", whole, count)], allowance, total=0)


def nothing_fitted(
    smallest: int, total: int, allowance: Allowance, count: Count, *, noun: str = "memories"
) -> Answer:
    """Return the answer for a budget that is too small for anything; it names the smallest budget that would do."""
    cut = Footer(budget=allowance.tokens, shown=0, total=total, whole=False, noun=noun)
    whole = Footer(budget=allowance.tokens, shown=0, total=total, whole=True, noun=noun)
    needs = f"Nothing fitted (needs at least {smallest:,} tokens).\n"
    texts = [with_footer(needs, cut, count), with_footer(needs, whole, count), with_footer("", whole, count)]
    answer = _first_that_fits(texts, allowance, total=total)
    return answer._replace(data=answer.data | {"smallest_budget": smallest})


def _first_that_fits(texts: Sequence[tuple[str, int]], allowance: Allowance, *, total: int) -> Answer:
    text, tokens = next((each for each in texts if each[1] <= allowance.tokens), ("", 0))
    return answer_of(text, tokens, allowance, shown=0, total=total)


# What of an answer did not fit, kept for whoever comes back with its cursor.


MOST_REMAINDERS = 64
MOST_CHARACTERS = 64_000_000


class Remainder(msgspec.Struct, frozen=True):
    """The portions of a long answer that were not shown yet, and the tool they belong to."""

    tool: str
    portions: tuple[Portion, ...]
    total: int
    noun: str

    @property
    def size(self) -> int:
        return sum(len(portion.text) for portion in self.portions)


def cursor_for(tool: str, portions: Sequence[Portion], budget: int) -> str:
    """Return the cursor of what is left of an answer. The same answer and budget give the same cursor."""
    digest = blake2b(f"{tool} {budget}".encode(), digest_size=5)
    for portion in portions:
        digest.update(portion.text.encode("utf-8", "replace"))
    return digest.hexdigest()


class PageCache:
    """Least-recently-used cache of remainders by cursor, limited by number and size. Thread-safe."""

    def __init__(self) -> None:
        self._remainders: OrderedDict[str, Remainder] = OrderedDict()
        self._size = 0
        self._lock = Lock()

    def put(self, cursor: str, rest: Remainder) -> None:
        with self._lock:
            self._drop(cursor)
            self._remainders[cursor] = rest
            self._size += rest.size
            while len(self._remainders) > 1 and (
                len(self._remainders) > MOST_REMAINDERS or self._size > MOST_CHARACTERS
            ):
                self._drop(next(iter(self._remainders)))

    def get(self, cursor: str, tool: str) -> Remainder:
        """Return the remainder of a cursor. It stays in the cache, since a client may ask twice."""
        with self._lock:
            rest = self._remainders.get(cursor)
            if rest is None or rest.tool != tool:
                raise InputError(
                    f"the cursor {cursor[:20]!r} is not known to {tool} any more; ask again without it"
                )
            self._remainders.move_to_end(cursor)
            return rest

    def _is_full(self) -> bool:
        return len(self._remainders) > MOST_REMAINDERS or self._size > MOST_CHARACTERS

    def _drop(self, cursor: str) -> None:
        if (rest := self._remainders.pop(cursor, None)) is not None:
            self._size -= rest.size
