"""The stores that the state machine runs next to the oracle, and the data its rules need."""

import contextlib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from hypothesis.stateful import RuleBasedStateMachine
from machine_answers import differences, outcome, pattern, plain
from machine_values import Fields

from call_by_call import CallByCall
from satchel.errors import SatchelError
from satchel.model.filters import Filter
from satchel.model.memory import Memory, Scope
from satchel.store.store import Store
from store_oracle import Oracle

__all__ = ["Driven", "Ground"]

WRITES = ("add", "put", "put_relations", "change", "forget", "unforget", "purge", "relate", "unrelate")


class Driven:
    """A store whose memories are named by ids, and whose errors are answers too."""

    def __init__(self, store: Store, *, orgs_apart: bool) -> None:
        self.store = store
        self.orgs_apart = orgs_apart
        """Whether each org has ids, words and an embedder of its own."""
        self.open: list[contextlib.AbstractContextManager[None]] = []

    def within(self, org: str) -> CallByCall:
        return CallByCall(self.store.within(org))

    def counted(self, orgs: Sequence[str], org: int) -> Sequence[str]:
        return orgs[org : org + 1] if self.orgs_apart else orgs

    def ids(self, org: str, keys: Sequence[int]) -> list[str]:
        found = self.within(org).memories(keys)
        return [found[key].id for key in keys]

    def keys(self, org: str) -> dict[str, int]:
        return {trace.id: trace.key for trace in self.within(org).traces(Filter(scope=Scope(org=org), statuses=()))}

    def texts(self, org: str, identifier: str) -> list[str]:
        where = Filter(scope=Scope(org=org), statuses=(), ids=(identifier,))
        return [memory.text for memory in self.within(org).select(where, limit=2)]


class Ground(RuleBasedStateMachine):
    def __init__(self, stores: Sequence[Driven], orgs: Sequence[str], clock: list[datetime]) -> None:
        super().__init__()
        self.stores = stores
        self.orgs = orgs
        self.clock = clock
        self.oracle = Oracle(lambda: clock[0])
        self.told: list[contextlib.AbstractContextManager[None]] = []
        self.within = 0
        self.issued: list[list[str]] = [[], []]
        self.unwritten: list[set[str]] = [set(), set()]
        """What was used since the last write."""

    def begin(self, org: int) -> int:
        """The clock moves on with each step; what is done inside a transaction is of its org."""
        self.clock[0] += timedelta(milliseconds=7)
        return self.within if self.told else org

    def agree(self, org: int, name: str, *given: Any, **options: Any) -> None:
        expected = outcome(partial(getattr(self.oracle, name), *given, **options))
        unused = bool(self.told) or name in ("add", "change")
        complaints = set()
        for driven in self.stores:
            found = outcome(partial(getattr(driven.within(self.orgs[org]), name), *given, **options))
            if isinstance(found, SatchelError):
                complaints.add(str(found))
                assert type(found) is type(expected), f"{name}: {found!r} instead of {expected!r}"
            else:
                wrong = differences(plain(found, unused=unused), plain(expected, unused=unused), name)
                assert not wrong, "\n".join(wrong)
        assert len(complaints) < 2, complaints
        if name in WRITES and not self.told and not isinstance(expected, SatchelError):
            self.written(org)

    def written(self, org: int) -> None:
        """Uses go along with a write, unless it is part of another."""
        self.unwritten[org].clear()

    def same_traces(self, org: str, where: Filter, ids: Sequence[str] | None) -> None:
        expected = self.oracle.traces(where, ids)
        for driven in self.stores:
            keys = None if ids is None else [driven.keys(org)[each] for each in ids]
            found = driven.within(org).traces(where, keys)
            told = [trace[1:3] + trace[4:11] for trace in found], pattern([trace.thread for trace in found])
            meant = [described(memory) for memory, _, _ in expected], pattern([thread for _, thread, _ in expected])
            wrong = differences(told, meant, "traces")
            assert not wrong, "\n".join(wrong)
            for trace, (_, _, passages) in zip(found, expected, strict=True):
                held = [(part.start, part.end, part.flags, part.codes, vector) for part, vector in passages]
                wrong += differences([tuple(each) for each in trace.passages], held, f"passages of {trace.id}")
            assert not wrong, "\n".join(wrong)

    def made(self, identifier: str, org: int, place: Fields, values: Fields) -> Memory:
        now = self.clock[0]
        scope = Scope(org=self.orgs[org], **place)
        own = {"at": now, "tokens": len(values["text"])} | dict(values)
        return Memory(id=identifier, scope=scope, created_at=now, updated_at=now, **own)

    def filter(self, org: int, view: Fields, chosen: Fields) -> Filter:
        return Filter(scope=Scope(org=self.orgs[org], **view), **chosen)

    def ids(self, org: int) -> list[str]:
        return self.oracle.ids(self.orgs[org])

    def fresh_id(self, org: int) -> str:
        """Neighbours share their first digits, but for those of the other org."""
        place = len(self.issued[org])
        made = f"{'ab'[org]}0000{place % 2:03x}-{place % 3:04x}-7000-8000-{place:012x}"
        self.issued[org].append(made)
        return made

    def own_id(self, org: int, number: int) -> str:
        """Not one whose uses wait: whether what is put replaces them depends on when they are written."""
        known = [each for each in self.issued[org] if each not in self.unwritten[org]]
        return known[number % len(known)] if known else self.fresh_id(org)

    def any_id(self, org: int, number: int) -> str:
        """Mostly one that is there, else one that was, or one of the other org."""
        known = self.ids(org) if number % 5 else self.issued[org] + self.issued[1 - org]
        return known[number % len(known)] if known else "c0000000-0000-7000-8000-000000000000"


def described(memory: Memory) -> tuple[Any, ...]:
    """What a trace says of a memory."""
    at = (memory.at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    names = ("id", "speaker", "kind", "tier", "importance", "confidence", "pinned", "tokens")
    return at, *(getattr(memory, name) for name in names)
