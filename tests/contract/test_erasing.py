"""Erasing an org removes its rows from every table and leaves other orgs unchanged."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import apsw
import psycopg
import pytest
from psycopg import sql

import satchel
from call_by_call import CallByCall
from citus_cluster import all_orgs, owner_of
from satchel import InputError, Satchel, StoreError
from satchel.store.contract import KINDS, Embedding

SECRET = "quokkaphone"


def fill(bag: Satchel) -> None:
    """Something of each kind, and something in each table."""
    first, second, third = (bag.add(f"{SECRET} {word}", tags=["x", SECRET]) for word in ("one", "two", "three"))
    bag.relate(first.id, second.id)
    bag.forget(third.id, purge=True)
    bag.get(first.id)
    session = bag.session("work")
    session.result("say", f"{SECRET}\n" * 900)
    session.next_turn()
    CallByCall(bag._store).begin_reembedding(Embedding("other", 8))


def everything(bag: Satchel, org: str) -> list[object]:
    held = bag._store.holdings(org)
    return [row for kind in KINDS for row in held.rows(kind)]


def left(location: Path | str, org: str) -> dict[str, int]:
    """The rows of an org in each table that has some, by what the catalogue says."""
    return dict(
        _left_on_server(owner_of(location), org) if isinstance(location, str) else _left_in_file(location, org)
    )


def _left_on_server(location: str, org: str) -> Iterator[tuple[str, int]]:
    with psycopg.connect(location) as db:
        tables = db.execute(
            "SELECT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'org' "
            "WHERE c.relnamespace = 'satchel'::regnamespace AND c.relkind IN ('r', 'p')"
        ).fetchall()
        for (table,) in tables:
            query = sql.SQL("SELECT count(*) FROM satchel.{} WHERE org = %s").format(sql.Identifier(table))
            (count,) = db.execute(query, (org,)).fetchone() or (0,)
            if count:
                yield table, count


def _left_in_file(location: Path, org: str) -> Iterator[tuple[str, int]]:
    db = apsw.Connection(str(location), flags=apsw.SQLITE_OPEN_READONLY)
    for (table,) in db.execute(
        "SELECT t.name FROM sqlite_schema t JOIN pragma_table_info(t.name) c ON c.name = 'org' "
        "WHERE t.type = 'table'"
    ).fetchall():
        if count := db.execute(f'SELECT count(*) FROM "{table}" WHERE org = ?', (org,)).get:
            yield table, count
    db.close()


def test_an_org_goes_with_all_it_has_and_the_others_stay(location: Path | str, bag: Satchel):
    for org in ("acme", "birch"):
        fill(bag.scoped(org=org))
    before = everything(bag, "birch")
    assert len(left(location, "acme")) >= 7
    counts = bag.scoped(org="acme").erase()
    assert left(location, "acme") == {}
    assert all_orgs(str(location)) == ["birch"]
    assert everything(bag, "birch") == before
    assert counts == {
        "memories": 2, "uses": 1, "history": 5, "relations": 1, "passages": 2, "vectors": 2,
        "sessions": 1, "entries": 1, "turns": 1, "contents": 1,
    }  # fmt: skip
    assert set(bag.scoped(org="acme").erase().values()) == {0}
    bag.scoped(org="acme").add("begins anew")
    assert [hit.memory.text for hit in bag.scoped(org="acme").search("anew")] == ["begins anew"]
    assert [check for check in bag.checks() if check.state == "failed"] == []


def test_nothing_that_was_said_lingers_in_a_file(path: Path):
    with satchel.open(path) as bag:
        bag.add("of another org")
        fill(bag.scoped(org="acme"))
        assert SECRET.encode() in b"".join(file.read_bytes() for file in path.parent.iterdir())
        bag.scoped(org="acme").erase()
        assert SECRET.encode() not in b"".join(file.read_bytes() for file in path.parent.iterdir())


def test_only_a_whole_org_is_erased_and_not_half_of_a_transaction(bag: Satchel):
    bag.add("stays")
    with pytest.raises(InputError, match="narrower"):
        bag.scoped(project="p").erase()
    with pytest.raises(StoreError, match="inside a transaction"), bag.transaction():
        bag.erase()
    assert bag.stats().memories == 1


def test_the_async_twin_erases_too(location: Path | str):
    async def erased() -> int:
        async with await satchel.aopen(location) as bag:
            await bag.add("goes")
            return int((await bag.erase())["memories"])

    assert asyncio.run(erased()) == 1
