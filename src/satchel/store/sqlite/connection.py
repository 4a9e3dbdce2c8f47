"""SQLite files and connections: checked before they are opened, copied, and with errors translated."""

import contextlib
import errno
import os
import random
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import apsw

from satchel.errors import (
    InputError,
    StoreBusyError,
    StoreError,
    StoreFormatError,
    StoreFullError,
    StoreReadOnlyError,
    StoreVersionError,
)
from satchel.model.memory import Memory
from satchel.store.database import ROWS_AT_ONCE, Dialect, Statements, in_slices, insert_of
from satchel.store.partial_file import partial_file
from satchel.store.rows import COLUMNS, READ_COLUMNS, json_array, json_names, memory_row, text_key
from satchel.store.sqlite.header import APPLICATION_ID, MAGIC, first_bytes, parse_header
from satchel.store.sqlite.vectors import SqliteVectors, signs
from satchel.text.terms import segment

__all__ = [
    "BUSY_SECONDS",
    "PRAGMAS",
    "STATEMENTS",
    "SqliteConnection",
    "connect",
    "copy_into",
    "copy_to_new_file",
    "create_file",
    "file_errors",
    "flush_log",
    "keep_log_by_hand",
    "reading_errors",
    "refuse_foreign",
    "refuse_newer",
    "refuse_strange_file",
    "trust",
    "use_wal",
    "waiting_at_most",
    "write_transaction",
]


BUSY_SECONDS = 60.0
# Run on every connection in this order, after the busy handler is set.
PRAGMAS = (
    "PRAGMA synchronous = FULL",
    "PRAGMA foreign_keys = ON",
    "PRAGMA secure_delete = ON",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA cache_size = -32768",
    "PRAGMA journal_size_limit = 67108864",
)


_INDEX_COLUMNS = ("title_index", "tags_index", "text_index", "text_key")

DIALECT = Dialect(
    unindexed="+",
    listed="{alias}.id IN (SELECT value FROM json_each({value}))",
    tagged="EXISTS (SELECT 1 FROM memory_tag t WHERE t.tag = {value} AND t.seq = {alias}.seq)",
    contains="instr({alias}.metadata, {value}) > 0",
    named=":{name}",
    numbered="?{number}",
)
STATEMENTS = Statements(
    Path(__file__).with_name("sql"),
    {
        # Uses by subqueries: a left join took ten times as long to look up one memory.
        "columns": f"{READ_COLUMNS}, (SELECT u.count FROM usage u WHERE u.seq = m.seq), "
        "(SELECT u.last_at FROM usage u WHERE u.seq = m.seq)",
        # Weights of title, text and tags.
        "weights": "4.0, 1.0, 2.0",
        "names": ", ".join((*COLUMNS, *_INDEX_COLUMNS)),
    },
    DIALECT,
)


