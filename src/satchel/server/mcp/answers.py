"""Answers within their budget: the final text is counted, footers included."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from satchel.fitting.as_json import as_json
from satchel.fitting.portions import Portion, Portioned, joined, portioned
from satchel.server.mcp.footers import Footing, footed

__all__ = ["Allowance", "Answer", "answer_of", "fitted", "nothing_fitted", "said"]

Count = Callable[[str], int]


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

    def made_for(budget: int) -> Portioned:
        def assemble(shown: Sequence[Portion], whole: bool) -> str:
            footing = Footing(
                budget=budget,
                shown=len(shown),
                total=total,
                whole=whole,
                noun=noun,
                cursor=cursor,
                asked=allowance.given,
            )
            return footed(joined(shown), footing, count)[0]

        return portioned(portions, budget=budget, count=count, assemble=assemble, in_turn=in_turn)

    made = made_for(allowance.tokens)
    if (needed := made.smallest_budget) is not None:
        # The footer that names a larger budget may be longer itself.
        while (more := made_for(needed).smallest_budget) is not None:
            needed = more
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
    data: dict[str, Any] = {"text": text, "tokens": tokens, "shown": shown, "total": total}
    return Answer(text, data | {"cursor": cursor} if cursor else data, allowance.tokens)


def said(text: str, allowance: Allowance, count: Count) -> Answer:
    """A remark in place of memories, such as that nothing matched; as much of it as there is room for."""
    whole = Footing(budget=allowance.tokens, shown=0, total=0, whole=True)
    return _first_that_fits([footed(text, whole, count), footed("", whole, count)], allowance, total=0)


def nothing_fitted(
    smallest: int, total: int, allowance: Allowance, count: Count, *, noun: str = "memories"
) -> Answer:
    """That there is something, but no room for it, and how much room it needs."""
    cut = Footing(budget=allowance.tokens, shown=0, total=total, whole=False, noun=noun)
    whole = Footing(budget=allowance.tokens, shown=0, total=total, whole=True, noun=noun)
    needs = f"Nothing fitted (needs at least {smallest:,} tokens).\n"
    texts = [footed(needs, cut, count), footed(needs, whole, count), footed("", whole, count)]
    answer = _first_that_fits(texts, allowance, total=total)
    return answer._replace(data=answer.data | {"needs_at_least": smallest})


def _first_that_fits(texts: Sequence[tuple[str, int]], allowance: Allowance, *, total: int) -> Answer:
    text, tokens = next((each for each in texts if each[1] <= allowance.tokens), ("", 0))
    return answer_of(text, tokens, allowance, shown=0, total=total)
