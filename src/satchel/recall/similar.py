"""The memories that are about the same thing as a given one: what it may replace.

The indexes bring the memories that share the rarest words with it and those whose vectors are nearest. A logistic
model then scores each: cosine, rare words in common, tags, kind, values of the same sort, words of change. All of
this is stored or in the texts; nothing is embedded here.
"""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from satchel.model.filters import Filter
from satchel.model.memory import Hit, Memory
from satchel.recall.features import Sheet, unit
from satchel.recall.question import is_latin
from satchel.recall.rerank import Told, as_told
from satchel.recall.scoring import family, reads
from satchel.store import index
from satchel.store.contract import SearchStore
from satchel.store.store import Store
from satchel.text.terms import segment

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["similar"]

# How many memories each index brings, at least, and by how many of the rarest words.
BROUGHT = 12
RAREST = 8
# What a store is taken to hold beside what it does hold, so that a small one tells rare words from common ones too.
UNSEEN = 50
# The kind of a memory whose writer named none.
UNSORTED = "observation"
NOTES = ("working", "knowledge")
DIGITS = 4

# Added to the log-odds for each unit of a feature. Fitted by logistic regression on pairs of notes of which the
# newer one overtakes the older, with and without their tags and kinds (`python -m bench.similar` measures them).
# The intercepts are moved so that 0.5 is the least that is shown: about one in fifteen of those is overtaken, and
# most of the others are about the same thing.
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
LEAST = 0.5
# The share of their words in common from which on two are alike however common the words are.
SAME_WORDS = 0.8


def similar(store: Store, memory: Memory, where: Filter, *, limit: int) -> list[Hit]:
    """The memories of a filter that are about the same thing as this one, most alike first; often none.

    A score is between 0.5 and 1. A note is compared with notes only: what was said in a conversation is not
    replaced by it. What belongs to another project is never compared, nor to a project where this one has none.
    """
    if memory.tier in NOTES and not where.tiers:
        where = msgspec.structs.replace(where, tiers=NOTES)
    with store.reading(where.scope.org) as tx:
        told = as_told(memory.title, memory.text, memory.tags, memory.kind)
        total, standing = _standing(store, told)
        rarity = {term: _rarity(total, count) for term, count in standing.items()}
        own = store.traces(Filter(scope=where.scope, ids=(memory.id,), statuses=()))
        embedding = index.embedding(tx)
        readable = embedding is not None and reads(embedding.name, latin=is_latin(_text(memory)))
        dimensions = embedding.dimensions if embedding is not None and readable else 0
        rows = Sheet(own).vectors(dimensions) if own and dimensions else None
        rows = rows if rows is not None and rows.any() else None
        keys = _brought(store, where, _rarest(told, standing), rows, most=max(BROUGHT, limit + 1))
        others = {key: each for key, each in store.memories(keys).items() if _comparable(memory, each)}
        cosines = _cosines(store, where, list(others), rows)
    fitted = family(embedding.name) if embedding is not None else "none"
    found = []
    for key, other in others.items():
        cosine = cosines.get(key)
        theirs = as_told(other.title, other.text, other.tags, other.kind)
        features = _features(told, theirs, rarity)
        if cosine is not None:
            features["meaning"] = cosine
        score = max(_score(features, WEIGHTS["none" if cosine is None else fitted]), _same_words(told, theirs))
        if score >= LEAST:
            found.append(Hit(other, score))
    found.sort(key=lambda hit: (-hit.score, -hit.memory.at.timestamp(), hit.memory.id))
    return found[:limit]


def _comparable(memory: Memory, other: Memory) -> bool:
    return other.id != memory.id and other.scope.project == memory.scope.project


def _text(memory: Memory) -> str:
    return f"{memory.title or ''}\n{memory.text}"


