"""Find memories about the same thing as a given one, which it may replace.

The indexes provide candidates: memories with the same rare words, and those with the nearest vectors. A logistic
model scores each by cosine, shared rare words, tags, kind, values of the same type, and words of change. Nothing
is embedded here: stored vectors are used.
"""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from satchel.model.filters import Filter
from satchel.model.memory import Hit, Memory
from satchel.recall.question import is_latin
from satchel.recall.rerank import Statement, as_statement
from satchel.recall.scoring import family, has_useful_vectors
from satchel.recall.sheet import Sheet, unit
from satchel.store import index
from satchel.store.contract import SearchStore
from satchel.store.store import Store
from satchel.text.terms import segment

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["similar"]

# The fewest candidates per index, and how many of the rarest words are searched for.
PER_INDEX = 12
RAREST = 8
# Added to the number of memories, so that rarity is meaningful in a small store.
ASSUMED_MEMORIES = 50
# The kind of a memory that was saved without one.
DEFAULT_KIND = "observation"
NOTES = ("working", "knowledge")
DIGITS = 4

# Added to the log-odds for each unit of a feature. Fitted by logistic regression on pairs of notes in which the
# newer one replaces the older, with and without tags and kinds (`python -m bench.similar` measures it). The
# intercepts are shifted so that 0.5 is a useful threshold: at 0.5 about one in fifteen is replaced, and most of
# the others are about the same thing.
WEIGHTS: Mapping[str, Mapping[str, float]] = {
    "dense": {
        "intercept": -8.0, "meaning": 7.0, "words": 1.4, "tags": 1.1, "untagged": 1.0, "kind": 1.8,
        "unsorted": 0.7, "slots": 0.8, "changed": 0.5,
    },
    "static": {
        "intercept": -7.9, "meaning": 4.8, "words": 1.9, "tags": 1.3, "untagged": 1.1, "kind": 2.0,
        "unsorted": 0.8, "slots": 0.9, "changed": 0.5,
    },
    "none": {
        "intercept": -7.9, "words": 2.2, "share": 3.0, "tags": 1.7, "untagged": 1.2, "kind": 2.2,
        "unsorted": 0.9, "slots": 0.9, "changed": 0.6,
    },
}  # fmt: skip
MIN_SCORE = 0.5
# Two memories that share this much of their words are similar, however common the words are.
SAME_WORDS = 0.8


def similar(store: Store, memory: Memory, where: Filter, *, limit: int) -> list[Hit]:
    """Return the memories that pass a filter and are about the same thing as this one, most similar first.

    The result is often empty. Scores are between 0.5 and 1. A note is compared with notes only, not with turns of a
    conversation. Only memories of the same project are compared, or without a project if this one has none.
    """
    if memory.tier in NOTES and not where.tiers:
        where = msgspec.structs.replace(where, tiers=NOTES)
    with store.reading(where.scope.org) as tx:
        statement = as_statement(memory.title, memory.text, memory.tags, memory.kind)
        total, counts = _frequencies(store, statement)
        rarity = {term: _rarity(total, count) for term, count in counts.items()}
        own = store.traces(Filter(scope=where.scope, ids=(memory.id,), statuses=()))
        embedding = index.embedding(tx)
        readable = embedding is not None and has_useful_vectors(embedding.name, latin=is_latin(_text(memory)))
        dimensions = embedding.dimensions if embedding is not None and readable else 0
        sheet = Sheet.of(own)
        rows = sheet.vectors if dimensions and sheet.has_vectors(dimensions) else None
        rows = rows if rows is not None and rows.any() else None
        keys = _candidates(store, where, _rarest(statement, counts), rows, most=max(PER_INDEX, limit + 1))
        others = {key: each for key, each in store.memories(keys).items() if _comparable(memory, each)}
        cosines = _cosines(store, where, list(others), rows)
    fitted = family(embedding.name) if embedding is not None else "none"
    found = []
    for key, other in others.items():
        cosine = cosines.get(key)
        theirs = as_statement(other.title, other.text, other.tags, other.kind)
        features = _features(statement, theirs, rarity)
        if cosine is not None:
            features["meaning"] = cosine
        score = max(_score(features, WEIGHTS["none" if cosine is None else fitted]), _same_words(statement, theirs))
        if score >= MIN_SCORE:
            found.append(Hit(other, score))
    found.sort(key=lambda hit: (-hit.score, -hit.memory.at.timestamp(), hit.memory.id))
    return found[:limit]


