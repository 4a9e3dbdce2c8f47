"""A reference implementation of the store contract with dicts and lists: slow, small, and without SQL.

Memories are identified by their ids, where a store has row numbers. What the contract leaves open, such as the
order of equal scores, is left to the comparison.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

import msgspec

from confirm_model import first_same_text, merged
from oracle_answers import Answers, total
from oracle_memory import in_scope
from satchel.errors import InputError, UnknownIdError
from satchel.model.filters import Filter
from satchel.model.memory import Change, Memory, Relation, Scope
from satchel.store.contract import Candidate, Embedded, Embedding, Record
from satchel.text.passages import parts_of
from satchel.text.redact import masked_labels

__all__ = ["Oracle"]

_replace = msgspec.structs.replace
_UNTOLD = ("updated_at", "revision", "access_count", "accessed_at", "tokens", "masked")


def _moment(value: Any) -> datetime | None:
    return datetime.fromisoformat(value) if isinstance(value, str) else value


class Oracle(Answers):
    def __init__(self, clock: Callable[[], datetime]) -> None:
        super().__init__()
        self._clock = clock
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
                    self._state.uses[identifier] = total(self._state.uses.get(identifier), use)
            self._waiting.clear()

    def add(
        self, candidates: Sequence[Candidate], embedded: Embedded | None = None, *, deduplicate: bool = True
    ) -> list[Memory]:
        with self.transaction():
            self._adopt(candidates[0].memory.scope.org, embedded)
            return [self._add(memory, given, embedded, deduplicate) for memory, given, _ in candidates]

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

    def unforget(self, scope: Scope, ids: Sequence[str] | None, moment: datetime | None) -> int:
        with self.transaction():
            found = [self._inside(scope, each) for each in ids or ()]
            if ids is None:
                found = self._found(Filter(scope=scope, statuses=()))
            restored = 0
            for memory in found:
                ends = [each for each in self._told(memory) if each.action == "forget"]
                if memory.invalid_at is None or (moment or memory.invalid_at) != memory.invalid_at or not ends:
                    continue
                before, after = (_moment(each) for each in ends[-1].changes["invalid_at"])
                if after != memory.invalid_at:
                    continue
                if memory.status == "superseded":
                    if ids is not None:
                        raise InputError
                    continue
                self._revise(memory, _replace(memory, invalid_at=before), "unforget", None)
                restored += 1
            return restored

    def unrelate(
        self, scope: Scope, source: str, target: str, kind: str | None, moment: datetime
    ) -> list[Relation]:
        with self.transaction():
            ends = self._inside(scope, source), self._inside(scope, target)
            keys = [key for key in sorted(self._state.relations) if key[:2] == (source, target)]
            removed = [self._state.relations.pop(key) for key in keys if kind in (None, key[2])]
            for relation in removed:
                for memory in ends:
                    self._tell(memory, moment, "unrelate", {"relation": [msgspec.structs.asdict(relation), None]})
                ended = self._inside(scope, target)
                if relation.kind == "supersedes" and ended.superseded_by == source:
                    self._unsupersede(ended, relation)
            return removed

    def _unsupersede(self, ended: Memory, relation: Relation) -> None:
        others = [
            (held.created_at, held.source)
            for key, held in self._state.relations.items()
            if key[1:] == (ended.id, "supersedes")
        ]
        fields: dict[str, Any]
        if others:
            fields = {"superseded_by": max(others)[1]}
        else:
            fields = {"status": "active", "superseded_by": None}
            told = [each for each in self._told(ended) if each.action == "supersede"]
            told = [each for each in told if each.changes["superseded_by"][1] == relation.source]
            if told:
                for name, (before, after) in told[-1].changes.items():
                    read = _moment if name == "invalid_at" else str
                    if read(after) == getattr(ended, name):
                        fields[name] = None if before is None else read(before)
            elif ended.invalid_at == relation.created_at:
                fields["invalid_at"] = None
        self._revise(ended, _replace(ended, **fields), "unsupersede", None)

    def _told(self, memory: Memory) -> list[Change]:
        return self._state.history.get((memory.scope.org, memory.id), [])

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
            told = msgspec.structs.asdict(relation)
            del told["created_at"]
            before = None if held is None else msgspec.structs.asdict(held)
            for memory in (source, target):
                self._tell(memory, relation.created_at, "relate", {"relation": [before, told]})
            if ends and target.status != "superseded":
                end = target.invalid_at or relation.created_at
                ended = _replace(target, status="superseded", superseded_by=source.id, invalid_at=end)
                self._revise(target, ended, "supersede", None)
            return relation

    def touch(self, ids: Sequence[str], moment: datetime) -> None:
        for identifier in ids:
            self._waiting[identifier] = total(self._waiting.get(identifier), (1, moment))

    def embed_backlog(self, org: str, ids: Iterable[str], embedded: Embedded) -> int:
        with self.transaction():
            self._adopt(org, embedded)
            waiting = [identifier for identifier in ids if identifier in set(self.backlog())]
            for identifier in waiting:
                self._embed(self._state.memories[identifier], embedded)
            return len(waiting) - len(set(waiting) & set(self.backlog()))

    def _add(self, memory: Memory, given: frozenset[str], embedded: Embedded | None, deduplicate: bool) -> Memory:
        old = self._same(memory)
        repeated = None
        if old is None and deduplicate:
            repeated = first_same_text(memory, list(self._state.memories.values()))
        if repeated is not None:
            return self._revise(repeated, merged(repeated, memory, given), "confirm", embedded)
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
            if not in_scope(old, scope):
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
        if old is None or (old.title, old.text, old.tags) != (memory.title, memory.text, memory.tags):
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
        if memory is None or not in_scope(memory, scope):
            raise UnknownIdError
        return memory