def _standing(store: SearchStore, told: Told) -> tuple[int, dict[str, int]]:
    """How many memories a store holds, about, and how many of them have each term of this one."""
    # The index has the characters of text without spaces, where `told` has pairs of them.
    parts = {term: (segment(term) or term).split() for term in sorted(told.terms) if _tells(term)}
    known = sorted({part for each in parts.values() for part in each})
    total, counts = store.frequencies(known)
    counted = dict(zip(known, counts, strict=True))
    return total, {term: min(counted[each] for each in part) for term, part in parts.items()}


def _rarity(total: int, count: int) -> float:
    """From 0 to 1: 1 for what at most two memories have."""
    size = total + UNSEEN
    return max(0.0, math.log(size / (max(2, count) + 1)) / math.log(size / 3))


def _tells(term: str) -> bool:
    """That two give the same number, or have one letter in common, does not make them about the same thing."""
    return len(term) > 1 and not term.isdigit()


def _rarest(told: Told, standing: Mapping[str, int]) -> list[str]:
    """The rarest words of a memory that others have too, as the index looks for them."""
    words = {term: word for word, term in told.stems.items() if standing.get(term, 0) > 1}
    rarest = sorted(words, key=lambda term: (standing[term], term))[:RAREST]
    return [(segment(words[term]) or words[term]).strip() for term in rarest]


def _brought(
    store: SearchStore, where: Filter, words: Sequence[str], rows: "NDArray[np.float32] | None", *, most: int
) -> list[int]:
    """What the indexes find: by words, then by vectors."""
    keys = [match.key for match in store.matches(where, words, limit=most)]
    if rows is not None:
        code = np.packbits(rows.sum(axis=0) > 0).tobytes()
        keys += [match.key for match in store.nearest(where, code, limit=most)]
    return list(dict.fromkeys(keys))


def _cosines(
    store: SearchStore, where: Filter, keys: Sequence[int], rows: "NDArray[np.float32] | None"
) -> dict[int, float]:
    """How near each memory is that has vectors: the best passage of either against the mean of the other."""
    if rows is None or not keys:
        return {}
    sheet = Sheet(store.traces(where, keys))
    if not sheet.size:
        return {}
    dimensions = rows.shape[1]
    mean = unit(rows.sum(axis=0, keepdims=True))[0]
    theirs = sheet.best(np.einsum("ij,j->i", sheet.vectors(dimensions), mean))
    ours = np.einsum("ij,kj->ik", sheet.meanings(dimensions), rows).max(axis=1)
    pairs = zip(sheet.traces, np.maximum(theirs, ours), sheet.embedded, strict=True)
    return {trace.key: float(value) for trace, value, embedded in pairs if embedded}


def _features(told: Told, other: Told, rarity: Mapping[str, float]) -> dict[str, float]:
    """What two memories have in common, by name of the feature."""
    shared = sorted((rarity[term] for term in told.terms & other.terms if term in rarity), reverse=True)
    # A word that tells of a change of what both speak of.
    changed = max(
        sum(rarity.get(term, 0.0) for term in one.changed & two.terms)
        for one, two in ((told, other), (other, told))
    )
    return {
        "words": sum(shared[:2]),
        "share": sum(shared) / (sum(rarity.values()) or 1.0),
        "tags": min(2, len(told.tags & other.tags)),
        "untagged": not (told.tags and other.tags),
        "kind": told.kind == other.kind != UNSORTED,
        "unsorted": UNSORTED in (told.kind, other.kind),
        "slots": min(2, len(told.slots & other.slots)),
        "changed": min(2.0, changed),
    }


def _same_words(told: Told, other: Told) -> float:
    """The share of their words that two have in common, where it is high; else 0."""
    share = len(told.terms & other.terms) / (len(told.terms | other.terms) or 1)
    return round(share, DIGITS) if share >= SAME_WORDS else 0.0


def _score(features: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """Rounded, since sums in another order differ in their last digits."""
    odds = weights["intercept"] + sum(weights.get(name, 0.0) * value for name, value in features.items())
    return round(1 / (1 + math.exp(-odds)), DIGITS)
