"""The candidates of a question as numpy columns: what ranking computes features from.

What does not depend on a question is computed once, when it is first needed. The sheet of a small scope is kept
between questions.
"""

from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from satchel.model.memory import Memory
from satchel.recall.columns import NONE, Columns, in_order_of_time
from satchel.store.contract import SearchStore, Trace
from satchel.text.passages import ASKS, NUMBERS, TIMES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[Any]

__all__ = ["FAR", "NEAR", "Sheet", "unit"]


# A vector this short is one of zeros, apart from rounding.
SHORTEST = 1e-4
# How far the narrow and the wide window around a memory reach.
NEAR = 2
FAR = 6
# How far neighbours are compared one by one.
REACH = 4
# BM25.
K1 = 1.2
B = 0.75
# More uses count as so many.
MOST_USES = 20
# The kinds that can overtake or be overtaken. A todo changes nothing yet; errors, lessons and prompts do not
# expire.
_STATED = frozenset(["fact", "decision", "preference", "observation", "summary", "procedure", "pattern", "fix"])
_MACHINES = ("assistant", "ai", "bot", "model", "system", "tool", "agent")


class Sheet:
    """The candidates as numpy columns, over memories and over their passages.

    Memories of one thread are next to each other, in order of time. What does not depend on a question is computed
    once, so a sheet that is kept answers the next question faster.
    """

    def __init__(
        self,
        columns: Columns,
        rows: "NDArray[np.int64]",
        joined: "tuple[NDArray[np.int64], NDArray[np.int64]] | None" = None,
    ) -> None:
        """Take some rows of columns.

        `joined` are the keys of memories and of those after them, if threads are incomplete.
        """
        in_time = in_order_of_time(columns, rows)
        self._age_rank, self.thread = _by_thread(columns.thread[in_time])
        self.columns = columns = columns.take(in_time[self._age_rank])
        self.size = columns.size
        self.key = columns.key
        self.ids = columns.ids
        self.at = columns.at.astype(np.float64)
        """The time of each memory in microseconds since 1970."""
        self.run = self._runs(joined)
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
    def of(cls, traces: Sequence[Trace]) -> "Sheet":
        """Return a sheet of traces, in which threads are complete."""
        columns = Columns.from_traces(traces)
        return cls(columns, np.arange(columns.size))

    @property
    def nbytes(self) -> int:
        """The bytes of the arrays of this sheet, without ids."""
        # A copy: another thread may be computing something for its question meanwhile.
        values = list(self.__dict__.values())
        arrays = [value for value in values if isinstance(value, np.ndarray)]
        arrays += [each for value in values if isinstance(value, list | tuple) for each in value]
        return self._column_bytes + sum(each.nbytes for each in arrays if isinstance(each, np.ndarray))

    @cached_property
    def _column_bytes(self) -> int:
        return self.columns.nbytes

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
        """The places of all memories, sorted by time, newest first, and then by id."""
        # Ids are sorted upwards, times downwards.
        return np.lexsort((self._age_rank, -self.columns.at))

    def _runs(self, joined: "tuple[NDArray[np.int64], NDArray[np.int64]] | None") -> "NDArray[np.int64]":
        """Return a number for each run of neighbouring memories of a thread without a gap."""
        breaks = _is_other(self.thread)
        if joined is not None:
            before, after = joined
            order = np.argsort(before)
            before, after = np.append(before[order], -1), np.append(after[order], -1)
            places = np.searchsorted(before[:-1], self.key[:-1])
            breaks[1:] |= (before[places] != self.key[:-1]) | (after[places] != self.key[1:])
        return np.cumsum(breaks)

    def of_kinds(self, kinds: Collection[str]) -> "NDArray[np.bool_]":
        """Return which memories are of one of these kinds."""
        return self.columns.of_names(self.columns.kind, kinds)

    @cached_property
    def states(self) -> "NDArray[np.bool_]":
        """Which memories state how something is. Turns of a conversation are never overtaken."""
        found: NDArray[np.bool_] = self.of_kinds(_STATED) & ~self.spoken
        return found

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
        for place in self.several.tolist():
            means[place] = self.vectors[self.columns.first[place] : self.columns.first[place + 1]].sum(axis=0)
        means[self.several] = unit(means[self.several])
        return means

    @cached_property
    def several(self) -> "NDArray[np.int64]":
        """The places of memories that have several passages."""
        return np.flatnonzero(np.diff(self.columns.first) > 1)

    @cached_property
    def window_lengths(self) -> "tuple[Floats, Floats]":
        """The length of the sum of the vectors around each memory, in the narrow and the wide window."""
        rows = self.meanings
        near, far = self.around(np.einsum("ij,ij->i", rows, rows))
        near_low, near_high, far_low, far_high = self._windows
        longest = int(np.bincount(self.run).max(initial=0))
        for apart in range(1, min(2 * FAR + 1, longest)):
            # The products of memories so far apart, summed over all pairs inside a window.
            pairs = _prefix_sums(np.einsum("ij,ij->i", rows[apart:], rows[:-apart]))
            far += 2 * _between(pairs, far_low, far_high - apart)
            if apart <= 2 * NEAR:
                near += 2 * _between(pairs, near_low, near_high - apart)
        return _lengths(near), _lengths(far)

    @cached_property
    def thread_lengths(self) -> "Floats":
        """The length of the sum of the vectors of each thread."""
        sums = np.add.reduceat(self.meanings, self._thread_starts, axis=0)
        return _lengths(np.einsum("ij,ij->i", sums, sums).astype(np.float64))

    @cached_property
    def embedded(self) -> "NDArray[np.bool_]":
        """Which memories have a vector; the others are still in the backlog."""
        found: NDArray[np.bool_] = self.total(self.columns.has_vector.astype(np.int64)) > 0
        return found

    def frequencies(self, terms: Sequence[Sequence[int]]) -> "Floats":
        """Return how often each term, or phrase of several codes, occurs in each passage: a row for each."""
        found = np.zeros((len(terms), len(self.starts)))
        for row, passages in zip(found, self._occurrences(terms), strict=True):
            row[:] = np.bincount(passages, minlength=len(row))
        return found

    def holders(self, terms: Sequence[Sequence[int]]) -> "Iterator[NDArray[np.int64]]":
        """Yield the places of the memories that have a term, or a phrase of several codes, for each of them."""
        for passages in self._occurrences(terms):
            has = np.zeros(self.size, np.bool_)
            has[self._memory_of[passages]] = True
            yield np.flatnonzero(has)

    def _occurrences(self, terms: Sequence[Sequence[int]]) -> "Iterator[NDArray[np.int64]]":
        """Yield the passage of each occurrence of a term or phrase, for each of them."""
        _, order = self._inverted
        bounds = self._bounds(np.array([codes[0] for codes in terms], np.uint32))
        for codes, low, high in zip(terms, *(each.tolist() for each in bounds), strict=True):
            hits = order[low:high]
            for further, other in enumerate(codes[1:], start=1):
                hits = hits[hits + further < len(self.codes)]
                hits = hits[self.codes[hits + further] == other]
            passages = self._passage_of[hits]
            if len(codes) > 1:
                # A phrase must not cross the end of a passage.
                passages = passages[hits + len(codes) <= self._ends[passages]]
            yield passages

    @cached_property
    def _memory_of(self) -> "NDArray[np.int64]":
        """The place of the memory of each passage."""
        return np.repeat(np.arange(self.size), np.diff(self.columns.first))

    def counts(self, codes: "NDArray[np.uint32]") -> "NDArray[np.int64]":
        """Return how often each of these terms occurs in all passages together."""
        low, high = self._bounds(codes)
        return high - low

    def _bounds(self, codes: "NDArray[np.uint32]") -> "tuple[NDArray[np.int64], NDArray[np.int64]]":
        """Return where the occurrences of each of these terms start and end in the inverted index."""
        inverted, _ = self._inverted
        return inverted.searchsorted(codes), inverted.searchsorted(codes, side="right")

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
        shifted = np.zeros(values.shape)
        steps = abs(distance)
        if steps < self.size:
            near, far = shifted[..., :-steps], shifted[..., steps:]
            same = self._same_run[steps]
            if distance > 0:
                np.multiply(values[..., steps:], same, out=near)
            else:
                np.multiply(values[..., :-steps], same, out=far)
        return shifted

    @cached_property
    def _same_run(self) -> "list[Floats]":
        """For each distance, 1 for the memories whose neighbour so far away belongs to the same run."""
        sizes = (max(0, self.size - steps) for steps in range(REACH + 1))
        return [(self.run[:size] == self.run[self.size - size :]).astype(np.float64) for size in sizes]

    def around(self, values: "Floats") -> "tuple[Floats, Floats]":
        """Return the sums over the narrow and the wide window around each memory, along the last axis."""
        sums = _prefix_sums(values)
        near_low, near_high, far_low, far_high = (sums.take(bound, axis=-1) for bound in self._windows)
        return near_high - near_low, far_high - far_low

    @cached_property
    def _windows(self) -> "tuple[NDArray[np.int64], ...]":
        """Where the narrow and the wide window around each memory start and end. They do not leave its run."""
        first, last = self._run_bounds
        place = np.arange(self.size)
        return (
            np.maximum(first, place - NEAR),
            np.minimum(last, place + NEAR + 1),
            np.maximum(first, place - FAR),
            np.minimum(last, place + FAR + 1),
        )

    @cached_property
    def _run_bounds(self) -> "tuple[NDArray[np.int64], NDArray[np.int64]]":
        starts = np.flatnonzero(np.diff(self.run, prepend=0))
        counts = np.diff(starts, append=self.size)
        first = np.repeat(starts, counts)
        return first, first + np.repeat(counts, counts)

    def thread_sums(self, values: "Floats") -> "Floats":
        """Return the sum over each thread, as far as it is in the sheet, along the last axis."""
        sums: Floats = np.add.reduceat(values, self._thread_starts, axis=-1)
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
    def token_length(self) -> "Floats":
        """The logarithm of the number of tokens."""
        found: Floats = np.log(self.columns.tokens + 4)
        return found

    @cached_property
    def opening(self) -> "Floats":
        """Whether a memory is the first of its run."""
        return _is_other(self.run).astype(np.float64)

    @cached_property
    def early(self) -> "Floats":
        """How early a turn is, from 0.5 to -0.5; 0 for notes. Questions are more often about early turns."""
        oldest, newest = (float(self.at.min()), float(self.at.max())) if self.size else (0.0, 0.0)
        return (0.5 - (self.at - oldest) / (newest - oldest or 1.0)) * self.spoken

    @cached_property
    def importance(self) -> "Floats":
        """The importance, from -0.5 to 0.5."""
        return self.columns.importance - 0.5

    @cached_property
    def used(self) -> "Floats":
        """The logarithm of how often a memory was used, limited."""
        found: Floats = np.log1p(np.minimum(self.columns.uses, MOST_USES))
        return found

    # The part of BM25 that does not depend on a question.

    @cached_property
    def memory_norm(self) -> "Floats":
        """How the length of each memory lowers its BM25 score."""
        return _norm(self.lengths)

    @cached_property
    def passage_norm(self) -> "Floats":
        """How the length of each passage lowers its BM25 score."""
        return _norm(self.length)

    @cached_property
    def window_norms(self) -> "tuple[Floats, Floats]":
        """How the number of terms around each memory lowers the score of the narrow and the wide window."""
        near, far = self.around(self.lengths)
        return _norm(near), _norm(far)

    @cached_property
    def thread_norm(self) -> "Floats":
        """How the number of terms of each thread lowers its BM25 score."""
        lengths = self.thread_sums(self.lengths)
        return _norm(lengths, mean=float(lengths[self.thread].mean()) if self.size else 1.0)


