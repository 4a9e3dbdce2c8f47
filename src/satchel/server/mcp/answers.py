"""Answers within their budget, footers included, and what is left of them for a cursor."""

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
    "Rest",
    "answer_of",
    "cursor_for",
    "fitted",
    "footed",
    "nothing_fitted",
    "said",
]


# What is counted where a question was asked.
RELEVANT = "relevant memories"


class Footer(msgspec.Struct, frozen=True, kw_only=True):
    """What is true of an answer beside its text."""

    budget: int
    shown: int
    total: int
    whole: bool
    """Whether nothing was left out for lack of room."""
    noun: str = "memories"
    cursor: str | None = None
    """What gives the rest."""
    asked: bool = False
    """Whether the budget is the caller's own, and not the server's limit."""


def footed(body: str, footer: Footer, count: Count) -> tuple[str, int]:
    """The text with its footers, and its number of tokens, which is the one they state."""
    above = f"{body}\n" if body else ""

    def make(tokens: int) -> str:
        return above + "\n".join([*_cut_lines(footer, tokens), f"📏 {_cost(footer, tokens)}"])

    return self_counted(make, count)


def _cost(footer: Footer, tokens: int) -> str:
    """The tokens; where all that is relevant is there, also how much that is."""
    if footer.noun != RELEVANT or not footer.whole or not footer.shown:
        return f"~{tokens:,} tokens"
    noun = RELEVANT if footer.shown != 1 else "relevant memory"
    budget = f" of {footer.budget:,}" if footer.asked else ""
    return f"{footer.shown:,} {noun}, ~{tokens:,}{budget} tokens"


def _cut_lines(footer: Footer, tokens: int) -> list[str]:
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
    """How many tokens an answer may have, and whether the caller said so."""

    tokens: int
    given: bool


class Answer(NamedTuple):
    """What a tool says to a model, and what it says to a program."""

    text: str
    data: dict[str, Any]
    most: int | None = None
    """How many tokens either of them may have; None for the short answer to a write."""

    def structured(self, count: Count) -> dict[str, Any] | None:
        """The data, unless they need more tokens than the answer may have."""
        return self.data if self.most is None or count(as_json(self.data)) <= self.most else None


class Page(NamedTuple):
    """An answer, and what is left for the next one."""

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
    """As many of the portions as the allowance has room for."""

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
            return footed(join_portions(shown), footer, count)[0]

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
    """A remark in place of memories, such as that nothing matched; as much of it as there is room for."""
    whole = Footer(budget=allowance.tokens, shown=0, total=0, whole=True)
    return _first_that_fits([footed(text, whole, count), footed("", whole, count)], allowance, total=0)


def nothing_fitted(
    smallest: int, total: int, allowance: Allowance, count: Count, *, noun: str = "memories"
) -> Answer:
    """That there is something, but no room for it, and how much room it needs."""
    cut = Footer(budget=allowance.tokens, shown=0, total=total, whole=False, noun=noun)
    whole = Footer(budget=allowance.tokens, shown=0, total=total, whole=True, noun=noun)
    needs = f"Nothing fitted (needs at least {smallest:,} tokens).\n"
    texts = [footed(needs, cut, count), footed(needs, whole, count), footed("", whole, count)]
    answer = _first_that_fits(texts, allowance, total=total)
    return answer._replace(data=answer.data | {"smallest_budget": smallest})


def _first_that_fits(texts: Sequence[tuple[str, int]], allowance: Allowance, *, total: int) -> Answer:
    text, tokens = next((each for each in texts if each[1] <= allowance.tokens), ("", 0))
    return answer_of(text, tokens, allowance, shown=0, total=total)


# What of an answer did not fit, kept for whoever comes back with its cursor.


MOST_RESTS = 64
MOST_CHARACTERS = 64_000_000


class Rest(msgspec.Struct, frozen=True):
    """The portions still to be shown, of how many, by the tool that made them."""

    tool: str
    portions: tuple[Portion, ...]
    total: int
    noun: str

    @property
    def size(self) -> int:
        return sum(len(portion.text) for portion in self.portions)


def cursor_for(tool: str, portions: Sequence[Portion], budget: int) -> str:
    """The name of what will be left; the same answer within the same budget always has the same."""
    digest = blake2b(f"{tool} {budget}".encode(), digest_size=5)
    for portion in portions:
        digest.update(portion.text.encode("utf-8", "replace"))
    return digest.hexdigest()


class PageCache:
    """The rests of long answers by cursor, the ones used last; safe to share between threads."""

    def __init__(self) -> None:
        self._rests: OrderedDict[str, Rest] = OrderedDict()
        self._size = 0
        self._lock = Lock()

    def put(self, cursor: str, rest: Rest) -> None:
        with self._lock:
            self._drop(cursor)
            self._rests[cursor] = rest
            self._size += rest.size
            while len(self._rests) > 1 and (len(self._rests) > MOST_RESTS or self._size > MOST_CHARACTERS):
                self._drop(next(iter(self._rests)))

    def get(self, cursor: str, tool: str) -> Rest:
        """What is left under a cursor, which stays there: an answer may have been lost on its way."""
        with self._lock:
            rest = self._rests.get(cursor)
            if rest is None or rest.tool != tool:
                raise InputError(
                    f"the cursor {cursor[:20]!r} is not known to {tool} any more; ask again without it"
                )
            self._rests.move_to_end(cursor)
            return rest

    def _drop(self, cursor: str) -> None:
        if (rest := self._rests.pop(cursor, None)) is not None:
            self._size -= rest.size
