"""From a question to ranked hits: gather candidates, compute and weigh features, look at the best again."""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from satchel.model.filters import Filter
from satchel.model.memory import Hit, Memory
from satchel.recall.features import SEEDS, Evidence, Sheet, features, rarity, spread, thread_of
from satchel.recall.question import (
    QueryTerm,
    Question,
    corrected,
    first_letter_slips,
    index_term,
    near_terms,
    term_code,
)
from satchel.recall.rerank import SECOND_LOOK, Comparison
from satchel.recall.scoring import (
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
from satchel.store.contract import SearchStore, Trace
from satchel.text.near_duplicates import exact_duplicates, near_duplicates, word_count

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[Any]

__all__ = ["duplicates", "examine", "gather", "look_again", "rank"]


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


def gather(store: SearchStore, question: Question, where: Filter, *, wanted: int) -> Evidence:
    """What may be needed for a question: all of a small scope, else what the indexes find and what stands by it."""
    if store.count(where, most=SMALL + 1) <= SMALL:
        return _whole(store, question, where)
    return _found(store, question, where, wanted=wanted)


def _whole(store: SearchStore, question: Question, where: Filter) -> Evidence:
    sheet = Sheet(store.traces(where))
    terms = question.terms
    counts = [_standing(sheet, term) for term in terms]
    if 0 in counts:
        unknown = [term for term, count in zip(terms, counts, strict=True) if not count]
        here = frozenset(sheet.codes.tolist())
        question = _respelt(store, question, unknown, lambda term: term_code(term) in here)
        counts = [_standing(sheet, term) for term in question.terms]
    weights = rarity(sheet.size, np.array(counts, np.float64))
    return Evidence(store, where, sheet, question, weights)


def _standing(sheet: Sheet, term: QueryTerm) -> int:
    return int((sheet.total(sheet.frequencies(term.codes)) > 0).sum()) if sheet.size else 0


def _found(store: SearchStore, question: Question, where: Filter, *, wanted: int) -> Evidence:
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
    return Evidence(store, where, sheet, question, weights)


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


# From candidates to hits.


# A vector at least this near counts as a find of its own.
CLOSE = 0.5
# What overtakes a find at least this surely is a find too.
OVERTAKES = 0.5
# Of a long memory, how many passages a hit names.
PASSAGES_TOLD = 8
# Of the words of a question, by rarity; sums of shares are not exact.
ALL_WORDS = 0.999
# Turns with fewer words are not compared: "Yes." said twice is two answers.
SHORTEST_TURN = 5


def examine(
    store: SearchStore, question: Question, where: Filter, *, wanted: int, close: float = CLOSE
) -> Evidence:
    """Every candidate with its columns; one whose vector is at least as near as `close` matches by it alone.

    The columns of the second look are all 0 yet.
    """
    seen = gather(store, question, where, wanted=wanted)
    if not seen.sheet.size:
        return seen
    seen.columns = features(seen)
    seen.matched = (seen.words.memories.sum(axis=0) > 0) | (seen.passage_meaning >= close)
    seen.matched |= (seen.dated > 0) | (seen.graph.linked > 0) | (seen.columns["kind_asked"] > 0)
    seen.columns |= {each.name: np.zeros(seen.sheet.size) for each in SECOND_LOOK}
    return seen


def look_again(seen: Evidence, odds: "Floats", *, surroundings: bool = False) -> "tuple[Floats, dict[int, int]]":
    """Fill the columns that compare the best finds with each other, given their log-odds without these.

    Returns the log-odds with them, and the place of the newer memory for each one that is surely outdated.
    """
    best = Comparison(seen, odds, probability(odds), surroundings=surroundings)
    seen.columns |= {each.name: each.compute(best) for each in SECOND_LOOK}
    seen.matched |= best.currency.overtakes >= OVERTAKES
    return odds + sum(each.by_hand * seen.columns[each.name] for each in SECOND_LOOK), best.currency.by


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
) -> list[Hit]:
    """The memories that are most likely needed for a question, best first.

    `embedder` names what made its vector. With `surroundings` also what did not match itself but stands by what
    did. With `distinct` memories that say the same are one hit, and the limit is filled with others, from as many
    `candidates` as are given, or by default from those that the limit itself asks for.
    """
    seen = examine(store, question, where, wanted=candidates or limit, close=near_enough(embedder))
    if not seen.matched.any():
        return []
    # While most wait for their vectors, as after a large import, words alone decide.
    by_vectors = question.vector is not None and 2 * int(seen.sheet.embedded.sum()) >= seen.sheet.size
    fitted = family(embedder) if by_vectors else "none"
    using = weights(fitted)
    odds, overtaken_by = look_again(seen, log_odds(seen.columns, using), surroundings=surroundings)
    scores = probability(odds)
    relevance = _relevances(seen, question, odds, fitted)
    eligible = np.arange(seen.sheet.size) if surroundings else np.flatnonzero(seen.matched)
    traces = seen.sheet.traces
    order = sorted(
        (int(place) for place in eligible),
        key=lambda place: (-scores[place], -traces[place].at, traces[place].id),
    )
    memories, repeated = _distinct(store, traces, order, limit=limit, distinct=distinct)
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
    store: SearchStore, traces: Sequence[Trace], order: Sequence[int], *, limit: int, distinct: bool
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
        if not distinct:
            break
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
    """How relevant each candidate is, by the model for the sort of memory that the best one is."""
    using = models(fitted)
    alone = seen.sheet.alone[int(np.argmax(odds))] > 0
    found = signs(question, seen, odds)
    sought = seen.words.coverage(seen.words.memories) > ALL_WORDS if is_keywords(question) else None
    return relevances(odds, found, using.notes if alone else using.turns, sought=sought)


def _matching(
    seen: Evidence, places: Iterable[int]
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


def duplicates(memories: Sequence[Memory]) -> dict[int, int]:
    """For each memory that says the same as one before it, the place of that one.

    Never two with different titles, of different speakers or about different users, whatever their texts; and no
    short turns of a conversation, where "Yes." is an answer to one question.
    """
    texts = [memory.text for memory in memories]
    same = near_duplicates(texts) | exact_duplicates(texts)
    if not same:
        return {}
    found: dict[int, int] = {}
    first: dict[int, list[int]] = {}
    for place, memory in enumerate(memories):
        others = first.setdefault(_origin(same, place), [])
        other = next((each for each in others if _compatible(memory, memories[each])), None)
        if other is None:
            others.append(place)
        else:
            found[place] = other
    return found


def _origin(same: Mapping[int, int], place: int) -> int:
    while place in same:
        place = same[place]
    return place


def _compatible(one: Memory, other: Memory) -> bool:
    named = ((one.title, other.title), (one.speaker, other.speaker), (one.scope.user, other.scope.user))
    if any(mine and theirs and mine.casefold() != theirs.casefold() for mine, theirs in named):
        return False
    turns = "conversation" in (one.tier, other.tier)
    return not turns or word_count(one.text) >= SHORTEST_TURN
