"""From feature columns to a score and a relevance.

The score is the probability that a memory is needed, considered by itself. Notes and conversation turns have
separate weights: a note is complete in itself, while the context of a turn often says more than its own words.
Both models give probabilities, so one ranking can hold both. Relevance also takes the question as a whole into
account: is there an answer at all?

The fitted weights are in `weights.json`, made by `python -m bench.fit --write`, and in `relevance.json`, made by
`python -m bench.relevance --write`. Weights that the available data cannot teach are set by hand in
`features.FEATURES`.
"""

import itertools
import math
import operator
from collections.abc import Mapping
from functools import cache
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from satchel.recall.columns import best_first
from satchel.recall.features import FEATURES, PARTS, Evidence, Feature
from satchel.recall.question import Question
from satchel.recall.rerank import RERANK_FEATURES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[Any]

__all__ = [
    "HAND_SET",
    "NOTES",
    "RELEVANCE_FILE",
    "SIGNS",
    "TURNS",
    "WEIGHTS_FILE",
    "Answerable",
    "Family",
    "FittedRelevance",
    "FittedWeights",
    "Models",
    "Weights",
    "family",
    "has_useful_vectors",
    "is_keywords",
    "log_odds",
    "models",
    "near_enough",
    "probability",
    "relevances",
    "shares",
    "signs",
    "weights",
]


WEIGHTS_FILE = Path(__file__).with_name("weights.json")

_ALL: tuple[Feature[Any], ...] = (*FEATURES, *RERANK_FEATURES)
# The columns with fitted weights, for notes and for turns.
NOTES = tuple(each.name for each in _ALL if each.fitted in ("notes", "both"))
TURNS = tuple(each.name for each in _ALL if each.fitted in ("turns", "both"))
# Weights set by hand: added to the log-odds for each unit of a column.
HAND_SET = {each.name: each.by_hand for each in _ALL if each.by_hand}
_PART_OF = {each.name: each.part for each in _ALL}


class Weights(msgspec.Struct, frozen=True):
    """The intercept and the fitted weight of each column."""

    intercept: float
    columns: dict[str, float]


class Family(msgspec.Struct, frozen=True):
    """The weights of notes and of turns, for one family of embedders."""

    notes: Weights
    turns: Weights


class FittedWeights(msgspec.Struct, frozen=True):
    """The contents of `weights.json`: one set for each family of embedders, whose cosines differ in scale."""

    about: str
    families: dict[str, Family]


# Created at import: if two threads use a msgspec type for the first time at once, the process crashes.
_read_weights = msgspec.json.Decoder(FittedWeights).decode


def family(embedder: str) -> str:
    """Return the family of an embedder, which selects its weights."""
    return embedder if embedder == "none" else "static" if embedder.startswith("static") else "dense"


def has_useful_vectors(embedder: str, *, latin: bool) -> bool:
    """Return whether the vectors of an embedder are meaningful for a text.

    The bundled vocabularies have only single characters or bytes for scripts other than Latin: any two texts in
    Greek or Hebrew are near each other, and in Japanese those that share characters. Such questions are answered
    by words.
    """
    return latin or not embedder.startswith(("static", "minilm"))


def near_enough(embedder: str) -> float:
    """Return the cosine from which a vector alone makes a memory a match.

    For `minilm`, one in a hundred pairs of unrelated questions and notes has a cosine of 0.29 or more. For other
    embedders this is not known, or higher.
    """
    return 0.3 if embedder.startswith("minilm") else 0.5


@cache
def weights(family: str) -> Family:
    """Return the weights of a family; those of "static" if it has none."""
    families = _read_weights(WEIGHTS_FILE.read_bytes()).families
    return families.get(family) or families["static"]


def probability(odds: "Floats") -> "Floats":
    """Convert log-odds to probabilities."""
    found: Floats = 1 / (1 + np.exp(-np.clip(odds, -30, 30)))
    return found


def log_odds(columns: Mapping[str, "Floats"], chosen: Family) -> "Floats":
    """Return the log-odds of each memory: the intercept and the weighted columns, for notes or for turns."""
    alone = columns["alone"] > 0
    table = np.array(list(columns.values()))
    # Unlike a matrix product, `einsum` gives equal values for equal columns.
    by_hand = [HAND_SET.get(name, 0.0) for name in columns]
    notes, turns = (
        each.intercept
        + np.einsum("i,ij->j", [*map(operator.add, by_hand, map(each.columns.get, columns, repeat(0.0)))], table)
        for each in (chosen.notes, chosen.turns)
    )
    found: Floats = np.where(alone, notes, turns)
    return found


def _weight(using: Weights, name: str) -> float:
    """Return the weight of a column, fitted and set by hand; 0 if it has none."""
    return using.columns.get(name, 0.0) + HAND_SET.get(name, 0.0)


def shares(columns: Mapping[str, "Floats"], place: int, chosen: Family) -> dict[str, float]:
    """Return what each part adds to the log-odds of one memory, compared with the average candidate.

    If there are notes and turns, the difference of their intercepts counts for the part "shape".
    """
    found: dict[str, float] = dict.fromkeys(PARTS, 0.0)
    alone = columns["alone"] > 0
    intercepts = np.where(alone, chosen.notes.intercept, chosen.turns.intercept)
    found["shape"] = float(intercepts[place] - intercepts.mean())
    for name, part in _PART_OF.items():
        if name in columns:
            added = columns[name] * np.where(alone, _weight(chosen.notes, name), _weight(chosen.turns, name))
            found[part] += float(added[place] - added.mean())
    return {part: round(value, 3) for part, value in found.items()}


