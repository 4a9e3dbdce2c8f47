"""From a question to ranked hits: gather candidates, compute features, score, rerank the best."""

import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec
import numpy as np

from satchel.model.filters import Filter
from satchel.model.memory import Hit, Memory
from satchel.recall.columns import SMALL, Columns, Derived, Neighbourhood, Selection, best_first, in_thread
from satchel.recall.features import SEEDS, Evidence, Lexical, features, spread
from satchel.recall.question import (
    QueryTerm,
    Question,
    corrected,
    first_letter_variants,
    index_term,
    near_terms,
    term_code,
)
from satchel.recall.rerank import RERANK_FEATURES, Comparison
from satchel.recall.scoring import (
    Family,
    family,
    is_keywords,
    log_odds,
    models,
    near_enough,
    probability,
    relevances,
    shares,
    signs,
    weights,
)
from satchel.recall.sheet import Sheet
from satchel.store.contract import SearchStore
from satchel.store.rows import narrows
from satchel.text.near_duplicates import exact_duplicates, near_duplicates, word_count

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[Any]

__all__ = ["Ranked", "Weak", "duplicates", "examine", "gather", "rank", "rerank"]


FIRST, LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)

# Gathering candidates.


# How many candidates each index provides; the full-text index more if a longer list is wanted.
LEXICAL = 150
NEAREST = 60
DATED = 100
# For how many candidates the neighbours are read, and how far.
WITH_SURROUNDINGS = 100
REACH = 4
# How many words of a question may be corrected.
MOST_CORRECTED = 4


def gather(
    store: SearchStore, question: Question, where: Filter, *, wanted: int, kept: Selection | None = None
) -> Evidence:
    """Return the candidates of a question: all memories of a small scope, or else matches and neighbours.

    What was `kept` of the scope is not read from the store again.
    """
    if kept is not None:
        if kept.size > SMALL:
            source = _InMemory(store, where, kept)
            return _gather_by_index(store, question, where, source, wanted=wanted, derived=kept.derived)
        if kept.whole is None:
            kept.whole = Sheet(kept.columns, kept.rows)
        return _gather_all(store, question, where, kept.whole, kept.derived)
    if store.count(where, most=SMALL + 1) <= SMALL:
        return _gather_all(store, question, where, Sheet.of(store.traces(where)))
    return _gather_by_index(store, question, where, _Queried(store, where), wanted=wanted)


def _gather_all(
    store: SearchStore, question: Question, where: Filter, sheet: Sheet, derived: Derived | None = None
) -> Evidence:
    words = Lexical(sheet, question.terms)
    unknown = [term for term, count in zip(question.terms, words.counts.tolist(), strict=True) if not count]
    if unknown:
        here = sheet.known_codes
        meant = _with_corrections(store, question, unknown, lambda term: term_code(term) in here)
        if meant is not question:
            question, words = meant, Lexical(sheet, meant.terms)
    words.weigh(sheet.size, words.counts)
    return Evidence(store, where, sheet, question, words, derived)


class Source(Protocol):
    """The reads that find the candidates of a large scope: from kept columns, or from the store."""

    def matches(self, terms: Sequence[str], *, limit: int) -> list[int]:
        """Return the memories that match the terms best, by BM25."""

    def nearest(self, code: bytes, *, limit: int) -> list[int]:
        """Return the memories with the passages nearest to a code by Hamming distance."""

    def between(self, start: datetime, end: datetime, *, limit: int) -> list[int]:
        """Return the memories about a time in this span, newest first."""

    def with_neighbours(self, keys: Sequence[int], *, most: int, reach: int) -> Neighbourhood:
        """Return these memories and the neighbours of the first `most` of them that are part of a thread."""


