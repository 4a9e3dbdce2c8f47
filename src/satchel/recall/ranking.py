"""From a question to ranked hits: gather candidates, compute features, fuse, put the current first, explain."""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from satchel.model.filters import Filter
from satchel.model.memory import Hit, Memory
from satchel.recall.features import SEEDS, Lexical, Sheet, features, rarity, shared_names, spread, thread_of
from satchel.recall.question import (
    QueryTerm,
    Question,
    corrected,
    first_letter_slips,
    index_term,
    near_terms,
    term_code,
)
from satchel.recall.rerank import LEADING, about_then, asks_for_course, course, currency
from satchel.recall.scoring import (
    SECOND_LOOK,
    is_keywords,
    log_odds,
    models,
    probability,
    relevances,
    shares,
    signs,
    weights,
)
from satchel.store.contract import SearchStore, Trace

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from satchel.recall.finder import Repeats

    Floats = NDArray[Any]

__all__ = ["Candidates", "Examined", "examine", "gather", "look_again", "rank"]


FIRST, LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)

# A scope of this many memories is read whole: that costs less than asking each index.
SMALL = 1000
# How many each index brings; the lexical one more, for those who want a long list.
LEXICAL = 150
NEAREST = 60
DATED = 100
# Of how many the surroundings are looked at, and how far.
SURROUNDED = 100
REACH = 4
# How many words of a question may be taken for others.
MOST_RESPELT = 4


class Candidates(msgspec.Struct, frozen=True):
    """What may be needed, and the question as it was understood."""

    sheet: Sheet
    question: Question
    words: Lexical


def gather(store: SearchStore, question: Question, where: Filter, *, wanted: int) -> Candidates:
    if store.count(where, most=SMALL + 1) <= SMALL:
        return _whole(store, question, where)
    return _found(store, question, where, wanted=wanted)


def _whole(store: SearchStore, question: Question, where: Filter) -> Candidates:
    sheet = Sheet(store.traces(where))
    terms = question.terms
    counts = [_standing(sheet, term) for term in terms]
    if 0 in counts:
        unknown = [term for term, count in zip(terms, counts, strict=True) if not count]
        here = frozenset(sheet.codes.tolist())
        question = _respelt(store, question, unknown, lambda term: term_code(term) in here)
        counts = [_standing(sheet, term) for term in question.terms]
    weights = rarity(sheet.size, np.array(counts, np.float64))
    return Candidates(sheet, question, Lexical(sheet, question, weights))


def _standing(sheet: Sheet, term: QueryTerm) -> int:
    return int((sheet.total(sheet.frequencies(term.codes)) > 0).sum()) if sheet.size else 0


def _found(store: SearchStore, question: Question, where: Filter, *, wanted: int) -> Candidates:
    _, counts = store.frequencies([index_term(term) for term in question.terms if len(term.codes) == 1])
    single = iter(counts)
    missing = [term for term in question.terms if len(term.codes) == 1 and not next(single)]
    question = _respelt(store, question, missing)
    keys = list(dict.fromkeys(_by_index(store, question, where, wanted=wanted)))
    related, _ = spread(store, where, dict.fromkeys(keys[:SEEDS], 1.0))
    keys = list(dict.fromkeys([*keys, *related]))
    seeds = store.traces(where, keys)
    place = {key: number for number, key in enumerate(keys)}
    leading = sorted(seeds, key=lambda trace: place[trace.key])[:SURROUNDED]
    runs = store.beside([trace for trace in leading if thread_of(trace)], where, reach=REACH)
    around = dict.fromkeys(key for run in runs for key in run)
    more = store.traces(where, [key for key in around if key not in place])
    sheet = Sheet([*seeds, *more], runs)
    total, counts = store.frequencies([index_term(term) for term in question.terms])
    known = np.array(
        [max(count, _standing(sheet, term)) for count, term in zip(counts, question.terms, strict=True)]
    )
    weights = rarity(total, known.astype(np.float64))
    return Candidates(sheet, question, Lexical(sheet, question, weights))


