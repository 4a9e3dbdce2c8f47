"""The read side of the oracle: its state in dicts, and an answer to each query."""

import base64
import copy
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from oracle_memory import (
    changed_since,
    contains,
    fields_of,
    folded,
    in_scope,
    passes,
    place_of,
    thread_of,
    words_of,
)
from satchel.errors import AmbiguousIdError, InputError, UnknownIdError
from satchel.model.filters import Filter
from satchel.model.memory import Change, Memory, Relation, Scope
from satchel.store.contract import Embedding, Record, Stats
from satchel.text.passages import Part, parts_of
from satchel.text.terms import terms

__all__ = ["Answers", "Use", "base32_end", "total"]

BASE32 = frozenset("abcdefghijklmnopqrstuvwxyz234567")

Use = tuple[int, datetime]
"""The number of uses and the time of the last."""


class State:
    """Everything that a transaction can roll back."""

    def __init__(self) -> None:
        self.memories: dict[str, Memory] = {}
        self.history: dict[tuple[str, str], list[Change]] = {}
        self.relations: dict[tuple[str, str, str], Relation] = {}
        self.uses: dict[str, Use] = {}
        self.vectors: dict[str, list[tuple[bytes, bytes]]] = {}
        self.embeddings: dict[str, Embedding] = {}

    def copied(self) -> "State":
        other = copy.copy(self)
        other.__dict__ = {name: copy.copy(value) for name, value in vars(self).items()}
        other.history = {key: list(entries) for key, entries in self.history.items()}
        return other


