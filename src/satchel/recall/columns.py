"""What ranking reads of memories, as numpy columns, and the cache that keeps them between calls.

`Columns` has a row for each memory of a scope, without texts. `ColumnCache` keeps the columns of the scopes that
were asked last, within a limit of bytes. Before each use it asks the store what has changed since: changed
memories are read again, and columns that cannot be brought up to date are read anew. So a write by any process is
seen by the next call.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from satchel.model.filters import Filter
from satchel.model.memory import Scope
from satchel.model.scope_fields import SCOPE_FIELDS
from satchel.store.contract import Match, SearchStore, Trace, Version
from satchel.store.rows import micros

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

__all__ = [
    "SMALL",
    "ColumnCache",
    "Columns",
    "Derived",
    "Neighbourhood",
    "Selection",
    "Vocabulary",
    "best_first",
    "distinct",
    "in_order_of_time",
    "in_thread",
]

# A scope of up to this many memories is read whole, which is cheaper than querying each index.
SMALL = 1000

_EARLIEST, _LATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
_SESSION = '["session"'
NONE = 0
"""The number of a missing name."""


def in_thread(trace: Trace) -> bool:
    """Whether a memory is part of a conversation or a document. A note is not, even if a session made it."""
    return trace.thread is not None and (trace.tier == "conversation" or not trace.thread.startswith(_SESSION))


class Vocabulary:
    """Numbers for the names in columns: threads, speakers, kinds, tiers and statuses. It only grows."""

    def __init__(self) -> None:
        self.names: list[str] = [""]
        self._numbers: dict[str, int] = {}

    def number(self, name: str) -> int:
        """Return the number of a name, a new one if it has none."""
        number = self._numbers.get(name)
        if number is None:
            # Threads that add the same name at once both append it, and agree on one of the numbers.
            self.names.append(name)
            number = self._numbers.setdefault(name, len(self.names) - 1)
        return number

    def find(self, name: str) -> int:
        """Return the number of a name; -1 if no column has it."""
        return self._numbers.get(name, -1)

    def column(self, names: Iterable[str | None]) -> "NDArray[np.int32]":
        known = self._numbers
        return np.fromiter((known.get(n) or self.number(n) if n else NONE for n in names), np.int32)


class Columns(msgspec.Struct, frozen=True):
    """The traces of memories as arrays: one row for each memory, and one for each of their passages.

    The passages of memory `i` are those from `first[i]` to `first[i + 1]`, and the codes of passage `p` those from
    `starts[p]` to `starts[p + 1]`.
    """

    vocabulary: Vocabulary
    ids: "NDArray[np.object_]"
    key: "Ints"
    at: "Ints"
    thread: "NDArray[np.int32]"
    """The session or document; 0 for none. A note has none, even if a session made it."""
    beside: "NDArray[np.int32]"
    """The session or document by which neighbours are looked up, also for a note that a session made."""
    speaker: "NDArray[np.int32]"
    kind: "NDArray[np.int32]"
    tier: "NDArray[np.int32]"
    status: "NDArray[np.int32]"
    importance: "NDArray[np.float64]"
    confidence: "NDArray[np.float64]"
    pinned: "NDArray[np.float64]"
    tokens: "NDArray[np.float64]"
    uses: "NDArray[np.float64]"
    valid_from: "Ints"
    invalid_at: "Ints"
    first: "Ints"
    start: "NDArray[np.int32]"
    end: "NDArray[np.int32]"
    flags: "NDArray[np.int64]"
    starts: "Ints"
    codes: "NDArray[np.uint32]"
    has_vector: "NDArray[np.bool_]"
    packed: "NDArray[np.int8]"
    """The vector of each passage as int8; zeros if it has none."""
    signs: "NDArray[np.uint8]"
    """Which numbers of each vector are above 0, one bit each."""

    @classmethod
    def from_traces(cls, traces: Sequence[Trace], vocabulary: Vocabulary | None = None) -> "Columns":
        """Return the columns of traces, in the same order."""
        names = vocabulary or Vocabulary()
        passages = [passage for trace in traces for passage in trace.passages]
        lengths = np.fromiter((len(passage.codes) for passage in passages), np.int64, len(passages)) // 4
        dimensions = max((len(each.vector) for each in passages if each.vector), default=0)
        empty = bytes(dimensions)
        vectors = b"".join(
            each.vector if each.vector is not None and len(each.vector) == dimensions else empty
            for each in passages
        )
        packed = np.frombuffer(vectors, np.int8).reshape(len(passages), dimensions)
        return cls(
            vocabulary=names,
            ids=_objects([trace.id for trace in traces]),
            key=_column(traces, "key", np.int64),
            at=_column(traces, "at", np.int64),
            thread=names.column(trace.thread if in_thread(trace) else None for trace in traces),
            beside=names.column(trace.thread for trace in traces),
            speaker=names.column((trace.speaker or "").casefold() for trace in traces),
            kind=names.column(trace.kind for trace in traces),
            tier=names.column(trace.tier for trace in traces),
            status=names.column(trace.status for trace in traces),
            importance=_column(traces, "importance", np.float64),
            confidence=_column(traces, "confidence", np.float64),
            pinned=_column(traces, "pinned", np.float64),
            tokens=_column(traces, "tokens", np.float64),
            uses=_column(traces, "uses", np.float64),
            valid_from=_times((trace.valid_from for trace in traces), _EARLIEST),
            invalid_at=_times((trace.invalid_at for trace in traces), _LATEST),
            first=_offsets(np.fromiter((len(trace.passages) for trace in traces), np.int64, len(traces))),
            start=np.fromiter((passage.start for passage in passages), np.int32, len(passages)),
            end=np.fromiter((passage.end for passage in passages), np.int32, len(passages)),
            flags=np.fromiter((passage.flags for passage in passages), np.int64, len(passages)),
            starts=_offsets(lengths),
            codes=np.frombuffer(b"".join(passage.codes for passage in passages), "<u4"),
            has_vector=np.fromiter((each.vector is not None for each in passages), bool, len(passages)),
            packed=packed,
            signs=np.packbits(packed > 0, axis=1),
        )

    @property
    def size(self) -> int:
        return len(self.key)

    @property
    def dimensions(self) -> int:
        return int(self.packed.shape[1])

    @property
    def nbytes(self) -> int:
        """The bytes that the columns take, ids included."""
        arrays = (getattr(self, name) for name in self.__struct_fields__ if name != "vocabulary")
        return int(sum(array.nbytes for array in arrays)) + ID_BYTES * self.size

    def take(self, rows: "Ints") -> "Columns":
        """Return some of the rows, in the order given."""
        counts = self.first[rows + 1] - self.first[rows]
        passages = _ranges(self.first[rows], counts)
        lengths = self.starts[passages + 1] - self.starts[passages]
        per_memory = {name: getattr(self, name)[rows] for name in _PER_MEMORY}
        per_passage = {name: getattr(self, name)[passages] for name in _PER_PASSAGE}
        return Columns(
            vocabulary=self.vocabulary,
            **per_memory,
            **per_passage,
            first=_offsets(counts),
            starts=_offsets(lengths),
            codes=self.codes[_ranges(self.starts[passages], lengths)],
        )

    def joined(self, other: "Columns") -> "Columns":
        """Return these rows and then those of others, which share the vocabulary and the length of vectors."""
        one, two = _with_dimensions(self, other), _with_dimensions(other, self)
        both = {
            name: np.concatenate([getattr(one, name), getattr(two, name)])
            for name in (*_PER_MEMORY, *_PER_PASSAGE, "codes")
        }
        return Columns(
            vocabulary=self.vocabulary,
            **both,
            first=np.concatenate([one.first, two.first[1:] + one.first[-1]]),
            starts=np.concatenate([one.starts, two.starts[1:] + one.starts[-1]]),
        )

    def agrees_with(self, other: "Columns") -> bool:
        """Whether the vectors of both have the same length, as far as there are any."""
        return 0 in (self.dimensions, other.dimensions) or self.dimensions == other.dimensions

    def of_names(self, column: "NDArray[np.int32]", names: Iterable[str]) -> "NDArray[np.bool_]":
        """Return which rows of a column have one of these names."""
        found = np.zeros(len(column), bool)
        for name in names:
            found |= column == self.vocabulary.find(name)
        return found


# About how many bytes an id takes as a Python string.
ID_BYTES = 85

_RAGGED = ("first", "starts", "codes", "vocabulary")
_PER_PASSAGE = ("start", "end", "flags", "has_vector", "packed", "signs")
_PER_MEMORY = tuple(name for name in Columns.__struct_fields__ if name not in (*_RAGGED, *_PER_PASSAGE))


def _column(traces: Sequence[Trace], name: str, kind: Any) -> Any:
    return np.fromiter((getattr(trace, name) for trace in traces), kind, len(traces))


def _times(values: Iterable[int | None], missing: int) -> "Ints":
    return np.fromiter((missing if value is None else value for value in values), np.int64)


def _objects(values: Sequence[str]) -> "NDArray[np.object_]":
    found = np.empty(len(values), object)
    found[:] = values
    return found


def _offsets(counts: "Ints") -> "Ints":
    """Return where each group starts, and at last where the last one ends."""
    found = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=found[1:])
    return found


def _ranges(starts: "Ints", counts: "Ints") -> "Ints":
    """Return the numbers of all ranges, one after the other."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    found: Ints = np.arange(total) + np.repeat(starts - (ends - counts), counts)
    return found