def _by_index(store: SearchStore, question: Question, where: Filter, *, wanted: int) -> Iterable[int]:
    """The best of each index, the lexical one's first."""
    lexical = store.matches(where, question.searchable, limit=max(LEXICAL, wanted))
    near: Sequence[int] = []
    if question.vector is not None:
        code = np.packbits(question.vector > 0).tobytes()
        near = [match.key for match in store.nearest(where, code, limit=NEAREST)]
    # Interleaved, so that the surroundings of both are looked at.
    words = [match.key for match in lexical]
    for pair in range(max(len(words), len(near))):
        yield from words[pair : pair + 1]
        yield from near[pair : pair + 1]
    kinds = question.intent.kinds
    if kinds and not where.kinds:
        where = msgspec.structs.replace(where, kinds=kinds)
    for span in question.times:
        yield from store.between(where, span.start, span.end, limit=DATED)
    if kinds and not question.times:
        yield from store.between(where, FIRST, LAST, limit=DATED)


def _respelt(
    store: SearchStore,
    question: Question,
    unknown: Sequence[QueryTerm],
    stands: Callable[[str], bool] = lambda term: True,
) -> Question:
    """Terms that stand nowhere, replaced by those of the index they may have meant, where these stand here."""
    unknown = [term for term in unknown if len(term.codes) == 1 and term.text.isalpha()][:MOST_RESPELT]
    if not unknown:
        return question
    _, counts = store.frequencies([index_term(term) for term in unknown])
    meant: dict[str, list[QueryTerm]] = {}
    for term, count in zip(unknown, counts, strict=True):
        if not count:
            near = near_terms(term.text, filter(stands, _like(store, term.text)))
            meant[term.text] = [corrected(term, found, weight) for found, weight in near]
    if not any(meant.values()):
        return question
    terms = {term.codes: term for term in question.terms if not meant.get(term.text)}
    for new in itertools.chain.from_iterable(meant.values()):
        # What the question also spells as it should be counts once.
        terms.setdefault(new.codes, new)
    return msgspec.structs.replace(question, terms=tuple(terms.values()))


def _like(store: SearchStore, word: str) -> list[str]:
    """Terms of the index with the same first letter; others only if one slip there makes them the word."""
    other = first_letter_slips(word)
    _, counts = store.frequencies(other)
    there = [term for term, count in zip(other, counts, strict=True) if count]
    return store.words_like(word, start=word[0]) + there


# From a question to ranked hits: gather candidates, look at what speaks for each, fuse, explain.


# A vector at least this near counts as a find of its own.
CLOSE = 0.5
# What overtakes a find at least this surely is a find too.
OVERTAKES = 0.5
# By how much what overtakes a find can gain at most: what was hardly found itself is probably about something else.
MOST_LIFT = 3.0
# Finds within these log-odds of the best are put in order of time where the newest or oldest is asked for.
ABOUT_AS_GOOD = 3.0
# Of a long memory, how many passages a hit names.
PASSAGES_TOLD = 8
# Of the words of a question, by rarity; sums of shares are not exact.
ALL_WORDS = 0.999
DAY = 86_400e6
HALF_LIFE_DAYS = 30.0
DOUBT_DOUBLES_DAYS = 365.0


class Examined:
    """The candidates of a question with every column and the score of each."""

    def __init__(self, found: Candidates, columns: "dict[str, Floats]", matched: "NDArray[np.bool_]") -> None:
        self.sheet = found.sheet
        self.question = found.question
        self.words = found.words
        self.columns = columns
        self.matched = matched


def examine(
    store: SearchStore, question: Question, where: Filter, *, wanted: int, now: datetime, close: float = CLOSE
) -> Examined:
    """Every candidate; one whose vector is at least as near as `close` matches by it alone."""
    found = gather(store, question, where, wanted=wanted)
    if not found.sheet.size:
        return Examined(found, {}, np.zeros(0, bool))
    sheet, columns = found.sheet, features(found.sheet, found.question, found.words)
    first = columns["passage/top"] + columns["passage_meaning"]
    leading = [int(place) for place in np.argsort(-first, kind="stable")[:SEEDS]]
    seeds = {sheet.traces[place].key: float(columns["passage/top"][place]) for place in leading}
    active, refuted = spread(store, where, {key: value for key, value in seeds.items() if value > 0})
    linked = np.array([active.get(trace.key, 0.0) for trace in sheet.traces])
    columns["linked"] = linked
    columns["entities"] = shared_names(store, sheet, leading, first)
    columns |= _trust(sheet, refuted, now)
    matched = (found.words.memories.sum(axis=0) > 0) | (columns["passage_meaning"] >= close)
    matched |= (columns["dated"] > 0) | (linked > 0) | (columns["kind_asked"] > 0)
    columns |= dict.fromkeys(SECOND_LOOK, np.zeros(sheet.size))
    return Examined(found, columns, matched)