class _Queried:
    """Queries the store."""

    def __init__(self, store: SearchStore, where: Filter) -> None:
        self._store = store
        self._where = where

    def matches(self, terms: Sequence[str], *, limit: int) -> list[int]:
        return [match.key for match in self._store.matches(self._where, terms, limit=limit)]

    def nearest(self, code: bytes, *, limit: int) -> list[int]:
        return [match.key for match in self._store.nearest(self._where, code, limit=limit)]

    def between(self, start: datetime, end: datetime, *, limit: int) -> list[int]:
        return self._store.between(self._where, start, end, limit=limit)

    def with_neighbours(self, keys: Sequence[int], *, most: int, reach: int) -> Neighbourhood:
        seeds = self._store.traces(self._where, keys)
        place = {key: number for number, key in enumerate(keys)}
        leading = sorted(seeds, key=lambda trace: place[trace.key])[:most]
        runs = self._store.beside([trace for trace in leading if in_thread(trace)], self._where, reach=reach)
        around = dict.fromkeys(key for run in runs for key in run)
        more = self._store.traces(self._where, [key for key in around if key not in place])
        columns = Columns.from_traces([*seeds, *more])
        joined = dict.fromkeys(pair for run in runs for pair in itertools.pairwise(run))
        before, after = np.array(list(joined), np.int64).reshape(-1, 2).T
        return Neighbourhood(columns, np.arange(columns.size), before, after)


# How many more matches to read of the whole index than are wanted, since some do not pass the filter.
SPARE_MATCHES = 300


class _InMemory:
    """Reads kept columns, and of the store only its full-text index."""

    def __init__(self, store: SearchStore, where: Filter, selection: Selection) -> None:
        self._queried = _Queried(store, where)
        self._leading = None if narrows(where) else store.leading_matches
        self.nearest = selection.nearest
        self.between = selection.between
        self.with_neighbours = selection.with_neighbours
        self._best_of = selection.best_of

    def matches(self, terms: Sequence[str], *, limit: int) -> list[int]:
        depth = limit + SPARE_MATCHES
        leading = None if self._leading is None else self._leading(terms, limit=depth)
        found = None if leading is None else self._best_of(leading, limit=limit, depth=depth)
        return self._queried.matches(terms, limit=limit) if found is None else found


def _gather_by_index(
    store: SearchStore,
    question: Question,
    where: Filter,
    source: Source,
    *,
    wanted: int,
    derived: Derived | None = None,
) -> Evidence:
    total, counts = store.frequencies([index_term(term) for term in question.terms])
    missing = [term for term, count in zip(question.terms, counts, strict=True) if not count]
    meant = _with_corrections(store, question, missing)
    if meant is not question:
        question = meant
        total, counts = store.frequencies([index_term(term) for term in question.terms])
    keys = list(dict.fromkeys(_by_index(store, question, where, source, wanted=wanted)))
    related, _ = spread(store, where, dict.fromkeys(keys[:SEEDS], 1.0))
    keys = list(dict.fromkeys([*keys, *related]))
    found = source.with_neighbours(keys, most=WITH_SURROUNDINGS, reach=REACH)
    sheet = Sheet(found.columns, found.rows, (found.before, found.after))
    words = Lexical(sheet, question.terms)
    words.weigh(total, np.maximum(np.array(counts, np.int64), words.counts))
    return Evidence(store, where, sheet, question, words, derived)


def _by_index(
    store: SearchStore, question: Question, where: Filter, source: Source, *, wanted: int
) -> Iterable[int]:
    """Yield the best candidates of each index."""
    words = source.matches(question.searchable, limit=max(LEXICAL, wanted))
    near: Sequence[int] = []
    if question.vector is not None:
        near = source.nearest(np.packbits(question.vector > 0).tobytes(), limit=NEAREST)
    # Interleaved, so that the neighbours of both are read.
    for pair in range(max(len(words), len(near))):
        yield from words[pair : pair + 1]
        yield from near[pair : pair + 1]
    kinds = question.intent.kinds
    if kinds and not where.kinds:
        # Rare enough to ask the store.
        source = _Queried(store, msgspec.structs.replace(where, kinds=kinds))
    for span in question.times:
        yield from source.between(span.start, span.end, limit=DATED)
    if kinds and not question.times:
        yield from source.between(FIRST, LAST, limit=DATED)


