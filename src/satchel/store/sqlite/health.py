"""Health checks and repair of a SQLite store.

Only data that is derived from the memories is repaired, so nothing is lost.
"""

import os
import stat
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from satchel.store.contract import Check
from satchel.store.database import Generation
from satchel.store.index import Index, check, differing_memories, passages_check, vectors_check
from satchel.store.memories import by_number
from satchel.store.sqlite.connection import SqliteConnection, write_transaction
from satchel.store.sqlite.header import SCHEMA_VERSION
from satchel.store.sqlite.migrations import look_at_text_keys, mend_text_keys, recognise

__all__ = ["Passages", "VectorHealth", "checks", "look_at_passages", "look_at_vectors", "mend", "repair"]


class Passages(NamedTuple):
    """Problems of the passages."""

    stray: list[tuple[int]]
    """Passages of memories that are gone."""
    differing: list[int]
    """Memories whose passages do not cover their text."""


class VectorHealth(NamedTuple):
    """Problems of the vectors."""

    broken: list[Generation]
    """Generations whose tables are missing or cannot be read."""
    stray: int
    """Vectors and backlog entries without a passage or memory."""
    differing: int
    """Chunks of codes that differ from the vectors."""
    overlooked: int
    """Memories without vectors that are not in the backlog."""
    waiting: int
    """Memories in the backlog. This is not an error."""


def look_at_passages(db: SqliteConnection) -> Passages:
    stray: list[Any] = db.execute(db.statement("stray_passages")).fetchall()
    return Passages(stray, differing_memories(db, db.statement("passage_ends")))


def look_at_vectors(db: SqliteConnection) -> VectorHealth:
    broken, stray = [], len(db.execute(db.statement("stray_backlog")).fetchall())
    differing = 0
    for each in db.vectors.generations():
        try:
            stray += len(_stray_vectors(db, each))
            differing += len(db.vectors.wrong_chunks(each))
        except (apsw.SQLError, apsw.CorruptError):
            broken.append(each)
    current = db.vectors.generation()
    overlooked = 0 if current in broken else len(_overlooked(db, current))
    waiting = int(db.execute(db.statement("count_backlog")).get)
    return VectorHealth(broken, stray, differing, overlooked, waiting)


def mend(db: SqliteConnection) -> list[str]:
    """Rebuild derived data that differs from the memories, and delete stray rows. Returns what was done.

    The tables of vectors come first, because passages cannot be changed while these are broken.
    """
    vectors = look_at_vectors(db)
    for broken in vectors.broken:
        _renew(db, broken)
    passages = look_at_passages(db)
    _mend_passages(db, passages)
    _mend_vectors(db)
    db.vectors.settle()
    db.execute(db.statement("forget_changes"))
    done = []
    if concerned := len(passages.differing) + len(passages.stray):
        done.append(f"made the passages of {concerned:,} memories anew")
    if vectors.broken or vectors.stray or vectors.overlooked:
        waiting = int(db.execute(db.statement("count_backlog")).get)
        done.append(f"took out vectors that belong to nothing; {waiting:,} memories wait for theirs")
    if vectors.differing:
        done.append("made the codes of vectors anew")
    return done


def _renew(db: SqliteConnection, broken: Generation) -> None:
    current = broken == db.vectors.generation()
    db.vectors.drop(broken)
    if current:
        db.vectors.create(broken.embedding, state="current")


def _mend_passages(db: SqliteConnection, found: Passages) -> None:
    db.executemany(db.statement("delete_passage"), [{"number": number} for (number,) in found.stray])
    index = Index(db)
    for seq, memory in by_number(db, found.differing).items():
        index.remake(seq, memory)


def _mend_vectors(db: SqliteConnection) -> None:
    for each in db.vectors.generations():
        db.vectors.delete(each, _stray_vectors(db, each))
        db.vectors.empty_wrong_chunks(each)
    stray = db.execute(db.statement("stray_backlog")).fetchall()
    db.executemany(db.statement("delete_backlog"), [{"memory": memory} for (memory,) in stray])
    overlooked = _overlooked(db, db.vectors.generation())
    db.executemany(db.statement("insert_backlog"), [{"memory": memory} for (memory,) in overlooked])


def _stray_vectors(db: SqliteConnection, found: Generation) -> list[Any]:
    """Return vectors without a passage, or of the wrong size."""
    return db.execute(
        f"SELECT v.passage FROM vector_{found.number} v WHERE length(v.vector) <> ? "
        "OR NOT EXISTS (SELECT 1 FROM passage p WHERE p.seq = v.passage)",
        (found.dimensions,),
    ).fetchall()


def _overlooked(db: SqliteConnection, current: Generation | None) -> list[Any]:
    if current is None:
        return db.execute(db.statement("overlooked_memories")).fetchall()
    if not current.dimensions:
        return []
    return db.execute(db.statement("overlooked_passages", **current.parts)).fetchall()


# Checks and repair.


# SQLite 3.7.0 to 3.51.2 can lose acknowledged commits when several processes write (WAL reset).
SAFE_SQLITE = (3, 51, 3)
LARGE_WAL = 256 * 1024 * 1024
OWNER_ONLY = stat.S_IRUSR | stat.S_IWUSR


def checks(db: SqliteConnection, location: str) -> list[Check]:
    found = [_sqlite_version(), _schema(db, location)]
    if location != ":memory:":
        found += [_permissions(Path(location)), _journal(db), _wal_size(Path(location))]
    found += [_integrity(db), _foreign_keys(db), _index(db), _tags(db), _text_keys(db)]
    return [*found, _passages(db), _vectors(db)]


