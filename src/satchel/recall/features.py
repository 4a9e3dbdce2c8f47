"""The features of candidates: the table of features, and the data they are computed from.

A feature is a row of `FEATURES`: its name, its heading in an explanation, how it is computed, and whether its
weight is fitted or set by hand. `scoring` applies the weights.
"""

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar, get_args

import numpy as np

from satchel.model.filters import Filter
from satchel.model.memory import Memory
from satchel.recall.columns import NONE, Columns, in_order_of_time
from satchel.recall.entities import entities
from satchel.recall.question import Question, as_codes
from satchel.store.contract import Link, SearchStore, Trace
from satchel.text.passages import ASKS, NUMBERS, TIMES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[Any]
    FeatureColumns = dict[str, Floats]

__all__ = [
    "FEATURES",
    "PARTS",
    "SEEDS",
    "Evidence",
    "Feature",
    "Lexical",
    "Part",
    "Sheet",
    "features",
    "rarity",
    "shared_names",
    "spread",
    "unit",
]


# A vector this short is one of zeros, apart from rounding.
SHORTEST = 1e-4
DIGITS = 6
_MACHINES = ("assistant", "ai", "bot", "model", "system", "tool", "agent")


class Sheet:
    """The candidates as numpy columns, over memories and over their passages.

    Memories of one thread are next to each other, in order of time. What does not depend on a question is computed
    once, so a sheet that is kept answers the next question faster.
    """

    def __init__(
        self, columns: Columns, runs: Sequence[Sequence[int]] | None = None, *, kept: bool = False
    ) -> None:
        """Sort the rows; `runs` says which memories are neighbours if threads are incomplete.

        A sheet that is `kept` for later questions has an index of its terms.
        """
        self.kept = kept
        in_time = in_order_of_time(columns, np.arange(columns.size))
        order, self.thread = _by_thread(columns, in_time)
        self._age_rank = np.argsort(in_time)[order]
        self.columns = columns = columns.take(order)
        self.size = columns.size
        self.key = columns.key
        self.ids = columns.ids
        self.at = columns.at.astype(np.float64)
        """The time of each memory in microseconds since 1970."""
        self.run = self._runs(runs)
        self.alone = (columns.thread == NONE).astype(np.float64)
        """1 for a memory that belongs to no conversation or document."""
        self.spoken = columns.of_names(columns.tier, ("conversation",))
        self._thread_starts = np.flatnonzero(np.diff(self.thread, prepend=-1))
        self.first = columns.first[:-1]
        self.codes = columns.codes
        # Every passage includes the title, so few have no terms.
        self.length = np.diff(columns.starts).astype(np.float64)
        self.starts = columns.starts[:-1]
        self._ends = columns.starts[1:]
        self.flags = columns.flags

    @classmethod
    def of(cls, traces: Sequence[Trace], runs: Sequence[Sequence[int]] | None = None) -> "Sheet":
        """Return a sheet of traces."""
        return cls(Columns.from_traces(traces), runs)

    @property
    def nbytes(self) -> int:
        """The bytes of the arrays of this sheet, without ids."""
        arrays = [value for value in self.__dict__.values() if isinstance(value, np.ndarray)]
        arrays += [each for value in self.__dict__.values() if isinstance(value, list | tuple) for each in value]
        return self.columns.nbytes + sum(each.nbytes for each in arrays if isinstance(each, np.ndarray))

    def memories(self, store: SearchStore, places: Sequence[int]) -> dict[int, Memory]:
        """Read the memories at these places from the store, by place."""
        found = store.memories([int(self.key[place]) for place in places])
        # After a purge, a key may be used again by a memory of another scope.
        return {
            place: memory
            for place in places
            if (memory := found.get(int(self.key[place]))) is not None and memory.id == self.ids[place]
        }

    @cached_property
    def latest_first(self) -> "NDArray[np.int64]":
        """The position of each memory if all are sorted by time, newest first, and then by id."""
        # Ids are sorted upwards, times downwards.
        return np.argsort(np.lexsort((self._age_rank, -self.columns.at)))

    def _runs(self, runs: Sequence[Sequence[int]] | None) -> "NDArray[np.int64]":
        """Return a number for each run of neighbouring memories of a thread without a gap."""
        breaks = np.ones(self.size, bool)
        breaks[1:] = self.thread[1:] != self.thread[:-1]
        if runs is not None:
            joined = {pair for run in runs for pair in itertools.pairwise(run)}
            keys = self.key.tolist()
            for place in np.flatnonzero(~breaks).tolist():
                breaks[place] = (keys[place - 1], keys[place]) not in joined
        return np.cumsum(breaks)

    def states(self, kinds: Collection[str]) -> "NDArray[np.bool_]":
        """Return which memories are of one of these kinds."""
        return self.columns.of_names(self.columns.kind, kinds)

    @cached_property
    def known_codes(self) -> frozenset[int]:
        """The codes of all terms."""
        return frozenset(self.codes.tolist())

    @cached_property
    def speakers(self) -> dict[int, str]:
        """The speakers, in lower case, by their numbers in the columns."""
        names = self.columns.vocabulary.names
        return {number: names[number] for number in sorted({*self.columns.speaker.tolist()} - {NONE})}

    def has_vectors(self, dimensions: int) -> bool:
        """Whether there are vectors of this length."""
        return self.columns.dimensions == dimensions

    @cached_property
    def vectors(self) -> "NDArray[np.float32]":
        """A unit vector for each passage; zeros if it has none."""
        return unit(self.columns.packed.astype(np.float32))

    @cached_property
    def meanings(self) -> "NDArray[np.float32]":
        """A unit vector for each memory: the normalized mean of its passages."""
        if len(self.first) == len(self.flags):
            return self.vectors
        means = self.vectors[self.first]
        several = np.flatnonzero(np.diff(self.columns.first) > 1)
        for place in several.tolist():
            means[place] = self.vectors[self.columns.first[place] : self.columns.first[place + 1]].sum(axis=0)
        means[several] = unit(means[several])
        return means

    @cached_property
    def window_lengths(self) -> "list[Floats]":
        """The length of the sum of the vectors around each memory, in the narrow and the wide window."""
        rows = self.meanings
        squares = _prefix_sums(np.einsum("ij,ij->i", rows, rows))
        found = [squares[high] - squares[low] for low, high in map(self._window, (NEAR, FAR))]
        longest = int(np.bincount(self.run).max(initial=0))
        for apart in range(1, min(2 * FAR + 1, longest)):
            # The products of memories so far apart, summed over all pairs inside a window.
            pairs = _prefix_sums(np.einsum("ij,ij->i", rows[apart:], rows[:-apart]))
            for total, (low, high) in zip(found, map(self._window, (NEAR, FAR)), strict=True):
                first = np.minimum(low, len(pairs) - 1)
                total += 2 * (pairs[np.maximum(np.minimum(high - apart, len(pairs) - 1), first)] - pairs[first])
        return [_lengths(total) for total in found]

    @cached_property
    def thread_lengths(self) -> "Floats":
        """The length of the sum of the vectors of each memory's thread."""
        sums = np.add.reduceat(self.meanings, self._thread_starts, axis=0)
        return _lengths(np.einsum("ij,ij->i", sums, sums).astype(np.float64))[self.thread]

    @cached_property
    def embedded(self) -> "NDArray[np.bool_]":
        """Which memories have a vector; the others are still in the backlog."""
        found: NDArray[np.bool_] = self.total(self.columns.has_vector.astype(np.int64)) > 0
        return found

    def frequencies(self, codes: Sequence[int]) -> "Floats":
        """Return how often a term, or a phrase of several codes, occurs in each passage."""
        hits = self._positions(codes[0])
        for further, other in enumerate(codes[1:], start=1):
            hits = hits[hits + further < len(self.codes)]
            hits = hits[self.codes[hits + further] == other]
        places = self._passage_of[hits]
        if len(codes) > 1:
            # A phrase must not cross the end of a passage.
            places = places[hits + len(codes) <= self._ends[places]]
        return np.bincount(places, minlength=len(self.starts)).astype(np.float64)

    def counts(self, codes: "NDArray[np.uint32]") -> "NDArray[np.int64]":
        """Return how often each of these terms occurs in all passages together."""
        return np.array([len(self._positions(code)) for code in codes.tolist()], np.int64)

    def _positions(self, code: int) -> "NDArray[np.int64]":
        """Return the positions of a term among all codes, in any order."""
        sought = np.uint32(code)
        if not self.kept:
            return np.flatnonzero(self.codes == sought)
        inverted, order = self._inverted
        return order[inverted.searchsorted(sought) : inverted.searchsorted(sought, side="right")]

    @cached_property
    def _inverted(self) -> "tuple[NDArray[np.uint32], NDArray[np.int64]]":
        """The codes of all passages sorted, and the position of each."""
        order = np.argsort(self.codes)
        return self.codes[order], order

    @cached_property
    def _passage_of(self) -> "NDArray[np.int64]":
        """The passage of each code."""
        return np.repeat(np.arange(len(self.starts)), np.diff(self.columns.starts))

    def best(self, values: "Floats") -> "Floats":
        """Return the highest value among the passages of each memory."""
        if len(self.first) == len(self.flags):
            return values
        return np.maximum.reduceat(values, self.first) if self.size else values

    def total(self, values: "Floats") -> "Floats":
        """Return the sum over the passages of each memory, along the last axis."""
        if len(self.first) == len(self.flags):
            return values
        return np.add.reduceat(values, self.first, axis=-1) if self.size else values

    def beside(self, values: "Floats", distance: int) -> "Floats":
        """Return the value of the memory `distance` places later (earlier if negative); 0 if there is none."""
        shifted = np.zeros_like(values)
        steps = abs(distance)
        if steps >= self.size:
            return shifted
        near, far = (slice(None, -steps), slice(steps, None))
        same = self.run[near] == self.run[far]
        if distance > 0:
            shifted[..., near] = values[..., far] * same
        else:
            shifted[..., far] = values[..., near] * same
        return shifted

    def around(self, values: "Floats", *reaches: int) -> "list[Floats]":
        """Return for each reach the sum over a memory and its neighbours up to that far, along the last axis."""
        sums = _prefix_sums(values)
        return [sums[..., high] - sums[..., low] for low, high in map(self._window, reaches)]

    def _window(self, reach: int) -> "tuple[NDArray[np.int64], NDArray[np.int64]]":
        """Return where the window around each memory starts and ends. It does not leave its run."""
        first, last = self._run_bounds
        place = np.arange(self.size)
        return np.maximum(first, place - reach), np.minimum(last, place + reach + 1)

    @cached_property
    def _run_bounds(self) -> "tuple[NDArray[np.int64], NDArray[np.int64]]":
        starts = np.flatnonzero(np.diff(self.run, prepend=0))
        counts = np.diff(starts, append=self.size)
        first = np.repeat(starts, counts)
        return first, first + np.repeat(counts, counts)

    def thread_total(self, values: "Floats") -> "Floats":
        """Return the sum over the thread of each memory, as far as it is in the sheet, along the last axis."""
        sums: Floats = np.add.reduceat(values, self._thread_starts, axis=-1)[..., self.thread]
        return sums

    def thread_best(self, values: "Floats") -> "Floats":
        """Return the highest value in the thread of each memory."""
        best: Floats = np.maximum.reduceat(values, self._thread_starts)[self.thread]
        return best

    def flagged(self, flag: int) -> "Floats":
        """Return 1 for each memory with a passage that has this flag, otherwise 0."""
        found: Floats = self.best((self.flags & flag > 0).astype(np.float64))
        return found

    @cached_property
    def asks(self) -> "Floats":
        """Whether a memory ends with a question."""
        last = np.concatenate([self.first[1:], [len(self.flags)]]) - 1
        asking: Floats = (self.flags[last] & ASKS > 0).astype(np.float64)
        return asking

    @cached_property
    def has_time(self) -> "Floats":
        """Whether a memory mentions a time."""
        return self.flagged(TIMES)

    @cached_property
    def has_number(self) -> "Floats":
        """Whether a memory has a number."""
        return self.flagged(NUMBERS)

    @cached_property
    def replies(self) -> "Floats":
        """Whether the speaker is an assistant or another machine."""
        return self.columns.of_names(self.columns.speaker, _MACHINES).astype(np.float64)

    @cached_property
    def lengths(self) -> "Floats":
        """The number of terms of each memory."""
        return self.total(self.length)

    @cached_property
    def window_terms(self) -> "list[Floats]":
        """The number of terms around each memory, in the narrow and the wide window."""
        return self.around(self.lengths, NEAR, FAR)

    @cached_property
    def thread_terms(self) -> "Floats":
        """The number of terms of each memory's thread."""
        return self.thread_total(self.lengths)


