"""Stores as the first version of the schema kept them: memories, and no passages or vectors."""

import contextlib
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from satchel.store.sqlite.connection import connect, create_file
from satchel.store.sqlite.migrations import MIGRATIONS, prepare

# What the second version added is left out by copying only these.
TABLES = ("memory", "relation", "history", "usage")


def make_old(source: Path, target: Path) -> None:
    """A store of the first version with all that another store holds."""
    create_file(target)
    with contextlib.closing(connect(str(target))) as db, TemporaryDirectory() as folder:
        shutil.copy(MIGRATIONS / "0001_initial.sql", folder)
        prepare(db, str(target), Path(folder))
        db.execute("ATTACH ? AS newer", (str(source),))
        for table in TABLES:
            db.execute(f"INSERT INTO main.{table} SELECT * FROM newer.{table}")
        db.execute("DETACH newer; PRAGMA journal_mode = DELETE")
