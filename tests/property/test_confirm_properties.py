"""A text added repeatedly: both stores merge as a plain Python model of the rule does."""

import contextlib
import itertools
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from call_by_call import CallByCall
from confirm_model import first_same_text, merged
from satchel.api.saving import new_candidate
from satchel.model.filters import Filter
from satchel.model.memory import Draft, Memory, Scope
from satchel.store.contract import Candidate
from satchel.store.locations import open_store
from satchel.store.sqlite.store import SqliteStore
from satchel.store.store import Store

START = datetime(2026, 1, 1, tzinfo=UTC)
EXAMPLES = 40 * int(os.environ.get("SATCHEL_FUZZ", "1"))

times = st.none() | st.integers(-3, 3).map(lambda days: START + timedelta(days=days))
weights = st.none() | st.sampled_from([0.0, 0.5, 1.0])
names = st.none() | st.none() | st.sampled_from(["one", "other"])
drafts = st.builds(
    Draft,
    text=st.sampled_from(["the same", "the same", "a\0b"]),
    title=names,
    kind=st.none() | st.sampled_from(["observation", "decision", "todo"]),
    tier=st.none() | st.sampled_from(["working", "knowledge", "conversation"]),
    tags=st.none() | st.lists(st.sampled_from(["a", "b", "A", "ä"]), max_size=3),
    metadata=st.none() | st.dictionaries(st.sampled_from("ab"), st.sampled_from([1, True, "x"])),
    importance=weights,
    confidence=weights,
    status=st.none() | st.sampled_from(["active", "archived", "superseded", "pending"]),
    pinned=st.none() | st.booleans(),
    at=times,
    valid_from=times,
    invalid_at=times,
    speaker=names,
    source=names,
    session=names,
)
batches = st.lists(st.lists(drafts, min_size=1, max_size=5), min_size=1, max_size=4)
# Neither is part of the rule, and both follow from the clock.
_CLOCKED = {"updated_at": START, "revision": 1}


def expected_of(batches: list[list[Candidate]]) -> dict[str, Memory]:
    held: dict[str, Memory] = {}
    for candidate in itertools.chain.from_iterable(batches):
        old = first_same_text(candidate.memory, list(held.values()))
        new = candidate.memory if old is None else merged(old, candidate.memory, candidate.given)
        held[new.id] = new
    return held


def stored_in(store: Store, org: str) -> dict[str, Memory]:
    records = store.within(org).records(Filter(scope=Scope(org=org), statuses=()))
    return {record.memory.id: msgspec.structs.replace(record.memory, **_CLOCKED) for record in records}


def nothing_lost(said: list[Candidate], held: dict[str, Memory]) -> None:
    """Whatever a draft says is said by a memory with its text."""
    for memory, fields, _ in said:
        same = [each for each in held.values() if (each.text, each.scope) == (memory.text, memory.scope)]
        for name in fields & {"title", "speaker", "source"}:
            assert getattr(memory, name) in {getattr(each, name) for each in same}, name
        assert any(set(memory.tags) <= set(each.tags) for each in same)
        assert any(each.importance >= memory.importance or "importance" not in fields for each in same)
        assert any(each.pinned >= memory.pinned for each in same)
        assert any(each.at <= memory.at for each in same) or "at" not in fields
    assert sum(each.confirmations + 1 for each in held.values()) == len(said)


def test_stores_merge_as_the_model_does_and_lose_nothing(pg_rows_url: str, tmp_path: Path) -> None:
    runs = itertools.count()
    with (
        contextlib.closing(SqliteStore(str(tmp_path / "notes.db"))) as file,
        contextlib.closing(open_store(pg_rows_url)) as server,
    ):

        @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
        @given(said=batches)
        def check(said: list[list[Draft]]) -> None:
            org = f"org {next(runs)}"
            candidates = [[new_candidate(each, Scope(org=org), now=START) for each in batch] for batch in said]
            expected = expected_of(candidates)
            wanted = {key: msgspec.structs.replace(memory, **_CLOCKED) for key, memory in expected.items()}
            nothing_lost([each for batch in candidates for each in batch], wanted)
            for store in (file, server):
                for batch in candidates:
                    CallByCall(store.within(org)).add(batch)
                assert stored_in(store, org) == wanted

        check()
