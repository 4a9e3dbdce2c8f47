"""What speaks for each memory, as named columns of numbers; what they weigh is `fusion`."""

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from satchel.model.filters import Filter
from satchel.recall.entities import entities
from satchel.recall.question import Question, as_codes
from satchel.store.contract import Link, SearchStore, Trace
from satchel.text.passages import ASKS, NUMBERS, TIMES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[Any]
    Columns = dict[str, Floats]

__all__ = ["SEEDS", "Lexical", "Sheet", "features", "rarity", "shared_names", "spread", "thread_of"]


_SESSION = '["session"'
_REPLIES = frozenset({"assistant", "ai", "bot", "model", "system", "tool", "agent"})


def thread_of(trace: Trace) -> str | None:
    """What a memory's neighbours share; None for a note, which stands for itself even if a session made it."""
    if trace.thread is not None and trace.tier != "conversation" and trace.thread.startswith(_SESSION):
        return None
    return trace.thread


class Sheet:
    """Columns over memories and over their passages; memories of one thread stand together, in time order."""

    def __init__(self, traces: Sequence[Trace], runs: Sequence[Sequence[int]] | None = None) -> None:
        """`runs` tell which memories are neighbours where not all of a thread is here."""
        numbers: dict[object, int] = {}
        # What belongs to no conversation or document is a thread of its own.
        threads = [numbers.setdefault(thread_of(trace) or trace.key, len(numbers)) for trace in traces]
        order = sorted(range(len(traces)), key=lambda place: (threads[place], traces[place].at, traces[place].id))
        self.traces = [traces[place] for place in order]
        self.size = len(self.traces)
        self.place = {trace.key: place for place, trace in enumerate(self.traces)}
        self.thread = np.array([threads[place] for place in order], np.int64)
        self.threads = len(numbers)
        self.run = self._runs(runs)
        self.alone = np.array([thread_of(trace) is None for trace in self.traces], np.float64)
        self._thread_starts = np.flatnonzero(np.diff(self.thread, prepend=-1))
        passages = [passage for trace in self.traces for passage in trace.passages]
        counts = np.array([len(trace.passages) for trace in self.traces], np.int64)
        self.first = np.concatenate([[0], np.cumsum(counts)[:-1]]) if self.size else counts
        self.owner = np.repeat(np.arange(self.size), counts)
        self.codes = np.frombuffer(b"".join(passage.codes for passage in passages), "<u4")
        # Titles are a part of each passage, so that few have no term at all.
        self.length = np.array([len(passage.codes) // 4 for passage in passages], np.float64)
        ends = np.cumsum(self.length).astype(np.int64)
        self.starts = np.concatenate([[0], ends[:-1]]) if passages else ends
        self._ends = ends
        self.flags = np.array([passage.flags for passage in passages], np.int64)
        self.spans = [(passage.start, passage.end) for passage in passages]
        self._vectors = [passage.vector for passage in passages]
        self._rows: NDArray[np.float32] | None = None
        self._means: NDArray[np.float32] | None = None

    def _runs(self, runs: Sequence[Sequence[int]] | None) -> "NDArray[np.int64]":
        """A number for each stretch of a thread that has no gap."""
        breaks = np.ones(self.size, bool)
        breaks[1:] = self.thread[1:] != self.thread[:-1]
        if runs is not None:
            joined = {pair for run in runs for pair in itertools.pairwise(run)}
            keys = [trace.key for trace in self.traces]
            for place in range(1, self.size):
                breaks[place] |= (keys[place - 1], keys[place]) not in joined
        return np.cumsum(breaks)

    def vectors(self, dimensions: int) -> "NDArray[np.float32]":
        """A unit row for each passage; zeros where there is no vector."""
        if self._rows is None:
            self._rows = self._unpacked(dimensions)
        return self._rows

    def meanings(self, dimensions: int) -> "NDArray[np.float32]":
        """A unit row for each memory: the mean of its passages."""
        if self._means is None:
            self._means = unit(np.add.reduceat(self.vectors(dimensions), self.first, axis=0))
        return self._means

    @property
    def embedded(self) -> "NDArray[np.bool_]":
        """Which memories have a vector; the others wait for theirs."""
        found: NDArray[np.bool_] = self.total(np.array([each is not None for each in self._vectors], np.int64)) > 0
        return found

    def _unpacked(self, dimensions: int) -> "NDArray[np.float32]":
        empty = bytes(dimensions)
        packed = b"".join(each if each is not None and len(each) == dimensions else empty for each in self._vectors)
        rows = np.frombuffer(packed, np.int8).reshape(-1, dimensions).astype(np.float32)
        return unit(rows)

    def frequencies(self, codes: Sequence[int]) -> "Floats":
        """How often a term, or a phrase of several, stands in each passage."""
        hits = np.flatnonzero(self.codes == codes[0])
        for further, code in enumerate(codes[1:], start=1):
            hits = hits[hits + further < len(self.codes)]
            hits = hits[self.codes[hits + further] == code]
        # The last passage that begins at or before a hit: those without a term begin where the next one does.
        places = np.searchsorted(self.starts, hits, side="right") - 1
        if len(codes) > 1:
            # What ends one passage and begins the next is no phrase.
            places = places[hits + len(codes) <= self._ends[places]]
        return np.bincount(places, minlength=len(self.starts)).astype(np.float64)

    def best(self, values: "Floats") -> "Floats":
        """The highest value among each memory's passages."""
        return np.maximum.reduceat(values, self.first) if self.size else values

    def total(self, values: "Floats") -> "Floats":
        """The sum over each memory's passages; along the last axis."""
        return np.add.reduceat(values, self.first, axis=-1) if self.size else values

    def beside(self, values: "Floats", distance: int) -> "Floats":
        """The value of the memory so many places later, or earlier if negative; 0 where there is none."""
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
        """The sums over a memory and those up to so many places around it; ever farther, along the first axis."""
        total = values.copy()
        sums = []
        for nearer, reach in itertools.pairwise((0, *reaches)):
            for steps in range(nearer + 1, min(reach, self.size - 1) + 1):
                same = self.run[steps:] == self.run[:-steps]
                same = same.reshape(-1, *[1] * (values.ndim - 1))
                total[:-steps] += values[steps:] * same
                total[steps:] += values[:-steps] * same
            sums.append(total.copy())
        return sums

    def thread_total(self, values: "Floats") -> "Floats":
        """The sum over the thread each memory belongs to, as far as it is here; along the first axis."""
        sums: Floats = np.add.reduceat(values, self._thread_starts, axis=0)[self.thread]
        return sums

    def thread_best(self, values: "Floats") -> "Floats":
        best: Floats = np.maximum.reduceat(values, self._thread_starts)[self.thread]
        return best

    def flagged(self, flag: int) -> "Floats":
        found: Floats = self.best((self.flags & flag > 0).astype(np.float64))
        return found

    @property
    def asks(self) -> "Floats":
        """Whether a memory ends with a question."""
        last = np.concatenate([self.first[1:], [len(self.flags)]]) - 1
        asking: Floats = (self.flags[last] & ASKS > 0).astype(np.float64)
        return asking

    @property
    def has_time(self) -> "Floats":
        return self.flagged(TIMES)

    @property
    def has_number(self) -> "Floats":
        return self.flagged(NUMBERS)

    @property
    def replies(self) -> "Floats":
        """Whether it was said by a machine."""
        return np.array([(trace.speaker or "").casefold() in _REPLIES for trace in self.traces], np.float64)


def unit(rows: "NDArray[np.float32]") -> "NDArray[np.float32]":
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    lengths[lengths == 0] = 1
    found: NDArray[np.float32] = rows / lengths[:, None]
    return found


# Spreading activation: from what was found to what it is related to, and to what names the same things.


# How many of the best finds others are reached from.
SEEDS = 8
DEPTH = 2
SPREAD_DECAY = 0.5
LINKS = 200
FAINT = 0.05
# How much of a seed is read for names, and how many of them count.
READ = 4000
NAMES = 16


def spread(
    store: SearchStore, where: Filter, seeds: Mapping[int, float]
) -> tuple[dict[int, float], dict[int, float]]:
    """How active each memory becomes that is related to the seeds, and how strongly one contradicts which.

    A link passes on half of what reaches it, times its strength; a memory has what the strongest brings.
    Nothing comes back to where it came from, and nothing reaches what is contradicted.
    """
    links: dict[int, list[Link]] = {}
    refuted: dict[int, float] = {}
    front = list(seeds)
    for _ in range(DEPTH):
        for link in store.links(front, where, limit=LINKS) if front else ():
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
    """What one seed brings to each memory at most `DEPTH` links away."""
    found: dict[int, float] = {}
    front = {seed: strength}
    for _ in range(DEPTH):
        reached: dict[int, float] = {}
        for origin, brought in front.items():
            for link in links.get(origin, ()):
                if link.key in (seed, _refuted(link)):
                    continue
                passed = SPREAD_DECAY * link.strength * brought
                if passed > max(found.get(link.key, 0.0), FAINT):
                    reached[link.key] = max(passed, reached.get(link.key, 0.0))
        found |= reached
        front = reached
    return found


def _refuted(link: Link) -> int | None:
    """The memory that a contradiction speaks against."""
    if link.kind != "contradicts":
        return None
    return link.key if link.outgoing else link.origin


def shared_names(store: SearchStore, sheet: Sheet, seeds: Sequence[int], strength: "Floats") -> "Floats":
    """How much of what the best seeds name each memory names too; a seed's own names count for others only."""
    found = np.zeros(sheet.size)
    told = store.memories([sheet.traces[place].key for place in seeds])
    weights: dict[tuple[int, ...], float] = {}
    holders: dict[tuple[int, ...], set[int]] = {}
    for place in seeds:
        memory = told.get(sheet.traces[place].key)
        # A number may be used again after a purge, by a memory of another scope.
        if memory is None or memory.id != sheet.traces[place].id:
            continue
        for name in (*entities(memory.text[:READ])[:NAMES], *memory.tags):
            codes = as_codes(name)
            if codes:
                weights[codes] = weights.get(codes, 0.0) + float(strength[place])
                holders.setdefault(codes, set()).add(place)
    for codes, weight in weights.items():
        standing = sheet.total(sheet.frequencies(codes[:3])) > 0
        count = int(standing.sum())
        if 1 < count <= max(8, sheet.size // 10):
            own = np.zeros(sheet.size)
            if len(holders[codes]) == 1:
                own[list(holders[codes])] = 1
            found += standing * (1 - own) * weight * np.log1p(sheet.size / count)
    highest = found.max(initial=0.0)
    return found / highest if highest > 0 else found


# What speaks for each memory, as named columns of numbers; what they weigh is `fusion`'s.


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
