"""A store as of an earlier moment, reconstructed from the history of changes.

The state of a memory at a moment is the result of its last change up to then. A memory that was recorded later has
no such state: its first version is used, with its current `at`, `valid_from` and `invalid_at`, and it counts as
known from its `at` on. Relations count from when they were created.
"""

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from satchel.model.filters import Filter, Sort
from satchel.model.memory import Change, Memory, Relation, Scope, free_texts, values_changed
from satchel.model.metadata import metadata_lines
from satchel.store import memories
from satchel.store.contract import Changed, Link, Match, SearchStore, Trace, TracedPassage, Version
from satchel.store.store import Store
from satchel.text.passages import parts_of
from satchel.text.redact import masked_labels
from satchel.text.terms import term_codes
from satchel.text.terms import terms as index_terms
from satchel.text.tokens import DEFAULT_COUNTER, counter

__all__ = ["PastStore", "state_at", "store_at"]

Vectors = Mapping[str, tuple[bytes, bytes]]
"""Vectors and sign bits by the text of a passage, as in `Embedded.vectors`."""

_Words = tuple[str, str | None, tuple[str, ...]]
"""What the full-text and vector indexes are made from: text, title, tags."""

# As in the BM25 of the stores.
K1 = 1.2
LEAST_RARITY = 1e-6
# A term is a stem, and may be shorter than the word.
LENGTH_DIFFERENCE = 4
IMPORTANT = 0.7

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_STATED_TIMES = frozenset({"at", "valid_from", "invalid_at"})


def store_at(
    store: Store, where: Filter, moment: datetime, *, embed: Callable[[Sequence[Memory]], Vectors] | None = None
) -> SearchStore:
    """Return a view of a store as of a moment, for searches with a filter; the store itself if nothing has changed.

    `embed` creates the vectors of earlier texts. Texts without vectors are found by their words.
    """
    past = PastStore(store, where, moment, embed=embed)
    return past if past.differs else store


def state_at(memory: Memory, history: Sequence[Change], moment: datetime) -> Memory:
    """Return a memory as it was at a moment, given its current state and its whole history."""
    entries = [entry for entry in history if entry.action not in ("relate", "unrelate")]
    kept = len(entries)
    while kept and entries[kept - 1].at > moment:
        kept -= 1
    undone = [entry for entry in entries[kept:] if entry.changes]
    fields: dict[str, Any] = {}
    for entry in reversed(undone):
        fields |= values_changed(entry)[0]
    if not kept:
        fields = {name: value for name, value in fields.items() if name not in _STATED_TIMES}
    if not undone:
        return memory
    then = msgspec.structs.replace(memory, **fields)
    return msgspec.structs.replace(
        then,
        revision=max(memory.revision - len(undone), 1),
        updated_at=entries[max(kept - 1, 0)].at,
        tokens=_count(then.text) if then.text != memory.text else memory.tokens,
        masked=masked_labels(*free_texts(msgspec.structs.asdict(then))),
    )


def _count(text: str) -> int:
    # The stored token count is always that of the default counter.
    return counter(DEFAULT_COUNTER).count(text)


class _Past(NamedTuple):
    """An earlier state of a memory: its key, and whether its indexed text is different now."""

    key: int
    then: Memory
    reworded: bool


class _RelationEvent(NamedTuple):
    """An entry of the history about a relation that was created, overwritten or removed."""

    relation: Relation
    has_strength: bool
    """Whether the entry records the strength; older entries do not."""
    removed_at: datetime | None


