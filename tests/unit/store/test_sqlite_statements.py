"""The named statements: each is valid for the schema, and the frequent ones use an index."""

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
import named_statements
import pytest

import satchel
from satchel.model.filters import Filter
from satchel.model.memory import Scope
from satchel.store.contract import Embedding
from satchel.store.database import Statements
from satchel.store.index import backlog_size
from satchel.store.rows import filter_sql, scope_sql
from satchel.store.sqlite.connection import STATEMENTS, SqliteConnection, connect, write_transaction
from satchel.store.sqlite.migrations import prepare
from satchel.store.sqlite.search import match_expression
from tables import each_row

DIALECT = SqliteConnection.dialect
TIME = datetime(2026, 1, 1, tzinfo=UTC)
NARROW = Filter(
    scope=Scope(project="p"), kinds=("fact",), tags=("t",), since=TIME, until=TIME, metadata=('"pr":12',)
)


@pytest.fixture(scope="module")
def db() -> apsw.Connection:
    connection = connect(":memory:")
    prepare(connection, ":memory:")
    connection.vectors.create(Embedding("one", 8), state="current")
    # Statistics of no table: the plans must be right on a store that was never analysed.
    assert connection.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'sqlite_stat1'").get == 0
    return connection


def filled(name: str, where: str | Filter = NARROW) -> str:
    columns = connect(":memory:").columns()
    return named_statements.filled(STATEMENTS, DIALECT, name, where, columns=columns)


def plan(db: apsw.Connection, sql: str) -> list[str]:
    return [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {sql}", unbound(sql))]


def unbound(sql: str) -> dict[str, None]:
    """All parameters as NULL, which the plan does not depend on."""
    return dict.fromkeys(re.findall(r":(\w+)", sql))


def scans(lines: list[str], table: str) -> list[str]:
    return [line for line in lines if line.split()[:2] == ["SCAN", table]]


@each_row("name", STATEMENTS.named)
def test_every_statement_fits_the_schema(db: apsw.Connection, name):
    sql = filled(name)
    assert "{" not in sql
    assert db.execute(f"EXPLAIN {sql}", unbound(sql)).fetchall()


def test_there_are_statements_and_none_has_a_comment_left():
    assert len(STATEMENTS.named) > 20
    assert not [name for name, sql in STATEMENTS.named.items() if "--" in sql or not sql]


def test_parameters_are_spelled_for_the_driver_and_nothing_else_is_touched(tmp_path: Path):
    text = """SELECT ':a', 'it''s :b', x::text, ":c" FROM t WHERE y = :y AND z > :y_z::bigint"""
    (tmp_path / "queries.sql").write_text(f"-- name: one\n{text}\n")
    (tmp_path / "ledger.sql").write_text("")
    statements = Statements(tmp_path, {}, DIALECT._replace(named="%({name})s"))
    expected = text.replace("= :y ", "= %(y)s ").replace(":y_z::", "%(y_z)s::")
    assert statements.statement("one") == expected


def test_a_value_that_is_not_given_raises(db: apsw.Connection):
    with pytest.raises(KeyError):
        db.execute(filled("id_exists"), {})


def test_an_unknown_name_raises():
    with pytest.raises(KeyError):
        STATEMENTS.statement("drop_everything")


def test_a_missing_part_raises():
    with pytest.raises(KeyError):
        STATEMENTS.statement("first_by")


@each_row(
    ("name", "index"),
    [
        ("memory_by_ref", "INDEX memory_ref (org=? AND project=? AND user=? AND agent=? AND session=? AND ref=?)"),
        ("memory_by_topic", "INDEX memory_topic (org=? AND project=? AND user=? AND agent=? AND topic_key=?)"),
        ("id_exists", "COVERING INDEX sqlite_autoindex_memory_1 (id=?)"),
        ("memory_by_seq", "INTEGER PRIMARY KEY (rowid=?)"),
        ("history_of", "INDEX history_memory (memory=?)"),
        ("clear_history", "INDEX history_memory (memory=?)"),
        ("delete_memory", "sqlite_autoindex_memory_1 (id=?)"),
        ("update_memory", "sqlite_autoindex_memory_1 (id=?)"),
        ("session_exact", "INDEX session_name (org=? AND project=? AND user=? AND agent=? AND name=?)"),
        ("session_by_id", "PRIMARY KEY (org=? AND id=?)"),
        ("entry_by_handle", "INDEX entry_handle (org=? AND handle=?)"),
        ("entries_held_in", "INDEX entry_held (org=? AND session=? AND category=?)"),
        ("entry_last_of_call", "INDEX entry_call (org=? AND session=? AND call_id=?)"),
        ("entries_held", "INDEX entry_held (org=? AND session=?)"),
        ("content_get", "INDEX sqlite_autoindex_content_1 (org=? AND hash=?)"),
        ("content_total", "COVERING INDEX content_age (org=?)"),
        ("content_oldest", "INDEX content_age (org=?)"),
    ],
)
def test_a_lookup_goes_straight_to_its_row(db: apsw.Connection, name, index):
    lines = plan(db, filled(name))
    assert index in lines[0]
    assert not [line for line in lines if line.startswith("SCAN") and "VIRTUAL" not in line]


@pytest.mark.parametrize("scope", [Scope(), Scope(project="p"), Scope(project="p", session="s", user="u")])
@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("memory_in_scope", "sqlite_autoindex_memory_1 (id=?)"),
        ("ids_with_prefix", "sqlite_autoindex_memory_1 (id>? AND id<?)"),
    ],
)
def test_an_id_or_its_prefix_is_the_way_in_whatever_the_scope(db: apsw.Connection, scope, name, index):
    lines = plan(db, filled(name, scope_sql(DIALECT, scope, indexed=False)[0]))
    assert index in lines[0]
    assert not scans(lines, "m")
    assert not [line for line in lines if "TEMP B-TREE" in line]