def repair(db: SqliteConnection, location: str) -> list[str]:
    """Repair derived data. The memories themselves are never changed. Returns what was done."""
    done = []
    if _index(db).state == "failed":
        with write_transaction(db):
            db.execute("INSERT INTO memory_fts (memory_fts) VALUES ('rebuild')")
        done.append("rebuilt the search index")
    if _tags(db).state == "failed":
        with write_transaction(db):
            db.execute("DELETE FROM memory_tag")
            db.execute(
                "INSERT OR IGNORE INTO memory_tag (tag, seq) "
                "SELECT j.value, m.seq FROM memory m, json_each(m.tags) j"
            )
        done.append("rebuilt the tag index")
    if _text_keys(db).state == "failed":
        with write_transaction(db):
            mend_text_keys(db)
        done.append("made the hashes of texts anew")
    if "failed" in (_passages(db).state, _vectors(db).state):
        with write_transaction(db):
            done += mend(db)
    if location != ":memory:":
        if _permissions(Path(location)).state != "ok":
            for path in _files(Path(location)):
                path.chmod(OWNER_ONLY)
            done.append("made the file readable by its owner only")
        if _wal_size(Path(location)).state != "ok":
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            done.append("wrote the log back into the file")
    return done


def _sqlite_version() -> Check:
    version = apsw.sqlite_lib_version()
    safe = tuple(int(part) for part in version.split(".")) >= SAFE_SQLITE
    problem = f"{version} can lose commits of several writers; upgrade apsw to 3.51.3 or newer"
    return check("sqlite version", None if safe else problem, version)


def _schema(db: SqliteConnection, location: str) -> Check:
    version = recognise(db, location)
    problem = None if version == SCHEMA_VERSION else f"{version}, {SCHEMA_VERSION} is needed"
    return check("schema version", problem, str(version))


def _permissions(location: Path) -> Check:
    if os.name != "posix":
        return check("file permissions", None, "not checked on this system")
    open_to_others = {
        path.name: stat.filemode(path.stat().st_mode)
        for path in _files(location)
        if stat.S_IMODE(path.stat().st_mode) & 0o077
    }
    listed = ", ".join(f"{name} is {mode}" for name, mode in open_to_others.items())
    problem = f"{listed}: others can read it; `chmod 600`, or `satchel doctor --fix`"
    return check("file permissions", problem if listed else None, "0600", bad="warning")


def _journal(db: SqliteConnection) -> Check:
    mode = db.pragma("journal_mode")
    problem = None if mode == "wal" else f"{mode}: readers and writers block each other"
    return check("journal mode", problem, "wal", bad="warning")


def _wal_size(location: Path) -> Check:
    wal = Path(f"{location}-wal")
    size = wal.stat().st_size if wal.exists() else 0
    problem = None
    if size > LARGE_WAL:
        problem = f"{size:,} bytes: some process keeps a read open; close it, then --fix"
    return check("wal size", problem, f"{size:,} bytes", bad="warning")


def _integrity(db: SqliteConnection) -> Check:
    try:
        found = [row[0] for row in db.execute("PRAGMA integrity_check(5)")]
    except apsw.CorruptError as error:
        found = [str(error)]
    problem = None if found == ["ok"] else "; ".join(found) + ": restore a backup"
    return check("integrity", problem, "ok")


def _foreign_keys(db: SqliteConnection) -> Check:
    broken = db.execute("PRAGMA foreign_key_check").fetchall()
    problem = f"{len(broken)} rows point at memories that are gone" if broken else None
    return check("references", problem, "ok")


def _index(db: SqliteConnection) -> Check:
    """Check the full-text index. With rank 1, FTS5 compares it with every text."""
    total = db.execute("SELECT count(*) FROM memory").get
    try:
        with write_transaction(db):
            db.execute("INSERT INTO memory_fts (memory_fts, rank) VALUES ('integrity-check', 1)")
        problem = None
    except apsw.CorruptError:
        problem = "does not match the memories; `satchel doctor --fix` rebuilds it"
    except apsw.ReadOnlyError:
        return check("search index", "not checked: the store can only be read", "", bad="warning")
    return check("search index", problem, f"in step with {total:,} memories")


def _tags(db: SqliteConnection) -> Check:
    stored = "SELECT lower(j.value), m.seq FROM memory m, json_each(m.tags) j"
    indexed = "SELECT lower(tag), seq FROM memory_tag"
    differing = db.execute(
        f"SELECT count(*) FROM (SELECT * FROM ({stored} EXCEPT {indexed}) "
        f"UNION ALL SELECT * FROM ({indexed} EXCEPT {stored}))"
    ).get
    problem = f"{differing} tags differ; `satchel doctor --fix` rebuilds it" if differing else None
    return check("tag index", problem, "in step")


def _text_keys(db: SqliteConnection) -> Check:
    """Check the hashes that find a text that is added again."""
    with db:
        differing = len(look_at_text_keys(db))
    problem = f"{differing:,} differ from the texts; `satchel doctor --fix` makes them anew" if differing else None
    return check("text hashes", problem, "in step")


def _passages(db: SqliteConnection) -> Check:
    with db:
        found = look_at_passages(db)
        total = db.execute("SELECT count(*) FROM passage").get
    return passages_check(total, differing=len(found.differing), stray=len(found.stray))


def _vectors(db: SqliteConnection) -> Check:
    with db:
        found = look_at_vectors(db)
        current, building = db.vectors.generation(), db.vectors.generation("building")
    return vectors_check(current, building, **found._asdict())


def _files(location: Path) -> list[Path]:
    paths = [location, Path(f"{location}-wal"), Path(f"{location}-shm")]
    return [path for path in paths if path.exists()]
