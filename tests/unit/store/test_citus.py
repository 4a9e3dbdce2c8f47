"""A store on a Citus cluster: each statement goes to one node, and a node that ends takes only its tenants with it.

`SATCHEL_TEST_CITUS` names the cluster: see tests/citus_cluster.py. The contract runs on it too.
"""

import re
from collections.abc import Iterator
from typing import Any

import named_statements
import psycopg
import pytest

import satchel
from citus_cluster import Cluster, run
from satchel import Draft
from satchel.model.filters import Filter
from satchel.model.memory import Scope
from satchel.store.locations import prepare_server, server_status
from satchel.store.postgres import search
from satchel.store.postgres.connection import _COLUMNS, DIALECT, STATEMENTS, parse_address
from tables import each_row

NARROW = Filter(scope=Scope(org="acme", project="p"), kinds=("fact",), tags=("t",), metadata=('"pr":12',))
# Reads the tenants of all nodes, for the owner only.
OF_ALL_TENANTS = {"orgs"}
# Reads no table.
OF_NO_TABLE = {"whereabouts", "index_ready"}


@pytest.fixture(autouse=True)
def empty_afterwards(citus: Cluster) -> Iterator[None]:
    yield
    citus.empty()


@pytest.fixture(scope="module")
def raw(citus: Cluster) -> Any:
    with psycopg.connect(citus.admin(), autocommit=True) as connection:
        connection.execute("SET search_path TO satchel, public")
        yield connection


def _sample(sql: str) -> str:
    """Return a statement with a value for each parameter that its type accepts."""
    sql = re.sub(r"%\((?:where_)?org\)s", "'acme'", sql)
    sql = re.sub(r"%\(\w+\)s(?=::\w+\[\])|%\(tag_keys\)s", "'{1}'", sql)
    sql = re.sub(r"%\(\w+\)s(?=::json)", "'[1]'", sql)
    return re.sub(r"%\(\w+\)s|\$\d+", "'1'", sql)


@each_row("name", [name for name in STATEMENTS.named if name not in OF_ALL_TENANTS | OF_NO_TABLE])
def test_every_statement_goes_to_one_shard(raw: Any, name: str) -> None:
    sql = _sample(named_statements.filled(STATEMENTS, DIALECT, name, NARROW, columns=_COLUMNS))
    plan = [row[0] for row in raw.execute(f"EXPLAIN {sql}".encode())]
    counts = [line.strip() for line in plan if "Task Count" in line]
    assert counts == ["Task Count: 1"], "\n".join([sql, *plan])


def test_a_store_is_distributed_once_and_prepared_again_without_change(citus: Cluster) -> None:
    assert citus.done[0].startswith("distributed 15 tables by org")
    assert prepare_server(citus.admin()) == []
    status = server_status(citus.admin())
    assert (status.distributed, status.tenants, len(status.nodes)) == (True, 0, len(citus.workers))
    assert all(node.answers for node in status.nodes)


def test_every_node_can_be_entered_and_shows_the_same_memories(citus: Cluster) -> None:
    with satchel.open(citus.url, embedder="none") as bag:
        kept = bag.scoped(org="acme").add("we rotate the keys")
    for node in citus.workers:
        with satchel.open(citus.url_at(node), create=False) as bag:
            assert bag.scoped(org="acme").get(kept.id).text == kept.text
            assert bag.scoped(org="birch").recent() == []


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE satchel.memory SET words = '' WHERE org = 'acme'",
        "DELETE FROM satchel.word WHERE org = 'acme'",
        "DELETE FROM satchel.passage WHERE org = 'acme'",
        "UPDATE satchel.passage_vector SET generation = 9 WHERE org = 'acme'",
        "UPDATE satchel.tenant SET words = 7 WHERE org = 'acme'",
    ],
)
def test_damage_is_found_and_repaired(citus: Cluster, damage: str) -> None:
    with satchel.open(citus.url) as bag:
        view = bag.scoped(org="acme")
        view.add_many([Draft("pears and apples grow here"), Draft("the second one, about plums; " * 200)])
        assert {check.state for check in view.checks()} == {"ok"}
        run(citus.admin(), damage)
        assert "failed" in {check.state for check in view.checks()}
        assert view.repair()
        view.catch_up()
        assert {check.state for check in view.checks()} == {"ok"}


def test_the_vectors_of_a_large_tenant_are_found_by_its_index(
    citus: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "LARGE_TENANT", 100)
    address, everything = parse_address(citus.admin()), Filter(scope=Scope(org="large"))
    with satchel.open(citus.url) as bag:
        view = bag.scoped(org="large")
        view.add_many([Draft(f"the boat number {number} in harbor {number % 7}") for number in range(600)])
        with view._store._snapshot("large") as db:
            current = db.vectors.generation()
            code = bytes(current.code_bytes)
            sql = db.statement("nearest_by_index", bits="256", tenant=db.literal("large"), **current.parts)
        exact = view._store.nearest(everything, code, limit=100)
        try:
            assert search.index_large_tenants(address, least=100) == ["indexed the 600 vectors of 'large'"]
            with view._store._snapshot("large") as db:
                for setting in search._WIDER:
                    db.raw.execute(setting)
                plan = [row[0] for row in db.execute(f"EXPLAIN {sql}", {"code": "1" * 256, "limit": 140})]
                rows = db.execute(sql, {"code": "1" * 256, "limit": 140}).fetchall()
            found = view._store.nearest(everything, code, limit=100)
        finally:
            view.erase()
            done = search.index_large_tenants(address)
    name = search.index_name("large", current.number)
    assert any("Index Scan" in line and name in line for line in plan), plan
    assert len(rows) == 140
    assert len({match.key for match in exact} & {match.key for match in found}) >= 90
    assert done == [f"dropped an index that no tenant needs: {name}"]


def test_statements_that_are_sent_again_and_again_still_go_to_the_node_of_their_tenant(citus: Cluster) -> None:
    with satchel.open(citus.url) as bag:
        view = bag.scoped(org="acme")
        for batch in range(12):
            view.add_many([Draft(f"the boat number {number} of row {batch}") for number in range(40)])
            assert view.search(f"boat number 7 of row {batch}")
        assert view.stats().memories == 480


def test_words_are_looked_up_on_the_node_of_their_tenant_and_for_no_other(citus: Cluster, raw: Any) -> None:
    with satchel.open(citus.url, embedder="none") as bag:
        bag.scoped(org="acme").add("we rotate the keys")
    everything = "SELECT matching('acme', '!nothing')"
    with psycopg.connect(citus.url) as app:
        app.execute("SET search_path TO satchel, public")
        for org, found in (("acme", 1), ("birch", 0)):
            app.execute(f"SET LOCAL satchel.org TO '{org}'")
            assert len(app.execute(everything).fetchone()[0] or []) == found
            app.rollback()
            app.execute("SET search_path TO satchel, public")