def _with_corrections(
    store: SearchStore,
    question: Question,
    unknown: Sequence[QueryTerm],
    is_here: Callable[[str], bool] = lambda term: True,
) -> Question:
    """Return the question with terms that are not in the index replaced by terms within edit distance 2.

    `is_here` may restrict the replacements, such as to terms of the current scope.
    """
    unknown = [term for term in unknown if len(term.codes) == 1 and term.text.isalpha()][:MOST_CORRECTED]
    if not unknown:
        return question
    _, counts = store.frequencies([index_term(term) for term in unknown])
    meant: dict[str, list[QueryTerm]] = {}
    for term, count in zip(unknown, counts, strict=True):
        if not count:
            near = near_terms(term.text, filter(is_here, _similar_terms(store, term.text)))
            meant[term.text] = [corrected(term, found, weight) for found, weight in near]
    if not any(meant.values()):
        return question
    terms = {term.codes: term for term in question.terms if not meant.get(term.text)}
    for new in itertools.chain.from_iterable(meant.values()):
        # A term that the question also has in its correct form counts once.
        terms.setdefault(new.codes, new)
    return msgspec.structs.replace(question, terms=tuple(terms.values()))


def _similar_terms(store: SearchStore, word: str) -> list[str]:
    """Return index terms that start with the same letter, and those at distance 1 with another first letter."""
    other = first_letter_variants(word)
    _, counts = store.frequencies(other)
    there = [term for term, count in zip(other, counts, strict=True) if count]
    return store.words_like(word, start=word[0]) + there


# Scoring candidates.


# A memory with at least this cosine matches by its vector alone.
CLOSE_COSINE = 0.5
# A memory that replaces a match with at least this certainty is a match too.
OVERTAKES = 0.5
# The most passages that a hit of a long memory names.
PASSAGES_PER_HIT = 8
# The coverage that counts as all words of a question; sums of shares are not exact.
ALL_WORDS = 0.999
# Turns with fewer words are never duplicates: "Yes." twice is two answers.
SHORTEST_TURN = 5


def examine(
    store: SearchStore,
    question: Question,
    where: Filter,
    *,
    wanted: int,
    close: float = CLOSE_COSINE,
    kept: Selection | None = None,
) -> Evidence:
    """Gather the candidates of a question and compute their features.

    A candidate with a cosine of at least `close` matches by its vector alone. The columns of the reranking are all
    0 at first.
    """
    seen = gather(store, question, where, wanted=wanted, kept=kept)
    if not seen.sheet.size:
        return seen
    seen.columns = features(seen)
    seen.matched = seen.words.present.any(axis=0) | (seen.passage_meaning >= close)
    for column in (seen.dated, seen.graph.linked, seen.columns["kind_asked"]):
        if column is not seen.zeros:
            seen.matched |= column > 0
    seen.columns |= dict.fromkeys((each.name for each in RERANK_FEATURES), seen.zeros)
    return seen


def rerank(seen: Evidence, odds: "Floats", *, surroundings: bool = False) -> "tuple[Floats, dict[int, int]]":
    """Compute the columns that compare the best candidates with each other, given the log-odds without them.

    Returns the log-odds with them, and the place of the newer memory for each one that is surely outdated.
    """
    best = Comparison(seen, odds, probability(odds), surroundings=surroundings)
    seen.columns |= {each.name: each.compute(best) for each in RERANK_FEATURES}
    seen.matched |= best.currency.overtakes >= OVERTAKES
    for each in RERANK_FEATURES:
        if (column := seen.columns[each.name]) is not seen.zeros:
            odds = odds + each.by_hand * column
    return odds, best.currency.by


class Weak(NamedTuple):
    """Candidates that are not relevant enough. Their texts are read only if somebody asks for them."""

    places: "NDArray[np.int64]"
    """For each, the number of hits that rank before it."""
    ids: "NDArray[np.object_]"
    scores: "NDArray[np.float64]"
    read: Callable[[], dict[str, Hit]]
    """Reads them from the store as it is then, by id. One that was purged meanwhile is left out."""


class Ranked(NamedTuple):
    """The candidates of a question, best first."""

    hits: list[Hit]
    weak: Weak | None = None
    """The others; None if there are none."""