def _comparable(memory: Memory, other: Memory) -> bool:
    return other.id != memory.id and other.scope.project == memory.scope.project


def _text(memory: Memory) -> str:
    return f"{memory.title or ''}\n{memory.text}"


def _frequencies(store: SearchStore, statement: Statement) -> tuple[int, dict[str, int]]:
    """Return the approximate number of memories in a store, and how many of them have each term of a statement."""
    # For text without spaces the index has single characters, and `statement` has pairs of them.
    parts = {term: (segment(term) or term).split() for term in sorted(statement.terms) if _is_distinctive(term)}
    known = sorted({part for each in parts.values() for part in each})
    total, counts = store.frequencies(known)
    counted = dict(zip(known, counts, strict=True))
    return total, {term: min(counted[each] for each in part) for term, part in parts.items()}


def _rarity(total: int, count: int) -> float:
    """Return the rarity of a term from 0 to 1; 1 if at most two memories have it."""
    size = total + ASSUMED_MEMORIES
    return max(0.0, math.log(size / (max(2, count) + 1)) / math.log(size / 3))


def _is_distinctive(term: str) -> bool:
    """Return whether a shared term means anything: not numbers and single letters."""
    return len(term) > 1 and not term.isdigit()


def _rarest(statement: Statement, counts: Mapping[str, int]) -> list[str]:
    """Return the rarest words of a memory that others also have, in the form for a full-text search."""
    words = {term: word for word, term in statement.stems.items() if counts.get(term, 0) > 1}
    rarest = sorted(words, key=lambda term: (counts[term], term))[:RAREST]
    return [(segment(words[term]) or words[term]).strip() for term in rarest]


def _candidates(
    store: SearchStore, where: Filter, words: Sequence[str], rows: "NDArray[np.float32] | None", *, most: int
) -> list[int]:
    """Return the keys of memories that the indexes find by words, then by vectors."""
    keys = [match.key for match in store.matches(where, words, limit=most)]
    if rows is not None:
        code = np.packbits(rows.sum(axis=0) > 0).tobytes()
        keys += [match.key for match in store.nearest(where, code, limit=most)]
    return list(dict.fromkeys(keys))


def _cosines(
    store: SearchStore, where: Filter, keys: Sequence[int], rows: "NDArray[np.float32] | None"
) -> dict[int, float]:
    """Return the cosine of each memory that has vectors: the best passage of one against the mean of the other."""
    if rows is None or not keys:
        return {}
    sheet = Sheet.of(store.traces(where, keys))
    if not sheet.size or not sheet.has_vectors(rows.shape[1]):
        return {}
    mean = unit(rows.sum(axis=0, keepdims=True))[0]
    theirs = sheet.best(np.einsum("ij,j->i", sheet.vectors, mean))
    ours = np.einsum("ij,kj->ik", sheet.meanings, rows).max(axis=1)
    pairs = zip(sheet.key.tolist(), np.maximum(theirs, ours).tolist(), sheet.embedded, strict=True)
    return {key: value for key, value, embedded in pairs if embedded}


def _features(statement: Statement, other: Statement, rarity: Mapping[str, float]) -> dict[str, float]:
    """Return the features of a pair of memories."""
    shared = sorted((rarity[term] for term in statement.terms & other.terms if term in rarity), reverse=True)
    # Words of change near a term that both have.
    changed = max(
        sum(rarity.get(term, 0.0) for term in one.changed & two.terms)
        for one, two in ((statement, other), (other, statement))
    )
    return {
        "words": sum(shared[:2]),
        "share": sum(shared) / (sum(rarity.values()) or 1.0),
        "tags": min(2, len(statement.tags & other.tags)),
        "untagged": not (statement.tags and other.tags),
        "kind": statement.kind == other.kind != DEFAULT_KIND,
        "unsorted": DEFAULT_KIND in (statement.kind, other.kind),
        "slots": min(2, len(statement.slots & other.slots)),
        "changed": min(2.0, changed),
    }


def _same_words(statement: Statement, other: Statement) -> float:
    """Return the share of words that two memories have in common if it is at least SAME_WORDS, otherwise 0."""
    share = len(statement.terms & other.terms) / (len(statement.terms | other.terms) or 1)
    return round(share, DIGITS) if share >= SAME_WORDS else 0.0


def _score(features: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """Return the probability, rounded because sums in another order differ in the last digits."""
    odds = weights["intercept"] + sum(weights.get(name, 0.0) * value for name, value in features.items())
    return round(1 / (1 + math.exp(-odds)), DIGITS)
