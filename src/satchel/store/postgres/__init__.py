"""The shared store: PostgreSQL with pgvector, for many tenants."""

from satchel.store.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