def _norm(lengths: "Floats", mean: float | None = None) -> "Floats":
    """Return the term of BM25 for the lengths of texts, compared with their mean."""
    if mean is None:
        mean = float(lengths.mean()) if lengths.size else 1.0
    found: Floats = K1 * (1 - B + B * lengths / (mean or 1.0))
    return found


def _prefix_sums(values: "Floats") -> "Floats":
    """Return the sums of the first 0, 1, 2 … values along the last axis."""
    found = np.zeros((*values.shape[:-1], values.shape[-1] + 1))
    np.cumsum(values, axis=-1, dtype=np.float64, out=found[..., 1:])
    return found


def _between(sums: "Floats", low: "NDArray[np.int64]", high: "NDArray[np.int64]") -> "Floats":
    """Return the sums over ranges of values, given the prefix sums; 0 for an empty range."""
    found: Floats = sums.take(np.maximum(high, low), mode="clip") - sums.take(low, mode="clip")
    return found


def _lengths(squares: "Floats") -> "Floats":
    """Return the lengths of vectors, given their squares; 1 for a vector of zeros."""
    found: Floats = np.sqrt(np.maximum(squares, 0.0))
    found[found < SHORTEST] = 1.0
    return found


def _by_thread(threads: "NDArray[np.int32]") -> "tuple[NDArray[np.int64], NDArray[np.int64]]":
    """Return the order by thread and time, given the threads in order of time; and the number of each one's thread.

    Threads are numbered by their oldest memory. A memory without a conversation or document is a thread by itself.
    """
    thread = threads.astype(np.int64)
    alone = thread == NONE
    thread[alone] = -1 - np.flatnonzero(alone)
    # Not `np.unique`, which imports `numpy.ma` on its first call: 5 % of a cold search.
    order = np.argsort(thread, kind="stable")
    starts = _is_other(thread[order])
    oldest = np.empty_like(order)
    oldest[order] = order[starts][np.cumsum(starts) - 1]
    order = np.argsort(oldest, kind="stable")
    return order, np.cumsum(_is_other(oldest[order])) - 1


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
