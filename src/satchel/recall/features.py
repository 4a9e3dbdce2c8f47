"""The features of candidates: the table of features, and the data they are computed from.

A feature is a row of `FEATURES`: its name, its heading in an explanation, how it is computed, and whether its
weight is fitted or set by hand. `scoring` applies the weights.
"""

import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar, get_args

import numpy as np

from satchel.model.filters import Filter
from satchel.model.memory import Memory
from satchel.recall.columns import Derived, best_first
from satchel.recall.entities import entities
from satchel.recall.question import QueryTerm, Question, as_codes
from satchel.recall.sheet import K1, REACH, Sheet
from satchel.store.contract import Link, SearchStore

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[Any]
    FeatureColumns = dict[str, Floats]
    Value = TypeVar("Value")

__all__ = [
    "FEATURES",
    "PARTS",
    "SEEDS",
    "Evidence",
    "Feature",
    "Lexical",
    "Part",
    "features",
    "names_of",
    "shared_names",
    "spread",
]


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


def shared_names(sheet: Sheet, seeds: Mapping[int, Iterable[tuple[int, ...]]], strength: "Floats") -> "Floats":
    """Return how many names each memory shares with the seeds, weighted by rarity and the seed's strength.

    `seeds` are the names of memories by their places. The highest value is 1. A name that only one seed has does
    not count for that seed itself.
    """
    found = np.zeros(sheet.size)
    weights: dict[tuple[int, ...], float] = {}
    holders: dict[tuple[int, ...], set[int]] = {}
    for place, names in seeds.items():
        for codes in names:
            weights[codes] = weights.get(codes, 0.0) + float(strength[place])
            holders.setdefault(codes, set()).add(place)
    # Most names occur only once, which one look at the index tells for all of them.
    counts = sheet.counts(np.array([codes[0] for codes in weights], np.uint32))
    often = list(itertools.compress(weights, (counts > 1).tolist()))
    for codes, places in zip(often, sheet.holders([codes[:3] for codes in often]), strict=True):
        if 1 < len(places) <= max(8, sheet.size // 10):
            added = weights[codes] * np.log1p(sheet.size / len(places))
            own = holders[codes]
            found[places[places != next(iter(own))] if len(own) == 1 else places] += added
    highest = found.max(initial=0.0)
    return found / highest if highest > 0 else found


def names_of(memory: Memory) -> tuple[tuple[int, ...], ...]:
    """Return the codes of the names in the text of a memory, and of its tags."""
    names = (*entities(memory.text[:CHARACTERS_READ])[:NAMES_PER_SEED], *memory.tags)
    return tuple(codes for name in names if (codes := as_codes(name)))


# The data that features are computed from.


DECAY = 0.6
# Sums over equal windows differ in the last digits.
DIGITS = 6
# How many words of a question are searched for as neighbouring pairs.
MOST_PAIRED = 24
DAY = 86_400e6
HALF_LIFE_DAYS = 30.0
DOUBT_DOUBLES_DAYS = 365.0


class Lexical:
    """The frequencies of the question's terms in passages and memories, and BM25 over them."""

    def __init__(self, sheet: Sheet, terms: Sequence[QueryTerm]) -> None:
        self._term_weights = np.array([term.weight for term in terms])
        self.passages = sheet.frequencies([term.codes for term in terms])
        self.memories = sheet.total(self.passages)
        self.present = self.memories > 0
        self.counts = np.count_nonzero(self.present, axis=1)
        """How many memories of the sheet have each term."""
        self.rarity = self._term_weights
        self.possible = 1.0

    def weigh(self, total: int, counts: "NDArray[np.int64]") -> None:
        """Weight each term by its rarity, given how many of all memories have it."""
        # The inverse document frequency, as in BM25.
        rarity = np.log1p((np.maximum(total - counts, 0) + 0.5) / (counts + 0.5))
        self.rarity = rarity * self._term_weights
        self.possible = float(self.rarity.sum()) or 1.0

    # A matrix product may give different values for equal columns; `einsum` does not.

    def bm25(self, frequencies: "Floats", norm: "Floats") -> "Floats":
        """Return BM25 scores, given the frequency of each term in each text and the norm of the texts."""
        scores: Floats = np.einsum("i,ij->j", (K1 + 1) * self.rarity, frequencies / (frequencies + norm))
        return scores

    def coverage(self, frequencies: "Floats") -> "Floats":
        """Return the share of the question's terms that each text has, weighted by rarity."""
        share: Floats = np.einsum("i,ij->j", self.rarity / self.possible, np.minimum(frequencies, 1.0))
        return share


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
        self,
        store: SearchStore,
        where: Filter,
        sheet: Sheet,
        question: Question,
        words: Lexical,
        derived: Derived | None = None,
    ) -> None:
        """Take what `ranking.gather` found: the terms of the question in the sheet, and what is kept of texts."""
        self.store = store
        self.where = where
        self.sheet = sheet
        self.question = question
        self.words = words
        self.columns: FeatureColumns = {}
        """The features of each candidate, by name, and `alone`, which is 1 for notes."""
        self.matched: NDArray[np.bool_] = np.zeros(sheet.size, bool)
        """Which candidates matched themselves; the others are neighbours of a match."""
        self._read: dict[int, Memory] = {}
        self._derived = Derived() if derived is None else derived

    def memories(self, places: Sequence[int]) -> dict[int, Memory]:
        """Return the memories at these places. Each is read from the store once."""
        missing = [place for place in places if place not in self._read]
        if missing:
            self._read |= self.sheet.memories(self.store, missing)
        return {place: self._read[place] for place in places if place in self._read}

    def derive(self, what: str, derive: "Callable[[Memory], Value]", places: Sequence[int]) -> "dict[int, Value]":
        """Return what is derived from the texts at these places. A text is read only if that is not kept."""
        keys = self.sheet.key
        found = {place: self._derived.get(what, int(keys[place])) for place in places}
        for place, memory in self.memories([place for place in places if found[place] is None]).items():
            found[place] = derive(memory)
            self._derived.add(what, int(keys[place]), found[place])
        return {place: value for place, value in found.items() if value is not None}

    @cached_property
    def zeros(self) -> "Floats":
        """A column of zeros, for what a question does not ask for."""
        return np.zeros(self.sheet.size)

    # Words of a memory and of its passages.

    @cached_property
    def text(self) -> "Floats":
        """BM25 over whole memories."""
        return self.words.bm25(self.words.memories, self.sheet.memory_norm)

    @cached_property
    def passage(self) -> "Floats":
        """BM25 of the best passage."""
        return self.sheet.best(self.passage_scores)

    @cached_property
    def passage_scores(self) -> "Floats":
        """BM25 of each passage."""
        return self.words.bm25(self.words.passages, self.sheet.passage_norm)

    @cached_property
    def _named(self) -> "NDArray[np.bool_]":
        """Which terms are parts of names in the question."""
        names = self.question.names
        terms = self.question.terms
        return np.array([not names.isdisjoint((term.meant or term.text).split()) for term in terms], bool)

    @cached_property
    def _weighted(self) -> "Floats":
        found: Floats = self.words.rarity[:, None] * self.words.present
        return found

    def rarest(self) -> "Floats":
        """The rarity of the rarest term that a memory has, as a share of the question's rarest."""
        if not len(self.words.rarity):
            return self.zeros
        found: Floats = self._weighted.max(axis=0) / (self.words.rarity.max() or 1.0)
        return found

    @cached_property
    def named_word(self) -> "Floats":
        """The share of the question's names that a memory has, weighted by rarity."""
        named = self._named
        if not named.any():
            return self.zeros
        found: Floats = self._weighted[named].sum(axis=0) / (self.words.rarity[named].sum() or 1.0)
        return found

    def unnamed_word(self) -> "Floats":
        """Whether a memory has none of the question's names, if it has any."""
        return (self.named_word == 0).astype(np.float64) if self._named.any() else self.zeros

    def matched_words(self) -> "Floats":
        """The logarithm of the number of the question's terms that a memory has."""
        found: Floats = np.log1p(np.count_nonzero(self.words.present, axis=0))
        return found

    def phrase(self) -> "Floats":
        """The share of the question's pairs of neighbouring words that are neighbours in a memory."""
        pairs, there, present = 0, [], np.zeros(self.sheet.size)
        counted = zip(self.question.terms[:MOST_PAIRED], self.words.counts.tolist(), strict=False)
        for (one, ones), (other, others) in itertools.pairwise(counted):
            if len(one.codes) == len(other.codes) == 1 and one.meant is None and other.meant is None:
                pairs += 1
                if ones and others:
                    there.append((*one.codes, *other.codes))
        for places in self.sheet.holders(there):
            present[places] += 1
        return present / (pairs or 1)

    # Vectors. A memory without a vector counts as average.

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
        return self.sheet.best(self._cosines) if self._has_meaning else self.zeros

    @cached_property
    def _cosines(self) -> "Floats":
        """The cosine of each passage."""
        return _cosines(self.sheet.vectors, self._vector)

    @cached_property
    def passage_meaning(self) -> "Floats":
        """The cosine of the best passage."""
        return self._imputed(self._passage_cosines)

    @cached_property
    def meaning(self) -> "Floats":
        """The cosine of a whole memory: the mean of its passages."""
        return self._imputed(self.mean_cosines)

    @cached_property
    def mean_cosines(self) -> "Floats":
        """The cosine of each memory, 0 for one without a vector."""
        if not self._has_meaning:
            return self.zeros
        sheet = self.sheet
        if not len(sheet.several):
            return self._cosines
        found = self._cosines[sheet.first]
        found[sheet.several] = _cosines(sheet.meanings[sheet.several], self._vector)
        return found

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
            return self.zeros, self.zeros
        (near, far), lengths = self.sheet.around(self.mean_cosines), self.sheet.window_lengths
        return np.round(near / lengths[0], DIGITS), np.round(far / lengths[1], DIGITS)

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
            return self.zeros
        found: Floats = (self.sheet.thread_sums(self.mean_cosines) / self.sheet.thread_lengths)[self.sheet.thread]
        return found

    def beside_meaning(self, distance: int) -> "Floats":
        """The cosine of the memory `distance` places later."""
        return self.sheet.beside(self._passage_cosines, distance)

    # The surroundings of a turn in its conversation.

    @cached_property
    def passage_top(self) -> "Floats":
        """BM25 of the best passage, as a share of the highest."""
        return _top(self.passage)

    def beside(self, distance: int) -> "Floats":
        """BM25 of the memory `distance` places later, as a share of the best."""
        return self.sheet.beside(self.passage_top, distance)

    @cached_property
    def before(self) -> "Floats":
        """BM25 of the memory before, as a share of the best."""
        return self.beside(-1)

    @cached_property
    def before_meaning(self) -> "Floats":
        """The cosine of the memory before."""
        return self.beside_meaning(-1)

    @cached_property
    def near(self) -> "Floats":
        """BM25 of the neighbours, which counts less with distance."""
        found = np.zeros(self.sheet.size)
        for distance in range(1, REACH + 1):
            both = self.sheet.beside(self.passage, distance) + self.sheet.beside(self.passage, -distance)
            found += DECAY**distance * both
        return found

    @cached_property
    def _windows(self) -> tuple[_Window, _Window]:
        near, far = map(self._window, self.sheet.around(self.words.memories), self.sheet.window_norms)
        return near, far

    def _window(self, frequencies: "Floats", norm: "Floats") -> _Window:
        return _Window(self.words.bm25(frequencies, norm), self.words.coverage(frequencies))

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
        whole = self._window(self.sheet.thread_sums(self.words.memories), self.sheet.thread_norm)
        return _Window(whole.score[self.sheet.thread], whole.cover[self.sheet.thread])

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
        if not self._asked_of:
            return self.zeros
        columns = self.sheet.columns
        return columns.of_names(columns.speaker, self._asked_of).astype(np.float64)

    def other(self) -> "Floats":
        """Whether the question names another speaker."""
        return 1 - self.named if self._asked_of else self.zeros

    def reply_to_me(self) -> "Floats":
        """Whether the speaker is a machine, if the question is about the person who asks."""
        return self.sheet.replies if self.question.first_person else self.zeros

    @property
    def at(self) -> "Floats":
        """The time of each memory in microseconds since 1970."""
        return self.sheet.at

    @cached_property
    def dated(self) -> "Floats":
        """Whether a memory is from a time that the question names; 0.5 if that is vague."""
        found = self.zeros
        for span in self.question.times:
            start, end = span.start.timestamp() * 1e6, span.end.timestamp() * 1e6
            inside = (self.at >= start) & (self.at < end)
            found = np.maximum(found, inside * (1.0 if span.precise == "exact" else 0.5))
        return found

    @cached_property
    def inside(self) -> "Floats":
        """Whether a memory is from a time that the question names, exact or vague."""
        return (self.dated > 0).astype(np.float64) if self.question.times else self.zeros

    @cached_property
    def too_late(self) -> "Floats":
        """Whether a memory is from after all times that the question names."""
        if not self.question.times:
            return self.zeros
        return (self.at >= max(span.end.timestamp() for span in self.question.times) * 1e6).astype(np.float64)

    @cached_property
    def too_early(self) -> "Floats":
        """Whether a memory is from before all times that the question names."""
        if not self.question.times:
            return self.zeros
        return (self.at < min(span.start.timestamp() for span in self.question.times) * 1e6).astype(np.float64)

    def if_events(self, column: "Floats") -> "Floats":
        """Return a column about times if the question asks what happened then."""
        return column if self.question.intent.events else self.zeros

    def time_wanted(self) -> "Floats":
        """Whether a memory mentions a time, if the question asks for one."""
        return self.sheet.has_time if self.question.asks_when else self.zeros

    def number_wanted(self) -> "Floats":
        """Whether a memory has a number, if the question asks for one."""
        return self.sheet.has_number if self.question.asks_many else self.zeros

    def other_kind(self) -> "Floats":
        """Whether a memory is of another kind than the question names."""
        kinds = self.question.intent.kinds
        return 1 - self.of_kind(kinds) if kinds else self.zeros

    def of_kind(self, kinds: Collection[str]) -> "Floats":
        """Whether a memory is of one of these kinds."""
        return self.sheet.of_kinds(kinds).astype(np.float64) if kinds else self.zeros

    # Age and trust, and the graph.

    @cached_property
    def age(self) -> "Floats":
        """The age in days, at the full hour, so that searches within an hour give the same scores."""
        hour = self.question.asked_at.replace(minute=0, second=0, microsecond=0)
        found: Floats = np.maximum((hour.timestamp() * 1e6 - self.at) / DAY, 0.0)
        return found

    def doubt(self) -> "Floats":
        """The lack of confidence, which counts up to double with age."""
        doubt = 1 - self.sheet.columns.confidence
        found: Floats = doubt * (1 + np.minimum(self.age / DOUBT_DOUBLES_DAYS, 1.0))
        return found

    @cached_property
    def graph(self) -> _Graph:
        """Activation spread from the best matches."""
        sheet, top = self.sheet, self.passage_top
        first = top + self.passage_meaning
        leading = best_first(first, SEEDS).tolist()
        seeds = {int(sheet.key[place]): float(top[place]) for place in leading}
        active, refuted = spread(self.store, self.where, {key: value for key, value in seeds.items() if value > 0})
        return _Graph(
            linked=self._spread_out(active),
            contradicted=self._spread_out(refuted),
            entities=shared_names(sheet, self.derive("names", names_of, leading), first),
        )

    def _spread_out(self, values: Mapping[int, float]) -> "Floats":
        """Return a column with these values, which are given by the keys of memories; 0 for the others."""
        if not values:
            return self.zeros
        return np.array([values.get(key, 0.0) for key in self.sheet.key.tolist()])


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
    # Most memories have the lowest value of a column about words, 0.
    above = np.flatnonzero(values > values.min(initial=np.inf))
    found = np.full(len(values), np.log1p(len(above)))
    order = values[above].argsort()
    # Searched in order, each value is found near the one before: four times as fast.
    ranked = values[above[order]]
    found[above[order]] = np.log1p(len(above) - ranked.searchsorted(ranked, side="right"))
    return found


