"""The rules for statements that let Citus send each of them to the one node of its tenant.

They hold for every named statement, and for every statement that a store sends while it does a bit of everything.
tests/unit/store/test_citus.py asks a cluster itself.
"""

import re

import named_statements
import pytest

import satchel
from satchel import Draft
from satchel.model.filters import Filter
from satchel.model.memory import Scope
from satchel.recall import ranking
from satchel.store.database import insert_of
from satchel.store.postgres.connection import (
    _COLUMNS,
    DIALECT,
    STATEMENTS,
    PostgresConnection,
    _insert_from_json,
)
from tables import each_row
from varied import fill_varied

NARROW = Filter(scope=Scope(org="acme", project="p"), kinds=("fact",), tags=("t",), metadata=('"pr":12',))
# The only one that reads all tenants: for the owner.
OF_ALL_TENANTS = "orgs"
TABLES = (
    "memory", "relation", "history", "usage", "passage", "passage_vector", "embedding", "backlog", "word", "tenant",
    "change", "session", "entry", "turn", "content",
)  # fmt: skip

_READ = re.compile(rf"(?:FROM|JOIN|UPDATE)\s+(?:{'|'.join(TABLES)})\b(?!\.)")
_INSERT = re.compile(rf"INSERT INTO (?:{'|'.join(TABLES)}) \(([^)]+)\)")
_BOUND = re.compile(r"\borg = (?:%\(\w*org\)s|U&'[^']*'|'acme')")
_SETS_ORG = re.compile(r"\bSET\b(?:(?!\bWHERE\b|\bRETURNING\b).)*[\s,\"]org\"?\s*=", re.DOTALL)
_ORG_OF_A_ROW = re.compile(r"\borg\s*=\s*\w+\.org\b")


def wrong(sql: str) -> list[str]:
    """Return which rules a statement breaks."""
    inserted, read, bound = _INSERT.search(sql), len(_READ.findall(sql)), len(_BOUND.findall(sql))
    broken = {
        "an UPDATE sets the org": _SETS_ORG.search(sql),
        "a condition takes the org from a row": _ORG_OF_A_ROW.search(sql),
        "a statement calls set_config()": "set_config(" in sql,
        f"{read} tables are read and {bound} of them are bound to the org": read > bound,
        "an INSERT leaves out the org": inserted and "org" not in inserted[1].split(", "),
    }
    return [rule for rule, found in broken.items() if found]


@each_row("name", [name for name in STATEMENTS.named if name != OF_ALL_TENANTS])
def test_every_named_statement_binds_the_org_of_each_table_that_it_reads(name: str) -> None:
    assert wrong(named_statements.filled(STATEMENTS, DIALECT, name, NARROW, columns=_COLUMNS)) == []


@each_row("name", ["insert_memories", "insert_passage", "write_vector", "insert_backlog", "insert_history"])
def test_many_rows_are_inserted_by_one_statement_and_all_but_history_as_json(name: str) -> None:
    insert = insert_of(named_statements.filled(STATEMENTS, DIALECT, name, NARROW, columns=_COLUMNS), DIALECT)
    assert insert is not None
    assert insert.of(2).count("$1,") == 1
    from_json = _insert_from_json(insert)
    assert (from_json is None) is (name == "insert_history")
    assert from_json is None or "VALUES" not in from_json


def test_the_rules_know_every_table_of_the_schema(pg_rows_url: str) -> None:
    with satchel.open(pg_rows_url) as bag, bag._store.reading() as db:
        named = db.execute("SELECT tablename::text FROM pg_tables WHERE schemaname = 'satchel'")
        assert {name for (name,) in named} == {*TABLES, "migration"}


@pytest.mark.parametrize(
    ("sql", "rule"),
    [
        ("UPDATE memory SET org = %(org)s, text = %(text)s WHERE org = %(org)s", "sets the org"),
        ('UPDATE memory SET text = %(text)s, "org" = %(org)s WHERE org = %(org)s', "sets the org"),
        ("SELECT (SELECT 1 FROM usage u WHERE u.org = m.org) FROM memory m WHERE m.org = %(org)s", "from a row"),
        ("SELECT set_config('hnsw.ef_search', '400', true)", "set_config"),
        ("SELECT 1 FROM memory m JOIN history h ON h.memory = m.id WHERE m.org = %(org)s", "2 tables are read"),
        ("DELETE FROM memory WHERE id = %(id)s", "1 tables are read and 0"),
        ("INSERT INTO word (term, docs) VALUES (%(term)s, 1)", "leaves out the org"),
    ],
)  # fmt: skip
def test_a_statement_that_breaks_a_rule_is_found(sql: str, rule: str) -> None:
    assert any(rule in each for each in wrong(sql))


def test_every_statement_that_a_store_sends_keeps_the_rules(
    pg_rows_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: set[str] = set()
    execute = PostgresConnection.execute

    def recorded(self: PostgresConnection, statements: str, *given: object) -> object:
        sent.add(statements)
        return execute(self, statements, *given)

    monkeypatch.setattr(PostgresConnection, "execute", recorded)
    with satchel.open(pg_rows_url) as bag:
        _do_everything(bag, monkeypatch)
    of_tables = [sql for sql in sent if _READ.search(sql) or _INSERT.search(sql)]
    assert len(of_tables) > 100
    found = {sql: wrong(sql) for sql in of_tables}
    assert {sql: rules for sql, rules in found.items() if rules} == {}


def _do_everything(bag: satchel.Satchel, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = fill_varied(bag, 60)
    bag.add_many([Draft(text=f"turn {number}", session="s", ref=f"s:{number}") for number in range(9)])
    bag.relate(ids[1], ids[2], "supersedes")
    bag.relate(ids[3], ids[4], "related")
    bag.unrelate(ids[3], ids[4])
    bag.update(ids[5], text="changed", tags=["new"], topic_key="topic")
    bag.add("said again", topic_key="topic")
    bag.update(ids[6], move_to="elsewhere")
    forgotten = bag.forget(ids[7]).at
    bag.unforget(at=forgotten)
    bag.forget(ids[8], purge=True)
    for small in (ranking.SMALL, 0):
        monkeypatch.setattr(ranking, "SMALL", small)
        bag.search("key rotation nightly", explain=True)
        bag.search("key rotation", kind="fact", tags=["auth"], since="2026-01-01")
        bag.context("what was decided about the nightly backup", token_budget=500)
        bag.context("what was decided about the backup", token_budget=500, as_of="2026-06-01")
    bag.similar(ids[9])
    bag.timeline(ids[10])
    bag.history(ids[5])
    bag.recent(sort="importance", limit=5)
    bag.stats()
    list(bag.export())
    session = bag.session("work")
    handle = session.result("ls", "one line\n" * 9000).handle
    session.record("user", "And then?")
    session.next_turn()
    session.pin(handle)
    session.expand(handle)
    bag.reembed("none")
    bag.reembed("static")
    bag.catch_up()
    bag.checks()
    with bag._store.writing() as db:
        db.execute("UPDATE memory SET words = '', length = 0 WHERE org = %(org)s")
        db.execute("DELETE FROM passage WHERE org = %(org)s")
    bag.repair()
    bag.erase()
