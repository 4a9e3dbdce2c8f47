"""What speaks for each memory, as named columns of numbers; what they weigh is `fusion`'s."""

import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from satchel.recall.question import Question
from satchel.recall.sheet import Sheet, unit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[Any]
    Columns = dict[str, Floats]

__all__ = ["Lexical", "features", "rarity"]

K1 = 1.2
B = 0.75
DECAY = 0.6
REACH = 4
NEAR = 2
FAR = 6
# How many words of a question are looked for side by side.
PAIRED = 24


class Lexical:
    """How the question's terms stand in the passages, the memories and around them."""

    def __init__(self, sheet: Sheet, question: Question, rarity: "Floats") -> None:
        self.rarity = rarity * np.array([term.weight for term in question.terms])
        found = [sheet.frequencies(term.codes) for term in question.terms]
        self.passages = np.stack(found) if found else np.zeros((0, len(sheet.starts)))
        self.memories = sheet.total(self.passages)
        self.length = sheet.total(sheet.length)
        self.possible = float(self.rarity.sum()) or 1.0

    def bm25(self, frequencies: "Floats", lengths: "Floats") -> "Floats":
        mean = lengths.mean() if lengths.size else 1.0
        norm = K1 * (1 - B + B * lengths / (mean or 1.0))
        scores: Floats = (self.rarity[:, None] * frequencies * (K1 + 1) / (frequencies + norm)).sum(axis=0)
        return scores

    def coverage(self, frequencies: "Floats") -> "Floats":
        """The share of what the question asks for, by rarity, that stands there at all."""
        share: Floats = (self.rarity[:, None] * (frequencies > 0)).sum(axis=0) / self.possible
        return share


def rarity(total: int, counts: "Floats") -> "Floats":
    """The inverse document frequency of terms, as BM25 has it."""
    found: Floats = np.log1p((np.maximum(total - counts, 0) + 0.5) / (counts + 0.5))
    return found


def features(sheet: Sheet, question: Question, words: Lexical) -> "Columns":
    """Every column, over all memories of the sheet; those that only turns are weighed by where there are any."""
    columns: Columns = {"alone": sheet.alone}
    columns |= _lexical(sheet, words)
    columns |= _telling(sheet, question, words)
    columns |= _vectors(sheet, question)
    columns |= _looks(sheet, question)
    columns |= _selected(sheet, question)
    if not sheet.alone.all():
        columns |= _turn(sheet, question, words, columns)
        columns |= _near(sheet, words, columns)
        columns |= _near_meaning(sheet, question)
        columns |= _said(sheet, question)
        columns |= _answers(sheet, columns)
    return columns


def _lexical(sheet: Sheet, words: Lexical) -> "Columns":
    whole = words.bm25(words.memories, words.length)
    best = sheet.best(words.bm25(words.passages, sheet.length))
    return {
        "text/top": _top(whole),
        "text/rank": _rank(whole),
        "passage": best,
        "passage/top": _top(best),
        "passage/rank": _rank(best),
        "passage_cover": sheet.best(words.coverage(words.passages)),
    }


def _telling(sheet: Sheet, question: Question, words: Lexical) -> "Columns":
    """Whether a memory has the words that tell most: the rarest one, and what is named."""
    zero = np.zeros(sheet.size)
    if not len(words.rarity):
        return dict.fromkeys(("rarest", "named_word", "unnamed_word", "matched"), zero)
    found = words.memories > 0
    weighted = words.rarity[:, None] * found
    named = np.array([not question.names.isdisjoint((term.meant or term.text).split()) for term in question.terms])
    share = (weighted[named].sum(axis=0) / (words.rarity[named].sum() or 1.0)) if named.any() else zero
    return {
        "rarest": weighted.max(axis=0) / (words.rarity.max() or 1.0),
        "named_word": share,
        "unnamed_word": (share == 0) * float(named.any()),
        "matched": np.log1p(found.sum(axis=0)),
    }