def look_again(
    store: SearchStore, seen: Examined, odds: "Floats", *, now: datetime, surroundings: bool = False
) -> dict[int, int]:
    """Fill the columns that compare the best finds with each other, given their log-odds without these.

    Gives the place of the newer memory for each one that is surely outdated. A question about the course of things
    or about reasons needs the outdated too: for these nothing is overtaken.
    """
    question = seen.question
    if question.intent.order is not None:
        seen.columns["newer_ones"] = _newer_ones(seen.sheet, odds, oldest=question.intent.order == "oldest")
    if asks_for_course(question.text):
        if surroundings:
            seen.columns["course"] = course(seen.sheet, probability(odds))
        return {}
    if question.intent.reasons or not seen.sheet.alone.any():
        return {}
    leading = [int(place) for place in np.argsort(-odds, kind="stable")[:LEADING]]
    then = about_then(question.text, question.times, now)
    found = currency(store, seen.sheet, question, seen.words, leading, odds, then=then)
    lift = np.minimum(found.lift, MOST_LIFT)
    seen.columns |= {"overtaken": found.overtaken, "overtakes": found.overtakes, "lift": lift}
    seen.matched |= found.overtakes >= OVERTAKES
    return found.by


def _newer_ones(sheet: Sheet, odds: "Floats", *, oldest: bool) -> "Floats":
    """The logarithm of how many of the finds that are about as good are newer, or older if the oldest is wanted."""
    at = np.array([trace.at for trace in sheet.traces], np.float64) * (-1 if oldest else 1)
    group = np.sort(at[odds > odds.max() - ABOUT_AS_GOOD])
    found: Floats = np.log1p(len(group) - np.searchsorted(group, at, side="right"))
    return found


def _trust(sheet: Sheet, refuted: Mapping[int, float], now: datetime) -> "dict[str, Floats]":
    """What is known of a memory apart from any question."""

    def column(values: object) -> "Floats":
        return np.fromiter(values, np.float64, sheet.size)  # type: ignore[call-overload, no-any-return]

    # The same within an hour, and so are the scores of one search after another.
    hour = now.replace(minute=0, second=0, microsecond=0)
    age = (hour.timestamp() * 1e6 - column(trace.at for trace in sheet.traces)) / DAY
    age = np.maximum(age, 0.0)
    doubt = 1 - column(trace.confidence for trace in sheet.traces)
    return {
        "importance": column(trace.importance for trace in sheet.traces) - 0.5,
        "doubt": doubt * (1 + np.minimum(age / DOUBT_DOUBLES_DAYS, 1.0)),
        "contradicted": column(refuted.get(trace.key, 0.0) for trace in sheet.traces),
        "recent": 0.5 ** (age / HALF_LIFE_DAYS),
        "used": np.log1p(np.minimum(column(trace.uses for trace in sheet.traces), 20)),
        "pinned": column(trace.pinned for trace in sheet.traces),
    }


