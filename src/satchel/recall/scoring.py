"""From feature columns to a score and a relevance.

The score is the probability that a memory is needed, considered by itself. Notes and conversation turns have
separate weights: a note is complete in itself, while the context of a turn often says more than its own words.
Both models give probabilities, so one ranking can hold both. Relevance also takes the question as a whole into
account: is there an answer at all?

The fitted weights are in `weights.json`, made by `python -m bench.fit --write`, and in `relevance.json`, made by
`python -m bench.relevance --write`. Weights that the available data cannot teach are set by hand in
`features.FEATURES`.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

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
    used = [(columns[name], *pair) for name, *pair in _weights(columns, chosen)]
    table = np.array([values for values, *_ in used]).reshape(len(used), len(alone))
    # Unlike a matrix product, `einsum` gives equal values for equal columns.
    notes = chosen.notes.intercept + np.einsum("i,ij->j", np.array([each[1] for each in used]), table)
    turns = chosen.turns.intercept + np.einsum("i,ij->j", np.array([each[2] for each in used]), table)
    found: Floats = np.where(alone, notes, turns)
    return found


def _weights(columns: Iterable[str], chosen: Family) -> Iterator[tuple[str, float, float]]:
    """Yield the names of columns with their weights for notes and for turns, if they have any."""
    notes, turns = chosen.notes.columns, chosen.turns.columns
    for name in columns:
        by_hand = HAND_SET.get(name, 0.0)
        for_notes, for_turns = notes.get(name, 0.0) + by_hand, turns.get(name, 0.0) + by_hand
        if for_notes or for_turns:
            yield name, for_notes, for_turns


def shares(columns: Mapping[str, "Floats"], place: int, chosen: Family) -> dict[str, float]:
    """Return what each part adds to the log-odds of one memory, compared with the average candidate.

    If there are notes and turns, the difference of their intercepts counts for the part "shape".
    """
    found: dict[str, float] = dict.fromkeys(PARTS, 0.0)
    alone = columns["alone"] > 0
    intercepts = np.where(alone, chosen.notes.intercept, chosen.turns.intercept)
    found["shape"] = float(intercepts[place] - intercepts.mean())
    for name, for_notes, for_turns in _weights(columns, chosen):
        added = columns[name] * np.where(alone, for_notes, for_turns)
        found[_PART_OF[name]] += float(added[place] - added.mean())
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
        order = np.argsort(-odds, kind="stable")
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
    order = np.argsort(-odds, kind="stable")
    best, leading = order[:1], order[:LEADING_HITS]
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