class PastStore:
    """Reads a store as of a moment: unchanged memories from the store, changed ones from the history."""

    def __init__(
        self,
        store: Store,
        where: Filter,
        moment: datetime,
        *,
        embed: Callable[[Sequence[Memory]], Vectors] | None = None,
    ) -> None:
        self._store = store
        self._moment = moment
        self._where = where
        self._org = where.scope.org
        self._vectors: Vectors = {}
        # Caches by the earlier text, which does not change however often the store is read.
        self._passages: dict[_Words, tuple[TracedPassage, ...]] = {}
        self._terms: dict[_Words, frozenset[str]] = {}
        self._load()
        with store.reading(self._org) as tx:
            self.differs = bool(self._past) or bool(self._removed) or memories.related_since(tx, self._org, moment)
        """Whether anything has changed since the moment."""
        if embed is not None and (reworded := self._reworded()):
            # Before the read transaction of a search, because a model may be slow.
            self._vectors = embed([each.then for each in reworded])

    @contextlib.contextmanager
    def reading(self, org: str) -> Iterator[None]:
        """Read inside one transaction, with the changes of other processes up to its start."""
        with self._store.reading(org):
            self._load()
            yield

    def _load(self) -> None:
        # A memory may have moved to another session since, but not to another user or agent. One that has moved to
        # another project is gone from the past of the project it left, because its readers may not see it any more.
        scope = msgspec.structs.replace(self._where.scope, session=None)
        meant = Filter(scope=scope, ids=self._where.ids, statuses=())
        with self._store.reading(self._org) as tx:
            changed = memories.changed(tx, meant, self._moment)
            removals = memories.unrelated_since(tx, self._org, self._moment)
        self._removed = _first_removed(removals)
        self._past = {each.key: self._replayed(each) for each in changed}
        self._passed: dict[Filter, list[_Past]] = {}
        self._indexed: dict[int, Trace] = {}
        self._events: dict[str, list[_RelationEvent]] = {}

    def _replayed(self, changed: Changed) -> _Past:
        then = state_at(changed.memory, changed.history, self._moment)
        return _Past(changed.key, then, _words(then) != _words(changed.memory))

    def _unchanged(self, where: Filter) -> Filter:
        return msgspec.structs.replace(where, unchanged_since=self._moment)

    def _passing(self, where: Filter) -> list[_Past]:
        if where not in self._passed:
            self._passed[where] = [past for past in self._past.values() if _passes(past.then, where)]
        return self._passed[where]

    def _reworded(self) -> list[_Past]:
        """Return the earlier states whose text differs from the index, newest first."""
        found = [past for past in self._passing(self._where) if past.reworded]
        return sorted(found, key=lambda past: _place(past.then), reverse=True)

    def select(self, where: Filter, *, limit: int, sort: Sort = "at", offset: int = 0) -> list[Memory]:
        end = offset + limit
        found = self._store.select(self._unchanged(where), limit=end, sort=sort)
        found += [past.then for past in self._passing(where)]
        return sorted(found, key=lambda memory: (_ORDERS[sort](memory), memory.id), reverse=True)[offset:end]

    def count(self, where: Filter, *, most: int) -> int:
        return min(self._store.count(self._unchanged(where), most=most) + len(self._passing(where)), most)

    def around(self, memory: Memory, where: Filter, *, before: int, after: int) -> list[Memory]:
        found = self._store.around(memory, self._unchanged(where), before=before, after=after)
        found += [past.then for past in self._passing(where)]
        earlier = sorted((each for each in found if _place(each) < _place(memory)), key=_place)
        later = sorted((each for each in found if _place(each) > _place(memory)), key=_place)
        return earlier[max(0, len(earlier) - before) :] + later[:after]

    def between(self, where: Filter, start: datetime, end: datetime, *, limit: int) -> list[int]:
        found = self._store.between(self._unchanged(where), start, end, limit=limit)
        ours = {past.key: past.then for past in self._passing(where) if start <= past.then.at < end}
        if not ours:
            return found
        both = self._store.memories(found) | ours
        return sorted(both, key=lambda key: _place(both[key]), reverse=True)[:limit]

    def memories(self, keys: Sequence[int]) -> dict[int, Memory]:
        found = self._store.memories([key for key in keys if key not in self._past])
        found |= {key: self._past[key].then for key in keys if key in self._past}
        return {key: found[key] for key in keys if key in found}

    def traces(self, where: Filter, keys: Sequence[int] | None = None) -> list[Trace]:
        found = [_same_form(trace) for trace in self._store.traces(self._unchanged(where), keys)]
        found += self._traces(where, keys)
        return sorted(found, key=lambda trace: (trace.at, trace.id))

    def _traces(self, where: Filter, keys: Sequence[int] | None = None) -> list[Trace]:
        wanted = None if keys is None else set(keys)
        passing = [past for past in self._passing(where) if wanted is None or past.key in wanted]
        self._look_up([past.key for past in passing if not past.reworded and past.key not in self._indexed])
        found = ((past, self._passages_of(past)) for past in passing)
        return [_trace(past, passages) for past, passages in found if passages]

    def _look_up(self, keys: Sequence[int]) -> None:
        """Load the index entries of changed memories whose text is still the same."""
        if keys:
            anything = Filter(scope=Scope(org=self._org), statuses=())
            self._indexed |= {trace.key: trace for trace in self._store.traces(anything, keys)}

    def _passages_of(self, past: _Past) -> tuple[TracedPassage, ...]:
        if not past.reworded:
            return self._indexed[past.key].passages if past.key in self._indexed else ()
        if (words := _words(past.then)) not in self._passages:
            self._passages[words] = tuple(
                TracedPassage(
                    part.start, part.end, part.flags, part.codes, self._vectors.get(part.text, (None,))[0]
                )
                for part in parts_of(past.then)
            )
        return self._passages[words]

    def keys(self, where: Filter) -> list[int]:
        return [trace.key for trace in self.traces(where)]

    def version(self, org: str) -> None:
        """Return None: an earlier state is asked for rarely, and is not kept."""

    def changed_keys(self, org: str, since: Version, *, limit: int) -> None:
        """Return None: it is not known."""

    def leading_matches(self, terms: Sequence[str], *, limit: int) -> None:
        return None

    def matches(self, where: Filter, terms: Sequence[str], *, limit: int) -> list[Match]:
        found = self._store.matches(self._unchanged(where), terms, limit=limit)
        ours = self._traces(where)
        if ours and terms:
            found += self._scored(ours, terms)
        return sorted(found, key=lambda match: -match.score)[:limit]

    def _scored(self, traces: Sequence[Trace], terms: Sequence[str]) -> Iterator[Match]:
        """Yield BM25 scores for texts of average length. They only decide which candidates are considered."""
        codes_of = {words: term_codes(term) for term in terms if (words := tuple(index_terms(term)))}
        known = list(dict.fromkeys(word for words in codes_of for word in words))
        total, counts = self.frequencies(known)
        holding = dict(zip(known, counts, strict=True))
        for trace in traces:
            score = 0.0
            for words, codes in codes_of.items():
                often = sum(_times(passage.codes, codes) for passage in trace.passages)
                rare = min(holding[word] for word in words)
                score += _rarity(total, rare) * often * (K1 + 1) / (often + K1)
            if score > 0:
                yield Match(trace.key, score)

    def nearest(self, where: Filter, code: bytes, *, limit: int) -> list[Match]:
        found = self._store.nearest(self._unchanged(where), code, limit=limit)
        for trace in self._traces(where):
            signs = [_signs(passage.vector) for passage in trace.passages if passage.vector is not None]
            far = [_bits_apart(each, code) for each in signs if len(each) == len(code)]
            if far:
                found.append(Match(trace.key, -float(min(far))))
        return sorted(found, key=lambda match: (-match.score, match.key))[:limit]

    def frequencies(self, terms: Sequence[str]) -> tuple[int, list[int]]:
        total, counts = self._store.frequencies(terms)
        held = [self._terms_of(past) for past in self._reworded()]
        return total, [
            count + sum(term in each for each in held) for term, count in zip(terms, counts, strict=True)
        ]

    def words_like(self, word: str, *, start: str) -> list[str]:
        found = self._store.words_like(word, start=start)
        terms = {term for past in self._reworded() for term in self._terms_of(past) if term.startswith(start)}
        like = sorted(term for term in terms.difference(found) if abs(len(term) - len(word)) <= LENGTH_DIFFERENCE)
        return [*found, *like]

    def _terms_of(self, past: _Past) -> frozenset[str]:
        if (words := _words(past.then)) not in self._terms:
            text, title, tags = words
            self._terms[words] = frozenset(index_terms("\n".join((title or "", text, *tags))))
        return self._terms[words]

    def beside(self, traces: Sequence[Trace], where: Filter, *, reach: int) -> list[list[int]]:
        runs = self._store.beside(traces, self._unchanged(where), reach=reach)
        threads: dict[str, list[Memory]] = {}
        keys = {}
        for past in self._passing(where):
            if (thread := _thread(past.then)) is not None:
                threads.setdefault(thread, []).append(past.then)
                keys[past.then.id] = past.key
        return [
            self._joined(trace, run, threads[trace.thread], keys, reach) if trace.thread in threads else run
            for trace, run in zip(traces, runs, strict=True)
        ]

    def _joined(
        self, trace: Trace, run: Sequence[int], others: Iterable[Memory], keys: Mapping[str, int], reach: int
    ) -> list[int]:
        """Return a run of a thread, with the memories of it that have changed since."""
        held = self._store.memories([key for key in run if key != trace.key])
        places = {key: _order(memory) for key, memory in held.items()}
        places |= {keys[each.id]: _order(each) for each in others if each.id != trace.id}
        here = (trace.at, trace.id)
        in_order = sorted(places, key=places.__getitem__)
        earlier = [key for key in in_order if places[key] < here]
        later = [key for key in in_order if places[key] > here]
        return [*earlier[max(0, len(earlier) - reach) :], trace.key, *later[:reach]]

    def links(self, keys: Sequence[int], where: Filter, *, limit: int) -> list[Link]:
        ids = {memory.id: key for key, memory in self.memories(keys).items()}
        found = self.relations(Scope(org=self._org), list(ids))
        others = {relation.target for relation in found} | {relation.source for relation in found}
        passing = self._keys(others, where) if found else {}
        outgoing = (
            Link(ids[each.source], passing[each.target], each.kind, each.strength, True)
            for each in found
            if each.source in ids and each.target in passing
        )
        incoming = (
            Link(ids[each.target], passing[each.source], each.kind, each.strength, False)
            for each in found
            if each.target in ids and each.source in passing
        )
        return _first_links(outgoing, limit) + _first_links(incoming, limit)

    def _keys(self, ids: Iterable[str], where: Filter) -> dict[str, int]:
        """Return the keys of the memories that pass the filter, by id."""
        changed = {past.then.id: past.key for past in self._passing(where)}
        found = {each: changed[each] for each in ids if each in changed}
        rest = [each for each in ids if each not in found and each in (where.ids or (each,))]
        if rest:
            among = msgspec.structs.replace(self._unchanged(where), ids=tuple(rest))
            found |= {trace.id: trace.key for trace in self._store.traces(among)}
        return found

    def relations(self, scope: Scope, ids: Sequence[str]) -> list[Relation]:
        held = {_ends(each): each for each in self._store.relations(scope, ids)}
        gone = [
            each for ends, each in self._removed.items() if ends not in held and not {*ends[:2]}.isdisjoint(ids)
        ]
        held |= {_ends(each): each for each in gone if self._inside(scope, each)}
        then = {ends: at for ends, each in held.items() if (at := self._relation_at(each)) is not None}
        if not gone:
            return list(then.values())
        in_order = (ends for each in ids for ends in sorted(then) if each in ends[:2])
        return [then[ends] for ends in dict.fromkeys(in_order)]

    def _inside(self, scope: Scope, relation: Relation) -> bool:
        ends = Filter(scope=scope, ids=(relation.source, relation.target), statuses=())
        return self._store.count(ends, most=2) == 2

    def _relation_at(self, relation: Relation) -> Relation | None:
        """Return a relation as it was; None if it was created later, or removed before the moment."""
        if relation.created_at <= self._moment:
            return relation
        then = None
        for event in self._relation_events_of(relation.source):
            if _ends(event.relation) != _ends(relation):
                continue
            if event.removed_at is not None:
                then = None if event.removed_at <= self._moment else then
            elif event.relation.created_at <= self._moment:
                made = event.relation
                then = made if event.has_strength else msgspec.structs.replace(made, strength=relation.strength)
        return then

    def _relation_events_of(self, source: str) -> list[_RelationEvent]:
        """Return the history of all relations that start at a memory, oldest first."""
        if source not in self._events:
            with self._store.reading(self._org) as tx:
                entries = memories.history(tx, self._org, source)
            events = (each for entry in entries for each in _relation_events(entry))
            self._events[source] = [each for each in events if each.relation.source == source]
        return self._events[source]