def rank(
    store: SearchStore,
    question: Question,
    where: Filter,
    *,
    limit: int,
    embedder: str = "none",
    surroundings: bool = False,
    explain: bool = False,
    distinct: bool = False,
    candidates: int | None = None,
    least: tuple[float, float] = (0.0, 0.0),
    kept: Selection | None = None,
) -> Ranked:
    """Return the memories that are most likely needed for a question, best first.

    `embedder` is the name of the embedder of its vector. With `surroundings`, neighbours of matches are included.
    With `distinct`, duplicates are merged into one hit, and the limit is filled with others. `candidates` is how
    many the full-text index provides; the default is the limit. `least` is the relevance and the score that a
    memory needs to be read, unless it is pinned; with `distinct` all are read.
    """
    seen = examine(store, question, where, wanted=candidates or limit, close=near_enough(embedder), kept=kept)
    if not seen.matched.any():
        return Ranked([])
    # While most memories have no vectors yet, as after a large import, only words are used.
    sheet = seen.sheet
    by_vectors = question.vector is not None and 2 * int(sheet.embedded.sum()) >= sheet.size
    fitted = family(embedder) if by_vectors else "none"
    using = weights(fitted)
    odds, overtaken_by = rerank(seen, log_odds(seen.columns, using), surroundings=surroundings)
    scores = probability(odds)
    relevance = _relevances(seen, question, odds, fitted)
    order = sheet.latest_first if surroundings else sheet.latest_first[seen.matched[sheet.latest_first]]
    order = order[best_first(scores[order], None if distinct else limit)]
    hits = _Hits(seen, scores, relevance, overtaken_by, using=using if explain else None)
    if distinct:
        memories, repeated = _distinct(seen, order.tolist(), limit=limit)
        shown = [place for place in memories if place not in repeated]
        return Ranked(hits.made(shown, memories, repeated))
    strong = (relevance[order] >= least[0]) & (scores[order] >= least[1]) | (sheet.columns.pinned[order] > 0)
    listed = frozenset(order.tolist()) if overtaken_by else frozenset()
    memories = seen.memories(order[strong].tolist())
    found = hits.made(memories, memories, listed=listed)
    if strong.all():
        return Ranked(found)
    weak = order[~strong]

    def read_weak() -> dict[str, Hit]:
        with store.reading(where.scope.org):
            those = sheet.memories(store, weak.tolist())
        return {hit.memory.id: hit for hit in hits.made(those, those, listed=listed)}

    return Ranked(found, Weak(np.cumsum(strong, dtype=np.int64)[~strong], sheet.ids[weak], scores[weak], read_weak))


class _Hits:
    """Makes hits of ranked candidates."""

    def __init__(
        self,
        seen: Evidence,
        scores: "Floats",
        relevance: "Floats",
        overtaken_by: Mapping[int, int],
        *,
        using: Family | None,
    ) -> None:
        self._seen = seen
        self._scores = scores
        self._relevance = relevance
        self._overtaken_by = overtaken_by
        self._using = using

    def made(
        self,
        places: Iterable[int],
        memories: Mapping[int, Memory],
        repeated: Mapping[int, int] | None = None,
        *,
        listed: Collection[int] | None = None,
    ) -> list[Hit]:
        """Return the hits at these places; `repeated` says which memories are duplicates of which.

        A hit names the newer memory that replaces it only if that one is listed too.
        """
        seen, repeated = self._seen, repeated or {}
        ids = seen.sheet.ids
        there = memories if listed is None else listed
        alike: dict[int, list[str]] = {}
        for place, other in repeated.items():
            alike.setdefault(other, []).append(ids[place])
        places = list(places)
        matching = _matching(seen, places)
        hits = []
        for place in places:
            newer = self._overtaken_by.get(place)
            if newer is not None:
                newer = repeated.get(newer, newer) if newer in there else None
            spans, closeness = matching.get(place, ((), ()))
            hits.append(
                Hit(
                    memories[place],
                    float(self._scores[place]),
                    spans,
                    shares(seen.columns, place, self._using) if self._using is not None else None,
                    ids[newer] if newer is not None and newer != place else None,
                    tuple(alike.get(place, ())),
                    float(self._relevance[place]),
                    closeness,
                )
            )
        return hits


