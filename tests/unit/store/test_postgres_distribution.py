"""The schema meets the requirements of Citus for distributed tables, and they are distributed in the right order.

No Citus runs here: its rules are read from the catalogue, and its functions are stood in for. test_citus.py needs a
cluster.
"""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from pg_server import Server
from satchel import StoreError
from satchel.store.locations import prepare_server
from satchel.store.postgres.connection import parse_address
from satchel.store.postgres.schema import distribute, spread

Raw = psycopg.Connection[Any]
# Those of the terms, each of which begins with a sign of its tenant.
BY_SIGN = {"memory_words"}


@pytest.fixture(scope="module")
def url(pg: Server) -> Iterator[str]:
    made = pg.new_database()
    prepare_server(made)
    yield made
    pg.drop(made)


@pytest.fixture
def raw(url: str) -> Iterator[Raw]:
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection


def _column(raw: Raw, statement: str) -> list[Any]:
    return [row[0] if len(row) == 1 else row for row in raw.execute(statement.encode())]


def test_every_table_has_the_same_column_to_be_distributed_by(raw: Raw) -> None:
    """Of one type and one deterministic collation; Citus puts no others side by side."""
    found = _column(
        raw,
        "SELECT c.relname, t.typname, l.collname, l.collisdeterministic, a.attnotnull, a.attgenerated::text "
        "FROM pg_class c LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'org' "
        "LEFT JOIN pg_type t ON t.oid = a.atttypid LEFT JOIN pg_collation l ON l.oid = a.attcollation "
        "WHERE c.relnamespace = 'satchel'::regnamespace AND c.relkind = 'r' AND c.relname <> 'migration'",
    )
    assert len(found) > 10
    assert {row[1:] for row in found} == {("text", "C", True, True, "")}


def test_every_key_and_unique_index_has_the_org_and_every_index_begins_with_it(raw: Raw) -> None:
    found = _column(
        raw,
        "SELECT i.relname, x.indisunique, a.attname = 'org', x.indkey[0] = a.attnum, x.indisexclusion, "
        "a.attnum = ANY (x.indkey::int2[]) FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid "
        "JOIN pg_class c ON c.oid = x.indrelid JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'org' "
        "WHERE c.relnamespace = 'satchel'::regnamespace",
    )
    assert len(found) > 20
    assert [row[0] for row in found if row[1] and not row[5]] == []
    assert [row[0] for row in found if row[4]] == []
    assert {row[0] for row in found if not row[3]} == BY_SIGN
    keyless = _column(
        raw,
        "SELECT relname FROM pg_class c WHERE relnamespace = 'satchel'::regnamespace AND relkind = 'r' "
        "AND NOT EXISTS (SELECT 1 FROM pg_index x WHERE x.indrelid = c.oid AND x.indisprimary)",
    )
    assert keyless == []


def test_every_foreign_key_leads_from_org_to_org_within_the_schema(raw: Raw) -> None:
    found = _column(
        raw,
        "SELECT k.conname, f.attname, t.attname, o.relnamespace = c.relnamespace, k.confupdtype::text, "
        "k.confdeltype::text, k.condeferrable "
        "FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid JOIN pg_class o ON o.oid = k.confrelid "
        "JOIN pg_attribute f ON f.attrelid = k.conrelid AND f.attnum = k.conkey[1] "
        "JOIN pg_attribute t ON t.attrelid = k.confrelid AND t.attnum = k.confkey[1] "
        "WHERE k.contype = 'f' AND c.relnamespace = 'satchel'::regnamespace",
    )
    assert len(found) > 5
    # Citus refuses SET NULL and SET DEFAULT, which would change the org.
    assert {row[1:] for row in found} == {("org", "org", True, "a", "c", False)}


def test_there_is_nothing_that_citus_does_not_distribute(raw: Raw) -> None:
    kinds = _column(raw, "SELECT DISTINCT relkind::text FROM pg_class WHERE relnamespace = 'satchel'::regnamespace")
    # Tables, their indexes, and the sequence of an identity.
    assert set(kinds) == {"r", "i", "S"}
    assert _column(raw, "SELECT relname FROM pg_class WHERE relispartition OR relpersistence = 'u'") == []
    triggers = (
        "SELECT tgname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid "
        "WHERE c.relnamespace = 'satchel'::regnamespace AND NOT t.tgisinternal"
    )
    assert _column(raw, triggers) == []
    rules = "SELECT rulename FROM pg_rules WHERE schemaname = 'satchel'"
    assert _column(raw, rules) == []
    inherited = "SELECT inhrelid FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid WHERE c.relkind IN ('r', 'p')"
    assert _column(raw, inherited) == []
    exclusions = (
        "SELECT conname FROM pg_constraint WHERE contype NOT IN ('p', 'u', 'f', 'c', 'n') "
        "AND connamespace = 'satchel'::regnamespace"
    )
    assert _column(raw, exclusions) == []


