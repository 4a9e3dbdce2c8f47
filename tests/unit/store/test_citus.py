"""A store on a Citus cluster: each statement goes to one node, and a node that ends takes only its tenants with it.

`SATCHEL_TEST_CITUS` names the cluster: see tests/citus_cluster.py. The contract runs on it too.
"""

import re
from typing import Any

import named_statements
import psycopg
import pytest

from citus_cluster import Cluster
from satchel.model.filters import Filter
from satchel.model.memory import Scope
from satchel.store.postgres.connection import _COLUMNS, DIALECT, STATEMENTS
from tables import each_row

NARROW = Filter(scope=Scope(org="acme", project="p"), kinds=("fact",), tags=("t",), metadata=('"pr":12',))
# Reads the tenants of all nodes, for the owner only.
OF_ALL_TENANTS = {"orgs"}
# Reads no table.
OF_NO_TABLE = {"whereabouts", "index_ready"}


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