class SqliteConnection(apsw.Connection):
    """A connection with Satchel's statements. Triggers update the index of words and tags."""

    dialect = DIALECT
    scrubbing = False
    """Whether the transaction has purged data that must not remain in any file."""
    log_pages = 0
    """How many pages the write-ahead log had after the last commit of this connection."""

    @cached_property
    def vectors(self) -> SqliteVectors:
        return SqliteVectors(self)

    def statement(self, name: str, **parts: str) -> str:
        return STATEMENTS.statement(name, **parts)

    def executemany(self, statements: str, sequenceofbindings: Iterable[Any], **options: Any) -> Any:
        """Run a statement for each of many values. Many rows with named values are inserted by few statements.

        That takes less time, and a thread that computes meanwhile is not interrupted for each row.
        """
        rows = list(sequenceofbindings)
        if len(rows) == 1:
            self.execute(statements, rows[0])
            return None
        insert = insert_of(statements, DIALECT) if rows else None
        if insert is None:
            return super().executemany(statements, rows, **options) if rows else None
        for some in in_slices(rows):
            self.execute(insert.of(len(some)), insert.values(some))
        return None

    def memory_rows(self, numbers: Sequence[int]) -> list[tuple[Any, ...]]:
        return self.execute(self.statement("memories_by_seq"), {"numbers": json_array(numbers)}).fetchall()

    def insert_memories(self, rows: Sequence[tuple[Any, ...]]) -> None:
        for some in in_slices(rows):
            sql = self.statement("insert_memories", values=_places(len(some[0]), len(some)))
            self.execute(sql, [value for row in some for value in row])

    def together(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def columns(self) -> Sequence[str]:
        return (*COLUMNS, *_INDEX_COLUMNS)

    def row(self, memory: Memory) -> tuple[Any, ...]:
        """Return the columns of a memory, with segmented text for scripts without spaces, and the text's hash."""
        title = segment(memory.title) if memory.title else None
        tags = segment(json_names(memory.tags)) if memory.tags else None
        return (*memory_row(memory), title, tags, segment(memory.text), text_key(memory))

    def words_come(self, memories: Sequence[Memory]) -> None: ...

    def words_go(self, seqs: Sequence[int]) -> None: ...

    def log_changes(self, changed: Iterable[int | str]) -> None: ...

    def see_all_orgs(self) -> None: ...

    def scrub(self) -> None:
        """Empty the write-ahead log after the commit: it would keep purged data. See `SqliteStore.writing`."""
        self.scrubbing = True


@lru_cache(maxsize=2 * len(ROWS_AT_ONCE))
def _places(width: int, rows: int) -> str:
    """Return placeholders for many rows. Named ones would take longer than the insert itself."""
    return ", ".join([f"({', '.join(['?'] * width)})"] * rows)


def create_file(path: Path) -> None:
    """Create an empty file that only its owner can read, unless it exists."""
    with file_errors(str(path)), contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, stat.S_IRUSR | stat.S_IWUSR))


def connect(location: str, *, readonly: bool = False) -> SqliteConnection:
    """Open a connection with Satchel's settings. This neither creates nor changes a file."""
    access = apsw.SQLITE_OPEN_READONLY if readonly else apsw.SQLITE_OPEN_READWRITE
    with reading_errors(location):
        connection = SqliteConnection(location, flags=access | apsw.SQLITE_OPEN_NOMUTEX)
        try:
            be_patient(connection)
            connection.create_scalar_function("signs", signs, 1, deterministic=True)  # type: ignore[arg-type]
            # Until the file is known to be a store, closing it must not checkpoint its log.
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            for pragma in PRAGMAS:
                connection.execute(pragma)
        except BaseException:
            connection.close()
            raise
    return connection


def trust(connection: apsw.Connection) -> None:
    """Allow a checkpoint on close, once the file is known to be a store."""
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)


def keep_log_by_hand(connection: SqliteConnection) -> None:
    """Let commits return before they are on disk, for a caller who then calls `flush_log`.

    SQLite's own flush happens under the write lock, where all other writers wait for the disk.
    """
    connection.execute("PRAGMA synchronous = NORMAL")
    # Instead of the hook that makes automatic checkpoints; see `_shorten_log`.
    connection.set_wal_hook(_note_log_pages)


def _note_log_pages(connection: apsw.Connection, database: str, pages: int) -> int:
    connection.log_pages = pages  # type: ignore[attr-defined]
    return apsw.SQLITE_OK


def flush_log(log: str) -> None:
    """Wait until all transactions that were committed to a log so far are on disk. A store in memory has none."""
    if not log:
        return
    try:
        handle = os.open(log, os.O_RDWR)
        try:
            _flush(handle)
        finally:
            os.close(handle)
    except FileNotFoundError:
        # Another thread has closed the store: its log is in the file, and on disk.
        return
    except OSError as error:
        raise StoreError(
            f"{log.removesuffix('-wal')}: written, but the system could not confirm that it is on disk "
            f"({_reason(error)}); a power cut may lose it"
        ) from error


# Without the times of the file, where the system can leave them out.
_flush = getattr(os, "fdatasync", os.fsync)


def be_patient(connection: apsw.Connection, seconds: float | None = None) -> None:
    """Set how long the connection waits for a lock; a minute by default."""
    connection.set_busy_handler(_Patience(BUSY_SECONDS if seconds is None else seconds).wait)


@contextlib.contextmanager
def waiting_at_most(connection: apsw.Connection, seconds: float) -> Iterator[None]:
    """Wait for locks only this long, for work that can be done later."""
    be_patient(connection, seconds)
    try:
        yield
    finally:
        be_patient(connection)