def _prefix_sums(values: "Floats") -> "Floats":
    """Return the sums of the first 0, 1, 2 … values along the last axis."""
    found = np.zeros((*values.shape[:-1], values.shape[-1] + 1))
    np.cumsum(values, axis=-1, dtype=np.float64, out=found[..., 1:])
    return found


def _lengths(squares: "Floats") -> "Floats":
    """Return the lengths of vectors, given their squares; 1 for a vector of zeros."""
    found: Floats = np.sqrt(np.maximum(squares, 0.0))
    found[found < SHORTEST] = 1.0
    return found


def _by_thread(columns: Columns, in_time: "NDArray[np.int64]") -> "tuple[NDArray[np.int64], NDArray[np.int64]]":
    """Return the rows sorted by thread and time, given in order of time, and the number of each one's thread.

    Threads are numbered by their oldest memory. A memory without a conversation or document is a thread by itself.
    """
    thread = columns.thread[in_time].astype(np.int64)
    alone = thread == NONE
    thread[alone] = -1 - np.flatnonzero(alone)
    # Not `np.unique`, which imports `numpy.ma` on its first call: 5 % of a cold search.
    order = np.argsort(thread, kind="stable")
    starts = _is_other(thread[order])
    oldest = np.empty_like(order)
    oldest[order] = order[starts][np.cumsum(starts) - 1]
    order = np.argsort(oldest, kind="stable")
    return in_time[order], np.cumsum(_is_other(oldest[order])) - 1