# Relevance.
#
# A logistic model of a few numbers about the question gives the probability that it has an answer at all. A hit
# whose score is far below the best one is less likely to be part of the answer. The relevance of a hit is the
# lower of the two. If a query consists of keywords only, a memory that has all of them is relevant. Relevance
# falls with the score, so the hits above any threshold are the first of the ranking.


RELEVANCE_FILE = Path(__file__).with_name("relevance.json")

# How many of the best hits the answer may be spread over.
LEADING_HITS = 3
# The least relevance of a memory that has all words of a keyword query.
SOUGHT = 0.5
# Rare words and high scores mean less among few memories; from this number on the size does not matter.
LARGE = 100

SIGNS = (
    "best", "meaning", "covered_by_best", "covered_by_any", "things_by_best", "things_by_leading", "things_by_any",
    "names_by_best", "names_by_any", "names", "unknown", "terms", "kind", "kind_met", "time", "time_met",
    "order", "size",
)  # fmt: skip


class Answerable(msgspec.Struct, frozen=True):
    """A model of whether a question has an answer in the store, for notes or for conversations."""

    intercept: float
    weights: dict[str, float]
    sharpness: float
    """How fast relevance falls with the distance from the best hit: the exponent of the ratio of their scores."""


class Models(msgspec.Struct, frozen=True):
    """One model for questions whose best hit is a note, one for a turn or a part of a document."""

    notes: Answerable
    turns: Answerable


class FittedRelevance(msgspec.Struct, frozen=True):
    """The contents of `relevance.json`: models for each family of embedders, whose cosines differ in scale."""

    about: str
    families: dict[str, Models]


# Created at import: if two threads use a msgspec type for the first time at once, the process crashes.
_read_relevance = msgspec.json.Decoder(FittedRelevance).decode


@cache
def models(family: str) -> Models:
    """Return the models of a family; those of "static" if it has none."""
    families = _read_relevance(RELEVANCE_FILE.read_bytes()).families
    return families.get(family) or families["static"]


def relevances(
    odds: "Floats", found: Mapping[str, float], using: Answerable, *, sought: "NDArray[np.bool_] | None" = None
) -> "Floats":
    """Return the relevance of each candidate, from its log-odds and the signs of the question.

    `sought` marks the candidates that have every word of a keyword query.
    """
    answered = using.intercept + sum(weight * found[name] for name, weight in using.weights.items())
    scores = probability(odds)
    behind = (scores / scores.max()) ** using.sharpness
    relevance: Floats = np.minimum(probability(np.array(answered)), behind)
    if sought is not None:
        relevance = np.where(sought, np.maximum(relevance, SOUGHT), relevance)
        # No candidate is less relevant than one that ranks below it.
        order = best_first(odds)
        relevance[order] = np.maximum.accumulate(relevance[order][::-1])[::-1]
    return relevance


def is_keywords(question: Question) -> bool:
    """Return whether a query consists of keywords only: it has no stop words or other words of a question."""
    content = {word for term in question.terms for word in term.text.split()}
    return question.words <= content and all(term.weight == 1 for term in question.terms)


def signs(asked: Question, seen: Evidence, odds: "Floats") -> dict[str, float]:
    """Return the numbers that indicate whether a question has an answer among the candidates.

    `asked` is the original question; that of `seen` has typos corrected. Coverage is the share of the question's
    words that the memories have, weighted by rarity. It is computed for names and for other words separately: a
    near miss shares the names with the memories and asks for another thing.
    """
    understood, words, columns = seen.question, seen.words, seen.columns
    best, *others = best_first(odds, LEADING_HITS).tolist()
    named = [not asked.names.isdisjoint(_meant(term)) for term in understood.terms]
    by_any = words.counts > 0
    by_best = words.present[:, best]
    by_leading = words.present[:, [best, *others]].any(axis=1)
    known = {" ".join(_meant(term)) for term, there in zip(understood.terms, by_any.tolist(), strict=True) if there}
    unknown = sum(term.text not in known for term in asked.terms)
    rarity = words.rarity.tolist()

    def covered(there: Any, *, names: bool | None = None, otherwise: float = 0.0) -> float:
        """Return the share of the words, or of the names or other words, that is there."""
        of = [names is None or each == names for each in named]
        total = sum(itertools.compress(rarity, of))
        return (
            sum(itertools.compress(rarity, map(operator.and_, of, there.tolist()))) / total if total else otherwise
        )

    return {
        "best": float(odds[best]),
        "meaning": float(columns["passage_meaning"].max(initial=0.0)),
        "covered_by_best": covered(by_best),
        "covered_by_any": covered(by_any),
        "things_by_best": covered(by_best, names=False, otherwise=0.5),
        "things_by_leading": covered(by_leading, names=False, otherwise=0.5),
        "things_by_any": covered(by_any, names=False, otherwise=0.5),
        "names_by_best": covered(by_best, names=True, otherwise=0.5),
        "names_by_any": covered(by_any, names=True, otherwise=0.5),
        "names": float(any(named)),
        "unknown": unknown / max(1, len(asked.terms)),
        "terms": math.log1p(len(understood.terms)),
        "kind": float(bool(asked.intent.kinds)),
        "kind_met": float(columns["kind_asked"][best]),
        "time": float(bool(asked.times)),
        "time_met": float(columns["inside"][best]),
        "order": float(asked.intent.order is not None),
        "size": math.log1p(min(len(odds), LARGE)),
    }


def _meant(term: Any) -> list[str]:
    found: list[str] = (term.meant or term.text).split()
    return found
