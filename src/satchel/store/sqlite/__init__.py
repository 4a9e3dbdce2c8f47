"""The embedded store: SQLite through APSW, which brings its own current SQLite."""

from satchel.store.sqlite.store import SqliteStore, restore

__all__ = ["SqliteStore", "restore"]
