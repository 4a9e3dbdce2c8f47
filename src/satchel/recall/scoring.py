"""From columns of numbers to a score and a relevance.

The score says how likely a memory is needed, seen by itself. Notes and turns of a conversation have weights of
their own: a note stands for itself, while what surrounds a turn often tells more than its own words. Both give a
probability, so that one ranking holds both. Relevance also looks at the question as a whole: does anything here
speak of what it asks?

The fitted numbers are in `weights.json`, made by `python -m bench.fit --write`, and in `relevance.json`, made by
`python -m bench.relevance --write`. What the data at hand cannot teach is weighed by hand, in `features.FEATURES`.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from satchel.recall.features import FEATURES, PARTS, Evidence, Feature
from satchel.recall.question import Question
from satchel.recall.rerank import SECOND_LOOK

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
    "is_keywords",
    "log_odds",
    "models",
    "near_enough",
    "probability",
    "reads",
    "relevances",
    "shares",
    "signs",
    "weights",
]


WEIGHTS_FILE = Path(__file__).with_name("weights.json")

_ALL: tuple[Feature[Any], ...] = (*FEATURES, *SECOND_LOOK)
# The columns whose weights are fitted for notes, and for turns.
NOTES = tuple(each.name for each in _ALL if each.fitted in ("notes", "both"))
TURNS = tuple(each.name for each in _ALL if each.fitted in ("turns", "both"))
# Added to the log-odds for each unit of a column.
HAND_SET = {each.name: each.by_hand for each in _ALL if each.by_hand}
_PART_OF = {each.name: each.part for each in _ALL}


class Weights(msgspec.Struct, frozen=True):
    """The intercept and the weight of each column that was fitted."""

    intercept: float
    columns: dict[str, float]


class Family(msgspec.Struct, frozen=True):
    """The weights of notes and of turns, for one family of embedders."""

    notes: Weights
    turns: Weights


class FittedWeights(msgspec.Struct, frozen=True):
    """The file of weights: one set for each family of embedders, since their numbers differ in scale."""

    about: str
    families: dict[str, Family]


# Made here: where two threads read a type of msgspec's for the first time at once, the process dies.
_read_weights = msgspec.json.Decoder(FittedWeights).decode


def family(embedder: str) -> str:
    """Whose weights serve an embedder of this name."""
    return embedder if embedder == "none" else "static" if embedder.startswith("static") else "dense"


def reads(embedder: str, *, latin: bool) -> bool:
    """Whether the vectors of an embedder mean something for a question.

    The vocabularies that ship know scripts other than the Latin one by single characters or bytes: in Greek or
    Hebrew any two texts are near, and in Japanese those that share characters. Such questions go by words.
    """
    return latin or not embedder.startswith(("static", "minilm"))


def near_enough(embedder: str) -> float:
    """The cosine from which on a vector alone makes a memory a find.

    Of questions and notes that have nothing to do with each other one pair in a hundred is as near for `minilm`
    (0.29); the other embedders' numbers are not known, or higher.
    """
    return 0.3 if embedder.startswith("minilm") else 0.5


@cache
def weights(family: str) -> Family:
    """The weights of a family; those of static vectors where it has none of its own."""
    families = _read_weights(WEIGHTS_FILE.read_bytes()).families
    return families.get(family) or families["static"]


def probability(odds: "Floats") -> "Floats":
    """What log-odds come to."""
    found: Floats = 1 / (1 + np.exp(-np.clip(odds, -30, 30)))
    return found


def log_odds(columns: Mapping[str, "Floats"], chosen: Family) -> "Floats":
    """The intercept and what each column adds, by the weights for notes or for turns."""
    total = np.where(columns["alone"] > 0, chosen.notes.intercept, chosen.turns.intercept)
    for _, added in _weighed(columns, chosen):
        total += added
    return total


def _weighed(columns: Mapping[str, "Floats"], chosen: Family) -> "Iterator[tuple[str, Floats]]":
    """What each column adds to each memory's log-odds."""
    alone = columns["alone"] > 0
    notes, turns = chosen.notes.columns, chosen.turns.columns
    for name, values in columns.items():
        by_hand = HAND_SET.get(name, 0.0)
        for_notes, for_turns = notes.get(name, 0.0) + by_hand, turns.get(name, 0.0) + by_hand
        if for_notes or for_turns:
            yield name, values * np.where(alone, for_notes, for_turns)


def shares(columns: Mapping[str, "Floats"], place: int, chosen: Family) -> dict[str, float]:
    """What each part adds to one memory's log-odds, beside what the average candidate has of it.

    Where notes and turns are compared, the difference of their intercepts is a part of their shape.
    """
    found: dict[str, float] = dict.fromkeys(PARTS, 0.0)
    alone = columns["alone"] > 0
    intercepts = np.where(alone, chosen.notes.intercept, chosen.turns.intercept)
    found["shape"] = float(intercepts[place] - intercepts.mean())
    for name, added in _weighed(columns, chosen):
        found[_PART_OF[name]] += float(added[place] - added.mean())
    return {part: round(value, 3) for part, value in found.items()}


# Relevance. A logistic model of a few numbers about the question tells how likely it has an answer at all, and a
# hit that is far behind the best one is as unlikely to be part of it. The relevance of a hit is the lower of the
# two. Where a query is nothing but keywords, a memory that has them all is relevant. Relevance falls with the
# score, so what is left above any limit is the head of the ranking.


RELEVANCE_FILE = Path(__file__).with_name("relevance.json")

# How many of the best hits may share what a question asks for.
LEADING_HITS = 3
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


class FittedRelevance(msgspec.Struct, frozen=True):
    """The file: models for each family of embedders, since their numbers differ in scale."""

    about: str
    families: dict[str, Models]


# Made here: where two threads read a type of msgspec's for the first time at once, the process dies.
_read_relevance = msgspec.json.Decoder(FittedRelevance).decode


@cache
def models(family: str) -> Models:
    """The models of a family; those of static vectors where it has none of its own."""
    families = _read_relevance(RELEVANCE_FILE.read_bytes()).families
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


def signs(asked: Question, seen: Evidence, odds: "Floats") -> dict[str, float]:
    """What tells whether a question has an answer among the candidates.

    `asked` is the question as it was put, that of `seen` has misspelt words replaced. Coverage is the share of the
    question's words by rarity, once for the names in it and once for all else: a near miss names what the memories
    name and asks for another thing.
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
