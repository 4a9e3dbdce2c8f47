"""Every store answers as the oracle does, whatever is done to it.

Few runs by default, the same each time; 200 others of 50 steps by
`SATCHEL_FUZZ=20 .venv/bin/python -m pytest tests/property/test_store_machine.py`.
"""

import contextlib
import hashlib
import itertools
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, assume, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from satchel.errors import SatchelError
from satchel.fields import KINDS, RELATIONS, STATUSES, TIERS
from satchel.indexing import packed
from satchel.memory import Change, Memory, Relation, Scope
from satchel.parts import parts_of
from satchel.segment import query_terms
from satchel.store import Candidate, Embedded, Filter, Record, Store, open_store
from satchel.store.sqlite.store import SqliteStore
from satchel.terms import stem
from store_oracle import Oracle

FUZZ = int(os.environ.get("SATCHEL_FUZZ", "1"))
RUNS = 10 * FUZZ
STEPS = 50
START = datetime(2026, 1, 1, tzinfo=UTC)
ALL = 10_000
DIMENSIONS = 20
# How much longer or shorter than a word those are that may be meant by it.
SPARE = 4

ODD = (
    "apple", "Apples", "running", "Größe", "nai\u0308ve", "naïve", "İstanbul", "記憶", "データ", "한국어",
    "👩🏽\u200d🚀", "don't", '"quoted"', "a\x00b", "x" * 70, "%_\\", "' OR 1=1 --", "null", "\ufeff",
    "e\u0301" * 30, "{curly}",
)  # fmt: skip
ASKED = (
    "apple", "appl", "run", "größe", "große", "naive", "記憶", "記 憶", "憶", "データ", "한국", "don't", "quot",
    "quoted", "a", "b", "x" * 70, "or", "1=1", "curly", "null", "!!!", "", "absent", "nai\u0308ve", "two",
)  # fmt: skip
# Which of the rarer characters are letters, databases and Python know from different years of Unicode.
words = st.sampled_from(ODD) | st.text(st.characters(max_codepoint=0x24F, exclude_characters="Ǡǡ"), max_size=8)
texts = st.lists(words, min_size=1, max_size=6).map(" ".join).filter(str.strip)
long_texts = texts.map(lambda text: "\n\n".join(f"{text} paragraph {place} {'lorem ' * 60}" for place in range(5)))
names = st.none() | st.sampled_from(["one", "two"]) | st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
tags = st.lists(st.sampled_from(["Auth", "auth", "GRÖSSE", "größe", 'a"b', "データ", "two words"]), max_size=3)
some_times = st.sampled_from(
    [
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        datetime(1970, 1, 1, tzinfo=UTC),
        START - timedelta(microseconds=1),
        START,
        START + timedelta(seconds=20),
        datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    ]
)
times = some_times | st.datetimes(timezones=st.just(UTC))
weights = st.sampled_from([0.0, 0.7, 0.7000000000000001, 1.0]) | st.floats(0, 1)
limits = st.sampled_from([0, 1, 2, 5, ALL])
refs = st.none() | st.sampled_from(["r1", "r2", "R1"])
topics = st.none() | st.sampled_from(["t1", "t2"])
places = st.fixed_dictionaries(
    {},
    optional={
        "project": st.sampled_from(["p", "q"]),
        "user": st.just("u"),
        "agent": st.just("a"),
        "session": st.sampled_from(["s", "t"]),
    },
)
# Of a scope that is asked for, little is set, so that much is found.
views = st.just({}) | places
some_fields = {
    "title": st.none() | texts,
    "kind": st.sampled_from(KINDS[:3]),
    "tier": st.sampled_from(TIERS),
    "status": st.sampled_from(STATUSES),
    "tags": tags.map(lambda found: tuple(dict.fromkeys(found))),
    "importance": weights,
    "confidence": weights,
    "pinned": st.booleans(),
    "at": times,
    "valid_from": st.none() | times,
    "invalid_at": st.none() | times,
    "speaker": names,
    "source": names,
    "ref": refs,
    "topic_key": topics,
}
fields = st.fixed_dictionaries({"text": texts | texts | long_texts}, optional=some_fields)
changed_fields = st.fixed_dictionaries({}, optional={"text": texts | long_texts} | some_fields)
filters = st.fixed_dictionaries(
    {},
    optional={
        "kinds": st.lists(st.sampled_from(KINDS[:3]), max_size=2).map(tuple),
        "tiers": st.lists(st.sampled_from(TIERS), max_size=2).map(tuple),
        "tags": tags.map(tuple),
        "statuses": st.just(()) | st.lists(st.sampled_from(STATUSES), max_size=2).map(tuple),
        "valid_at": st.none() | times,
        "until": st.none() | times,
        "pinned": st.booleans(),
        "important": st.booleans(),
    },
)
orgs = st.integers(0, 1)
numbers = st.integers(0, 40)
Fields = Mapping[str, Any]