def test_the_neighbours_of_an_id_are_looked_up_by_the_ends_of_ids(db: apsw.Connection):
    lines = plan(db, filled("tails_beside"))
    for looked_up in ("tail<?", "tail>?"):
        assert sum(f"INDEX memory_tail (org=? AND {looked_up})" in line for line in lines) == 1, looked_up
    assert not scans(lines, "b") + scans(lines, "a")


def test_a_short_id_is_looked_up_by_the_ends_of_ids(db: apsw.Connection):
    lines = plan(db, filled("ids_with_tail", scope_sql(DIALECT, Scope(project="p"), indexed=False)[0]))
    assert "INDEX memory_tail (org=? AND tail>? AND tail<?)" in lines[0]


def test_removed_relations_are_found_by_their_own_index(db: apsw.Connection):
    assert "INDEX history_unrelated (org=? AND at>?)" in plan(db, filled("unrelated_since"))[0]


def test_pages_of_an_export_are_read_in_the_order_of_the_ids(db: apsw.Connection):
    lines = plan(db, filled("page_by_id", filter_sql(DIALECT, NARROW, indexed=False)[0]))
    assert "sqlite_autoindex_memory_1 (id>?)" in lines[0]
    assert not [line for line in lines if "TEMP B-TREE" in line]


@each_row("name", ["search_best", "search_filtered"])
@each_row("where", [Filter(), NARROW, Filter(since=TIME), Filter(scope=Scope(session="s"), ids=("a", "b"))])
def test_a_search_starts_from_the_full_text_index(db: apsw.Connection, name, where):
    lines = plan(db, filled(name, filter_sql(DIALECT, where)[0]))
    tables = [line for line in lines if line.startswith(("SCAN", "SEARCH"))]
    matching = next(index for index, line in enumerate(tables) if "memory_fts VIRTUAL TABLE INDEX" in line)
    memories = next(
        index for index, line in enumerate(tables) if line.startswith("SEARCH m USING INTEGER PRIMARY KEY")
    )
    assert matching < memories
    assert not scans(lines, "m")


@pytest.mark.parametrize(
    ("scope", "index"),
    [
        (Scope(), "memory_time (org=?"),
        (Scope(project="p"), "memory_project_time (org=? AND project=?"),
        (Scope(session="s"), "memory_session_time (org=? AND session=?"),
        (Scope(project="p", session="s"), "memory_session_time (org=? AND session=?"),
    ],
)
def test_a_list_by_time_is_read_in_order_and_not_sorted(db: apsw.Connection, scope, index):
    for bounds in ({}, {"since": TIME}, {"until": TIME}, {"since": TIME, "until": TIME}):
        lines = plan(db, filled("first_by", filter_sql(DIALECT, Filter(scope=scope, **bounds))[0]))
        assert index in lines[0], bounds
        assert not [line for line in lines if "TEMP B-TREE" in line], bounds


@pytest.mark.parametrize("name", ["before", "after"])
@pytest.mark.parametrize(
    ("scope", "index"),
    [
        (Scope(project="p"), "memory_project_time (org=? AND project=? AND (at,id)"),
        (Scope(project="p", session="s"), "memory_session_time (org=? AND session=? AND (at,id)"),
    ],
)
def test_a_timeline_starts_at_its_moment(db: apsw.Connection, name, scope, index):
    lines = plan(db, filled(name, filter_sql(DIALECT, Filter(scope=scope))[0]))
    assert index in lines[0]
    assert not [line for line in lines if "TEMP B-TREE" in line]


def test_the_relations_of_a_memory_are_found_from_both_ends(db: apsw.Connection):
    lines = plan(db, filled("relations_of"))
    assert any("PRIMARY KEY (source=?)" in line for line in lines)
    assert any("relation_target (target=?)" in line for line in lines)
    assert not scans(lines, "relation")


