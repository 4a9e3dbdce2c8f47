"""Which memories are looked at closely: all of a small scope, else what the indexes bring and its surroundings."""

import itertools
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime

import msgspec
import numpy as np

from satchel.recall.features import Lexical, rarity
from satchel.recall.graph import SEEDS, spread
from satchel.recall.question import QueryTerm, Question, corrected, index_term, term_code
from satchel.recall.sheet import Sheet, thread_of
from satchel.recall.typos import first_letter_slips, near_terms
from satchel.store.contract import Filter, SearchStore

__all__ = ["Candidates", "gather"]

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