class Answers:
    def __init__(self) -> None:
        self._state: State = State()
        self._waiting: dict[str, Use] = {}

    def embedding(self, *, orgs: Sequence[str]) -> Embedding | None:
        return next((found for org in orgs if (found := self._state.embeddings.get(org))), None)

    def backlog(self) -> list[str]:
        return [identifier for identifier in self._state.memories if identifier not in self._state.vectors]

    def resolve(self, scope: Scope, named: str) -> str:
        if len(named) < 8 and not (len(named) >= 4 and {*named} <= BASE32):
            raise InputError
        digits = named.replace("-", "")
        found = [
            each.id
            for each in self._found(Filter(scope=scope, statuses=()))
            if (len(digits) >= 8 and each.id.replace("-", "").startswith(digits))
            or base32_end(each.id).startswith(named)
        ]
        if len(found) != 1:
            raise AmbiguousIdError if found else UnknownIdError
        return found[0]

    def short_ids(self, org: str, ids: Sequence[str]) -> list[str]:
        found = []
        for each in ids:
            others = [base32_end(other) for other in self.ids(org) if other != each]
            whole = base32_end(each)
            unique = [
                whole[:length]
                for length in range(4, 9)
                if not any(other.startswith(whole[:length]) for other in others)
            ]
            found.append(unique[0] if unique else each)
        return found

    def select(self, where: Filter, *, limit: int, sort: str = "at", offset: int = 0) -> list[Memory]:
        found = [self._used(memory) for memory in self._found(where)]
        columns = {"used": "accessed_at", "created": "created_at", "updated": "updated_at"}
        never = datetime.min.replace(tzinfo=UTC)
        found.sort(key=lambda each: (getattr(each, columns.get(sort, sort)) or never, each.id), reverse=True)
        return found[offset : offset + limit]

    def unrelated_since(self, org: str, since: datetime) -> list[Change]:
        told = [each for (of, _), entries in self._state.history.items() if of == org for each in entries]
        return [each for each in told if each.action == "unrelate" and each.at > since]

    def count_names(self, where: Filter, column: str) -> dict[str, int]:
        found = self._found(where)
        if column == "project":
            return Counter(each.scope.project for each in found if each.scope.project)
        spelled = Counter(tag for each in found for tag in each.tags)
        counts: dict[str, int] = {}
        # The most frequent spelling first, of several the first by name.
        for tag, _ in sorted(spelled.items(), key=lambda pair: (-pair[1], pair[0])):
            if not any(folded(tag) == folded(known) for known in counts):
                counts[tag] = sum(folded(tag) in map(folded, each.tags) for each in found)
        return counts

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
            thread = thread_of(memory)
            same = [each for each in self._by_time(where) if thread is not None and thread_of(each) == thread]
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
        """Return for each memory, oldest first: the memory, its thread, and its passages with their vectors."""
        found = [memory for memory in self._by_time(where) if ids is None or memory.id in ids]
        return [(memory, thread_of(memory), list(self._passages(memory))) for memory in found]

    def matches(self, where: Filter, asked: Sequence[str]) -> set[str]:
        phrases = [terms(each) for each in asked]
        return {
            memory.id
            for memory in self._found(where)
            if any(contains(field, phrase) for field in fields_of(memory) for phrase in phrases)
        }

    def nearest(self, where: Filter, code: bytes) -> list[tuple[str, float]]:
        """Return all of them, best first."""
        found = [
            (memory.id, -float(min(_distance(code, other) for _, other in vectors)))
            for memory in self._found(where)
            if (vectors := self._state.vectors.get(memory.id))
        ]
        return sorted(found, key=lambda pair: -pair[1])

    def frequencies(self, asked: Sequence[str], *, orgs: Sequence[str]) -> list[int]:
        lexicon = Counter(word for memory in self._of(orgs) for word in words_of(memory))
        return [lexicon[term] for term in asked]

    def words_like(self, word: str, *, start: str, spare: int, orgs: Sequence[str]) -> set[str]:
        known = {word for memory in self._of(orgs) for word in words_of(memory)}
        return {each for each in known if each.startswith(start) and abs(len(each) - len(word)) <= spare}

    def relations(self, scope: Scope, ids: Sequence[str]) -> list[Relation]:
        found = [
            key
            for identifier in ids
            for key in sorted(self._state.relations)
            if identifier in key[:2] and all(in_scope(self._state.memories[end], scope) for end in key[:2])
        ]
        return [self._state.relations[key] for key in dict.fromkeys(found)]

    def history(self, scope: Scope, identifier: str) -> list[Change]:
        return list(self._state.history.get((scope.org, identifier), ()))

    def changed(self, where: Filter, since: datetime) -> list[tuple[Memory, tuple[Change, ...]]]:
        return [
            (
                memory,
                tuple(
                    each
                    for each in self.history(where.scope, memory.id)
                    if each.action not in ("relate", "unrelate")
                ),
            )
            for memory in self._by_time(where)
            if changed_since(memory, since)
        ]

    def related_since(self, org: str, since: datetime) -> bool:
        ours = set(self.ids(org))
        return any(key[0] in ours and held.created_at > since for key, held in self._state.relations.items())

    def stats(self, where: Filter, moment: datetime) -> Stats:
        found = self._found(where)
        ids = {memory.id for memory in found}
        times = [memory.at for memory in found]
        return Stats(
            memories=len(found),
            current=sum(memory.current(moment) for memory in found),
            tokens=sum(memory.tokens for memory in found),
            relations=sum({*key[:2]} <= ids for key in self._state.relations),
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

    def _of(self, orgs: Sequence[str]) -> list[Memory]:
        return [memory for _, memory in sorted(self._state.memories.items()) if memory.scope.org in orgs]

    def _found(self, where: Filter) -> list[Memory]:
        """By id."""
        return [memory for memory in self._of([where.scope.org]) if passes(memory, where)]

    def _by_time(self, where: Filter) -> list[Memory]:
        return sorted(self._found(where), key=place_of)

    def _sides(self, memory: Memory, others: list[Memory]) -> tuple[list[Memory], list[Memory]]:
        earlier = [each for each in others if place_of(each) < place_of(memory)]
        return earlier, [each for each in others if place_of(each) > place_of(memory)]

    def _used(self, memory: Memory) -> Memory:
        use = self._state.uses.get(memory.id)
        if waiting := self._waiting.get(memory.id):
            use = total(use, waiting)
        return memory if use is None else msgspec.structs.replace(memory, access_count=use[0], accessed_at=use[1])

    def _passages(self, memory: Memory) -> Iterator[tuple[Part, bytes | None]]:
        parts = parts_of(memory)
        vectors = self._state.vectors.get(memory.id)
        for place, part in enumerate(parts):
            yield part, vectors[place][0] if vectors else None


def base32_end(identifier: str) -> str:
    """What short ids are the beginning of."""
    return base64.b32encode(bytes.fromhex(identifier[-10:])).decode().lower()


def total(one: Use | None, other: Use) -> Use:
    return other if one is None else (one[0] + other[0], max(one[1], other[1]))


def _distance(one: bytes, other: bytes) -> int:
    return (int.from_bytes(one) ^ int.from_bytes(other)).bit_count()