def test_what_changed_since_a_moment_is_found_by_its_own_indexes(db: apsw.Connection):
    where = filter_sql(DIALECT, Filter(scope=Scope(project="p"), statuses=()), indexed=False)[0]
    for name in ("changed_memories", "history_of_changed"):
        lines = plan(db, filled(name, where))
        assert "memory_revised (org=? AND updated_at>?)" in lines[0]
        assert not scans(lines, "history")
    assert any("relation_time (created_at>?)" in line for line in plan(db, filled("related_since")))


def test_a_match_expression_holds_no_syntax(db: apsw.Connection):
    for term in ('say "hi"', "NEAR(", "a*", "title:", "AND", "\0", "^", "-x", "{", "\\", "'"):
        expression = match_expression([term, "plain"])
        assert db.execute(filled("search_filtered", "1"), {"match": expression, "limit": 10}).fetchall() == []


@pytest.mark.parametrize("scope", [Scope(), Scope(project="p"), Scope(project="p", session="s")])
@pytest.mark.parametrize(("chosen", "index"), [("pinned", "memory_pinned"), ("important", "memory_important")])
def test_the_few_that_are_pinned_or_important_have_an_index_of_their_own(db: apsw.Connection, scope, chosen, index):
    lines = plan(db, filled("first_by", filter_sql(DIALECT, Filter(scope=scope, **{chosen: True}))[0]))
    assert index in lines[0]
    assert not [line for line in lines if "TEMP B-TREE" in line]


def test_an_add_reads_the_embedding_of_the_store_once(path: Path, monkeypatch):
    with satchel.open(path) as bag:
        bag.add("the first memory brings the embedder")
        asked: list[str] = []
        execute = SqliteConnection.execute

        def listening(db: SqliteConnection, sql: str, *values: Any) -> Any:
            asked.append(sql)
            return execute(db, sql, *values)

        monkeypatch.setattr(SqliteConnection, "execute", listening)
        bag.add("a memory beside it")
        assert sum("FROM embedding" in sql for sql in asked) == 1


def test_many_rows_are_inserted_by_few_statements(monkeypatch):
    db = connect(":memory:")
    db.execute("CREATE TABLE one (number INTEGER PRIMARY KEY); CREATE TABLE two (number INTEGER, name TEXT)")
    asked: list[str] = []
    execute = SqliteConnection.execute

    def listening(connection: SqliteConnection, sql: str, *values: Any) -> Any:
        asked.append(sql)
        return execute(connection, sql, *values)

    monkeypatch.setattr(SqliteConnection, "execute", listening)
    numbers = [{"number": number % 300, "name": f"n{number}"} for number in range(302)]
    for count in (0, 1, 2, 302):
        db.executemany("INSERT OR IGNORE INTO one (number) VALUES (:number)", numbers[:count])
        db.executemany("INSERT INTO two (number, name) VALUES (:number, :name)", numbers[:count])
    assert len(asked) <= 20
    assert execute(db, "SELECT count(*), min(number), max(number) FROM one").get == (300, 0, 299)
    assert execute(db, "SELECT count(*), count(DISTINCT name) FROM two").get == (305, 302)


def test_memories_without_vectors_enter_the_backlog_together(path: Path, monkeypatch):
    with satchel.open(path, embedder="minilm") as bag:
        asked: list[str] = []
        execute = SqliteConnection.execute

        def listening(db: SqliteConnection, sql: str, *values: Any) -> Any:
            asked.append(sql)
            return execute(db, sql, *values)

        monkeypatch.setattr(SqliteConnection, "execute", listening)
        monkeypatch.setattr(bag._indexer, "catch_up", lambda: None)
        bag.add_many([satchel.Draft(f"memory {number} waits for its vector") for number in range(256)])
        assert sum("INTO backlog" in sql for sql in asked) == 1
        with bag._store.reading() as tx:
            assert backlog_size(tx) == 256


def test_a_commit_that_fails_is_rolled_back():
    db = connect(":memory:")
    db.execute("CREATE TABLE a (x INTEGER PRIMARY KEY)")
    db.execute("CREATE TABLE b (x REFERENCES a (x) DEFERRABLE INITIALLY DEFERRED)")
    with pytest.raises(apsw.ConstraintError), write_transaction(db):
        db.execute("INSERT INTO b VALUES (1)")
    assert not db.in_transaction
    with write_transaction(db):
        db.execute("INSERT INTO a VALUES (1)")
        with pytest.raises(apsw.SQLError), write_transaction(db):
            db.execute("INSERT INTO a VALUES (2); INSERT INTO nowhere VALUES (1)")
        assert db.in_transaction
    assert not db.in_transaction
    assert db.execute("SELECT (SELECT count(*) FROM b), (SELECT max(x) FROM a)").get == (0, 1)