def _distinct(seen: Evidence, order: Sequence[int], *, limit: int) -> tuple[dict[int, Memory], dict[int, int]]:
    """Read memories in order until there are enough different ones; return them, and which are duplicates of which.

    Texts are read in batches, because most of a long order is never shown.
    """
    found: dict[int, Memory] = {}
    repeated: dict[int, int] = {}
    start, wanted = 0, limit
    while wanted > 0 and start < len(order):
        # Twice as many each time, so that a thousand duplicates take only a few steps.
        some = order[start : start + max(wanted, len(found))]
        start += len(some)
        found |= seen.memories(some)
        places = list(found)
        repeated = {places[one]: places[other] for one, other in duplicates(list(found.values())).items()}
        wanted = limit - (len(found) - len(repeated))
    differing = [place for place in found if place not in repeated]
    if len(differing) > limit:
        ahead = list(found)[: list(found).index(differing[limit])]
        found = {place: found[place] for place in ahead}
        repeated = {place: repeated[place] for place in ahead if place in repeated}
    return found, repeated


def _relevances(seen: Evidence, question: Question, odds: "Floats", fitted: str) -> "Floats":
    """Return the relevance of each candidate, by the model for notes or for turns, whichever the best one is."""
    using = models(fitted)
    alone = seen.sheet.alone[int(np.argmax(odds))] > 0
    found = signs(question, seen, odds)
    sought = seen.words.coverage(seen.words.memories) > ALL_WORDS if is_keywords(question) else None
    return relevances(odds, found, using.notes if alone else using.turns, sought=sought)


def _matching(
    seen: Evidence, places: Iterable[int]
) -> "dict[int, tuple[tuple[tuple[int, int], ...], tuple[float, ...]]]":
    """Return the passages of each longer memory, best first, and how good each is compared with the first."""
    sheet = seen.sheet
    bounds = sheet.columns.first
    long = [place for place in places if bounds[place + 1] - bounds[place] > 1]
    if not long:
        return {}
    values = seen.passage_scores
    values = values / (values.max(initial=0.0) or 1.0)
    vector = seen.question.vector
    if vector is not None and sheet.has_vectors(len(vector)):
        values = values + sheet.vectors @ vector
    start, end = sheet.columns.start, sheet.columns.end
    spans = {}
    for place in long:
        first, last = int(bounds[place]), int(bounds[place + 1])
        own = values[first:last]
        best = np.argsort(-own, kind="stable")[:PASSAGES_PER_HIT]
        near = np.clip(own[best] / max(float(own.max()), 1e-9), 0.0, 1.0) ** 2
        spans[place] = (
            tuple((int(start[first + number]), int(end[first + number])) for number in best),
            tuple(near.tolist()),
        )
    return spans


def duplicates(memories: Sequence[Memory]) -> dict[int, int]:
    """Map the index of each memory that duplicates an earlier one to the index of that one.

    Memories with different titles, speakers or users are never duplicates, nor are short turns of a conversation:
    "Yes." answers one question.
    """
    texts = [memory.text for memory in memories]
    same = near_duplicates(texts) | exact_duplicates(texts)
    if not same:
        return {}
    found: dict[int, int] = {}
    first: dict[int, list[int]] = {}
    for place, memory in enumerate(memories):
        others = first.setdefault(_origin(same, place), [])
        other = next((each for each in others if _may_be_duplicates(memory, memories[each])), None)
        if other is None:
            others.append(place)
        else:
            found[place] = other
    return found


def _origin(same: Mapping[int, int], place: int) -> int:
    while place in same:
        place = same[place]
    return place


def _may_be_duplicates(one: Memory, other: Memory) -> bool:
    named = ((one.title, other.title), (one.speaker, other.speaker), (one.scope.user, other.scope.user))
    if any(mine and theirs and mine.casefold() != theirs.casefold() for mine, theirs in named):
        return False
    turns = "conversation" in (one.tier, other.tier)
    return not turns or word_count(one.text) >= SHORTEST_TURN