def test_numbers_that_count_themselves_are_identities_of_eight_bytes(raw: Raw) -> None:
    found = _column(
        raw,
        "SELECT format_type(a.atttypid, NULL) FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid "
        "WHERE c.relnamespace = 'satchel'::regnamespace AND a.attidentity <> ''",
    )
    assert found == ["bigint"]
    defaults = _column(
        raw, "SELECT column_name FROM information_schema.columns WHERE column_default LIKE 'nextval%'"
    )
    assert defaults == []


def test_policies_ask_no_other_table(raw: Raw) -> None:
    """Citus refuses subqueries in them."""
    found = _column(raw, "SELECT DISTINCT qual FROM pg_policies WHERE schemaname = 'satchel'")
    assert len(found) == 1
    assert "SELECT" not in found[0]


STANDING_IN = """
CREATE TABLE pg_dist_partition (logicalrelid regclass, partmethod text);
CREATE TABLE told (place bigint GENERATED ALWAYS AS IDENTITY, name text, by text, beside text, referring bigint);
CREATE FUNCTION create_distributed_table(t regclass, c text, colocate_with text) RETURNS void LANGUAGE sql AS $$
    INSERT INTO public.told (name, by, beside, referring) VALUES (t::text, c, colocate_with,
        (SELECT count(*) FROM pg_constraint WHERE contype = 'f' AND t IN (conrelid, confrelid)));
    INSERT INTO public.pg_dist_partition VALUES (t, 'h')
$$;
CREATE FUNCTION create_reference_table(t regclass) RETURNS void LANGUAGE sql AS $$
    INSERT INTO public.told (name, by) VALUES (t::text, 'every node');
    INSERT INTO public.pg_dist_partition VALUES (t, 'n')
$$;
CREATE TABLE pg_dist_object (objid oid, distribution_argument_index integer);
CREATE FUNCTION create_distributed_function(f regprocedure, a text, colocate_with text, force_delegation boolean)
RETURNS void LANGUAGE sql AS $$
    INSERT INTO public.told (name, by, beside) VALUES (f::text, a, colocate_with);
    INSERT INTO public.pg_dist_object SELECT f::oid, 0 WHERE force_delegation
$$;
"""
REFERENCES = (
    "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE contype = 'f' "
    "ORDER BY 1, 2"
)


def test_all_tables_are_put_beside_the_tenants_without_references_meanwhile(raw: Raw) -> None:
    raw.execute(STANDING_IN.encode())
    before = _column(raw, REFERENCES)
    with raw.transaction():
        done = spread(raw)
    told = _column(raw, "SELECT name, by, beside, referring FROM told ORDER BY place")
    tables = _column(
        raw, "SELECT tablename FROM pg_tables WHERE schemaname = 'satchel' AND tablename <> 'migration'"
    )
    assert told[0] == ("satchel.tenant", "org", "none", 0)
    assert sorted(told[1:-2]) == sorted(
        (f"satchel.{name}", "org", "satchel.tenant", 0) for name in tables if name != "tenant"
    )
    assert told[-2][:2] == ("satchel.migration", "every node")
    assert told[-1][:3] == ("satchel.matching(text,tsquery)", "tenant", "satchel.tenant")
    assert done[0] == f"distributed {len(tables)} tables by org, all beside satchel.tenant"
    assert before
    assert _column(raw, REFERENCES) == before
    assert spread(raw) == []
    setting = "SELECT setconfig FROM pg_db_role_setting s JOIN pg_database d ON d.oid = s.setdatabase "
    assert _column(raw, f"{setting} WHERE d.datname = current_database()") == [
        ["citus.propagate_set_commands=local"]
    ]


def test_without_citus_it_says_so_and_changes_nothing(url: str) -> None:
    with pytest.raises(StoreError, match="has no Citus; install it on every node"):
        distribute(parse_address(url))
