"""How sure it is that a question is answered here, and which of the hits it takes.

A score says how likely one memory is needed, seen by itself. Relevance also looks at the question as a whole: does
anything here speak of what it asks? A logistic model of a few numbers about the question tells how likely it has an
answer at all, and a hit that is far behind the best one is as unlikely to be part of it. The relevance of a hit is
the lower of the two. Where a query is nothing but keywords, a memory that has them all is relevant. Relevance falls
with the score, so what is left above any limit is the head of the ranking.

The fitted numbers are in `relevance.json`, made by `python -m bench.relevance --write`.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from satchel.recall.features import Lexical
from satchel.recall.fusion import probability
from satchel.recall.question import Question

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[Any]

__all__ = ["FILE", "SIGNS", "Answerable", "Fitted", "Models", "is_keywords", "models", "relevances", "signs"]

FILE = Path(__file__).with_name("relevance.json")

# How many of the best hits may share what a question asks for.
LEADING = 3
# How relevant a memory is at least that has all the words of a query that is nothing but keywords.
SOUGHT = 0.5
# Rare words and high scores mean less among a few memories than among so many.
LARGE = 100

SIGNS = (
    "best", "meaning", "covered_by_best", "covered_by_any", "things_by_best", "things_by_leading", "things_by_any",
    "names_by_best", "names_by_any", "names", "unknown", "terms", "kind", "kind_met", "time", "time_met",
    "order", "size",
)  # fmt: skip


class Answerable(msgspec.Struct, frozen=True):
    """The model of whether a question has an answer here, for stores of notes or of conversations."""

    intercept: float
    weights: dict[str, float]
    sharpness: float
    """How fast relevance falls with the distance from the best hit: a power of the ratio of their scores."""


class Models(msgspec.Struct, frozen=True):
    """One for questions whose best hit is a note, one for those where it is a turn or a part of a document."""

    notes: Answerable
    turns: Answerable


class Fitted(msgspec.Struct, frozen=True):
    """The file: models for each family of embedders, since their numbers differ in scale."""

    about: str
    families: dict[str, Models]


# Made here: where two threads read a type of msgspec's for the first time at once, the process dies.
_read = msgspec.json.Decoder(Fitted).decode


@cache
def models(family: str) -> Models:
    """The models of a family; those of static vectors where it has none of its own."""
    families = _read(FILE.read_bytes()).families
    return families.get(family) or families["static"]


def relevances(
    odds: "Floats", found: Mapping[str, float], using: Answerable, *, sought: "NDArray[np.bool_] | None" = None
) -> "Floats":
    """The relevance of each candidate, by its log-odds and the signs of the question.

    `sought` are those that have every word of a query that is nothing but keywords.
    """
    answered = using.intercept + sum(weight * found[name] for name, weight in using.weights.items())
    scores = probability(odds)
    behind = (scores / scores.max()) ** using.sharpness
    relevance: Floats = np.minimum(probability(np.array(answered)), behind)
    if sought is not None:
        relevance = np.where(sought, np.maximum(relevance, SOUGHT), relevance)
        # Nothing that ranks higher is less relevant.
        order = np.argsort(-odds, kind="stable")
        relevance[order] = np.maximum.accumulate(relevance[order][::-1])[::-1]
    return relevance


def is_keywords(question: Question) -> bool:
    """Whether a query is nothing but words to look for: it has none of those that make a question."""
    telling = {word for term in question.terms for word in term.text.split()}
    return question.words <= telling and all(term.weight == 1 for term in question.terms)


def signs(
    asked: Question, understood: Question, words: Lexical, columns: Mapping[str, "Floats"], odds: "Floats"
) -> dict[str, float]:
    """What tells whether a question has an answer among the candidates.

    `asked` is the question as it was put, `understood` after misspelt words were replaced, `words` are those of the
    latter; `columns` are those of the ranking. Coverage is the share of the question's words by rarity, once for
    the names in it and once for all else: a near miss names what the memories name and asks for another thing.
    """
    order = np.argsort(-odds, kind="stable")
    best, leading = order[:1], order[:LEADING]
    there = words.memories > 0
    named = np.array([not asked.names.isdisjoint(_meant(term)) for term in understood.terms], bool)
    every = np.ones(len(named), bool)
    known = {" ".join(_meant(term)) for place, term in enumerate(understood.terms) if there[place].any()}
    unknown = sum(term.text not in known for term in asked.terms)

    def covered(which: "NDArray[np.bool_]", places: Any, otherwise: float = 0.0) -> float:
        rarity = words.rarity[which]
        total = float(rarity.sum())
        found = there[which][:, places].any(axis=1)
        return float((rarity * found).sum()) / total if total else otherwise

    return {
        "best": float(odds[order[0]]),
        "meaning": float(columns["passage_meaning"].max(initial=0.0)),
        "covered_by_best": covered(every, best),
        "covered_by_any": covered(every, slice(None)),
        "things_by_best": covered(~named, best, 0.5),
        "things_by_leading": covered(~named, leading, 0.5),
        "things_by_any": covered(~named, slice(None), 0.5),
        "names_by_best": covered(named, best, 0.5),
        "names_by_any": covered(named, slice(None), 0.5),
        "names": float(named.any()),
        "unknown": unknown / max(1, len(asked.terms)),
        "terms": float(np.log1p(len(understood.terms))),
        "kind": float(bool(asked.intent.kinds)),
        "kind_met": float(columns["kind_asked"][order[0]]),
        "time": float(bool(asked.times)),
        "time_met": float(columns["inside"][order[0]]),
        "order": float(asked.intent.order is not None),
        "size": float(np.log1p(min(len(odds), LARGE))),
    }


def _meant(term: Any) -> list[str]:
    found: list[str] = (term.meant or term.text).split()
    return found
