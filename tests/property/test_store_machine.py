"""For any sequence of operations, every store answers as the oracle does.

Few runs by default, the same each time; 200 others of 50 steps by
`SATCHEL_FUZZ=20 .venv/bin/python -m pytest tests/property/test_store_machine.py`.
"""

import contextlib
import itertools
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule, run_state_machine_as_test
from machine_answers import differences, plain
from machine_ground import Driven
from machine_values import (
    ALL,
    ASKED,
    START,
    Fields,
    filters,
    limits,
    numbers,
    orgs,
    texts,
    times,
    vector,
    views,
    words,
)
from machine_writes import Writes

from satchel.model.filters import Filter
from satchel.model.memory import Scope
from satchel.store.contract import Candidate
from satchel.store.locations import open_store
from satchel.store.rows import text_key
from satchel.store.sqlite.store import SqliteStore
from satchel.text.terms import query_terms, stem

FUZZ = int(os.environ.get("SATCHEL_FUZZ", "1"))
RUNS = 10 * FUZZ
STEPS = 50
# What was used last is told by uses that may not be written yet.
sorts = st.sampled_from(["at", "created", "updated", "importance"])
# How much longer or shorter than a word those are that may be meant by it.
SPARE = 4


class Machine(Writes):
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

    @precondition(lambda self: not self.told)
    @rule(org=orgs, text=texts)
    def read_while_another_thread_writes(self, org: int, text: str) -> None:
        org = self.begin(org)
        everything = self.filter(org, {}, {"statuses": ()})
        memory = self.made(self.fresh_id(org), org, {}, {"text": text})
        candidate = Candidate(memory, frozenset({"text"}), text_key(memory))
        self.oracle.add([candidate])
        for driven in self.stores:
            store = driven.within(self.orgs[org])
            with store.reading(self.orgs[org]), ThreadPoolExecutor(1) as other:
                before = plain(list(store.records(everything)), unused=True)
                other.submit(store.add, [candidate]).result()
                assert not differences(plain(list(store.records(everything)), unused=True), before, "records")
        self.written(org)
        self.agree(org, "records", everything)

    @rule(org=orgs, view=views, chosen=filters, limit=limits, moment=times, sort=sorts)
    def read(self, org: int, view: Fields, chosen: Fields, limit: int, moment: datetime, sort: str) -> None:
        org = self.begin(org)
        where = self.filter(org, view, chosen)
        self.agree(org, "select", where, limit=limit)
        self.agree(org, "select", where, limit=limit, sort=sort, offset=limit // 2)
        self.agree(org, "count_names", where, "project")
        self.agree(org, "count_names", where, "tags")
        self.agree(org, "count", where, most=limit)
        self.agree(org, "stats", where, moment)
        self.agree(org, "records", where)
        self.agree(org, "all_relations", where)
        self.agree(org, "related_since", self.orgs[org], moment)
        changed = self.oracle.changed(where, moment)
        for driven in self.stores:
            told = driven.within(self.orgs[org]).changed(where, moment)
            found = [(plain(memory, unused=True), history) for _, memory, history in told]
            wrong = differences(found, changed, "changed")
            assert not wrong, "\n".join(wrong)
            found = driven.within(self.orgs[org]).embedding()
            assert found == self.oracle.embedding(orgs=driven.counted(self.orgs, org))

    @rule(org=orgs, number=numbers, cut=st.integers(6, 36), view=views, others=st.lists(numbers, max_size=3))
    def look_up(self, org: int, number: int, cut: int, view: Fields, others: list[int]) -> None:
        org = self.begin(org)
        identifier = self.any_id(org, number)
        ids = [self.any_id(org, each) for each in others]
        scope = Scope(org=self.orgs[org], **view)
        self.agree(org, "resolve", scope, identifier[:cut])
        self.agree(org, "short_ids", self.orgs[org], [each for each in ids if each in self.issued[org]])
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


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[datetime]:
    now = [START]
    for name, module in list(sys.modules.items()):
        if name.startswith("satchel.store") and hasattr(module, "utc_now"):
            monkeypatch.setattr(module, "utc_now", lambda: now[0])
    return now


def test_stores_answer_as_the_oracle_does(clock: list[datetime], pg_rows_url: str, tmp_path: Path) -> None:
    runs = itertools.count()
    with contextlib.closing(open_store(pg_rows_url)) as shared:

        def machine() -> Machine:
            clock[0] = START
            run = next(runs)
            file = SqliteStore(str(tmp_path / f"{run}.db"))
            stores = [Driven(file, orgs_apart=False), Driven(shared, orgs_apart=True)]
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