def rank(
    store: SearchStore,
    question: Question,
    where: Filter,
    *,
    limit: int,
    now: datetime,
    family: str,
    close: float = CLOSE,
    surroundings: bool,
    explain: bool,
    repeats: "Repeats | None" = None,
    candidates: int | None = None,
) -> list[Hit]:
    """The best hits; with `surroundings` also what did not match itself but stands by what did.

    Those that `repeats` tells of are named by the hit that they repeat.
    """
    seen = examine(store, question, where, wanted=candidates or limit, now=now, close=close)
    if not seen.matched.any():
        return []
    # While most wait for their vectors, as after a large import, words alone decide.
    by_vectors = question.vector is not None and 2 * int(seen.sheet.embedded.sum()) >= seen.sheet.size
    using = weights(family if by_vectors else "none")
    odds = log_odds(seen.columns, using)
    overtaken_by = look_again(store, seen, odds, now=now, surroundings=surroundings)
    odds = odds + sum(weight * seen.columns[name] for name, weight in SECOND_LOOK.items())
    scores = probability(odds)
    relevance = _relevances(seen, question, odds, family if by_vectors else "none")
    eligible = np.arange(seen.sheet.size) if surroundings else np.flatnonzero(seen.matched)
    traces = seen.sheet.traces
    order = sorted(
        (int(place) for place in eligible),
        key=lambda place: (-scores[place], -traces[place].at, traces[place].id),
    )
    memories, repeated = _distinct(store, traces, order, limit=limit, repeats=repeats)
    shown = [place for place in memories if place not in repeated]
    alike: dict[int, list[str]] = {}
    for place, other in repeated.items():
        alike.setdefault(other, []).append(traces[place].id)
    matching = _matching(seen, shown)
    hits = []
    for place in shown:
        parts = shares(seen.columns, place, using) if explain else None
        newer = overtaken_by.get(place)
        newer = repeated.get(newer, newer) if newer in memories else None
        told = traces[newer].id if newer is not None and newer != place else None
        same = tuple(alike.get(place, ()))
        spans, closeness = matching.get(place, ((), ()))
        hits.append(
            Hit(memories[place], float(scores[place]), spans, parts, told, same, float(relevance[place]), closeness)
        )
    return hits


def _distinct(
    store: SearchStore, traces: Sequence[Trace], order: Sequence[int], *, limit: int, repeats: "Repeats | None"
) -> tuple[dict[int, Memory], dict[int, int]]:
    """The first memories of an order until there are enough that differ, and which of them repeat another.

    Texts are read a few at a time: most of a long order is never shown.
    """
    found: dict[int, Memory] = {}
    repeated: dict[int, int] = {}
    start, wanted = 0, limit
    while wanted > 0 and start < len(order):
        # Twice as many each time, so that a thousand copies of one text are read in a few steps.
        some = order[start : start + max(wanted, len(found))]
        start += len(some)
        memories = store.memories([traces[place].key for place in some])
        for place in some:
            memory = memories.get(traces[place].key)
            # A number may be used again after a purge, by a memory of another scope.
            if memory is not None and memory.id == traces[place].id:
                found[place] = memory
        if repeats is None:
            break
        places = list(found)
        repeated = {places[one]: places[other] for one, other in repeats(list(found.values())).items()}
        wanted = limit - (len(found) - len(repeated))
    differing = [place for place in found if place not in repeated]
    if len(differing) > limit:
        ahead = list(found)[: list(found).index(differing[limit])]
        found = {place: found[place] for place in ahead}
        repeated = {place: repeated[place] for place in ahead if place in repeated}
    return found, repeated


def _relevances(seen: Examined, question: Question, odds: "Floats", family: str) -> "Floats":
    """How relevant each candidate is, by the model for the sort of memory that the best one is."""
    using = models(family)
    alone = seen.sheet.alone[int(np.argmax(odds))] > 0
    found = signs(question, seen.question, seen.words, seen.columns, odds)
    sought = seen.words.coverage(seen.words.memories) > ALL_WORDS if is_keywords(question) else None
    return relevances(odds, found, using.notes if alone else using.turns, sought=sought)


def _matching(
    seen: Examined, places: Iterable[int]
) -> "dict[int, tuple[tuple[tuple[int, int], ...], tuple[float, ...]]]":
    """The passages of each longer memory, those that matched best first, and how near each comes to the first."""
    sheet = seen.sheet
    values = seen.words.bm25(seen.words.passages, sheet.length)
    values = values / (values.max(initial=0.0) or 1.0)
    if seen.question.vector is not None:
        values = values + sheet.vectors(len(seen.question.vector)) @ seen.question.vector
    spans = {}
    for place in places:
        first, count = int(sheet.first[place]), len(sheet.traces[place].passages)
        if count > 1:
            own = values[first : first + count]
            best = np.argsort(-own, kind="stable")[:PASSAGES_TOLD]
            near = np.clip(own[best] / max(float(own.max()), 1e-9), 0.0, 1.0) ** 2
            spans[place] = (tuple(sheet.spans[first + int(number)] for number in best), tuple(near.tolist()))
    return spans
