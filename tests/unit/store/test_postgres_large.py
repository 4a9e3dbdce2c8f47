"""Large tenants: their vectors get their own index, with results close to those of an exact scan."""

import random
from functools import partial

import psycopg
import pytest

import satchel
from conftest import Cli
from satchel import Draft, Scope
from satchel.embed.embedder import resolve_embedder
from satchel.model.filters import Filter
from satchel.recall.indexer import packed
from satchel.store.postgres import search
from satchel.store.postgres.connection import PostgresConnection, parse_address

WORDS = """
boat harbor rain cloud token budget server memory apple pear river stone music paint winter summer doctor teacher
train engine forest mountain bread cheese letter window garden market school bridge
"""
EVERYTHING = Filter(scope=Scope(org="large"))


@pytest.fixture
def large(pg_url: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(search, "LARGE_TENANT", 100)
    chance = random.Random(5)
    with satchel.open(pg_url) as bag:
        view = bag.scoped(org="large")
        view.add_many(Draft(", ".join(chance.choices(WORDS.split(), k=12))) for _ in range(300))
        bag.scoped(org="small").add("a boat in the harbor")
        yield view


def code(text: str) -> bytes:
    return packed(resolve_embedder("static").embed([text]))[0][1]


def test_only_large_tenants_are_indexed_and_only_once(large: satchel.Satchel, pg_url: str):
    address = parse_address(pg_url)
    assert search.index_large_tenants(address, least=100, dry_run=True) == ["indexed the 300 vectors of 'large'"]
    assert search.index_large_tenants(address, least=100) == ["indexed the 300 vectors of 'large'"]
    assert search.index_large_tenants(address, least=100) == []


def test_the_index_brings_nearly_all_that_a_comparison_with_all_brings(
    large: satchel.Satchel, pg_url: str, monkeypatch
):
    questions = ["a boat in the harbor", "bread and cheese", "the doctor of the school"]
    exact = [large._store.nearest(EVERYTHING, code(each), limit=20) for each in questions]
    search.index_large_tenants(parse_address(pg_url), least=100)
    asked = []
    execute = PostgresConnection.execute
    monkeypatch.setattr(
        PostgresConnection, "execute", lambda self, *given: (asked.append(given[0]), execute(self, *given))[1]
    )
    found = [large._store.nearest(EVERYTHING, code(each), limit=20) for each in questions]
    assert sum("::bit(256)" in sql for sql in asked) >= len(questions)
    # Which of several at the same distance come last is anybody's choice, and the index may miss a few.
    for one, other in zip(exact, found, strict=True):
        assert one[0].score == other[0].score
        assert len({match.key for match in one} & {match.key for match in other}) >= 17


def test_the_plan_takes_the_index(large: satchel.Satchel, pg_url: str):
    search.index_large_tenants(parse_address(pg_url), least=100)
    with large._store._snapshot("large") as db:
        current = db.vectors.generation()
        sql = db.statement("nearest_by_index", bits="256", tenant=db.literal("large"), **current.parts)
        plan = "\n".join(row[0] for row in db.execute(f"EXPLAIN {sql}", {"code": "1" * 256, "limit": 5}))
    assert search.index_name("large", current.number) in plan


@pytest.mark.parametrize(
    "org", ["who?", "me@org.example", "100%", "%(org)s", ":org", "a'b\\", "{x}", "a\ufdd0b", "名前"]
)
def test_a_large_tenant_may_have_any_name(pg_url: str, monkeypatch: pytest.MonkeyPatch, org: str):
    monkeypatch.setattr(search, "LARGE_TENANT", 10)
    with satchel.open(pg_url) as bag:
        view = bag.scoped(org=org)
        kept = view.add_many(Draft(f"{word} and {word}") for word in WORDS.split())
        search.index_large_tenants(parse_address(pg_url), least=10)
        with view._store._snapshot(org) as db:
            current = db.vectors.generation()
            assert search.index_is_ready(db, org, current)
            sql = db.statement("nearest_by_index", bits="256", tenant=db.literal(org), **current.parts)
            plan = "\n".join(row[0] for row in db.execute(f"EXPLAIN {sql}", {"code": "1" * 256, "limit": 5}))
        assert search.index_name(org, current.number) in plan
        found = view._store.nearest(Filter(scope=Scope(org=org)), code("boat and boat"), limit=5)
        assert view._store.memories([found[0].key])[found[0].key].id == kept[0].id


def test_what_is_no_longer_valid_is_left_out_though_the_index_has_it(large: satchel.Satchel, pg_url: str):
    search.index_large_tenants(parse_address(pg_url), least=100)
    nearest = large._store.nearest(EVERYTHING, code("apple and pear"), limit=3)
    gone = large._store.memories([match.key for match in nearest])
    large.forget([memory.id for memory in gone.values()], purge=True)
    again = large._store.nearest(EVERYTHING, code("apple and pear"), limit=3)
    assert not {match.key for match in again} & {match.key for match in nearest}


def test_a_login_that_is_bound_to_tenants_makes_no_index(large: satchel.Satchel, pg_url: str):
    with psycopg.connect(pg_url, autocommit=True) as raw:
        raw.execute("DROP ROLE IF EXISTS satchel_test_reader")
        raw.execute("CREATE ROLE satchel_test_reader LOGIN IN ROLE satchel_app")
    url = pg_url.replace("postgres@", "satchel_test_reader@", 1)
    with pytest.raises(satchel.errors.StoreError, match="sees only the tenant"):
        search.index_large_tenants(parse_address(url))


def test_an_index_goes_when_its_vectors_or_its_tenant_are_gone(large: satchel.Satchel, pg_url: str, cli: Cli):
    address = parse_address(pg_url)
    index = partial(search.index_large_tenants, address, least=100)
    index()
    made = "indexed the 300 vectors of 'large'"
    dropped = "dropped an index that no tenant needs: "
    large.reembed()
    assert index() == [made, dropped + search.index_name("large", 1)]
    assert not search.index_is_left(address, "small")
    done = cli("forget", "--db", pg_url, "--org", "large", "--purge", "--yes")
    assert "ask the owner to run `satchel db index`" in done.stderr
    left = [dropped + search.index_name("large", 2)]
    assert [index(dry_run=True), index(), index()] == [left, left, []]
    assert not search.index_is_left(address, "large")
