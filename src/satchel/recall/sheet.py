"""Traces as columns of numbers, side by side with what a question looks for in them."""

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from satchel.store.contract import Trace
from satchel.text.parts import ASKS, NUMBERS, TIMES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[Any]

__all__ = ["Sheet", "thread_of"]

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
