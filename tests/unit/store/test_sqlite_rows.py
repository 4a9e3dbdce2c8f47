"""Rows are read back as they were written, to the microsecond."""

from datetime import UTC, datetime, timedelta, timezone

import apsw
from hypothesis import given
from hypothesis import strategies as st

from satchel.model.memory import KINDS, RELATIONS, STATUSES, TIERS, Memory, Scope
from satchel.store.rows import (
    COLUMNS,
    from_micros,
    memory_from_row,
    memory_row,
    micros,
    read_change,
    read_relation,
    write_changes,
)
from satchel.store.sqlite.connection import connect
from satchel.store.sqlite.migrations import prepare

moments = st.datetimes(timezones=st.just(UTC))
# What SQLite can hold as text: everything but lone surrogates.
texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
names = texts.filter(lambda text: text.strip() == text and len(text) <= 500)
weights = st.floats(0, 1)
sizes = st.integers(0, 2**60)

memories = st.builds(
    Memory,
    id=st.uuids(version=4).map(str),
    text=texts,
    title=st.none() | names,
    kind=st.sampled_from(KINDS),
    tier=st.sampled_from(TIERS),
    status=st.sampled_from(STATUSES),
    scope=st.builds(
        Scope,
        org=names,
        project=st.none() | names,
        user=st.none() | names,
        agent=st.none(),
        session=st.none() | names,
    ),
    tags=st.lists(names, unique=True, max_size=5).map(tuple),
    importance=weights,
    confidence=weights,
    pinned=st.booleans(),
    at=moments,
    created_at=moments,
    updated_at=moments,
    valid_from=st.none() | moments,
    invalid_at=st.none() | moments,
    superseded_by=st.none() | st.uuids().map(str),
    speaker=st.none() | names,
    source=st.none() | names,
    ref=st.none() | names,
    topic_key=st.none() | names,
    revision=st.integers(1, 2**60),
    tokens=sizes,
    masked=st.lists(names, max_size=3).map(tuple),
)


def database() -> apsw.Connection:
    connection = connect(":memory:")
    prepare(connection, ":memory:")
    return connection


DATABASE = database()


@given(moments)
def test_a_moment_survives_as_microseconds(moment: datetime):
    assert from_micros(micros(moment)) == moment
    assert from_micros(micros(moment)).tzinfo is UTC


@given(st.integers(micros(datetime.min.replace(tzinfo=UTC)), micros(datetime.max.replace(tzinfo=UTC))))
def test_microseconds_survive_as_a_moment(value: int):
    assert micros(from_micros(value)) == value


@given(moments, moments)
def test_microseconds_sort_as_moments_do(one: datetime, other: datetime):
    assert (micros(one) < micros(other)) == (one < other)


def test_the_first_and_the_last_moment_are_exact():
    for moment in (datetime.min, datetime.max, datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(1970, 1, 1)):
        assert from_micros(micros(moment.replace(tzinfo=UTC))) == moment.replace(tzinfo=UTC)


def test_a_moment_in_another_zone_is_the_same_moment():
    moment = datetime(2026, 2, 10, 9, 30, tzinfo=timezone(timedelta(hours=9)))
    assert from_micros(micros(moment)) == moment


@given(memories)
def test_a_memory_survives_as_a_row(memory: Memory):
    row = memory_row(memory)
    assert len(row) == len(COLUMNS)
    assert memory_from_row((*row, None, None)) == memory


@given(memories)
def test_a_memory_survives_the_database(memory: Memory):
    sql = DATABASE.statement("memory_in_scope", where="true")
    try:
        DATABASE.execute("SAVEPOINT trial")
        DATABASE.execute(
            DATABASE.statement(
                "insert_memories", values="(" + ", ".join("?" * (1 + len(DATABASE.columns()))) + ")"
            ),
            (1, *DATABASE.row(memory)),
        )
        assert memory_from_row(DATABASE.execute(sql, (memory.id,)).fetchone()) == memory
    finally:
        DATABASE.execute("ROLLBACK TO trial; RELEASE trial")


@given(memories, st.integers(1, 2**60), moments)
def test_the_uses_come_with_a_memory(memory: Memory, count: int, last: datetime):
    found = memory_from_row((*memory_row(memory), count, micros(last)))
    assert (found.access_count, found.accessed_at) == (count, last)


@given(st.sampled_from(RELATIONS), weights, moments)
def test_a_relation_is_read_from_its_row(kind: str, strength: float, moment: datetime):
    relation = read_relation(("a", "b", kind, strength, micros(moment)))
    assert (relation.source, relation.target, relation.kind) == ("a", "b", kind)
    assert (relation.strength, relation.created_at) == (strength, moment)


plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts | weights,
    lambda inner: st.lists(inner, max_size=3),
)


@given(st.dictionaries(texts, plain, max_size=4), moments)
def test_a_change_survives_as_a_row(changes: dict[str, object], moment: datetime):
    change = read_change(("id", micros(moment), "update", write_changes(changes)))
    assert (change.memory, change.at, change.action, change.changes) == ("id", moment, "update", changes)