def _is_other(values: "NDArray[np.int64]") -> "NDArray[np.bool_]":
    """Return which values differ from the one before; the first does."""
    differs = np.ones(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=differs[1:])
    return differs


def unit(rows: "NDArray[np.float32]") -> "NDArray[np.float32]":
    """Return the rows normalized to length 1; a row of zeros stays."""
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    lengths[lengths == 0] = 1
    found: NDArray[np.float32] = rows / lengths[:, None]
    return found


# Spreading activation: from matches to related memories, and to memories that mention the same names.


# How many of the best matches are seeds.
SEEDS = 8
DEPTH = 2
SPREAD_DECAY = 0.5
MOST_LINKS = 200
LEAST_ACTIVATION = 0.05
# How many characters of a seed are searched for names, and how many names are used.
CHARACTERS_READ = 4000
NAMES_PER_SEED = 16


def spread(
    store: SearchStore, where: Filter, seeds: Mapping[int, float]
) -> tuple[dict[int, float], dict[int, float]]:
    """Return the activation of memories related to the seeds, and how strongly memories are contradicted.

    A link passes on half of the activation, times its strength. A memory has the highest activation that reaches
    it. Activation does not return to its seed, and does not follow a contradiction to the contradicted memory.
    """
    links: dict[int, list[Link]] = {}
    refuted: dict[int, float] = {}
    front = list(seeds)
    for _ in range(DEPTH):
        for link in store.links(front, where, limit=MOST_LINKS) if front else ():
            links.setdefault(link.origin, []).append(link)
            if (against := _refuted(link)) is not None:
                refuted[against] = max(link.strength, refuted.get(against, 0.0))
        front = list({link.key: None for key in front for link in links.get(key, ()) if link.key not in links})
    active: dict[int, float] = {}
    for seed, strength in seeds.items():
        for key, passed in _reached(links, seed, strength).items():
            active[key] = max(passed, active.get(key, 0.0))
    return active, refuted


