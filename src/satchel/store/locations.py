"""Open a store by its location: a file, `:memory:`, or the URL of a PostgreSQL database."""

import contextlib
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from satchel.errors import InputError
from satchel.model.patterns import lazy_pattern

if TYPE_CHECKING:
    from satchel.store.postgres.connection import Address
    from satchel.store.postgres.replica import ReplicaStatus
    from satchel.store.postgres.schema import Status
    from satchel.store.store import Store

__all__ = [
    "DEFAULT_FILE",
    "DEFAULT_STORE",
    "default_location",
    "default_replica",
    "distribute_server",
    "index_left",
    "index_server",
    "is_address",
    "newest_schema",
    "open_store",
    "prepare_server",
    "replica_status",
    "restore_store",
    "secrets_in",
    "server_status",
    "shown_location",
    "user_data_file",
]


# Anything that was meant as a URL, even a malformed one: it may contain a password, and is not a file name.
_ADDRESS = lazy_pattern(r"://|^\s*postgres(?:ql)?\s*:|(?:^|\s)password\s*=", re.IGNORECASE)


class _DefaultStore(os.PathLike[str]):
    """Stands for the default store. None does not: a setting that is missing must not open it by accident."""

    def __fspath__(self) -> str:
        return default_location()

    def __repr__(self) -> str:
        return "DEFAULT_STORE"


DEFAULT_STORE = _DefaultStore()
DEFAULT_FILE = "satchel.db"


def default_location(*, create: bool = False) -> str:
    """Return the location that is used if none is given: $SATCHEL_DB, then a file in the user data directory.

    With `create`, the folder of that file is made; a folder that $SATCHEL_DB names is not.
    """
    if named := os.environ.get("SATCHEL_DB"):
        return named
    file = user_data_file()
    if create:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return str(file)


def default_replica() -> str | None:
    """Return the replica for reads of the store that $SATCHEL_DB names, which is $SATCHEL_READ_DB; None without."""
    return (os.environ.get("SATCHEL_READ_DB") or None) if os.environ.get("SATCHEL_DB") else None


def user_data_file() -> Path:
    """Return the path of the default store in the user data directory of this system."""
    from platformdirs import user_data_path

    return user_data_path("satchel", appauthor=False) / DEFAULT_FILE


def is_address(location: str) -> bool:
    """Return whether a location is a URL of a server, not a file."""
    return _ADDRESS.search(location) is not None


def shown_location(location: str) -> str:
    """Return a location for display, without the password of a URL."""
    return _parsed(location).shown if is_address(location) else location


def secrets_in(location: str) -> tuple[str, ...]:
    """Return the parts of a location that must not be printed."""
    return _parsed(location).secrets if is_address(location) else ()


def open_store(
    location: str, *, read_location: str | None = None, create: bool = True, unbound: bool = False
) -> "Store":
    """Open the store at a location: a file, ":memory:", or the URL of a PostgreSQL database.

    `read_location` is the URL of a streaming replica, which answers reads whenever it is up to date.
    With `unbound`, a server may be entered by a login that sees all orgs, for reading them: statements still name
    their org, but row-level security does not check it.
    """
    if read_location is not None and not (is_address(location) and is_address(read_location)):
        raise InputError(
            "reads are answered by a replica of a server: give both as postgresql://…, or only the store itself"
        )
    if is_address(location):
        with _needing_psycopg():
            from satchel.store.postgres.store import PostgresStore
        return PostgresStore(location, read_location=read_location, create=create, unbound=unbound)
    from satchel.store.sqlite.store import SqliteStore

    return SqliteStore(location, create=create)


def restore_store(backup: Path, location: str, *, replace: bool = False) -> Path | None:
    """Restore a backup to a location. Returns the path where the old store was kept, if there was one."""
    from satchel.store.sqlite.migrations import restore

    if location == ":memory:":
        raise InputError("a backup is restored to a file, not to ':memory:'")
    if is_address(location):
        raise InputError("a backup is restored to a file; `satchel migrate` copies that to a server")
    return restore(backup, location, replace=replace)


def server_status(url: str) -> "Status":
    """Return the status of a server. Changes nothing."""
    address = _parsed(url)
    from satchel.store.postgres.schema import status

    return status(address)


def replica_status(url: str, read_url: str) -> "ReplicaStatus":
    """Return the status of a replica of a server. Refuses what is no replica of it."""
    address, read_address = _parsed(url), _parsed(read_url)
    from satchel.store.postgres.replica import replica_status as status

    return status(address, read_address)


def prepare_server(url: str, *, grant: Sequence[str] = (), dry_run: bool = False) -> list[str]:
    """Create or upgrade the store on a server. Returns what was done, or would be done with `dry_run`."""
    address = _parsed(url)
    from satchel.store.postgres.schema import prepare

    return prepare(address, grant=grant, dry_run=dry_run)


def distribute_server(url: str, *, dry_run: bool = False) -> list[str]:
    """Distribute the store over a Citus cluster. Returns what was done, or would be done with `dry_run`."""
    address = _parsed(url)
    from satchel.store.postgres.schema import distribute

    return distribute(address, dry_run=dry_run)


def index_server(url: str, *, dry_run: bool = False) -> list[str]:
    """Create indexes for large tenants and drop unused ones. Returns what was done, or would be done."""
    address = _parsed(url)
    from satchel.store.postgres.search import index_large_tenants

    return index_large_tenants(address, dry_run=dry_run)


def index_left(location: str, org: str) -> bool:
    """Return whether a server still has an index whose definition names an org that was erased."""
    if not is_address(location):
        return False
    address = _parsed(location)
    from satchel.store.postgres.search import index_is_left

    return index_is_left(address, org)


def newest_schema() -> int:
    """Return the schema version that this release uses on a server."""
    with _needing_psycopg():
        from satchel.store.postgres.schema import SCHEMA_VERSION
    return SCHEMA_VERSION


def _parsed(url: str) -> "Address":
    with _needing_psycopg():
        from satchel.store.postgres.connection import parse_address
    return parse_address(url)


def _needing_psycopg() -> contextlib.AbstractContextManager[None]:
    # Imported here: servers load this module before they answer their client.
    from satchel.model.extras import needs_extra

    return needs_extra("postgres", "a store on a server", raises=InputError)
