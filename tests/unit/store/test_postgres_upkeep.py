"""What `doctor` finds in a PostgreSQL store, and what it repairs."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

import satchel
from in_step import Letters
from pg_server import Server
from satchel.store.locations import prepare_server

pytestmark = pytest.mark.usefixtures("all_matches")

Raw = psycopg.Connection[Any]


@pytest.fixture(scope="module")
def url(pg: Server) -> Iterator[str]:
    """One for all: what a test has broken is mended when it ends."""
    made = pg.new_database()
    yield made
    pg.drop(made)


@pytest.fixture(scope="module")
def bag(url: str) -> Iterator[satchel.Satchel]:
    """Two tenants, of whom the second is never touched."""
    with satchel.open(url, embedder=Letters()) as store:
        ours = store.scoped(org="alpha")
        for org in (ours, store.scoped(org="beta")):
            org.add("pears and apples grow here", title="Fruit", tags=["Garden"])
            org.add("the second one, about plums; " * 200)
            org.add("a third\0 with a NUL", tags=["x"])
        yield ours


@pytest.fixture(scope="module")
def owner(url: str, bag: satchel.Satchel) -> Iterator[Raw]:
    with psycopg.connect(url, autocommit=True) as raw:
        raw.execute("SET search_path = satchel, public")
        yield raw


def _states(bag: satchel.Satchel) -> dict[str, str]:
    return {check.name: check.state for check in bag.checks()}


def test_all_is_well_with_a_store_that_nobody_touched(bag: satchel.Satchel) -> None:
    assert set(_states(bag).values()) == {"ok"}
    assert bag.repair() == []


ALPHA = "org = 'alpha'"
BROKEN = {
    "a text was changed": ("search index", f"UPDATE memory SET text = 'figs' WHERE {ALPHA} AND title = 'Fruit'"),
    "words are gone": ("search index", f"UPDATE memory SET words = '' WHERE {ALPHA}"),
    "a length is wrong": ("search index", f"UPDATE memory SET length = length + 1 WHERE {ALPHA}"),
    "tags differ": ("search index", f"UPDATE memory SET tag_keys = '{{other}}' WHERE {ALPHA} AND title = 'Fruit'"),
    "a term is counted twice": ("search index", f"UPDATE word SET docs = docs + 1 WHERE {ALPHA}"),
    "a term is not counted": ("search index", f"DELETE FROM word WHERE {ALPHA}"),
    "a term is left over": ("search index", "INSERT INTO word VALUES ('alpha', 'ghost', 3)"),
    "memories are miscounted": ("search index", f"UPDATE tenant SET memories = 7 WHERE {ALPHA}"),
    "words are miscounted": ("search index", f"UPDATE tenant SET words = 7 WHERE {ALPHA}"),
    "passages are gone": ("passages", f"DELETE FROM passage WHERE {ALPHA}"),
    "the last passage is gone": ("passages", f"DELETE FROM passage WHERE {ALPHA} AND place > 0"),
    "a passage is cut short": ("passages", f"UPDATE passage SET stop = stop - 1 WHERE {ALPHA}"),
    "a vector is gone": ("vectors", f"DELETE FROM passage_vector WHERE {ALPHA} AND place = 0"),
    "a vector is too short": ("vectors", f"UPDATE passage_vector SET vector = 'x' WHERE {ALPHA}"),
    "a code is too short": ("vectors", f"UPDATE passage_vector SET code = '1' WHERE {ALPHA} AND place = 0"),
    "vectors are of nobody": ("vectors", f"UPDATE passage_vector SET generation = 9 WHERE {ALPHA} AND place = 0"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_what_is_out_of_step_is_seen_and_mended(bag: satchel.Satchel, owner: Raw, what: str) -> None:
    name, statement = BROKEN[what]
    assert owner.execute(statement.encode()).rowcount > 0
    found = _states(bag)
    assert found[name] == "failed"
    done = bag.repair()
    assert done
    bag.catch_up()
    assert set(_states(bag).values()) == {"ok"}
    assert bag.search("plums")[0].memory.text.startswith("the second one")
    assert bag.repair() == []
    rows = owner.execute("SELECT docs FROM word WHERE org = 'beta' AND term = 'ghost'").fetchall()
    assert rows == []


def test_places_in_the_backlog_of_a_store_without_vectors_are_taken_out(url: str, owner: Raw) -> None:
    with satchel.open(url, embedder="none") as bag:
        bag.add("one")
        owner.execute("INSERT INTO backlog SELECT org, seq FROM memory WHERE org = 'default'")
        assert _states(bag)["vectors"] == "failed"
        assert bag.repair() != []
        assert set(_states(bag).values()) == {"ok"}


def test_memories_that_wait_for_their_vectors_are_a_warning(bag: satchel.Satchel, owner: Raw) -> None:
    owner.execute(f"DELETE FROM passage_vector WHERE {ALPHA}".encode())
    bag.repair()
    assert _states(bag)["vectors"] == "warning"
    bag.catch_up()


@pytest.mark.parametrize(
    ("name", "state", "statement", "back"),
    [
        ("row-level security", "failed", "ALTER TABLE usage DISABLE ROW LEVEL SECURITY", None),
        ("row-level security", "failed", "DROP POLICY tenant ON turn", None),
        (
            "row-level security",
            "warning",
            "CREATE POLICY more ON memory USING (true)",
            "DROP POLICY more ON memory",
        ),
        (
            "pgvector version",
            "failed",
            "UPDATE pg_extension SET extversion = '0.6.2' WHERE extname = 'vector'",
            "UPDATE pg_extension SET extversion = '0.8.0' WHERE extname = 'vector'",
        ),
        (
            "pgvector version",
            "failed",
            "UPDATE pg_extension SET extname = 'other' WHERE extname = 'vector'",
            "UPDATE pg_extension SET extname = 'vector' WHERE extname = 'other'",
        ),
        (
            "schema version",
            "failed",
            "INSERT INTO migration (number, name) VALUES (99, 'newer')",
            "DELETE FROM migration WHERE number = 99",
        ),
        (
            "indexes",
            "warning",
            "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'memory_time'::regclass",
            "REINDEX INDEX memory_time",
        ),
    ],
)
def test_what_only_the_owner_can_mend_is_said(
    bag: satchel.Satchel, owner: Raw, url: str, name: str, state: str, statement: str, back: str | None
) -> None:
    """What was taken away from the policies comes back by `satchel db init`."""
    owner.execute(statement.encode())
    assert _states(bag)[name] == state
    assert bag.repair() == []
    if back is None:
        prepare_server(url)
    else:
        owner.execute(back.encode())
    assert _states(bag)[name] == "ok"
