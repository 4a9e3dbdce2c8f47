"""Answers of tools: cut to their token budget, footers included, with the remainder kept for a cursor."""

from collections import OrderedDict
from collections.abc import Sequence
from hashlib import blake2b
from threading import Lock
from typing import Any, NamedTuple

import msgspec

from satchel.errors import InputError
from satchel.fitting.engine import Count, budget_that_holds, self_counted
from satchel.fitting.listing import FittedPortions, Portion, fit_portions, join_portions, most_as_json

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
    "remarked",
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
    shortens: bool = True
    """Whether to advise detail_level=summary."""
    remark: str = ""
    """A line about the call itself, such as which of its arguments were ignored."""


def with_footer(body: str, footer: Footer, count: Count) -> tuple[str, int]:
    """Return the text with its footer, and its token count, which the footer states."""
    above = f"{body}\n" if body else ""

    def make(tokens: int) -> str:
        remark = [footer.remark] if footer.remark else []
        return above + "\n".join([*remark, *_budget_lines(footer, tokens), f"📏 {_cost(footer, tokens)}"])

    return self_counted(make, count)


def _cost(footer: Footer, tokens: int) -> str:
    """Return the cost line. It also says how many memories there are if nothing relevant was left out, or if the
    next page has those that the limit of the call left out."""
    if footer.whole and footer.cursor is not None:
        return f"{footer.shown:,} of {footer.total:,} {footer.noun}, ~{tokens:,} tokens"
    if footer.noun != RELEVANT or not footer.whole or not footer.shown:
        return f"~{tokens:,} tokens"
    noun = RELEVANT if footer.shown != 1 else "relevant memory"
    budget = f" of {footer.budget:,}" if footer.asked else ""
    return f"{footer.shown:,} {noun}, ~{tokens:,}{budget} tokens"


def _budget_lines(footer: Footer, tokens: int) -> list[str]:
    lines = [] if footer.cursor is None else [f"➡ The rest: cursor={footer.cursor}"]
    if not footer.whole:
        lines.append(
            f"⚡ Budget: ~{tokens:,}/{footer.budget:,} tokens used. "
            f"{footer.shown:,} of {footer.total:,} {footer.noun} shown. "
            f"Increase max_tokens{' or use detail_level=summary' * footer.shortens} for more."
        )
    return lines


# Answers within their budget: the final text is counted, footers included.


class Allowance(NamedTuple):
    """The token budget of an answer, and what its caller can do if that is too small."""

    tokens: int
    given: bool
    """True if the caller set the budget."""
    shortens: bool = True
    """Whether a call with detail_level=summary would show more entries."""


class Answer(NamedTuple):
    """The answer of a tool: text for a model, and the same as data for a program."""

    text: str
    data: dict[str, Any]
    most: int | None = None
    """The budget of the text and of the data; None for the short answer to a write."""
    above: str = ""
    """The text without its footer."""
    footer: Footer | None = None
    """The facts of the footer; None if there is none."""

    def structured(self, count: Count) -> dict[str, Any] | None:
        """Return the data, or None if text and data together need more tokens than the budget allows."""
        fits = self.most is None or count(self.text) + most_as_json(self.data, count) <= self.most
        return self.data if fits else None


