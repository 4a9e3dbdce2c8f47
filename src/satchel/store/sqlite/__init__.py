"""The embedded store: SQLite through APSW, which brings its own current SQLite."""

from satchel.store.sqlite.place import restore
from satchel.store.sqlite.store import SqliteStore

__all__ = ["SqliteStore", "restore"]