def _ends(relation: Relation) -> tuple[str, str, str]:
    return relation.source, relation.target, relation.kind


def _first_removed(removals: Iterable[Change]) -> dict[tuple[str, str, str], Relation]:
    """Return the relations that were removed, each as it was at its first removal."""
    found: dict[tuple[str, str, str], Relation] = {}
    for entry in removals:
        for event in _relation_events(entry):
            found.setdefault(_ends(event.relation), event.relation)
    return found


def _relation_events(entry: Change) -> Iterator[_RelationEvent]:
    """Yield what an entry records about relations: the one overwritten or removed, and the one created."""
    pair = entry.changes.get("relation")
    removed = entry.action == "unrelate"
    for fields in pair if (removed or entry.action == "relate") and isinstance(pair, list) else ():
        if isinstance(fields, dict):
            # Imported entries may contain anything.
            with contextlib.suppress(msgspec.ValidationError):
                relation = msgspec.convert({"created_at": entry.at, **fields}, Relation)
                yield _RelationEvent(relation, "strength" in fields, entry.at if removed else None)


def _passes(memory: Memory, where: Filter) -> bool:
    """Return whether a memory passes a filter, as the stores decide it."""
    tags = {_folded(tag) for tag in memory.tags}
    moment = where.valid_at
    return (
        all(
            value is None or getattr(memory.scope, name) == value
            for name, value in msgspec.structs.asdict(where.scope).items()
        )
        and memory.kind in (where.kinds or (memory.kind,))
        and memory.tier in (where.tiers or (memory.tier,))
        and memory.status in (where.statuses or (memory.status,))
        and memory.id in (where.ids or (memory.id,))
        and all(_folded(tag) in tags for tag in where.tags)
        and (not where.metadata or {*where.metadata} <= {*metadata_lines(memory.metadata)})
        and (moment is None or memory.valid_from is None or memory.valid_from <= moment)
        and (moment is None or memory.invalid_at is None or memory.invalid_at > moment)
        and (where.since is None or memory.at >= where.since)
        and (where.until is None or memory.at <= where.until)
        and (memory.pinned or not where.pinned)
        and (memory.importance > IMPORTANT or not where.important)
    )