def best_first(values: "NDArray[Any]", most: int | None = None) -> "Ints":
    """Return the places of the highest values, at most so many, highest first; equal values in order of place."""
    if most is None or most >= len(values):
        places = np.arange(len(values))
    else:
        places = np.flatnonzero(values >= np.partition(values, -most)[-most])
    found = -values[places]
    order = found.argsort()
    ranked = found[order]
    if (ranked[1:] == ranked[:-1]).any():
        # Only then, because a stable sort takes five times as long.
        order = found.argsort(kind="stable")
    return places[order[:most]]


def distinct(numbers: "Ints") -> "Ints":
    """Return the different numbers, sorted. `np.unique` would import `numpy.ma`."""
    numbers = np.sort(numbers)
    found: Ints = numbers[np.diff(numbers, prepend=-1) != 0]
    return found


def _with_dimensions(columns: Columns, other: Columns) -> Columns:
    if columns.dimensions or not other.dimensions:
        return columns
    packed = np.zeros((len(columns.start), other.packed.shape[1]), np.int8)
    signs = np.zeros((len(columns.start), other.signs.shape[1]), np.uint8)
    return msgspec.structs.replace(columns, packed=packed, signs=signs)


def in_order_of_time(columns: Columns, rows: "Ints") -> "Ints":
    """Return the rows sorted by time and id, oldest first."""
    at = columns.at[rows]
    order = np.argsort(at, kind="stable")
    rows, at = rows[order], at[order]
    same = at[1:] == at[:-1]
    ids = columns.ids[rows]
    wrong = np.flatnonzero(same)[(ids[1:][same] < ids[:-1][same]).astype(bool)]
    if len(wrong):
        # The stretches of memories of the same moment that are not in order.
        starts = np.flatnonzero(np.concatenate([[True], ~same]))
        ends = np.append(starts[1:], len(rows))
        for number in set((np.searchsorted(starts, wrong, side="right") - 1).tolist()):
            stretch = slice(starts[number], ends[number])
            rows[stretch] = sorted(rows[stretch].tolist(), key=columns.ids.__getitem__)
    return rows


