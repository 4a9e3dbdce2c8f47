"""Stores of earlier schema versions."""

import contextlib
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import sqlite_vec

from satchel.store.sqlite.connection import SqliteConnection, connect, create_file
from satchel.store.sqlite.header import MIGRATIONS
from satchel.store.sqlite.migrations import prepare

# Copying only these columns leaves out what the second version added.
TABLES = ("memory", "relation", "history", "usage")


def make_old(source: Path, target: Path) -> None:
    """Create a store of the first version with the content of another store."""
    create_file(target)
    with contextlib.closing(connect(str(target))) as db, TemporaryDirectory() as folder:
        shutil.copy(MIGRATIONS / "0001_initial.sql", folder)
        prepare(db, str(target), Path(folder))
        db.execute("ATTACH ? AS newer", (str(source),))
        for table in TABLES:
            known = ", ".join(
                row[0] for row in db.execute("SELECT name FROM pragma_table_info(?, 'main')", (table,))
            )
            db.execute(f"INSERT INTO main.{table} ({known}) SELECT {known} FROM newer.{table}")
        db.execute("DETACH newer; PRAGMA journal_mode = DELETE")


def make_unconfirmed(path: Path) -> None:
    """Convert a store to the fourth version, in which equal texts are different memories."""
    with contextlib.closing(connect(str(path))) as db:
        triggers = db.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger' AND sql LIKE '%INTO change%'")
        for (trigger,) in triggers.fetchall():
            db.execute(f"DROP TRIGGER {trigger}")
        db.execute("DROP TABLE change")
        _with_vec0(db)
        for index in ("memory_text_key", "memory_revised", "relation_time", "memory_tail", "history_unrelated"):
            db.execute(f"DROP INDEX {index}")
        for column in ("confirmations", "confirmed_at", "text_key", "tail", "metadata"):
            db.execute(f"ALTER TABLE memory DROP COLUMN {column}")
        db.pragma("user_version", 4)
        db.execute("PRAGMA journal_mode = DELETE")


def make_unchunked(path: Path) -> None:
    """Convert a store to the ninth version, in which sqlite-vec has the codes."""
    with contextlib.closing(connect(str(path))) as db:
        _with_vec0(db)
        db.pragma("user_version", 9)
        db.execute("PRAGMA journal_mode = DELETE")


def _with_vec0(db: SqliteConnection) -> None:
    db.enable_load_extension(True)
    db.load_extension(sqlite_vec.loadable_path())
    for each in db.vectors.generations():
        for happened in ("added", "changed", "removed"):
            db.execute(f"DROP TRIGGER vector_{each.number}_{happened}")
        db.execute(f"DROP TABLE code_{each.number}")
        db.execute(f"CREATE VIRTUAL TABLE code_{each.number} USING vec0 (code bit[{8 * each.code_bytes}])")
        db.execute(
            f"INSERT INTO code_{each.number} (rowid, code) "
            f"SELECT passage, vec_bit(signs(vector)) FROM vector_{each.number}"
        )