def _folded(tag: str) -> str:
    """Return a tag with ASCII letters in lower case, as databases compare tags."""
    return "".join(letter.lower() if letter.isascii() else letter for letter in tag)


def _words(memory: Memory) -> _Words:
    return memory.text, memory.title, memory.tags


def _place(memory: Memory) -> tuple[datetime, str]:
    return memory.at, memory.id


_ORDERS: dict[Sort, Callable[[Memory], Any]] = {
    "at": lambda memory: memory.at,
    "created": lambda memory: memory.created_at,
    "updated": lambda memory: memory.updated_at,
    "used": lambda memory: memory.accessed_at or datetime.min.replace(tzinfo=UTC),
    "importance": lambda memory: memory.importance,
}


def _order(memory: Memory) -> tuple[int, str]:
    return _micros(memory.at), memory.id


def _micros(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1)


def _trace(past: _Past, passages: tuple[TracedPassage, ...]) -> Trace:
    memory = past.then
    return Trace(
        key=past.key,
        at=_micros(memory.at),
        id=memory.id,
        thread=_thread(memory),
        speaker=memory.speaker,
        kind=memory.kind,
        tier=memory.tier,
        importance=memory.importance,
        confidence=memory.confidence,
        pinned=int(memory.pinned),
        tokens=memory.tokens,
        status=memory.status,
        valid_from=None if memory.valid_from is None else _micros(memory.valid_from),
        invalid_at=None if memory.invalid_at is None else _micros(memory.invalid_at),
        uses=memory.access_count,
        passages=passages,
    )