# What passes a filter.


# How much is kept that was derived from texts, and about how many bytes each takes.
MOST_DERIVED = 8_192
DERIVED_BYTES = 4_000


class Derived:
    """What ranking has derived from the texts of memories, so that it reads each text only once."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, int], Any] = {}

    @property
    def nbytes(self) -> int:
        return DERIVED_BYTES * len(self._found)

    def get(self, what: str, key: int) -> Any:
        """Return what was derived from the memory with this key; None if nothing was."""
        return self._found.get((what, key))

    def add(self, what: str, key: int, value: Any) -> None:
        if len(self._found) >= MOST_DERIVED:
            # The oldest half. Another thread may be doing the same.
            for old in list(self._found)[: MOST_DERIVED // 2]:
                self._found.pop(old, None)
        self._found[what, key] = value

    def without(self, keys: Iterable[int]) -> "Derived":
        """Return a copy without some memories. Threads that still read an earlier state add to their own."""
        gone, new = frozenset(keys), Derived()
        new._found = {each: value for each, value in list(self._found.items()) if each[1] not in gone}
        return new


class Neighbourhood(NamedTuple):
    """Candidates with their neighbours, as rows of columns.

    `before` and `after` are the keys of memories that follow each other in a thread without a gap.
    """

    columns: Columns
    rows: "Ints"
    before: "Ints"
    after: "Ints"


class Selection:
    """The rows of some columns that pass a filter, and the reads of a search that need nothing else."""

    def __init__(self, columns: Columns, rows: "Ints", derived: "Derived | None" = None) -> None:
        self.columns = columns
        self.rows = rows
        self.derived = Derived() if derived is None else derived
        self.whole: Any = None
        """What the caller has computed from all of the rows and wants to keep; see `ranking`."""

    @property
    def size(self) -> int:
        return len(self.rows)

    @cached_property
    def has_pinned(self) -> bool:
        """Whether any of these memories is pinned."""
        return bool(self.columns.pinned[self.rows].any())

    def rows_of(self, keys: Sequence[int]) -> "Ints":
        """Return the rows of these memories in the same order; those that do not pass the filter are left out."""
        rows, passing = self._find(keys)
        found: Ints = rows[passing]
        return found

    def _find(self, keys: Sequence[int]) -> "tuple[Ints, NDArray[np.bool_]]":
        """Return a row for each key, and which of the keys pass the filter; the rows of the others are wrong."""
        order, sorted_keys = self._by_key
        wanted = np.array(keys, np.int64)
        if not len(sorted_keys):
            return wanted, np.zeros(len(wanted), bool)
        places = np.minimum(np.searchsorted(sorted_keys, wanted), len(sorted_keys) - 1)
        return order[places], sorted_keys[places] == wanted

    @cached_property
    def _by_key(self) -> "tuple[Ints, Ints]":
        keys = self.columns.key[self.rows]
        order = np.argsort(keys)
        return self.rows[order], keys[order]

    def best_of(self, leading: Sequence[Match], *, limit: int, depth: int) -> list[int] | None:
        """Return the keys of the best matches that pass the filter, given the best `depth` without a filter.

        Ties are ordered by time, newest first, and id. None if others may belong to the best.
        """
        rows, passing = self._find([match.key for match in leading])
        scores = np.array([match.score for match in leading])[passing]
        rows = rows[passing]
        # Matches that are not listed may tie with the last one.
        if len(leading) >= depth and not (len(rows) > limit and scores[limit - 1] > leading[-1].score):
            return None
        at, ids = self.columns.at[rows], self.columns.ids
        order = np.lexsort((-at, -scores))
        same = (np.diff(scores[order]) == 0) & (np.diff(at[order]) == 0)
        places = order.tolist()
        if same.any():
            places.sort(key=lambda place: (-scores[place], -at[place], ids[rows[place]]))
        return [int(key) for key in self.columns.key[rows[places[:limit]]]]

    def nearest(self, code: bytes, *, limit: int) -> list[int]:
        """Return the keys of the memories with the passages nearest to a code by Hamming distance."""
        columns = self.columns
        if len(code) * 8 != columns.dimensions or not self.size:
            return []
        words = _as_words(np.frombuffer(code, np.uint8)[None, :])[0]
        apart = np.zeros(len(self._passages), np.int32)
        for signs, word in zip(self._signs, words, strict=True):
            apart += np.bitwise_count(signs ^ word)
        apart[~columns.has_vector[self._passages]] = _FAR
        distance = np.minimum.reduceat(apart, self._starts)
        last = min(limit, self.size) - 1
        near = np.flatnonzero(distance <= np.partition(distance, last)[last])
        keys = columns.key[self.rows[near]]
        order = np.lexsort((keys, distance[near]))[:limit]
        return [int(key) for key in keys[order[distance[near][order] < _FAR]]]

    @cached_property
    def _starts(self) -> "Ints":
        """Where the passages of each row start."""
        return _offsets(self.columns.first[self.rows + 1] - self.columns.first[self.rows])[:-1]

    @cached_property
    def _passages(self) -> "Ints":
        first = self.columns.first
        return _ranges(first[self.rows], first[self.rows + 1] - first[self.rows])

    @cached_property
    def _signs(self) -> "NDArray[np.uint64]":
        """The signs of each vector, one bit each: a row for each word of 64 bits, a column for each passage."""
        return np.ascontiguousarray(_as_words(self.columns.signs[self._passages]).T)

    def between(self, start: datetime, end: datetime, *, limit: int) -> list[int]:
        """Return the keys of the memories about a time in this span, newest first."""
        at = self.columns.at[self._in_time]
        first, last = np.searchsorted(at, [micros(start), micros(end)])
        rows = self._in_time[first:last][::-1][:limit]
        return [int(key) for key in self.columns.key[rows]]

    @cached_property
    def _in_time(self) -> "Ints":
        return in_order_of_time(self.columns, self.rows)

    def with_neighbours(self, keys: Sequence[int], *, most: int, reach: int) -> "Neighbourhood":
        """Return these memories and the neighbours of the first `most` of them that are part of a thread."""
        seeds = self.rows_of(keys)
        leading = seeds[:most]
        leading = leading[self.columns.thread[leading] != NONE]
        ordered, place, low, high = self._threads
        at = place[np.searchsorted(self.rows, leading)]
        first, counts = np.maximum(low[at], at - reach), np.minimum(high[at], at + reach + 1)
        counts -= first
        near = distinct(_ranges(first, counts))
        joined = distinct(_ranges(first, counts - 1))
        key = self.columns.key
        rows = distinct(np.concatenate([seeds, ordered[near]]))
        return Neighbourhood(self.columns, rows, key[ordered[joined]], key[ordered[joined + 1]])

    @cached_property
    def _threads(self) -> "tuple[Ints, Ints, Ints, Ints]":
        """The rows sorted by thread and time, the position of each row there, and the bounds of its thread."""
        order = np.argsort(self.columns.beside[self._in_time], kind="stable")
        rows = self._in_time[order]
        threads = self.columns.beside[rows]
        starts = np.flatnonzero(np.diff(threads, prepend=-1))
        counts = np.diff(starts, append=len(threads))
        low = np.repeat(starts, counts)
        place = np.empty(len(rows), np.int64)
        place[np.searchsorted(self.rows, rows)] = np.arange(len(rows))
        return rows, place, low, low + np.repeat(counts, counts)

    @property
    def nbytes(self) -> int:
        """The bytes of what was computed for this selection, without the columns."""
        plain = (self.__dict__.get(name) for name in ("_passages", "_starts", "_signs", "_in_time"))
        computed = (*plain, *self.__dict__.get("_threads", ()), *self.__dict__.get("_by_key", ()))
        own = self.rows.nbytes + sum(each.nbytes for each in computed if each is not None)
        return int(own + (self.whole.nbytes if self.whole is not None else 0))


# More than any distance.
_FAR = 1 << 30
_WORD = 8


def _as_words(codes: "NDArray[np.uint8]") -> "NDArray[np.uint64]":
    """Return rows of bytes as rows of 64-bit words, filled up with zeros."""
    missing = -codes.shape[1] % _WORD
    padded = np.pad(codes, ((0, 0), (0, missing))) if missing else codes
    return np.ascontiguousarray(padded).view(np.uint64)


class _Passing(NamedTuple):
    """A selection, and the moments from and until which the same rows are valid."""

    since: int
    until: int
    selection: Selection


# How many filters on the same columns are kept.
MOST_SELECTIONS = 4


class _Kept:
    """The columns of one scope, the version of the store that they show, and the last selections from them."""

    def __init__(
        self,
        columns: Columns,
        version: Version,
        stale: "NDArray[np.bool_] | None" = None,
        derived: Derived | None = None,
    ) -> None:
        self.columns = columns
        self.version = version
        self.derived = Derived() if derived is None else derived
        self.stale = np.zeros(columns.size, bool) if stale is None else stale
        """Rows of memories that have changed since; a later row has their new state, if they are still there."""
        self.asked = 0
        self._selections: dict[tuple[Filter, bool], _Passing] = {}
        self._own_bytes = columns.nbytes + self.stale.nbytes

    @property
    def nbytes(self) -> int:
        selections = sum(each.selection.nbytes for each in list(self._selections.values()))
        return self._own_bytes + self.derived.nbytes + selections

    def select(self, store: SearchStore, where: Filter) -> Selection:
        """Return the rows that pass a filter; they are kept for the next call with the same filter."""
        moment = None if where.valid_at is None else micros(where.valid_at)
        # The present moves on, while the same memories are valid.
        named = (msgspec.structs.replace(where, valid_at=None), moment is None)
        kept = self._selections.pop(named, None)
        if kept is None or not (moment is None or kept.since <= moment < kept.until):
            kept = self._selected(store, where, moment)
        for oldest in list(self._selections)[: max(0, len(self._selections) + 1 - MOST_SELECTIONS)]:
            self._selections.pop(oldest, None)
        self._selections[named] = kept
        return kept.selection

    def _selected(self, store: SearchStore, where: Filter, moment: int | None) -> _Passing:
        columns = self.columns
        passing = ~self.stale
        for column, names in (
            (columns.status, where.statuses),
            (columns.kind, where.kinds),
            (columns.tier, where.tiers),
        ):
            if names:
                passing &= columns.of_names(column, names)
        if where.pinned:
            passing &= columns.pinned > 0
        if where.important:
            passing &= columns.importance > IMPORTANT
        if where.since is not None:
            passing &= columns.at >= micros(where.since)
        if where.until is not None:
            passing &= columns.at <= micros(where.until)
        if where.tags or where.metadata or where.ids or where.unchanged_since is not None:
            passing &= np.isin(columns.key, np.array(store.keys(where), np.int64))
        if moment is None:
            return _Passing(_EARLIEST, _LATEST, Selection(columns, np.flatnonzero(passing), self.derived))
        bounds = np.concatenate([columns.valid_from[passing], columns.invalid_at[passing]])
        since = int(bounds[bounds <= moment].max(initial=_EARLIEST))
        until = int(bounds[bounds > moment].min(initial=_LATEST))
        passing &= (columns.valid_from <= moment) & (columns.invalid_at > moment)
        return _Passing(since, until, Selection(columns, np.flatnonzero(passing), self.derived))


# As in the partial index of the stores.
IMPORTANT = 0.7


# The cache.


# So many changes are applied to kept columns; after more, they are read anew.
MOST_CHANGED = 2_000
# A large scope is read when it is asked for this often: reading it takes as long as about ten questions.
ASKED_OFTEN = 10
# Stale rows are removed when they are more than this share.
MOST_STALE = 0.2
# How often the bytes of columns are counted again: questions compute more, which is kept with them.
COUNTED_EVERY = 8
# Fewer bytes than any memory takes, to tell without reading it that a scope is too large.
LEAST_BYTES = 300


class ColumnCache:
    """The columns of the scopes that were asked last, at most `limit` bytes. Threads may share it."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        # Without a lock, which a fork could leave locked: each operation on a dict is atomic, and threads that load
        # the same scope at once both get right columns.
        self._kept: dict[Scope, _Kept] = {}
        self._sizes: dict[Scope, int] = {}
        self._asked: dict[Scope, int] = {}
        self._too_large: dict[Scope, int] = {}

    @property
    def nbytes(self) -> int:
        """The bytes that are kept."""
        return sum(list(self._sizes.values()))

    def bytes_within(self, scope: Scope) -> int:
        """Return the bytes that are kept of scopes inside this one: a tenant learns nothing about others."""
        bound = {name: value for name in SCOPE_FIELDS if (value := getattr(scope, name)) is not None}
        return sum(
            size
            for kept, size in list(self._sizes.items())
            if all(getattr(kept, name) == value for name, value in bound.items())
        )

    def select(self, store: SearchStore, where: Filter, *, load: bool = False) -> Selection | None:
        """Return what passes a filter now; None if its scope is not kept and costs more to read than to query.

        A small scope is read at once. A large one is read when it is asked for the tenth time in this process, or
        with `load`. Call this inside a read transaction: the result shows its state.
        """
        scope = where.scope
        kept = self._kept.get(scope)
        version = store.version(scope.org)
        if version is None:
            return None
        if kept is None or kept.version != version:
            kept = self._updated(store, scope, kept, version) or self._read(store, scope, version, load=load)
        if kept is None:
            return None
        selection = kept.select(store, where)
        kept.asked += 1
        # The first question computes most of what is kept, so it counts from the second on.
        if kept.asked <= 2 or kept.asked % COUNTED_EVERY == 0:
            self._keep(scope, kept)
        else:
            self._move_to_end(scope)
        return selection

    def _updated(self, store: SearchStore, scope: Scope, kept: _Kept | None, version: Version) -> _Kept | None:
        """Return kept columns with what has changed since; None if that is not known any more."""
        if kept is None or version.generation != kept.version.generation:
            return None
        keys = store.changed_keys(scope.org, kept.version, limit=MOST_CHANGED)
        if keys is None:
            return None
        columns = kept.columns
        changed = Columns.from_traces(store.traces(_everything(scope), keys), columns.vocabulary)
        if not columns.agrees_with(changed):
            return None
        gone = np.isin(columns.key, np.array(keys, np.int64)) & ~kept.stale
        if not gone.any() and not changed.size:
            # The changes were outside of the scope.
            kept.version = version
            return kept
        stale, derived = kept.stale | gone, kept.derived.without(keys)
        if stale.sum() > MOST_STALE * columns.size:
            return _Kept(columns.take(np.flatnonzero(~stale)).joined(changed), version, derived=derived)
        stale = np.concatenate([stale, np.zeros(changed.size, bool)])
        return _Kept(columns.joined(changed), version, stale, derived)

    def _read(self, store: SearchStore, scope: Scope, version: Version, *, load: bool) -> _Kept | None:
        self._kept.pop(scope, None)
        self._sizes.pop(scope, None)
        everything = _everything(scope)
        most = self._too_large.get(scope, self.limit // LEAST_BYTES)
        if store.count(everything, most=SMALL + 1) > SMALL:
            asked = self._asked[scope] = self._asked.get(scope, 0) + 1
            if not load and asked < ASKED_OFTEN:
                return None
            if store.count(everything, most=most + 1) > most:
                return None
        return _Kept(Columns.from_traces(store.traces(everything)), version)

    def _move_to_end(self, scope: Scope) -> None:
        """Mark columns as the last used ones."""
        kept, size = self._kept.pop(scope, None), self._sizes.pop(scope, None)
        if kept is not None and size is not None:
            self._kept[scope], self._sizes[scope] = kept, size

    def _keep(self, scope: Scope, kept: _Kept) -> None:
        """Keep columns as the last used ones, and drop the least recently used ones that are over the limit."""
        size = kept.nbytes
        self._kept.pop(scope, None)
        self._sizes.pop(scope, None)
        if size > self.limit:
            # Read again only if it has become smaller.
            self._too_large[scope] = int((~kept.stale).sum()) - 1
            return
        self._kept[scope], self._sizes[scope] = kept, size
        for oldest in list(self._kept):
            if self.nbytes <= self.limit:
                break
            self._kept.pop(oldest, None)
            self._sizes.pop(oldest, None)


def _everything(scope: Scope) -> Filter:
    return Filter(scope=scope, statuses=())
