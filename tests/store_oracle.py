"""What the Store contract means, in dicts and lists: slow, small, and without SQL.

Memories are named by their ids where a store has numbers of its own. What a contract leaves open, such as the
order of equal scores, is left to whoever compares.
"""

import bisect
import contextlib
import copy
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

import msgspec

from satchel.errors import AmbiguousIdError, InputError, UnknownIdError
from satchel.ids import normalise_prefix, unique_prefix
from satchel.memory import Change, Memory, Relation, Scope
from satchel.parts import Part, parts_of
from satchel.redact import masked_labels
from satchel.store.contract import Candidate, Embedded, Embedding, Filter, Record, Stats
from satchel.terms import terms

__all__ = ["Oracle", "passes"]

_replace = msgspec.structs.replace
_UNTOLD = ("updated_at", "revision", "access_count", "accessed_at", "tokens", "masked")


class State:
    """All that a transaction can undo."""

    def __init__(self) -> None:
        self.memories: dict[str, Memory] = {}
        self.history: dict[tuple[str, str], list[Change]] = {}
        self.relations: dict[tuple[str, str, str], Relation] = {}
        self.uses: dict[str, tuple[int, datetime]] = {}
        self.vectors: dict[str, list[tuple[bytes, bytes]]] = {}
        self.embeddings: dict[str, Embedding] = {}

    def copied(self) -> "State":
        other = copy.copy(self)
        other.__dict__ = {name: copy.copy(value) for name, value in vars(self).items()}
        other.history = {key: list(entries) for key, entries in self.history.items()}
        return other