def _positive(values: "Floats") -> "Floats":
    found: Floats = np.maximum(values, 0)
    return found


def _deviation(values: "Floats") -> "Floats":
    """Return the deviation from the mean in standard deviations."""
    found: Floats = values - values.mean()
    found /= float(np.sqrt(np.einsum("i,i->", found, found) / (len(found) or 1))) or 1.0
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
    Feature("passage/top", "words", lambda seen: seen.passage_top, "turns"),
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
    Feature("length", "shape", lambda seen: seen.sheet.token_length, "both"),
    Feature("asks", "shape", lambda seen: seen.sheet.asks, "turns"),
    Feature("time_told", "shape", lambda seen: seen.sheet.has_time, "turns"),
    Feature("time_wanted", "time", Evidence.time_wanted, "turns"),
    Feature("number_told", "shape", lambda seen: seen.sheet.has_number, "turns"),
    Feature(
        "number_wanted",
        "shape",
        Evidence.number_wanted,
        "turns",
    ),
    Feature("opening", "shape", lambda seen: seen.sheet.opening, "turns"),
    Feature("early", "time", lambda seen: seen.sheet.early, "turns"),
    Feature("dated", "time", lambda seen: seen.dated, "turns"),
    Feature("kind_asked", "kind", lambda seen: seen.of_kind(seen.question.intent.kinds), "notes"),
    Feature("kind_other", "kind", Evidence.other_kind, "notes"),
    Feature("kind_likely", "kind", lambda seen: seen.of_kind(seen.question.intent.likely), "notes"),
    Feature("inside", "time", lambda seen: seen.inside, "both"),
    Feature("too_late", "time", lambda seen: seen.too_late, "both"),
    Feature("too_early", "time", lambda seen: seen.too_early, "both"),
    Feature("inside*events", "time", lambda seen: seen.if_events(seen.inside), "both"),
    Feature("too_late*events", "time", lambda seen: seen.if_events(seen.too_late), "both"),
    Feature("too_early*events", "time", lambda seen: seen.if_events(seen.too_early), "both"),
    Feature("text", "words", lambda seen: seen.text, "turns"),
    Feature("cover", "words", lambda seen: seen.words.coverage(seen.words.memories), "turns"),
    Feature("phrase", "words", Evidence.phrase, "turns"),
    Feature("meaning", "meaning", lambda seen: seen.meaning, "turns"),
    Feature("meaning/top", "meaning", lambda seen: _top(_positive(seen.meaning)), "turns"),
    Feature("passage_meaning/z", "meaning", lambda seen: _deviation(seen.passage_meaning), "turns"),
    Feature("before", "surroundings", lambda seen: seen.before, "turns"),
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
    Feature("before_meaning", "meaning", lambda seen: seen.before_meaning, "turns"),
    Feature("after_meaning", "meaning", lambda seen: seen.beside_meaning(1), "turns"),
    Feature("named", "speaker", lambda seen: seen.named, "turns"),
    Feature("other", "speaker", Evidence.other, "turns"),
    Feature("reply", "speaker", lambda seen: seen.sheet.replies, "turns"),
    Feature(
        "reply_to_me",
        "speaker",
        Evidence.reply_to_me,
        "turns",
    ),
    Feature("answer", "surroundings", lambda seen: seen.answer, "turns"),
    Feature("answer*before", "surroundings", lambda seen: seen.answer * seen.before, "turns"),
    Feature("answer*before_meaning", "surroundings", lambda seen: seen.answer * seen.before_meaning, "turns"),
    Feature("linked", "graph", lambda seen: seen.graph.linked, by_hand=2.5),
    Feature("entities", "graph", lambda seen: seen.graph.entities, "both"),
    Feature("importance", "trust", lambda seen: seen.sheet.importance, by_hand=1.5),
    Feature("doubt", "trust", Evidence.doubt, by_hand=-2.0),
    Feature("contradicted", "trust", lambda seen: seen.graph.contradicted, by_hand=-1.0),
    Feature("recent", "time", lambda seen: np.exp2(seen.age / -HALF_LIFE_DAYS), "notes", by_hand=0.5),
    Feature("used", "trust", lambda seen: seen.sheet.used, by_hand=0.05),
    Feature("pinned", "trust", lambda seen: seen.sheet.columns.pinned, by_hand=1.0),
)


def features(seen: Evidence) -> "FeatureColumns":
    """Compute all feature columns of the candidates; those of turns only if there are turns."""
    turns = not seen.sheet.alone.all()
    columns: FeatureColumns = {"alone": seen.sheet.alone}
    columns |= {each.name: each.compute(seen) for each in FEATURES if turns or each.fitted != "turns"}
    return columns
