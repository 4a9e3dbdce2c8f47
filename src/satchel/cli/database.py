"""Commands for a PostgreSQL store: db init, db upgrade, db status, db index, db distribute."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from satchel.cli.options import json_option
from satchel.cli.output import print_json, print_rows, print_text
from satchel.cli.store_options import location, read_db_option, replica, store_options
from satchel.errors import InputError
from satchel.store.locations import (
    distribute_server,
    index_server,
    is_address,
    newest_schema,
    prepare_server,
    replica_status,
    server_status,
    shown_location,
)

if TYPE_CHECKING:
    from satchel.store.postgres.replica import ReplicaStatus
    from satchel.store.postgres.schema import Status

__all__ = ["db_command"]

dry_run_option = click.option("--dry-run", is_flag=True, help="Show what would be done, without doing it.")


@click.group("db")
def db_command() -> None:
    """Set up and maintain a PostgreSQL store (--db postgresql://…)."""


@db_command.command("init")
@click.option("--grant", metavar="LOGIN", multiple=True, help="Allow this existing login to use the store.")
@dry_run_option
@store_options
def init_command(grant: tuple[str, ...], dry_run: bool, db: str | None) -> None:
    """Create the store. This adds pgvector, the schema, the role satchel_app and its policies, if missing."""
    url = _server(db)
    _print_done(prepare_server(url, grant=grant, dry_run=dry_run), url, dry_run=dry_run)


@db_command.command("upgrade")
@dry_run_option
@store_options
def upgrade_command(dry_run: bool, db: str | None) -> None:
    """Migrate the schema of a store to the current version. Run it as the owner of the tables."""
    url = _server(db)
    due = _store_at(url).version < newest_schema()
    _print_done(prepare_server(url, dry_run=dry_run) if due else [], url, dry_run=dry_run)


@db_command.command("status")
@read_db_option
@store_options
@json_option
@click.pass_context
def status_command(ctx: click.Context, read_db: str | None, db: str | None, as_json: bool) -> None:
    """Show the server, pgvector, the schema and tenant isolation. Changes nothing.

    The exit code is 1 if the store cannot be used, or not on all nodes of a cluster.
    """
    url, read_url = _server(db), replica(db, read_db)
    found = server_status(url)
    reads = None if read_url is None else replica_status(url, read_url)
    newest = newest_schema()
    if as_json:
        facts = {"status": found, "newest": newest, "upgrade_due": found.version < newest}
        print_json(facts if reads is None else facts | {"replica": reads})
    else:
        print_text(f"{found.place}\n")
        print_rows([*_status_rows(found, newest), *([] if reads is None else [("replica", _replica(reads))])])
    if found.version != newest or not found.bound or not all(each.answers for each in found.nodes):
        ctx.exit(1)


@db_command.command("distribute")
@dry_run_option
@store_options
def distribute_command(dry_run: bool, db: str | None) -> None:
    """Distribute the tables over a Citus cluster. All rows of an org are on one node."""
    url = _server(db)
    _store_at(url)
    _print_done(distribute_server(url, dry_run=dry_run), url, dry_run=dry_run)


@db_command.command("index")
@dry_run_option
@store_options
def index_command(dry_run: bool, db: str | None) -> None:
    """Create vector indexes for large tenants. They stay usable meanwhile; unused indexes are dropped.

    Run it again as tenants grow, after `reembed`, and after a large tenant was erased.
    """
    url = _server(db)
    _store_at(url)
    _print_done(index_server(url, dry_run=dry_run), url, dry_run=dry_run)


def _store_at(url: str) -> "Status":
    found = server_status(url)
    if not found.version:
        raise InputError(f"there is no store at {found.place}; `satchel db init` creates one")
    return found


def _server(db: str | None) -> str:
    place = location(db)
    if not is_address(place):
        raise InputError("`satchel db` is for PostgreSQL stores (--db postgresql://…); a file needs no setup")
    return place


def _print_done(done: Sequence[str], url: str, *, dry_run: bool) -> None:
    if not done:
        print_text(f"nothing to do: {shown_location(url)}\n")
        return
    print_text(f"{'would be done' if dry_run else 'done'}: {shown_location(url)}\n")
    print_text("".join(f"  {line}\n" for line in done))


_DEAD = " does not answer: the tenants on it cannot be read or written"


def _replica(found: "ReplicaStatus") -> str:
    if found.is_primary:
        return f"{found.place}, which is the primary server itself"
    return f"{found.place}, {f'{found.bytes_behind:,} bytes behind' if found.bytes_behind else 'up to date'}"


def _status_rows(found: "Status", newest: int) -> list[tuple[str, str]]:
    schema = str(found.version) if found.version else "none; `satchel db init` creates it"
    if 0 < found.version < newest:
        schema += f", current is {newest}: run `satchel db upgrade`"
    elif found.version > newest:
        schema += ", created by a newer Satchel"
    acting = f"{found.login}, acting as {found.role}" if found.role else found.login
    if found.version:
        acting += (
            ": bound by row-level security"
            if found.bound
            else ": NOT bound by row-level security, so it is rejected"
        )
    tenants = "unknown; this login sees only its own" if not found.sees_all else "unknown; a node does not answer"
    if found.tenants is not None:
        tenants = f"{found.tenants:,}"
    citus = (
        f"{found.citus}, {'distributed by org' if found.distributed else 'not distributed'}"
        if found.citus
        else "no"
    )
    server = f"PostgreSQL {found.server}{', a read-only replica' if found.read_only else ''}"
    return [
        ("server", f"{server}{', through a connection pooler' if found.pooled else ''}"),
        ("pgvector", found.vector or "none"),
        ("schema", schema),
        ("login", acting),
        *([("tenants", tenants)] if found.version else []),
        ("citus", citus),
        *(("node", f"{each.address}{_DEAD if not each.answers else ' answers'}") for each in found.nodes),
    ]