def use_wal(connection: apsw.Connection) -> None:
    """Switch a file to write-ahead logging. SQLite does not call the busy handler here, so this retries."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            mode = connection.execute("PRAGMA journal_mode = WAL").get
            if mode not in ("wal", "memory"):
                raise StoreError(f"{connection.filename} cannot be switched to WAL; its mode is {mode}")
            return
        except apsw.BusyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(random.uniform(0.001, 0.02))


class write_transaction:  # noqa: N801 (used like a function)
    """Open a write transaction, or a savepoint inside another transaction."""

    __slots__ = ("_connection", "_nested")

    def __init__(self, connection: SqliteConnection) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        self._nested = self._connection.in_transaction
        # Taking the write lock at the start, a transaction cannot fail later because of it.
        self._connection.execute("SAVEPOINT part" if self._nested else "BEGIN IMMEDIATE")

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            if error is None:
                self._connection.execute("RELEASE part" if self._nested else "COMMIT")
        except BaseException:
            self._roll_back()
            raise
        if error is not None:
            self._roll_back()
        elif not self._nested:
            _shorten_log(self._connection)

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK TO part; RELEASE part" if self._nested else "ROLLBACK")


def _shorten_log(connection: SqliteConnection) -> None:
    """Copy a long log into the file, so that the next write begins the log anew.

    The first step copies without the write lock, as SQLite's automatic checkpoints do. If other processes write
    meanwhile, the log is not copied completely, and with these alone it would grow as long as they write. So the
    second step takes the lock, if nobody has it, and copies the rest.
    """
    if connection.log_pages < LONGEST_LOG:
        return
    # The write itself is committed, so nothing that goes wrong here makes it a failure.
    with waiting_at_most(connection, 0), contextlib.suppress(apsw.Error):
        connection.wal_checkpoint("main", apsw.SQLITE_CHECKPOINT_PASSIVE)
        connection.wal_checkpoint("main", apsw.SQLITE_CHECKPOINT_FULL)


class reading_errors:  # noqa: N801 (used like a function)
    """Convert errors of the driver into a `StoreError` that says what to do."""

    # Not a generator: every read and write enters this.
    __slots__ = ("_location",)

    def __init__(self, location: str) -> None:
        self._location = location

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, apsw.Error):
            raise _store_error(self._location, error) from error


def _store_error(location: str, error: apsw.Error) -> StoreError:
    match error:
        case apsw.BusyError():
            return StoreBusyError(f"{location} was locked by other processes for {BUSY_SECONDS:.0f} s; try again")
        case apsw.ReadOnlyError():
            return StoreReadOnlyError(
                f"{location} can only be read; make the file and its folder writable to store memories"
            )
        case apsw.FullError():
            return _full(location)
        case apsw.IOError():
            # A full disk can also show as an I/O error when the index of the log grows. Not all errors have a code.
            full = getattr(error, "extendedresult", 0) == apsw.SQLITE_IOERR_SHMSIZE
            return _full(location) if full else StoreError(f"{location}: {_reason(error)}")
        case apsw.NotADBError() | apsw.CorruptError():
            return StoreFormatError(
                f"{location} is damaged or not a Satchel store ({_reason(error)}); it was not changed: "
                "restore a backup, or give another file"
            )
        case apsw.CantOpenError():
            return StoreError(f"cannot open {location}: {_why_not(location)}")
    return StoreError(f"{location}: {_reason(error)}")


@contextlib.contextmanager
def file_errors(location: str) -> Iterator[None]:
    """Convert errors of the operating system about a file into a `StoreError`."""
    try:
        yield
    except PermissionError as error:
        raise StoreError(f"cannot open {location}: {_why_not(location)}") from error
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise _full(location) from error
        raise StoreError(f"{location}: {_reason(error)}") from error


def _full(location: str) -> StoreFullError:
    return StoreFullError(f"no room left for {location}: nothing was written; free some disk space and try again")


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error).partition(": ")[2] or str(error) or type(error).__name__


def _why_not(location: str) -> str:
    path = Path(location)
    if path.is_dir():
        return "it is a folder, not a file"
    if not path.parent.is_dir():
        return f"the folder {path.parent} does not exist"
    if not path.exists():
        return "there is no such file"
    return "no permission to read it, or to write beside it"


# Pages. A write that leaves a longer log copies it into the file.
LONGEST_LOG = 1000
# Seconds. Who has waited for long looks less often than who has just begun. So the same process often writes
# several times in a row, while it still has the pages of the file in memory.
SHORTEST_NAP = 0.0008
LONGEST_NAP = 0.025


class _Patience:
    """Busy handler that waits for a lock in random intervals, each about as long as the wait so far."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.since = 0.0

    def wait(self, attempts: int) -> bool:
        now = time.monotonic()
        if attempts == 0:
            self.since = now
        waited = now - self.since
        if waited >= self.seconds:
            return False
        time.sleep(random.uniform(0.5, 1) * max(SHORTEST_NAP, min(waited, LONGEST_NAP)))
        return True


