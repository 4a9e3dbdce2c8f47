"""The health of a tenant's part of a store: what `doctor` looks at, and what it can mend."""

from satchel.store.contract import Check
from satchel.store.postgres.address import Address
from satchel.store.postgres.connection import PostgresConnection

__all__ = ["checks", "repair"]


def checks(db: PostgresConnection, address: Address) -> list[Check]:
    return []


def repair(db: PostgresConnection) -> list[str]:
    return []