def remarked(answer: Answer, remark: str, count: Count) -> Answer:
    """Return an answer with a remark about the call, unless there is no room left for it."""
    if answer.most is None:
        return answer._replace(text=f"{answer.text}\n{remark}", data=answer.data | {"remark": remark})
    if answer.footer is None:
        return answer
    footer = msgspec.structs.replace(answer.footer, remark=remark)
    text, tokens = with_footer(answer.above, footer, count)
    if tokens > answer.most:
        return answer
    return answer._replace(text=text, data=answer.data | {"text": text, "token_count": tokens}, footer=footer)


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
    more: bool = False,
) -> Page:
    """Return as many of the portions as fit the budget, as one page. With `more`, others follow these."""

    def footer(budget: int, shown: Sequence[Portion], whole: bool) -> Footer:
        return Footer(
            budget=budget,
            shown=len(shown),
            total=total,
            whole=whole,
            noun=noun,
            cursor=cursor if more or not whole else None,
            asked=allowance.given,
            shortens=allowance.shortens,
        )

    def made_for(budget: int) -> FittedPortions:
        def assemble(shown: Sequence[Portion], whole: bool) -> str:
            return with_footer(join_portions(shown), footer(budget, shown, whole), count)[0]

        return fit_portions(portions, budget=budget, count=count, assemble=assemble, in_turn=in_turn)

    made = made_for(allowance.tokens)
    if (needed := made.smallest_budget) is not None:
        # The footer that names a larger budget may be longer itself.
        needed = budget_that_holds(lambda budget: made_for(budget).smallest_budget or 0, needed)
        return Page(nothing_fitted(needed, total, allowance, count, noun=noun), made.rest)
    end = footer(allowance.tokens, made.shown, not made.rest)
    answer = answer_of(
        made.text,
        count(made.text),
        allowance,
        shown=len(made.shown),
        total=total,
        cursor=end.cursor,
        above=join_portions(made.shown),
        footer=end if made.text else None,
    )
    return Page(answer, made.rest)


def answer_of(
    text: str,
    tokens: int,
    allowance: Allowance,
    *,
    shown: int,
    total: int,
    cursor: str | None = None,
    above: str = "",
    footer: Footer | None = None,
) -> Answer:
    """Return the answer to a read: its text, and the same with its numbers for a program."""
    # The text once more: many clients show a model the data alone where there are any.
    data: dict[str, Any] = {"text": text, "token_count": tokens, "included": shown, "omitted": total - shown}
    return Answer(text, data | {"cursor": cursor} if cursor else data, allowance.tokens, above, footer)


def said(text: str, allowance: Allowance, count: Count) -> Answer:
    """Return a remark in place of memories, such as "Nothing matched.", or only its footer if it does not fit."""
    whole = Footer(budget=allowance.tokens, shown=0, total=0, whole=True)
    return _first_that_fits([(text, whole), ("", whole)], allowance, count, total=0)


def nothing_fitted(
    smallest: int, total: int, allowance: Allowance, count: Count, *, noun: str = "memories"
) -> Answer:
    """Return the answer for a budget that is too small for anything; it names the smallest budget that would do."""
    cut = Footer(budget=allowance.tokens, shown=0, total=total, whole=False, noun=noun, shortens=allowance.shortens)
    whole = Footer(budget=allowance.tokens, shown=0, total=total, whole=True, noun=noun)
    needs = f"Nothing fitted (needs at least {smallest:,} tokens).\n"
    answer = _first_that_fits([(needs, cut), (needs, whole), ("", whole)], allowance, count, total=total)
    return answer._replace(data=answer.data | {"smallest_budget": smallest})


def _first_that_fits(
    forms: Sequence[tuple[str, Footer]], allowance: Allowance, count: Count, *, total: int
) -> Answer:
    for above, footer in forms:
        text, tokens = with_footer(above, footer, count)
        if tokens <= allowance.tokens:
            return answer_of(text, tokens, allowance, shown=0, total=total, above=above, footer=footer)
    return answer_of("", 0, allowance, shown=0, total=total)


# What of an answer did not fit, kept for whoever comes back with its cursor.


MOST_REMAINDERS = 64
MOST_CHARACTERS = 64_000_000


class Remainder(msgspec.Struct, frozen=True):
    """The portions of a long answer that were not shown yet, and the tool they belong to."""

    tool: str
    portions: tuple[Portion, ...]
    total: int
    noun: str
    per_page: int | None = None
    """How many portions a page has at most; None if only tokens limit it."""

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
            while len(self._remainders) > 1 and self._is_full():
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

    def find(self, cursor: str) -> Remainder | None:
        """Return the remainder of a cursor, whatever its tool; None if it is not known."""
        with self._lock:
            if cursor in self._remainders:
                self._remainders.move_to_end(cursor)
            return self._remainders.get(cursor)

    def _is_full(self) -> bool:
        return len(self._remainders) > MOST_REMAINDERS or self._size > MOST_CHARACTERS

    def _drop(self, cursor: str) -> None:
        if (rest := self._remainders.pop(cursor, None)) is not None:
            self._size -= rest.size