class Driven:
    """A store whose memories are named by ids, and whose errors are answers too."""

    def __init__(self, store: Store, *, orgs_apart: bool) -> None:
        self.store = store
        self.orgs_apart = orgs_apart
        """Whether each org has words and an embedder of its own."""
        self.open: list[contextlib.AbstractContextManager[None]] = []

    def within(self, org: str) -> Store:
        return self.store.within(org)

    def counted(self, orgs: Sequence[str], org: int) -> Sequence[str]:
        return orgs[org : org + 1] if self.orgs_apart else orgs

    def ids(self, org: str, keys: Sequence[int]) -> list[str]:
        found = self.within(org).memories(keys)
        return [found[key].id for key in keys]

    def keys(self, org: str) -> dict[str, int]:
        return {trace.id: trace.key for trace in self.within(org).traces(Filter(scope=Scope(org=org), statuses=()))}


class Machine(RuleBasedStateMachine):
    def __init__(self, stores: Sequence[Driven], orgs: Sequence[str], clock: list[datetime]) -> None:
        super().__init__()
        self.stores = stores
        self.orgs = orgs
        self.clock = clock
        self.oracle = Oracle(lambda: clock[0])
        self.told: list[contextlib.AbstractContextManager[None]] = []
        self.within = 0
        self.issued: list[list[str]] = [[], []]

    @rule(org=orgs, drafts=st.lists(st.tuples(places, fields), min_size=1, max_size=4), embed=st.booleans())
    def add(self, org: int, drafts: list[tuple[Fields, Fields]], embed: bool) -> None:
        org = self.begin(org)
        made = [self.made(self.fresh_id(org), org, *draft) for draft in drafts]
        given = [frozenset({*draft, "tokens", "masked"}) for _, draft in drafts]
        candidates = [Candidate(*pair) for pair in zip(made, given, strict=True)]
        self.agree(org, "add", candidates, embedded(made) if embed else None)

    @rule(
        org=orgs,
        view=views,
        given=st.lists(
            st.tuples(numbers, places, fields, some_times | st.none(), st.integers(0, 3), some_times | st.none()),
            min_size=1,
            max_size=3,
        ),
        embed=st.booleans(),
    )
    def put(self, org: int, view: Fields, given: list[tuple[Any, ...]], embed: bool) -> None:
        org = self.begin(org)
        records = []
        for number, place, values, changed, entries, accessed in given:
            identifier = self.own_id(org, number) if number % 3 else self.fresh_id(org)
            memory = self.made(identifier, org, {**place, **view}, values)
            if changed is None:
                # The version that is here, so that its history may be completed.
                changed = self.oracle.get(identifier).updated_at if identifier in self.ids(org) else self.clock[0]
            used = {} if accessed is None else {"access_count": number, "accessed_at": min(accessed, START)}
            memory = msgspec.structs.replace(memory, updated_at=changed, revision=number + 1, **used)
            told = [
                Change(
                    memory=identifier, at=changed, action=f"a{place}", changes={"text": ["\x00", values["text"]]}
                )
                for place in range(entries)
            ]
            records.append(Record(memory=memory, history=tuple(told)))
        made = embedded([record.memory for record in records]) if embed else None
        self.agree(org, "put", Scope(org=self.orgs[org], **view), records, made)

    @rule(org=orgs, view=views, number=numbers, changes=changed_fields, embed=st.booleans())
    def change(self, org: int, view: Fields, number: int, changes: Fields, embed: bool) -> None:
        org = self.begin(org)
        identifier = self.any_id(org, number)
        if "text" in changes:
            changes = {**changes, "tokens": len(changes["text"])}
        made = None
        if embed and identifier in self.ids(org):
            made = embedded([msgspec.structs.replace(self.oracle.get(identifier), **changes)])
        scope = Scope(org=self.orgs[org], **view)
        self.agree(org, "change", scope, identifier, changes, action="update", embedded=made)

    @rule(org=orgs, view=views, chosen=filters, moment=times)
    def forget(self, org: int, view: Fields, chosen: Fields, moment: datetime) -> None:
        org = self.begin(org)
        self.agree(org, "forget", self.filter(org, view, chosen), moment)

    @rule(org=orgs, view=views, chosen=filters, some=st.lists(numbers, min_size=1, max_size=2))
    def purge(self, org: int, view: Fields, chosen: Fields, some: list[int]) -> None:
        org = self.begin(org)
        ids = tuple(self.any_id(org, number) for number in some)
        self.agree(org, "purge", self.filter(org, view, {**chosen, "ids": ids}))

    @rule(
        org=orgs,
        view=views,
        ends=st.tuples(numbers, numbers),
        kind=st.sampled_from(["supersedes", *RELATIONS[:3]]),
        strength=weights,
        at=some_times,
        how=st.sampled_from(["relate", "put_relations"]),
    )
    def relate(
        self, org: int, view: Fields, ends: tuple[int, int], kind: Any, strength: float, at: datetime, how: str
    ) -> None:
        org = self.begin(org)
        source, target = (self.any_id(org, number) for number in ends)
        # To put a relation of a memory with itself is no fault, but nobody has one.
        assume(how == "relate" or source != target)
        relation = Relation(source=source, target=target, kind=kind, strength=strength, created_at=at)
        given = relation if how == "relate" else [relation]
        self.agree(org, how, Scope(org=self.orgs[org], **view), given)

    @precondition(lambda self: not self.told)
    @rule(org=orgs, some=st.lists(numbers, max_size=3))
    def touch(self, org: int, some: list[int]) -> None:
        org = self.begin(org)
        known = self.ids(org)
        self.agree(org, "touch", [known[number % len(known)] for number in some if known], self.clock[0])

    @rule(org=orgs, limit=limits)
    def embed_backlog(self, org: int, limit: int) -> None:
        org = self.begin(org)
        waiting = sorted(set(self.oracle.backlog()) & set(self.ids(org)))[:limit]
        made = embedded([self.oracle.get(identifier) for identifier in waiting])
        expected = self.oracle.embed_backlog(self.orgs[org], waiting, made)
        for driven in self.stores:
            keys = driven.keys(self.orgs[org])
            assert driven.within(self.orgs[org]).embed_backlog([keys[each] for each in waiting], made) == expected

    @precondition(lambda self: len(self.told) < 3)
    @rule(org=orgs)
    def enter_transaction(self, org: int) -> None:
        org = self.begin(org)
        self.within = org
        for driven in self.stores:
            driven.open.append(driven.within(self.orgs[org]).transaction())
        self.told.append(self.oracle.transaction())
        for each in [self.told[-1], *(driven.open[-1] for driven in self.stores)]:
            each.__enter__()

    @precondition(lambda self: self.told)
    @rule(undone=st.booleans())
    def leave_transaction(self, undone: bool) -> None:
        for each in [self.told.pop(), *(driven.open.pop() for driven in self.stores)]:
            if undone:
                fault = ZeroDivisionError("undo")
                assert not each.__exit__(ZeroDivisionError, fault, None)
            else:
                each.__exit__(None, None, None)

    @rule(org=orgs, view=views, chosen=filters, limit=limits, moment=times)
    def read(self, org: int, view: Fields, chosen: Fields, limit: int, moment: datetime) -> None:
        org = self.begin(org)
        where = self.filter(org, view, chosen)
        self.agree(org, "select", where, limit=limit)
        self.agree(org, "count", where, most=limit)
        self.agree(org, "stats", where, moment)
        self.agree(org, "records", where)
        self.agree(org, "all_relations", where)
        for driven in self.stores:
            found = driven.within(self.orgs[org]).embedding()
            assert found == self.oracle.embedding(orgs=driven.counted(self.orgs, org))

    @rule(org=orgs, number=numbers, cut=st.integers(6, 36), view=views, others=st.lists(numbers, max_size=3))
    def look_up(self, org: int, number: int, cut: int, view: Fields, others: list[int]) -> None:
        org = self.begin(org)
        identifier = self.any_id(org, number)
        ids = [self.any_id(org, each) for each in others]
        scope = Scope(org=self.orgs[org], **view)
        self.agree(org, "resolve", scope, identifier[:cut])
        self.agree(org, "short_ids", [each for each in ids if each in self.issued[org]])
        self.agree(org, "relations", scope, ids)
        self.agree(org, "history", scope, identifier)

    @precondition(lambda self: any(self.issued))
    @rule(org=orgs, number=numbers, view=views, chosen=filters, span=st.tuples(times, times), reach=limits)
    def look_around(
        self, org: int, number: int, view: Fields, chosen: Fields, span: tuple[datetime, datetime], reach: int
    ) -> None:
        org = self.begin(org)
        name, where = self.orgs[org], self.filter(org, view, chosen)
        expected = self.oracle.between(where, *sorted(span), limit=reach)
        for driven in self.stores:
            assert driven.ids(name, driven.within(name).between(where, *sorted(span), limit=reach)) == expected
        some = self.ids(org)[number % 7 :][:4]
        for identifier in some:
            self.agree(org, "around", self.oracle.get(identifier), where, before=reach, after=number % 3)
        self.same_traces(name, where, some)
        rows = self.oracle.beside(some, where, reach=reach)
        for driven in self.stores:
            store, keys = driven.within(name), driven.keys(name)
            near = {trace.id: trace for trace in store.traces(Filter(scope=Scope(org=name), statuses=()))}
            found = store.beside([near[each] for each in some], where, reach=reach)
            threads = [near[each].thread for each in some]
            assert [driven.ids(name, row) for row in found] == rows, (store.location, threads)
            by_key = {key: identifier for identifier, key in keys.items()}
            links = store.links([keys[each] for each in some], where, limit=ALL)
            assert {(by_key[a], by_key[b], *rest) for a, b, *rest in links} == self.oracle.links(some, where)

    @rule(
        org=orgs,
        view=views,
        chosen=filters,
        query=st.lists(st.sampled_from(ASKED), max_size=3),
        limit=limits.filter(bool),
    )
    def look_for_words(self, org: int, view: Fields, chosen: Fields, query: list[str], limit: int) -> None:
        org, asked = self.begin(org), query_terms(" ".join(query))
        name, where = self.orgs[org], self.filter(org, view, chosen)
        expected = self.oracle.matches(where, asked)
        single = [stem(each) for each in query if each.isalnum()]
        for driven in self.stores:
            store = driven.within(name)
            found = store.matches(where, asked, limit=limit)
            ids = driven.ids(name, [match.key for match in found])
            missed = [self.oracle.get(each) for each in sorted(expected - {*ids})]
            assert len(ids) == len(set(ids)) == min(limit, len(expected)), (store.location, asked, missed)
            assert set(ids) <= expected
            scores = [match.score for match in found]
            assert scores == sorted(scores, reverse=True)
            counted = driven.counted(self.orgs, org)
            total, among = store.frequencies(single)
            assert among == self.oracle.frequencies(single, orgs=counted)
            assert max(among, default=0) <= total
            for word in single:
                like = partial(self.oracle.words_like, word, start=word[:1], spare=SPARE, orgs=counted)
                assert set(store.words_like(word, start=word[:1])) == like()

    @rule(org=orgs, view=views, chosen=filters, word=words, limit=limits.filter(bool))
    def look_near(self, org: int, view: Fields, chosen: Fields, word: str, limit: int) -> None:
        org = self.begin(org)
        name, where = self.orgs[org], self.filter(org, view, chosen)
        _, code = vector(word)
        expected = self.oracle.nearest(where, code)
        for driven in self.stores:
            found = driven.within(name).nearest(where, code, limit=limit)
            ids = driven.ids(name, [match.key for match in found])
            assert [match.score for match in found] == [score for _, score in expected[:limit]]
            assert {*zip(ids, (match.score for match in found), strict=True)} <= {*expected}

    def teardown(self) -> None:
        while self.told:
            self.leave_transaction(undone=False)
        for org, name in enumerate(self.orgs):
            everything = Filter(scope=Scope(org=name), statuses=())
            self.agree(org, "records", everything)
            self.agree(org, "all_relations", everything)
            self.same_traces(name, everything, None)
            for identifier in self.issued[org]:
                self.agree(org, "history", everything.scope, identifier)
        self.stores[0].store.close()

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
                assert type(found) is type(expected), name
            else:
                assert not differences(plain(found, unused=unused), plain(expected, unused=unused), name)
        assert len(complaints) < 2

    def same_traces(self, org: str, where: Filter, ids: Sequence[str] | None) -> None:
        expected = self.oracle.traces(where, ids)
        for driven in self.stores:
            keys = None if ids is None else [driven.keys(org)[each] for each in ids]
            found = driven.within(org).traces(where, keys)
            assert [trace[1:3] + trace[4:11] for trace in found] == [
                (
                    (memory.at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1),
                    *(
                        getattr(memory, name)
                        for name in ("id", "speaker", "kind", "tier", "importance", "confidence")
                    ),
                    memory.pinned,
                    memory.tokens,
                )
                for memory, _, _ in expected
            ]
            assert pattern([trace.thread for trace in found]) == pattern([thread for _, thread, _ in expected])
            for trace, (memory, _, passages) in zip(found, expected, strict=True):
                held = [(part.start, part.end, part.flags, part.codes, vector) for part, vector in passages]
                assert [tuple(passage) for passage in trace.passages] == held, memory

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
        known = self.issued[org]
        return known[number % len(known)] if known else self.fresh_id(org)

    def any_id(self, org: int, number: int) -> str:
        """Mostly one that is there, else one that was, or one of the other org."""
        known = self.ids(org) if number % 5 else self.issued[org] + self.issued[1 - org]
        return known[number % len(known)] if known else "c0000000-0000-7000-8000-000000000000"