class Oracle:
    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self._state = State()
        self._waiting: dict[str, tuple[int, datetime]] = {}
        self._depth = 0

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        before = self._state.copied()
        self._depth += 1
        try:
            yield
        except BaseException:
            self._state = before
            raise
        finally:
            self._depth -= 1
        if not self._depth:
            for identifier, use in self._waiting.items():
                if identifier in self._state.memories:
                    self._state.uses[identifier] = _sum(self._state.uses.get(identifier), use)
            self._waiting.clear()

    def add(self, candidates: Sequence[Candidate], embedded: Embedded | None = None) -> list[Memory]:
        with self.transaction():
            self._adopt(candidates[0].memory.scope.org, embedded)
            return [self._add(memory, given, embedded) for memory, given in candidates]

    def put(
        self, scope: Scope, records: Sequence[Record], embedded: Embedded | None = None
    ) -> list[Literal["added", "updated", "kept"]]:
        with self.transaction():
            self._adopt(scope.org, embedded)
            return [self._put(scope, record, embedded) for record in records]

    def put_relations(self, scope: Scope, relations: Sequence[Relation]) -> None:
        with self.transaction():
            for relation in relations:
                self._inside(scope, relation.source)
                self._inside(scope, relation.target)
                self._link(relation)

    def change(
        self,
        scope: Scope,
        identifier: str,
        changes: Mapping[str, Any],
        *,
        action: str,
        embedded: Embedded | None = None,
    ) -> Memory:
        with self.transaction():
            self._adopt(scope.org, embedded)
            old = self._inside(scope, identifier)
            return self._revise(old, _replace(old, **changes), action, embedded)

    def forget(self, where: Filter, moment: datetime) -> int:
        with self.transaction():
            ending = [each for each in self._found(where) if each.invalid_at is None or each.invalid_at > moment]
            for memory in ending:
                self._revise(memory, _replace(memory, invalid_at=moment), "forget", None)
            return len(ending)

    def purge(self, where: Filter) -> int:
        with self.transaction():
            found = self._found(where)
            for memory in found:
                del self._state.memories[memory.id]
                self._state.uses.pop(memory.id, None)
                self._state.vectors.pop(memory.id, None)
                for key in [key for key in self._state.relations if memory.id in key[:2]]:
                    del self._state.relations[key]
                self._state.history.pop((memory.scope.org, memory.id), None)
                self._tell(memory, self._clock(), "purge", {})
            return len(found)

    def relate(self, scope: Scope, relation: Relation) -> Relation:
        with self.transaction():
            source, target = self._inside(scope, relation.source), self._inside(scope, relation.target)
            ends = relation.kind == "supersedes"
            if source == target or (ends and source.status == "superseded"):
                raise InputError
            held = self._state.relations.get((source.id, target.id, relation.kind))
            again = held is not None and held.strength == relation.strength
            if held is not None and again and (not ends or target.status == "superseded"):
                return held
            self._link(relation)
            entry = {"kind": relation.kind, "source": source.id, "target": target.id}
            for memory in (source, target):
                self._tell(memory, relation.created_at, "relate", {"relation": [None, entry]})
            if ends and target.status != "superseded":
                end = target.invalid_at or relation.created_at
                ended = _replace(target, status="superseded", superseded_by=source.id, invalid_at=end)
                self._revise(target, ended, "supersede", None)
            return relation

    def touch(self, ids: Sequence[str], moment: datetime) -> None:
        for identifier in ids:
            self._waiting[identifier] = _sum(self._waiting.get(identifier), (1, moment))

    def embed_backlog(self, org: str, ids: Iterable[str], embedded: Embedded) -> int:
        with self.transaction():
            self._adopt(org, embedded)
            waiting = [identifier for identifier in ids if identifier in set(self.backlog())]
            for identifier in waiting:
                self._embed(self._state.memories[identifier], embedded)
            return len(waiting) - len(set(waiting) & set(self.backlog()))

    def embedding(self, *, orgs: Sequence[str]) -> Embedding | None:
        return next((found for org in orgs if (found := self._state.embeddings.get(org))), None)

    def backlog(self) -> list[str]:
        return [identifier for identifier in self._state.memories if identifier not in self._state.vectors]

    def resolve(self, scope: Scope, prefix: str) -> str:
        start = normalise_prefix(prefix)
        found = [each.id for each in self._found(Filter(scope=scope, statuses=())) if each.id.startswith(start)]
        if len(found) != 1:
            raise AmbiguousIdError if found else UnknownIdError
        return found[0]

    def short_ids(self, ids: Sequence[str]) -> list[str]:
        known = sorted(self._state.memories)
        return [
            unique_prefix(
                each,
                next(iter(known[bisect.bisect_left(known, each) - 1 :]), None)
                if known and each > known[0]
                else None,
                next(iter(known[bisect.bisect_right(known, each) :]), None),
            )
            for each in ids
        ]

    def select(self, where: Filter, *, limit: int) -> list[Memory]:
        return [self._used(memory) for memory in self._by_time(where)[::-1][:limit]]

    def count(self, where: Filter, *, most: int) -> int:
        return min(most, len(self._found(where)))

    def between(self, where: Filter, start: datetime, end: datetime, *, limit: int) -> list[str]:
        return [each.id for each in self._by_time(where)[::-1] if start <= each.at < end][:limit]

    def around(self, memory: Memory, where: Filter, *, before: int, after: int) -> list[Memory]:
        earlier, later = self._sides(memory, self._by_time(where))
        return [self._used(each) for each in (*earlier[max(0, len(earlier) - before) :], *later[:after])]

    def beside(self, ids: Sequence[str], where: Filter, *, reach: int) -> list[list[str]]:
        rows = []
        for memory in map(self._state.memories.__getitem__, ids):
            thread = _thread(memory)
            same = [each for each in self._by_time(where) if thread is not None and _thread(each) == thread]
            earlier, later = self._sides(memory, same)
            near = (*earlier[max(0, len(earlier) - reach) :], memory, *later[:reach])
            rows.append([each.id for each in near])
        return rows

    def links(self, ids: Sequence[str], where: Filter) -> set[tuple[str, str, str, float, bool]]:
        passing = {memory.id for memory in self._found(where)}
        ways = (
            (origin, other, relation.kind, relation.strength, outgoing)
            for relation in self._state.relations.values()
            for origin, other, outgoing in (
                (relation.source, relation.target, True),
                (relation.target, relation.source, False),
            )
        )
        return {way for way in ways if way[0] in ids and way[1] in passing}

    def traces(self, where: Filter, ids: Sequence[str] | None = None) -> list[tuple[Any, ...]]:
        """For each memory, oldest first: it, its thread, and its passages with their vectors."""
        found = [memory for memory in self._by_time(where) if ids is None or memory.id in ids]
        return [(memory, _thread(memory), list(self._passages(memory))) for memory in found]

    def matches(self, where: Filter, asked: Sequence[str]) -> set[str]:
        phrases = [terms(each) for each in asked]
        return {
            memory.id
            for memory in self._found(where)
            if any(_contains(field, phrase) for field in _fields(memory) for phrase in phrases)
        }

    def nearest(self, where: Filter, code: bytes) -> list[tuple[str, float]]:
        """All of them, best first."""
        found = [
            (memory.id, -float(min(_distance(code, other) for _, other in vectors)))
            for memory in self._found(where)
            if (vectors := self._state.vectors.get(memory.id))
        ]
        return sorted(found, key=lambda pair: -pair[1])

    def frequencies(self, asked: Sequence[str], *, orgs: Sequence[str]) -> list[int]:
        lexicon = Counter(word for memory in self._of(orgs) for word in _words(memory))
        return [lexicon[term] for term in asked]

    def words_like(self, word: str, *, start: str, spare: int, orgs: Sequence[str]) -> set[str]:
        known = {word for memory in self._of(orgs) for word in _words(memory)}
        return {each for each in known if each.startswith(start) and abs(len(each) - len(word)) <= spare}

    def relations(self, scope: Scope, ids: Sequence[str]) -> list[Relation]:
        found = [
            key
            for identifier in ids
            for key in sorted(self._state.relations)
            if identifier in key[:2] and self._state.memories[key[0]].scope.org == scope.org
        ]
        return [self._state.relations[key] for key in dict.fromkeys(found)]

    def history(self, scope: Scope, identifier: str) -> list[Change]:
        return list(self._state.history.get((scope.org, identifier), ()))

    def stats(self, where: Filter, moment: datetime) -> Stats:
        found = self._found(where)
        ids = {memory.id for memory in found}
        times = [memory.at for memory in found]
        return Stats(
            memories=len(found),
            current=sum(memory.current(moment) for memory in found),
            tokens=sum(memory.tokens for memory in found),
            relations=sum(source in ids for source, _, _ in self._state.relations),
            by_kind=Counter(memory.kind for memory in found),
            by_tier=Counter(memory.tier for memory in found),
            by_status=Counter(memory.status for memory in found),
            by_project=Counter(memory.scope.project or "" for memory in found),
            oldest=min(times, default=None),
            newest=max(times, default=None),
        )

    def records(self, where: Filter) -> list[Record]:
        return [
            Record(memory=self._used(memory), history=tuple(self.history(where.scope, memory.id)))
            for memory in self._found(where)
        ]

    def all_relations(self, where: Filter) -> list[Relation]:
        ids = {memory.id for memory in self._found(where)}
        return [held for key, held in sorted(self._state.relations.items()) if {*key[:2]} <= ids]

    def ids(self, org: str) -> list[str]:
        return [memory.id for memory in self._of([org])]

    def get(self, identifier: str) -> Memory:
        return self._state.memories[identifier]

    def _add(self, memory: Memory, given: frozenset[str], embedded: Embedded | None) -> Memory:
        old = self._same(memory)
        if old is None:
            self._enter(memory, embedded)
            self._tell(memory, memory.created_at, "add", {})
            return memory
        fields: dict[str, Any] = {}
        if old.status in ("archived", "superseded"):
            fields |= {"status": "active", "superseded_by": None}
        if old.invalid_at is not None and old.invalid_at <= memory.created_at:
            fields["invalid_at"] = None
        fields |= {name: getattr(memory, name) for name in given}
        if memory.scope.session is not None:
            fields["scope"] = memory.scope
        return self._revise(old, _replace(old, **fields), "update", embedded)

    def _put(self, scope: Scope, record: Record, embedded: Embedded | None) -> Literal["added", "updated", "kept"]:
        memory, key = record.memory, (record.memory.scope.org, record.memory.id)
        old = self._state.memories.get(memory.id)
        if old is not None:
            if not _in_scope(old, scope):
                raise InputError
            if old.updated_at >= memory.updated_at:
                if old.updated_at == memory.updated_at and len(record.history) > len(
                    self._state.history.get(key, ())
                ):
                    self._state.history[key] = list(record.history)
                return "kept"
        clash = self._same(memory)
        if clash is not None and clash.id != memory.id:
            raise InputError
        self._enter(memory, embedded)
        self._state.history[key] = list(record.history)
        if memory.accessed_at is not None:
            self._state.uses[memory.id] = (memory.access_count, memory.accessed_at)
        return "added" if old is None else "updated"

    def _revise(self, old: Memory, new: Memory, action: str, embedded: Embedded | None) -> Memory:
        told = [name for name in Memory.__struct_fields__ if name not in _UNTOLD]
        changes = {name: [getattr(old, name), getattr(new, name)] for name in told}
        changes = {name: pair for name, pair in changes.items() if pair[0] != pair[1]}
        if not changes:
            return old
        now = max(self._clock(), old.updated_at)
        masked = masked_labels(new.text, new.title, new.source, new.speaker, *new.tags)
        new = _replace(new, updated_at=now, revision=old.revision + 1, masked=masked)
        clash = self._same(new)
        if clash is not None and clash.id != new.id:
            raise InputError
        self._enter(new, embedded)
        self._tell(new, now, action, changes)
        return new

    def _same(self, memory: Memory) -> Memory | None:
        """The one with the same ref in the same scope, or the same topic, whatever the session."""
        place = _replace(memory.scope, session=None)
        found = [
            each
            for each in self._state.memories.values()
            if (memory.ref is not None and (each.ref, each.scope) == (memory.ref, memory.scope))
            or (
                memory.topic_key is not None
                and each.topic_key == memory.topic_key
                and _replace(each.scope, session=None) == place
            )
        ]
        if len(found) > 1:
            raise InputError
        return found[0] if found else None

    def _enter(self, memory: Memory, embedded: Embedded | None) -> None:
        old = self._state.memories.get(memory.id)
        self._state.memories[memory.id] = _replace(memory, access_count=0, accessed_at=None)
        if old is None or (old.title, old.text) != (memory.title, memory.text):
            self._state.vectors.pop(memory.id, None)
            if embedded is not None:
                self._embed(memory, embedded)

    def _embed(self, memory: Memory, embedded: Embedded) -> None:
        """The vectors of all of its passages, or none."""
        found = [embedded.vectors.get(part.text) for part in parts_of(memory)]
        if (whole := [each for each in found if each is not None]) and len(whole) == len(found):
            self._state.vectors[memory.id] = whole

    def _adopt(self, org: str, embedded: Embedded | None) -> None:
        if embedded is not None:
            self._state.embeddings.setdefault(org, Embedding(embedded.name, embedded.dimensions))

    def _link(self, relation: Relation) -> None:
        self._state.relations[relation.source, relation.target, relation.kind] = relation

    def _tell(self, memory: Memory, at: datetime, action: str, changes: dict[str, Any]) -> None:
        plain = msgspec.json.decode(msgspec.json.encode(changes))
        told = Change(memory=memory.id, at=at, action=action, changes=plain)
        self._state.history.setdefault((memory.scope.org, memory.id), []).append(told)

    def _inside(self, scope: Scope, identifier: str) -> Memory:
        memory = self._state.memories.get(identifier)
        if memory is None or not _in_scope(memory, scope):
            raise UnknownIdError
        return memory

    def _of(self, orgs: Sequence[str]) -> list[Memory]:
        return [memory for _, memory in sorted(self._state.memories.items()) if memory.scope.org in orgs]

    def _found(self, where: Filter) -> list[Memory]:
        """By id."""
        return [memory for memory in self._of([where.scope.org]) if passes(memory, where)]

    def _by_time(self, where: Filter) -> list[Memory]:
        return sorted(self._found(where), key=_place)

    def _sides(self, memory: Memory, others: list[Memory]) -> tuple[list[Memory], list[Memory]]:
        earlier = [each for each in others if _place(each) < _place(memory)]
        return earlier, [each for each in others if _place(each) > _place(memory)]

    def _used(self, memory: Memory) -> Memory:
        use = self._state.uses.get(memory.id)
        if waiting := self._waiting.get(memory.id):
            use = _sum(use, waiting)
        return memory if use is None else _replace(memory, access_count=use[0], accessed_at=use[1])

    def _passages(self, memory: Memory) -> Iterator[tuple[Part, bytes | None]]:
        parts = parts_of(memory)
        vectors = self._state.vectors.get(memory.id)
        for place, part in enumerate(parts):
            yield part, vectors[place][0] if vectors else None