def _turn(sheet: Sheet, question: Question, words: Lexical, columns: Mapping[str, "Floats"]) -> "Columns":
    """More about the words and the vector of a turn: words side by side, all of its passages together."""
    pairs, standing = 0, np.zeros(sheet.size)
    for one, other in itertools.pairwise(question.terms[:PAIRED]):
        if len(one.codes) == len(other.codes) == 1 and one.meant is None and other.meant is None:
            pairs += 1
            standing = standing + (sheet.total(sheet.frequencies((*one.codes, *other.codes))) > 0)
    best = columns["passage_meaning"]
    whole = np.zeros(sheet.size)
    if question.vector is not None:
        whole = _imputed(sheet, _cosines(sheet.meanings(len(question.vector)), question.vector))
    return {
        "text": words.bm25(words.memories, words.length),
        "cover": words.coverage(words.memories),
        "phrase": standing / (pairs or 1),
        "meaning": whole,
        "meaning/top": _top(np.maximum(whole, 0)),
        "passage_meaning/z": (best - best.mean()) / (float(best.std()) or 1.0),
    }


def _selected(sheet: Sheet, question: Question) -> "Columns":
    """Whether a memory is of the kind and the time that a question asks for."""
    intent = question.intent
    kinds = [trace.kind for trace in sheet.traces]
    asked = np.array([kind in intent.kinds for kind in kinds], np.float64)
    at = np.array([trace.at for trace in sheet.traces], np.float64)
    inside, late, early = np.zeros(sheet.size), np.zeros(sheet.size), np.zeros(sheet.size)
    if question.times:
        inside = (_dated(at, question) > 0).astype(np.float64)
        late = (at >= max(span.end.timestamp() for span in question.times) * 1e6).astype(np.float64)
        early = (at < min(span.start.timestamp() for span in question.times) * 1e6).astype(np.float64)
    return {
        "kind_asked": asked,
        "kind_other": (1 - asked) * bool(intent.kinds),
        "kind_likely": np.array([kind in intent.likely for kind in kinds], np.float64),
        "inside": inside,
        "too_late": late,
        "too_early": early,
        "inside*events": inside * intent.events,
        "too_late*events": late * intent.events,
        "too_early*events": early * intent.events,
    }


def _near(sheet: Sheet, words: Lexical, columns: Mapping[str, "Floats"]) -> "Columns":
    best = columns["passage"]
    top = best.max(initial=0.0) or 1.0
    near = np.zeros(sheet.size)
    for distance in range(1, REACH + 1):
        near += DECAY**distance * (sheet.beside(best, distance) + sheet.beside(best, -distance))
    found: Columns = {
        "before": sheet.beside(best, -1) / top,
        "after": sheet.beside(best, 1) / top,
        "before2": sheet.beside(best, -2) / top,
        "after2": sheet.beside(best, 2) / top,
        "near": near,
        "near/top": _top(near),
        "near/rank": _rank(near),
    }
    standing = sheet.around(words.memories.T, NEAR, FAR)
    lengths = sheet.around(words.length, NEAR, FAR)
    for name, said_there, length in zip(("around", "far"), standing, lengths, strict=True):
        frequencies = said_there.T
        score = words.bm25(frequencies, length)
        found |= {name: score, f"{name}/top": _top(score), f"{name}_cover": words.coverage(frequencies)}
    said = sheet.thread_total(words.memories.T).T
    whole = words.bm25(said, sheet.thread_total(words.length))
    found |= {
        "thread": whole,
        "thread/top": _top(whole),
        "thread_best/top": _top(sheet.thread_best(best)),
        "thread_cover": words.coverage(said),
    }
    return found


def _vectors(sheet: Sheet, question: Question) -> "Columns":
    """How near the question a memory is by its vectors; one that waits for its own counts as an average one."""
    if question.vector is None or not sheet.size:
        return dict.fromkeys((f"passage_meaning{form}" for form in ("", "/top", "/rank")), np.zeros(sheet.size))
    best = _imputed(sheet, sheet.best(_cosines(sheet.vectors(len(question.vector)), question.vector)))
    return {
        "passage_meaning": best,
        "passage_meaning/top": _top(np.maximum(best, 0)),
        "passage_meaning/rank": _rank(best),
    }


def _imputed(sheet: Sheet, cosines: "Floats") -> "Floats":
    """The cosines, with the mean of the others for memories that wait for their vectors."""
    waiting = ~sheet.embedded
    if waiting.any() and not waiting.all():
        cosines[waiting] = cosines[~waiting].mean()
    return cosines