def _reached(links: Mapping[int, Sequence[Link]], seed: int, strength: float) -> dict[int, float]:
    """Return the activation that one seed passes to each memory at most `DEPTH` links away."""
    found: dict[int, float] = {}
    front = {seed: strength}
    for _ in range(DEPTH):
        reached: dict[int, float] = {}
        for origin, brought in front.items():
            for link in links.get(origin, ()):
                if link.key in (seed, _refuted(link)):
                    continue
                passed = SPREAD_DECAY * link.strength * brought
                if passed > max(found.get(link.key, 0.0), LEAST_ACTIVATION):
                    reached[link.key] = max(passed, reached.get(link.key, 0.0))
        found |= reached
        front = reached
    return found


def _refuted(link: Link) -> int | None:
    """Return the memory that a link contradicts; None if it is no contradiction."""
    if link.kind != "contradicts":
        return None
    return link.key if link.outgoing else link.origin


def shared_names(store: SearchStore, sheet: Sheet, seeds: Sequence[int], strength: "Floats") -> "Floats":
    """Return how many names each memory shares with the seeds, weighted by rarity and the seed's strength.

    The highest value is 1. A name that only one seed has does not count for that seed itself.
    """
    found = np.zeros(sheet.size)
    weights: dict[tuple[int, ...], float] = {}
    holders: dict[tuple[int, ...], set[int]] = {}
    for place, memory in sheet.memories(store, seeds).items():
        for codes in _names(memory.text[:CHARACTERS_READ], memory.tags):
            weights[codes] = weights.get(codes, 0.0) + float(strength[place])
            holders.setdefault(codes, set()).add(place)
    for codes, weight in weights.items():
        present = sheet.total(sheet.frequencies(codes[:3])) > 0
        count = int(present.sum())
        if 1 < count <= max(8, sheet.size // 10):
            own = np.zeros(sheet.size)
            if len(holders[codes]) == 1:
                own[list(holders[codes])] = 1
            found += present * (1 - own) * weight * np.log1p(sheet.size / count)
    highest = found.max(initial=0.0)
    return found / highest if highest > 0 else found


@lru_cache(maxsize=4096)
def _names(text: str, tags: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
    """Return the codes of the names in a text, and of its tags."""
    return tuple(codes for name in (*entities(text)[:NAMES_PER_SEED], *tags) if (codes := as_codes(name)))


# The data that features are computed from.


K1 = 1.2
B = 0.75
DECAY = 0.6
REACH = 4
NEAR = 2
FAR = 6
# How many words of a question are searched for as neighbouring pairs.
MOST_PAIRED = 24
DAY = 86_400e6
HALF_LIFE_DAYS = 30.0
DOUBT_DOUBLES_DAYS = 365.0
MOST_USES = 20


class Lexical:
    """The frequencies of the question's terms in passages and memories, and BM25 over them."""

    def __init__(self, sheet: Sheet, question: Question, rarity: "Floats") -> None:
        self.rarity = rarity * np.array([term.weight for term in question.terms])
        found = [sheet.frequencies(term.codes) for term in question.terms]
        self.passages = np.stack(found) if found else np.zeros((0, len(sheet.starts)))
        self.memories = sheet.total(self.passages)
        self.length = sheet.lengths
        self.possible = float(self.rarity.sum()) or 1.0

    def bm25(self, frequencies: "Floats", lengths: "Floats") -> "Floats":
        """Return BM25 scores, given the frequency of each term in each text and the lengths of the texts."""
        mean = lengths.mean() if lengths.size else 1.0
        norm = K1 * (1 - B + B * lengths / (mean or 1.0))
        scores: Floats = (self.rarity[:, None] * frequencies * (K1 + 1) / (frequencies + norm)).sum(axis=0)
        return scores

    def coverage(self, frequencies: "Floats") -> "Floats":
        """Return the share of the question's terms that each text has, weighted by rarity."""
        share: Floats = (self.rarity[:, None] * (frequencies > 0)).sum(axis=0) / self.possible
        return share


def rarity(total: int, counts: "Floats") -> "Floats":
    """Return the inverse document frequency of terms, as in BM25."""
    found: Floats = np.log1p((np.maximum(total - counts, 0) + 0.5) / (counts + 0.5))
    return found


class _Window(NamedTuple):
    """The text around each memory: its BM25 score, and how much of the question it covers."""

    score: "Floats"
    cover: "Floats"


class _Graph(NamedTuple):
    """Columns from the graph: activation by relations, contradiction, and shared names."""

    linked: "Floats"
    contradicted: "Floats"
    entities: "Floats"


class Evidence:
    """The candidates of a question, and the columns that features are computed from.

    `question` is the question with typos corrected. Each column has a value for every memory of the sheet, and is
    computed when a feature first needs it.
    """

    def __init__(
        self, store: SearchStore, where: Filter, sheet: Sheet, question: Question, rarity: "Floats"
    ) -> None:
        """Count the terms in the sheet; `rarity` is the inverse document frequency of each term of the question."""
        self.store = store
        self.where = where
        self.sheet = sheet
        self.question = question
        self.words = Lexical(sheet, question, rarity)
        self.columns: FeatureColumns = {}
        """The features of each candidate, by name, and `alone`, which is 1 for notes."""
        self.matched: NDArray[np.bool_] = np.zeros(sheet.size, bool)
        """Which candidates matched themselves; the others are neighbours of a match."""

    # Words of a memory and of its passages.

    @cached_property
    def text(self) -> "Floats":
        """BM25 over whole memories."""
        return self.words.bm25(self.words.memories, self.words.length)

    @cached_property
    def passage(self) -> "Floats":
        """BM25 of the best passage."""
        return self.sheet.best(self.passage_scores)

    @cached_property
    def passage_scores(self) -> "Floats":
        """BM25 of each passage."""
        return self.words.bm25(self.words.passages, self.sheet.length)

    @cached_property
    def _named(self) -> "NDArray[np.bool_]":
        """Which terms are parts of names in the question."""
        names = self.question.names
        terms = self.question.terms
        return np.array([not names.isdisjoint((term.meant or term.text).split()) for term in terms], bool)

    @cached_property
    def _weighted(self) -> "Floats":
        found: Floats = self.words.rarity[:, None] * (self.words.memories > 0)
        return found

    def rarest(self) -> "Floats":
        """The rarity of the rarest term that a memory has, as a share of the question's rarest."""
        if not len(self.words.rarity):
            return np.zeros(self.sheet.size)
        found: Floats = self._weighted.max(axis=0) / (self.words.rarity.max() or 1.0)
        return found

    @cached_property
    def named_word(self) -> "Floats":
        """The share of the question's names that a memory has, weighted by rarity."""
        named = self._named
        if not named.any():
            return np.zeros(self.sheet.size)
        found: Floats = self._weighted[named].sum(axis=0) / (self.words.rarity[named].sum() or 1.0)
        return found

    def unnamed_word(self) -> "Floats":
        """Whether a memory has none of the question's names, if it has any."""
        found: Floats = (self.named_word == 0) * float(self._named.any())
        return found

    def matched_words(self) -> "Floats":
        """The logarithm of the number of the question's terms that a memory has."""
        found: Floats = np.log1p((self.words.memories > 0).sum(axis=0))
        return found

    def phrase(self) -> "Floats":
        """The share of the question's pairs of neighbouring words that are neighbours in a memory."""
        pairs, present = 0, np.zeros(self.sheet.size)
        for one, other in itertools.pairwise(self.question.terms[:MOST_PAIRED]):
            if len(one.codes) == len(other.codes) == 1 and one.meant is None and other.meant is None:
                pairs += 1
                present = present + (self.sheet.total(self.sheet.frequencies((*one.codes, *other.codes))) > 0)
        return present / (pairs or 1)

    # Vectors. A memory without a vector counts as average.

    @property
    def _zeros(self) -> "Floats":
        return np.zeros(self.sheet.size)

    @property
    def _has_meaning(self) -> bool:
        vector = self.question.vector
        return vector is not None and self.sheet.size > 0 and self.sheet.has_vectors(len(vector))

    @property
    def _vector(self) -> "Floats":
        vector: Floats = self.question.vector
        return vector

    @cached_property
    def _passage_cosines(self) -> "Floats":
        """The cosine of each memory's best passage; 0 if the question has no vector."""
        return self.sheet.best(_cosines(self.sheet.vectors, self._vector)) if self._has_meaning else self._zeros

    @cached_property
    def passage_meaning(self) -> "Floats":
        """The cosine of the best passage."""
        return self._imputed(self._passage_cosines)

    @cached_property
    def meaning(self) -> "Floats":
        """The cosine of a whole memory: the mean of its passages."""
        return self._imputed(self._mean_cosines)

    @cached_property
    def _mean_cosines(self) -> "Floats":
        return _cosines(self.sheet.meanings, self._vector) if self._has_meaning else self._zeros

    def _imputed(self, cosines: "Floats") -> "Floats":
        """Return the cosines, with the mean of the others for memories without a vector."""
        waiting = ~self.sheet.embedded
        if self.question.vector is not None and waiting.any() and not waiting.all():
            cosines = cosines.copy()
            cosines[waiting] = cosines[~waiting].mean()
        return cosines

    @cached_property
    def _windows_meaning(self) -> "tuple[Floats, Floats]":
        """The cosine of the text around each memory, in the narrow and the wide window."""
        if not self._has_meaning:
            return self._zeros, self._zeros
        sums, lengths = self.sheet.around(self._mean_cosines, NEAR, FAR), self.sheet.window_lengths
        # Rounded, because sums over equal windows differ in the last digits.
        near, far = (np.round(total / length, DIGITS) for total, length in zip(sums, lengths, strict=True))
        return near, far

    @property
    def around_meaning(self) -> "Floats":
        """The cosine of the text in the narrow window."""
        return self._windows_meaning[0]

    @property
    def far_meaning(self) -> "Floats":
        """The cosine of the text in the wide window."""
        return self._windows_meaning[1]

    @cached_property
    def thread_meaning(self) -> "Floats":
        """The cosine of the whole thread."""
        if not self._has_meaning:
            return self._zeros
        found: Floats = self.sheet.thread_total(self._mean_cosines) / self.sheet.thread_lengths
        return found

    def beside_meaning(self, distance: int) -> "Floats":
        """The cosine of the memory `distance` places later."""
        return self.sheet.beside(self._passage_cosines, distance)

    # The surroundings of a turn in its conversation.

    def beside(self, distance: int) -> "Floats":
        """BM25 of the memory `distance` places later, as a share of the best."""
        return self.sheet.beside(self.passage, distance) / (self.passage.max(initial=0.0) or 1.0)

    @cached_property
    def near(self) -> "Floats":
        """BM25 of the neighbours, which counts less with distance."""
        found = np.zeros(self.sheet.size)
        for distance in range(1, REACH + 1):
            found += DECAY**distance * (
                self.sheet.beside(self.passage, distance) + self.sheet.beside(self.passage, -distance)
            )
        return found

    @cached_property
    def _windows(self) -> tuple[_Window, _Window]:
        present = self.sheet.around(self.words.memories, NEAR, FAR)
        near, far = map(self._window, present, self.sheet.window_terms)
        return near, far

    def _window(self, frequencies: "Floats", lengths: "Floats") -> _Window:
        return _Window(self.words.bm25(frequencies, lengths), self.words.coverage(frequencies))

    @property
    def around(self) -> _Window:
        """The narrow window around each memory."""
        return self._windows[0]

    @property
    def far(self) -> _Window:
        """The wide window around each memory."""
        return self._windows[1]

    @cached_property
    def thread(self) -> _Window:
        """The whole thread of each memory."""
        return self._window(self.sheet.thread_total(self.words.memories), self.sheet.thread_terms)

    @cached_property
    def answer(self) -> "Floats":
        """Whether the memory before ends with a question: then this one may be the answer."""
        return self.sheet.beside(self.sheet.asks, -1)

    # Speaker, time and kind.

    @cached_property
    def _asked_of(self) -> list[str]:
        """The speakers that the question names."""
        words = self.question.words
        return [name for name in self.sheet.speakers.values() if not words.isdisjoint(name.split())]

    @cached_property
    def named(self) -> "Floats":
        """Whether the question names the speaker."""
        columns = self.sheet.columns
        return columns.of_names(columns.speaker, self._asked_of).astype(np.float64)

    def other(self) -> "Floats":
        """Whether the question names another speaker."""
        return (1 - self.named) * bool(self._asked_of)

    @property
    def at(self) -> "Floats":
        """The time of each memory in microseconds since 1970."""
        return self.sheet.at

    def opening(self) -> "Floats":
        """Whether a memory is the first of its run."""
        first = np.ones(self.sheet.size)
        first[1:] = self.sheet.run[1:] != self.sheet.run[:-1]
        return first

    def early(self) -> "Floats":
        """How early a turn is, from 0.5 to -0.5; 0 for notes. Questions are more often about early turns."""
        at = self.at
        oldest, newest = (float(at.min()), float(at.max())) if self.sheet.size else (0.0, 0.0)
        return (0.5 - (at - oldest) / (newest - oldest or 1.0)) * self.sheet.spoken

    @cached_property
    def dated(self) -> "Floats":
        """Whether a memory is from a time that the question names; 0.5 if that is vague."""
        found = np.zeros(self.sheet.size)
        for span in self.question.times:
            start, end = span.start.timestamp() * 1e6, span.end.timestamp() * 1e6
            inside = (self.at >= start) & (self.at < end)
            found = np.maximum(found, inside * (1.0 if span.precise == "exact" else 0.5))
        return found

    @cached_property
    def inside(self) -> "Floats":
        """Whether a memory is from a time that the question names, exact or vague."""
        return (self.dated > 0).astype(np.float64)

    @cached_property
    def too_late(self) -> "Floats":
        """Whether a memory is from after all times that the question names."""
        if not self.question.times:
            return np.zeros(self.sheet.size)
        return (self.at >= max(span.end.timestamp() for span in self.question.times) * 1e6).astype(np.float64)

    @cached_property
    def too_early(self) -> "Floats":
        """Whether a memory is from before all times that the question names."""
        if not self.question.times:
            return np.zeros(self.sheet.size)
        return (self.at < min(span.start.timestamp() for span in self.question.times) * 1e6).astype(np.float64)

    def length(self) -> "Floats":
        """The logarithm of the number of tokens."""
        found: Floats = np.log(self.sheet.columns.tokens + 4)
        return found

    def other_kind(self) -> "Floats":
        """Whether a memory is of another kind than the question names."""
        kinds = self.question.intent.kinds
        return (1 - self.of_kind(kinds)) * bool(kinds)

    def of_kind(self, kinds: Collection[str]) -> "Floats":
        """Whether a memory is of one of these kinds."""
        return self.sheet.states(kinds).astype(np.float64)

    # Properties that do not depend on the question, and the graph.

    @cached_property
    def age(self) -> "Floats":
        """The age in days, at the full hour, so that searches within an hour give the same scores."""
        hour = self.question.asked_at.replace(minute=0, second=0, microsecond=0)
        found: Floats = np.maximum((hour.timestamp() * 1e6 - self.at) / DAY, 0.0)
        return found

    def importance(self) -> "Floats":
        """The importance, from -0.5 to 0.5."""
        return self.sheet.columns.importance - 0.5

    def pinned(self) -> "Floats":
        """Whether a memory is pinned."""
        return self.sheet.columns.pinned

    def doubt(self) -> "Floats":
        """The lack of confidence, which counts up to double with age."""
        doubt = 1 - self.sheet.columns.confidence
        found: Floats = doubt * (1 + np.minimum(self.age / DOUBT_DOUBLES_DAYS, 1.0))
        return found

    def used(self) -> "Floats":
        """The logarithm of how often a memory was used, limited."""
        found: Floats = np.log1p(np.minimum(self.sheet.columns.uses, MOST_USES))
        return found

    @cached_property
    def graph(self) -> _Graph:
        """Activation spread from the best matches."""
        sheet = self.sheet
        top = _top(self.passage)
        first = top + self.passage_meaning
        leading = [int(place) for place in np.argsort(-first, kind="stable")[:SEEDS]]
        seeds = {int(sheet.key[place]): float(top[place]) for place in leading}
        active, refuted = spread(self.store, self.where, {key: value for key, value in seeds.items() if value > 0})
        return _Graph(
            linked=_spread_out(sheet, active),
            contradicted=_spread_out(sheet, refuted),
            entities=shared_names(self.store, sheet, leading, first),
        )


def _spread_out(sheet: Sheet, values: Mapping[int, float]) -> "Floats":
    """Return a column with these values, which are given by the keys of memories; 0 for the others."""
    if not values:
        return np.zeros(sheet.size)
    return np.array([values.get(key, 0.0) for key in sheet.key.tolist()])


def _cosines(rows: "Floats", vector: "Floats") -> "Floats":
    """Return the dot product of each row. Unlike a matrix product, `einsum` gives equal values for equal rows."""
    found: Floats = np.einsum("ij,j->i", rows, vector).astype(np.float64)
    return found


def _top(values: "Floats") -> "Floats":
    """Return the values as shares of the highest."""
    highest = values.max(initial=0.0)
    return values / highest if highest > 0 else values * 0


def _rank(values: "Floats") -> "Floats":
    """Return the logarithm of the rank by this column; equal values have the same rank."""
    better = len(values) - np.searchsorted(np.sort(values), values, side="right")
    found: Floats = np.log1p(better)
    return found


def _positive(values: "Floats") -> "Floats":
    found: Floats = np.maximum(values, 0)
    return found


def _deviation(values: "Floats") -> "Floats":
    """Return the deviation from the mean in standard deviations."""
    found: Floats = (values - values.mean()) / (float(values.std()) or 1.0)
    return found


# The table of features.


Part = Literal[
    "words", "surroundings", "session", "meaning", "speaker", "shape", "kind", "time", "currency", "graph", "trust"
]
PARTS: tuple[Part, ...] = get_args(Part)
"""The headings of features in an explanation, in this order."""


Source = TypeVar("Source")


class Feature(NamedTuple, Generic[Source]):
    """A column with one number for each candidate, and how it is computed, weighted and explained."""

    name: str
    part: Part
    """Its heading in an explanation."""
    compute: "Callable[[Source], Floats]"
    fitted: Literal["notes", "turns", "both"] | None = None
    """Which models in `weights.json` have a weight for it. Those of turns are computed only if there are turns."""
    by_hand: float = 0.0
    """A weight set by hand, added to the fitted one."""


# To add a feature, add a row here; `python -m bench.fit --write` then fits its weight, unless it is set by hand.
# Features that compare the best candidates with each other are in `rerank.RERANK_FEATURES`.
FEATURES: tuple[Feature[Evidence], ...] = (
    Feature("text/top", "words", lambda seen: _top(seen.text), "both"),
    Feature("text/rank", "words", lambda seen: _rank(seen.text), "both"),
    Feature("passage", "words", lambda seen: seen.passage, "turns"),
    Feature("passage/top", "words", lambda seen: _top(seen.passage), "turns"),
    Feature("passage/rank", "words", lambda seen: _rank(seen.passage), "turns"),
    Feature(
        "passage_cover", "words", lambda seen: seen.sheet.best(seen.words.coverage(seen.words.passages)), "both"
    ),
    Feature("rarest", "words", Evidence.rarest, "both"),
    Feature("named_word", "words", lambda seen: seen.named_word, "both"),
    Feature("unnamed_word", "words", Evidence.unnamed_word, "turns"),
    Feature("matched", "words", Evidence.matched_words, "both"),
    Feature("passage_meaning", "meaning", lambda seen: seen.passage_meaning, "both"),
    Feature("passage_meaning/top", "meaning", lambda seen: _top(_positive(seen.passage_meaning)), "both"),
    Feature("passage_meaning/rank", "meaning", lambda seen: _rank(seen.passage_meaning), "both"),
    Feature("length", "shape", Evidence.length, "both"),
    Feature("asks", "shape", lambda seen: seen.sheet.asks, "turns"),
    Feature("time_told", "shape", lambda seen: seen.sheet.has_time, "turns"),
    Feature("time_wanted", "time", lambda seen: seen.sheet.has_time * seen.question.asks_when, "turns"),
    Feature("number_told", "shape", lambda seen: seen.sheet.has_number, "turns"),
    Feature("number_wanted", "shape", lambda seen: seen.sheet.has_number * seen.question.asks_many, "turns"),
    Feature("opening", "shape", Evidence.opening, "turns"),
    Feature("early", "time", Evidence.early, "turns"),
    Feature("dated", "time", lambda seen: seen.dated, "turns"),
    Feature("kind_asked", "kind", lambda seen: seen.of_kind(seen.question.intent.kinds), "notes"),
    Feature("kind_other", "kind", Evidence.other_kind, "notes"),
    Feature("kind_likely", "kind", lambda seen: seen.of_kind(seen.question.intent.likely), "notes"),
    Feature("inside", "time", lambda seen: seen.inside, "both"),
    Feature("too_late", "time", lambda seen: seen.too_late, "both"),
    Feature("too_early", "time", lambda seen: seen.too_early, "both"),
    Feature("inside*events", "time", lambda seen: seen.inside * seen.question.intent.events, "both"),
    Feature("too_late*events", "time", lambda seen: seen.too_late * seen.question.intent.events, "both"),
    Feature("too_early*events", "time", lambda seen: seen.too_early * seen.question.intent.events, "both"),
    Feature("text", "words", lambda seen: seen.text, "turns"),
    Feature("cover", "words", lambda seen: seen.words.coverage(seen.words.memories), "turns"),
    Feature("phrase", "words", Evidence.phrase, "turns"),
    Feature("meaning", "meaning", lambda seen: seen.meaning, "turns"),
    Feature("meaning/top", "meaning", lambda seen: _top(_positive(seen.meaning)), "turns"),
    Feature("passage_meaning/z", "meaning", lambda seen: _deviation(seen.passage_meaning), "turns"),
    Feature("before", "surroundings", lambda seen: seen.beside(-1), "turns"),
    Feature("after", "surroundings", lambda seen: seen.beside(1), "turns"),
    Feature("before2", "surroundings", lambda seen: seen.beside(-2), "turns"),
    Feature("after2", "surroundings", lambda seen: seen.beside(2), "turns"),
    Feature("near", "surroundings", lambda seen: seen.near, "turns"),
    Feature("near/top", "surroundings", lambda seen: _top(seen.near), "turns"),
    Feature("near/rank", "surroundings", lambda seen: _rank(seen.near), "turns"),
    Feature("around", "surroundings", lambda seen: seen.around.score, "turns"),
    Feature("around/top", "surroundings", lambda seen: _top(seen.around.score), "turns"),
    Feature("around_cover", "surroundings", lambda seen: seen.around.cover, "turns"),
    Feature("far", "surroundings", lambda seen: seen.far.score, "turns"),
    Feature("far/top", "surroundings", lambda seen: _top(seen.far.score), "turns"),
    Feature("far_cover", "surroundings", lambda seen: seen.far.cover, "turns"),
    Feature("thread", "session", lambda seen: seen.thread.score, "turns"),
    Feature("thread/top", "session", lambda seen: _top(seen.thread.score), "turns"),
    Feature("thread_best/top", "session", lambda seen: _top(seen.sheet.thread_best(seen.passage)), "turns"),
    Feature("thread_cover", "session", lambda seen: seen.thread.cover, "turns"),
    Feature("around_meaning", "meaning", lambda seen: seen.around_meaning, "turns"),
    Feature("far_meaning", "meaning", lambda seen: seen.far_meaning, "turns"),
    Feature("thread_meaning", "session", lambda seen: seen.thread_meaning, "turns"),
    Feature("around_meaning/top", "meaning", lambda seen: _top(_positive(seen.around_meaning)), "turns"),
    Feature("far_meaning/top", "meaning", lambda seen: _top(_positive(seen.far_meaning)), "turns"),
    Feature("thread_meaning/top", "session", lambda seen: _top(_positive(seen.thread_meaning)), "turns"),
    Feature("around_meaning/rank", "meaning", lambda seen: _rank(seen.around_meaning), "turns"),
    Feature("before_meaning", "meaning", lambda seen: seen.beside_meaning(-1), "turns"),
    Feature("after_meaning", "meaning", lambda seen: seen.beside_meaning(1), "turns"),
    Feature("named", "speaker", lambda seen: seen.named, "turns"),
    Feature("other", "speaker", Evidence.other, "turns"),
    Feature("reply", "speaker", lambda seen: seen.sheet.replies, "turns"),
    Feature("reply_to_me", "speaker", lambda seen: seen.sheet.replies * seen.question.first_person, "turns"),
    Feature("answer", "surroundings", lambda seen: seen.answer, "turns"),
    Feature("answer*before", "surroundings", lambda seen: seen.answer * seen.beside(-1), "turns"),
    Feature("answer*before_meaning", "surroundings", lambda seen: seen.answer * seen.beside_meaning(-1), "turns"),
    Feature("linked", "graph", lambda seen: seen.graph.linked, by_hand=2.5),
    Feature("entities", "graph", lambda seen: seen.graph.entities, "both"),
    Feature("importance", "trust", Evidence.importance, by_hand=1.5),
    Feature("doubt", "trust", Evidence.doubt, by_hand=-2.0),
    Feature("contradicted", "trust", lambda seen: seen.graph.contradicted, by_hand=-1.0),
    Feature("recent", "time", lambda seen: 0.5 ** (seen.age / HALF_LIFE_DAYS), "notes", by_hand=0.5),
    Feature("used", "trust", Evidence.used, by_hand=0.05),
    Feature("pinned", "trust", Evidence.pinned, by_hand=1.0),
)


def features(seen: Evidence) -> "FeatureColumns":
    """Compute all feature columns of the candidates; those of turns only if there are turns."""
    turns = not seen.sheet.alone.all()
    columns: FeatureColumns = {"alone": seen.sheet.alone}
    columns |= {each.name: each.compute(seen) for each in FEATURES if turns or each.fitted != "turns"}
    return columns