def passes(memory: Memory, where: Filter) -> bool:
    """Whether a memory is one that a filter means."""
    tags = {_folded(tag) for tag in memory.tags}
    moment = where.valid_at
    return (
        _in_scope(memory, where.scope)
        and memory.kind in (where.kinds or (memory.kind,))
        and memory.tier in (where.tiers or (memory.tier,))
        and memory.status in (where.statuses or (memory.status,))
        and memory.id in (where.ids or (memory.id,))
        and all(_folded(tag) in tags for tag in where.tags)
        and (moment is None or memory.valid_from is None or memory.valid_from <= moment)
        and (moment is None or memory.invalid_at is None or memory.invalid_at > moment)
        and (where.until is None or memory.at <= where.until)
        and (memory.pinned or not where.pinned)
        and (memory.importance > 0.7 or not where.important)
    )


def _in_scope(memory: Memory, scope: Scope) -> bool:
    wanted = {name: value for name, value in msgspec.structs.asdict(scope).items() if value is not None}
    return all(getattr(memory.scope, name) == value for name, value in wanted.items())


def _folded(tag: str) -> str:
    """In ASCII alone: other letters have cases too, but not in every database the same."""
    return "".join(letter.lower() if letter.isascii() else letter for letter in tag)


def _place(memory: Memory) -> tuple[datetime, str]:
    return memory.at, memory.id


def _thread(memory: Memory) -> tuple[object, ...] | None:
    """Its session, or the document it is from."""
    whole = memory.scope if memory.scope.session else (memory.scope, memory.source)
    return None if memory.scope.session is None and memory.source is None else (whole,)


def _fields(memory: Memory) -> list[list[str]]:
    return [terms(memory.title or ""), terms(memory.text), terms(" ".join(memory.tags))]


def _words(memory: Memory) -> set[str]:
    return {word for field in _fields(memory) for word in field}


def _contains(words: list[str], phrase: list[str]) -> bool:
    places = range(len(words) - len(phrase) + 1)
    return bool(phrase) and any(words[place : place + len(phrase)] == phrase for place in places)


def _distance(one: bytes, other: bytes) -> int:
    return (int.from_bytes(one) ^ int.from_bytes(other)).bit_count()


def _sum(one: tuple[int, datetime] | None, other: tuple[int, datetime]) -> tuple[int, datetime]:
    return other if one is None else (one[0] + other[0], max(one[1], other[1]))