def outcome(call: Callable[[], Any]) -> Any:
    try:
        found = call()
    except SatchelError as error:
        return error
    return list(found) if isinstance(found, Iterator) else found


def plain(value: Any, *, unused: bool) -> Any:
    """Uses are not told while they wait to be written."""
    if isinstance(value, list):
        return [plain(each, unused=unused) for each in value]
    if unused and isinstance(value, Record):
        return plain(value.memory, unused=True), value.history
    if unused and isinstance(value, Memory):
        return msgspec.structs.replace(value, access_count=0, accessed_at=None)
    return value


def differences(found: Any, expected: Any, name: str) -> list[str]:
    """What differs, each with its place: whole memories would hide it."""
    if found == expected:
        return []
    if isinstance(found, msgspec.Struct) and type(found) is type(expected):
        pairs = [(getattr(found, each), getattr(expected, each), f".{each}") for each in found.__struct_fields__]
    elif isinstance(found, list | tuple) and type(found) is type(expected) and len(found) == len(expected):
        pairs = [(one, other, f"[{place}]") for place, (one, other) in enumerate(zip(found, expected, strict=True))]
    else:
        return [f"{name}: {found!r} instead of {expected!r}"]
    return [line for one, other, place in pairs for line in differences(one, other, name + place)]


def pattern(values: Sequence[object]) -> list[int | None]:
    """Which of them are equal."""
    places = {value: place for place, value in reversed(list(enumerate(values)))}
    return [None if value is None else places[value] for value in values]