# Checks of a file before SQLite opens it.
#
# A file that is not a store must not be changed, so its header is read first.


_SMALLEST_PAGE = 512


def refuse_strange_file(path: Path, *, newest: int) -> None:
    """Raise an error if a file cannot be a store of a known version. It may be missing."""
    location = str(path)
    # Look at the log first: a new store writes its first page before it has a log.
    log = Path(f"{path}-wal")
    logged = log.exists() and log.stat().st_size > 0
    with file_errors(location):
        content = first_bytes(path)
        size = path.stat().st_size if path.exists() else 0
    if not content:
        if logged:
            raise _damaged(location, "it is empty, but its log is not")
        return
    if size < _SMALLEST_PAGE or not content.startswith(MAGIC):
        raise _damaged(location, "it does not begin as a database does")
    header = parse_header(content)
    refuse_foreign(location, header.application_id, header.user_version, header.schema_cookie)
    if header.application_id == APPLICATION_ID:
        refuse_newer(location, header.user_version, newest=newest)
    # Some pages may be only in the log, or in the journal of a copy into this file that was killed.
    complete = size >= header.pages * header.page_size and size % header.page_size == 0
    if not complete and not logged and not Path(f"{path}-journal").exists():
        raise _damaged(location, "its end is missing")


def refuse_foreign(location: str, application_id: int, version: int, has_schema: int) -> None:
    """Raise an error for a database of another program: ours has its application id from the first table on."""
    if application_id != APPLICATION_ID and (application_id or version or has_schema):
        raise StoreFormatError(
            f"{location} is the database of another program; it was not changed: give another file"
        )


def refuse_newer(location: str, version: int, *, newest: int) -> None:
    if version > newest:
        raise StoreVersionError(
            f"{location} was made by a newer Satchel (schema {version}, this one knows {newest}); "
            "it was not changed: upgrade Satchel"
        )


def _damaged(location: str, reason: str) -> StoreFormatError:
    return StoreFormatError(
        f"{location} is damaged or not a Satchel store ({reason}); it was not changed: "
        "restore a backup, or give another file"
    )


# Copies of a store, made from one snapshot while others write.


def copy_to_new_file(source: apsw.Connection, target: Path) -> int:
    """Copy a database to a new file. The file appears complete or not at all."""
    _refuse_existing(target)
    if not target.parent.is_dir():
        raise InputError(f"the folder {target.parent} does not exist; make it first")
    with contextlib.ExitStack() as stack:
        with file_errors(str(target)):
            partial = stack.enter_context(partial_file(target.parent))
        with contextlib.closing(connect(str(partial))) as copy:
            trust(copy)
            copy_into(source, copy)
            with reading_errors(str(target)):
                # A single file without a log, which can be moved.
                copy.execute("PRAGMA journal_mode = DELETE")
        _refuse_existing(target)
        with file_errors(str(target)):
            _sync(partial)
            partial.rename(target)
            _sync(target.parent)
            return target.stat().st_size


def copy_into(source: apsw.Connection, target: apsw.Connection) -> None:
    """Replace the whole content of a database by that of another, in one transaction."""
    with reading_errors(target.filename), target.backup("main", source, "main") as backup:
        # All pages in one step: with several steps, a busy writer could make it start over again and again.
        backup.step()


def _refuse_existing(target: Path) -> None:
    if target.exists():
        raise InputError(f"{target} exists already; give another name or move it away")


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