def _near_meaning(sheet: Sheet, question: Question) -> "Columns":
    """The same of what stands around a turn."""
    names = ("around_meaning", "far_meaning", "thread_meaning")
    if question.vector is None:
        zero = np.zeros(sheet.size)
        others = ("around_meaning/rank", "before_meaning", "after_meaning")
        return dict.fromkeys((*names, *(f"{name}/top" for name in names), *others), zero)
    memories = sheet.meanings(len(question.vector))
    around, far = sheet.around(memories, NEAR, FAR)
    best = sheet.best(_cosines(sheet.vectors(len(question.vector)), question.vector))
    found = {
        "around_meaning": _cosines(unit(around), question.vector),
        "far_meaning": _cosines(unit(far), question.vector),
        "thread_meaning": _cosines(unit(sheet.thread_total(memories)), question.vector),
    }
    return found | {f"{name}/top": _top(np.maximum(found[name], 0)) for name in names} | {
        "around_meaning/rank": _rank(found["around_meaning"]),
        "before_meaning": sheet.beside(best, -1),
        "after_meaning": sheet.beside(best, 1),
    }  # fmt: skip


def _said(sheet: Sheet, question: Question) -> "Columns":
    speakers = [(trace.speaker or "").casefold() for trace in sheet.traces]
    known = {speaker: frozenset(speaker.split()) for speaker in set(speakers) if speaker}
    named = {speaker for speaker, names in known.items() if names & question.words}
    by = np.array([speaker in named for speaker in speakers], np.float64)
    replies = sheet.replies
    return {
        "named": by,
        "other": (1 - by) * bool(named),
        "reply": replies,
        "reply_to_me": replies * question.first_person,
    }


def _looks(sheet: Sheet, question: Question) -> "Columns":
    tokens = np.array([trace.tokens for trace in sheet.traces], np.float64)
    at = np.array([trace.at for trace in sheet.traces], np.float64)
    oldest, newest = (float(at.min()), float(at.max())) if sheet.size else (0.0, 0.0)
    spoken = np.array([trace.tier == "conversation" for trace in sheet.traces], np.float64)
    first = np.ones(sheet.size)
    first[1:] = sheet.run[1:] != sheet.run[:-1]
    return {
        "length": np.log(tokens + 4),
        "asks": sheet.asks,
        "time_told": sheet.has_time,
        "time_wanted": sheet.has_time * question.asks_when,
        "number_told": sheet.has_number,
        "number_wanted": sheet.has_number * question.asks_many,
        "opening": first,
        # What is asked about is more often told early in a conversation; of facts the newer count more.
        "early": (0.5 - (at - oldest) / (newest - oldest or 1.0)) * spoken,
        "dated": _dated(at, question),
    }


def _dated(at: "Floats", question: Question) -> "Floats":
    """Whether it speaks of a time that the question names."""
    found = np.zeros(len(at))
    for span in question.times:
        start, end = span.start.timestamp() * 1e6, span.end.timestamp() * 1e6
        found = np.maximum(found, ((at >= start) & (at < end)) * (1.0 if span.precise == "exact" else 0.5))
    return found


def _answers(sheet: Sheet, columns: Mapping[str, "Floats"]) -> "Columns":
    """What stands right after a question that is like the one asked may be its answer."""
    asked = sheet.beside(columns["asks"], -1)
    return {
        "answer": asked,
        "answer*before": asked * columns["before"],
        "answer*before_meaning": asked * columns["before_meaning"],
    }


def _cosines(rows: "Floats", vector: "Floats") -> "Floats":
    """Each row's own, equal for equal rows: a product of matrices sums some rows in another order than others."""
    found: Floats = np.einsum("ij,j->i", rows, vector).astype(np.float64)
    return found


def _top(values: "Floats") -> "Floats":
    """As a share of the highest."""
    highest = values.max(initial=0.0)
    return values / highest if highest > 0 else values * 0


def _rank(values: "Floats") -> "Floats":
    """The logarithm of the place in the ranking by this column; equal values share the best of theirs."""
    better = len(values) - np.searchsorted(np.sort(values), values, side="right")
    found: Floats = np.log1p(better)
    return found