def embedded(memories: Sequence[Memory]) -> Embedded:
    parts = {memory.id: parts_of(memory) for memory in memories}
    made = {part.text: vector(part.text) for memory in memories for part in parts_of(memory)}
    twice = len(parts) < len(memories)
    # Of an id that comes twice nobody knows beforehand which version is stored.
    return Embedded("digests", DIMENSIONS, {} if twice else parts, made)


def vector(text: str) -> tuple[bytes, bytes]:
    digest = hashlib.sha256(text.encode()).digest()[:DIMENSIONS]
    row = np.frombuffer(digest, np.uint8).astype(np.float32) - 127.5
    return packed((row / np.linalg.norm(row)).reshape(1, -1))[0]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[datetime]:
    now = [START]
    for name, module in list(sys.modules.items()):
        if name.startswith("satchel.store") and hasattr(module, "utc_now"):
            monkeypatch.setattr(module, "utc_now", lambda: now[0])
    return now


def test_stores_answer_as_the_oracle_does(clock: list[datetime], pg_rows_url: str) -> None:
    runs = itertools.count()
    with contextlib.closing(open_store(pg_rows_url)) as shared:

        def machine() -> Machine:
            clock[0] = START
            stores = [Driven(SqliteStore(":memory:"), orgs_apart=False), Driven(shared, orgs_apart=True)]
            run = next(runs)
            return Machine(stores, [f"org {run}", f"other org {run}"], clock)

        run_state_machine_as_test(
            machine,
            settings=settings(
                max_examples=RUNS,
                stateful_step_count=STEPS,
                derandomize=FUZZ == 1,
                suppress_health_check=list(HealthCheck),
            ),
        )