def _thread(memory: Memory) -> str | None:
    """Return the session or document of a memory, in the form of `_same_form`."""
    scope = memory.scope
    name = ("session", scope.session) if scope.session else ("source", memory.source)
    if name[1] is None:
        return None
    return _json([name[0], scope.project or "", scope.user or "", scope.agent or "", name[1]])


def _same_form(trace: Trace) -> Trace:
    """Return a trace with its thread in normal form: databases write JSON arrays with or without spaces."""
    return trace if trace.thread is None else trace._replace(thread=_json(msgspec.json.decode(trace.thread)))


def _json(value: Sequence[str]) -> str:
    return msgspec.json.encode(value).decode()


def _first_links(links: Iterable[Link], limit: int) -> list[Link]:
    return sorted(links, key=lambda link: (link.key, link.origin, link.kind))[:limit]


def _times(codes: bytes, sought: bytes) -> int:
    """Return how often a term or a phrase occurs in a passage."""
    count, at = 0, codes.find(sought)
    while at >= 0:
        # A code has four bytes; matches at other offsets do not count.
        count += at % 4 == 0
        at = codes.find(sought, at + 1)
    return count


def _rarity(memories: int, holding: int) -> float:
    """Return the inverse document frequency, as in the BM25 of the stores."""
    return max(math.log(max(memories - holding + 0.5, 0.5) / (holding + 0.5)), LEAST_RARITY)


def _signs(vector: bytes) -> bytes:
    import numpy as np

    return np.packbits(np.frombuffer(vector, np.int8) > 0).tobytes()


def _bits_apart(one: bytes, other: bytes) -> int:
    return (int.from_bytes(one) ^ int.from_bytes(other)).bit_count()
