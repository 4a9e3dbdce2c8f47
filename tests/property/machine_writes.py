"""Write rules of the state machine."""

import contextlib
from datetime import datetime
from functools import partial
from typing import Any

import msgspec
from hypothesis import assume
from hypothesis import strategies as st
from hypothesis.stateful import rule
from machine_answers import outcome
from machine_ground import Ground
from machine_values import (
    START,
    Fields,
    changed_fields,
    embedded,
    fields,
    filters,
    limits,
    numbers,
    orgs,
    places,
    some_times,
    texts,
    times,
    views,
    weights,
)

from satchel.errors import InputError
from satchel.model.filters import Filter
from satchel.model.memory import RELATIONS, Change, Relation, Scope
from satchel.store.contract import Candidate, Record
from satchel.store.rows import text_key

__all__ = ["Writes"]


class Writes(Ground):
    @rule(
        org=orgs,
        drafts=st.lists(st.tuples(places, fields), min_size=1, max_size=4),
        embed=st.booleans(),
        deduplicate=st.booleans(),
    )
    def add(self, org: int, drafts: list[tuple[Fields, Fields]], embed: bool, deduplicate: bool) -> None:
        org = self.begin(org)
        self.agree_on_adding(org, drafts, embed=embed, deduplicate=deduplicate)

    @rule(
        org=orgs,
        said=st.lists(st.tuples(numbers, changed_fields, st.booleans()), min_size=1, max_size=4),
        embed=st.booleans(),
    )
    def say_again(self, org: int, said: list[tuple[int, Fields, bool]], embed: bool) -> None:
        """Texts of memories that are here, often with what else is known of them."""
        org = self.begin(org)
        known = self.ids(org)
        assume(known)
        drafts = []
        for number, values, alike in said:
            memory = self.oracle.get(known[number % len(known)])
            place = msgspec.structs.asdict(memory.scope)
            del place["org"]
            kept = {"kind": memory.kind, "title": memory.title, "speaker": memory.speaker} if alike else {}
            own = {name: value for name, value in {**values, **kept}.items() if value is not None}
            drafts.append((place, {**own, "text": memory.text}))
        self.agree_on_adding(org, drafts, embed=embed, deduplicate=True)

    def agree_on_adding(
        self, org: int, drafts: list[tuple[Fields, Fields]], *, embed: bool, deduplicate: bool
    ) -> None:
        made = [self.made(self.fresh_id(org), org, *draft) for draft in drafts]
        given = [frozenset({*draft, "tokens", "masked"}) for _, draft in drafts]
        candidates = [Candidate(*each) for each in zip(made, given, map(text_key, made), strict=True)]
        self.agree(org, "add", candidates, embedded(made) if embed else None, deduplicate=deduplicate)

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

    @rule(org=orgs, view=views, some=st.none() | st.lists(numbers, max_size=3), by_moment=st.booleans())
    def unforget(self, org: int, view: Fields, some: list[int] | None, by_moment: bool) -> None:
        """By ids, by a moment at which something has ended, or by both."""
        org = self.begin(org)
        ids = None if some is None else [self.any_id(org, number) for number in dict.fromkeys(some)]
        moment = None
        if by_moment or ids is None:
            ends = sorted({each.invalid_at for each in map(self.oracle.get, self.ids(org)) if each.invalid_at})
            assume(ends)
            moment = ends[len(some or ()) % len(ends)]
        self.agree(org, "unforget", Scope(org=self.orgs[org], **view), ids, moment)

    @rule(
        org=orgs,
        view=views,
        number=numbers,
        kind=st.none() | st.sampled_from(["supersedes", *RELATIONS[:3]]),
        moment=times,
    )
    def unrelate(self, org: int, view: Fields, number: int, kind: Any, moment: datetime) -> None:
        org = self.begin(org)
        held = self.oracle.all_relations(Filter(scope=Scope(org=self.orgs[org]), statuses=()))
        assume(held)
        ends = held[number % len(held)]
        scope = Scope(org=self.orgs[org], **view)
        self.agree(org, "unrelate", scope, ends.source, ends.target, kind, moment)

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

    @rule(org=orgs, number=numbers, text=texts)
    def put_under_an_id_of_the_other_org(self, org: int, number: int, text: str) -> None:
        """Refused where orgs share a file; else undone again, for the oracle knows an id only once."""
        org = self.begin(org)
        theirs = self.ids(1 - org)
        assume(theirs)
        memory = self.made(theirs[number % len(theirs)], org, {}, {"text": text})
        scope, other = memory.scope, self.orgs[1 - org]
        for driven in self.stores:
            store = driven.within(scope.org)
            if not driven.orgs_apart:
                refused = outcome(partial(store.put, scope, [Record(memory=memory)]))
                assert isinstance(refused, InputError), refused
                continue
            held = [self.oracle.get(memory.id).text]
            with contextlib.suppress(ZeroDivisionError), store.transaction():
                answer = store.put(scope, [Record(memory=memory)])
                assert answer == ["added"], answer
                found = [driven.texts(each, memory.id) for each in (scope.org, other)]
                assert found == [[text], held], found
                raise ZeroDivisionError("undo")
            found = [driven.texts(each, memory.id) for each in (other, scope.org)]
            assert found == [held, []], found

    @rule(org=orgs, some=st.lists(numbers, max_size=3))
    def touch(self, org: int, some: list[int]) -> None:
        org = self.begin(org)
        known = self.ids(org)
        used = [known[number % len(known)] for number in some if known]
        self.agree(org, "touch", used, self.clock[0])
        self.unwritten[org].update(used)

    @rule(org=orgs, limit=limits)
    def embed_backlog(self, org: int, limit: int) -> None:
        org = self.begin(org)
        waiting = sorted(set(self.oracle.backlog()) & set(self.ids(org)))[:limit]
        made = embedded([self.oracle.get(identifier) for identifier in waiting])
        expected = self.oracle.embed_backlog(self.orgs[org], waiting, made)
        for driven in self.stores:
            keys = driven.keys(self.orgs[org])
            done = driven.within(self.orgs[org]).embed_backlog([keys[each] for each in waiting], made)
            assert done == expected, (done, expected)
