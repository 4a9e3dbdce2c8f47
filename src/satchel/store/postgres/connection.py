"""Addresses of servers, connections with transactions for one tenant, and translation of errors."""

import contextlib
import logging
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import msgspec
import psycopg
from psycopg import errors, sql
from psycopg.abc import Buffer
from psycopg.adapt import Dumper, Loader
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import Format, PipelineStatus, TransactionStatus
from psycopg.types.json import Json
from psycopg.types.numeric import Int8BinaryDumper, Int8Dumper

from satchel.errors import (
    InputError,
    StoreBusyError,
    StoreError,
    StoreFullError,
    StoreReadOnlyError,
    StoreUnreachableError,
)
from satchel.model.memory import Memory
from satchel.model.patterns import lazy_pattern
from satchel.store.contract import Embedding
from satchel.store.database import Dialect, Generation, Insert, Statements, VectorTables, in_slices, insert_of
from satchel.store.postgres.terms import SIGN, IndexedTerms, Tally, index_entry, tag_keys
from satchel.store.rows import COLUMNS, READ_COLUMNS, memory_row, spell_nul

__all__ = [
    "STATEMENTS",
    "Access",
    "Address",
    "PostgresConnection",
    "PostgresVectors",
    "bits",
    "connect",
    "parse_address",
    "reading_errors",
]


SCHEMES = ("postgresql", "postgres")
_FORM = "postgresql://USER@HOST:PORT/DATABASE"
_SCHEME = lazy_pattern(r"[a-z][a-z0-9+-]{0,14}", re.IGNORECASE)
# A password in the wrong field.
_ASTRAY = lazy_pattern(r"pass(?:word|wd|code)?\s*[=:]", re.IGNORECASE)
# Options that are shown beside user, host and database: not secret, and needed to reach the server.
_REPEATED = (
    *("hostaddr", "service", "target_session_attrs", "load_balance_hosts", "passfile", "require_auth"),
    *("sslmode", "sslnegotiation", "sslrootcert", "sslcert", "sslkey", "sslcrl", "sslcrldir", "channel_binding"),
    *("gssencmode", "krbsrvname"),
)
_SECRET = ("password", "sslpassword")


class Address(NamedTuple):
    """The address of a database."""

    conninfo: str
    shown: str
    """The address without the password, for display and logs. It can be used as an address."""
    secrets: tuple[str, ...] = ()
    """Texts that must never be printed."""

    def __repr__(self) -> str:
        return f"<Address {self.shown}>"


def parse_address(url: str) -> Address:
    """Parse a URL. Errors do not quote it, because any part of a malformed URL may be a password."""
    scheme, _, rest = url.partition("://")
    if scheme not in SCHEMES:
        what = f"stores at {scheme}:// are not known; " if _SCHEME.fullmatch(scheme) and rest else ""
        raise InputError(f"{what}a store is a file, ':memory:' or {_FORM}")
    wrong = InputError(
        f"that is no address of a PostgreSQL database: write it as {_FORM}, "
        "with signs such as @ : / ? # % in the password percent-encoded"
    )
    place = rest.partition("/")[0].partition("?")[0]
    # With an unescaped @ or / in a password, libpq would take its rest for a host and print it.
    if place.count("@") > 1 or ("@" in rest and "@" not in place):
        raise wrong
    try:
        told = {name: str(value) for name, value in conninfo_to_dict(url).items()}
    except (psycopg.ProgrammingError, UnicodeError):
        raise wrong from None
    ports = [port for port in told.get("port", "").split(",") if port]
    open_fields = [value for name, value in told.items() if name not in _SECRET]
    if not all(map(_is_port, ports)) or any(map(_ASTRAY.search, open_fields)):
        raise wrong
    secrets = {value for name in _SECRET if (value := told.get(name))}
    return Address(url, _shown(told), tuple(sorted(secrets | {quote(value, safe="") for value in secrets})))


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and 0 < int(text[:6]) < 1 << 16


def _shown(told: dict[str, Any]) -> str:
    user, host, port = (told.get(name, "") for name in ("user", "host", "port"))
    at = f"{quote(user, safe='')}@" if user else ""
    hosts, ports = host.split(","), port.split(",")
    options = {name: told[name] for name in _REPEATED if told.get(name)}
    if any(each.startswith(("/", "@")) for each in hosts) or (not host and port):
        where = ""
        options = {"host": host, "port": port} | options
    elif len(ports) == len(hosts):
        where = ",".join(
            f"{_host(one)}:{other}" if other else _host(one) for one, other in zip(hosts, ports, strict=True)
        )
    else:
        where = ",".join(f"{_host(one)}:{port}" for one in hosts)
    asked = urlencode({name: value for name, value in options.items() if value}, safe="/,")
    return f"postgresql://{at}{where}/{quote(told.get('dbname', ''), safe='')}{'?' if asked else ''}{asked}"


def _host(name: str) -> str:
    return f"[{name}]" if ":" in name else quote(name, safe="")


# Vectors. All generations are in one table.


def bits(code: bytes) -> str:
    """Return a code as a PostgreSQL bit string."""
    return f"{int.from_bytes(code, 'big'):0{8 * len(code)}b}" if code else ""


class PostgresVectors(VectorTables):
    """Vectors in one table. Foreign keys delete them with their passages."""

    _db: "PostgresConnection"

    def generation(self, state: str = "current") -> Generation | None:
        known: dict[str, Generation | None] | None = self._db.generations
        if known is None:
            return super().generation(state)
        if state not in known:
            known[state] = super().generation(state)
        return known[state]

    def create(self, embedding: Embedding, *, state: str) -> Generation:
        number = self._db.execute(self._db.statement("next_generation")).get
        values = {"generation": number, **embedding._asdict(), "state": state}
        self._db.execute(self._db.statement("insert_generation"), values)
        return Generation(number, *embedding)

    def drop(self, found: Generation) -> None:
        self._db.execute(self._db.statement("delete_vectors", **found.parts))
        self._db.execute(self._db.statement("delete_generation"), {"generation": found.number})

    def write(self, to: Generation, passages: Sequence[tuple[int, bytes, bytes]]) -> None:
        sql = self._db.statement("write_vector", **to.parts)
        rows = [{"number": number, "vector": vector, "code": bits(code)} for number, vector, code in passages]
        self._db.executemany(sql, rows)

    def delete(self, found: Generation, passages: Sequence[tuple[int]]) -> None:
        rows = [{"number": number} for (number,) in passages]
        self._db.executemany(self._db.statement("delete_vector", **found.parts), rows)

    def passages_went(self) -> None: ...


# Connections.


CONNECT_SECONDS = 10
LOCK_SECONDS = 60
# A statement is prepared when it is executed this often on a connection.
PREPARE_AFTER = 5
# How many changes of a tenant are kept; whoever is further behind reads everything again.
CHANGES_KEPT = 1_024
CHANGES_BETWEEN_TRIMS = 256
_SPELT = lazy_pattern("\ufdd0[01]")
_PLAIN = sql.SQL("ISOLATION LEVEL READ COMMITTED")
# JIT costs more than it saves here, and no query reads all tenants.
_PLANNING = (
    sql.Composed([sql.SQL("SET LOCAL jit TO off")]),
    sql.Composed([sql.SQL("SET LOCAL enable_seqscan TO off")]),
)
_SNAPSHOT = sql.SQL("ISOLATION LEVEL REPEATABLE READ READ ONLY")

# Unquoted, `user` is the name of the login.
_COLUMNS = (*('"user"' if name == "user" else name for name in COLUMNS), "tag_keys", "words", "length")
_THREAD = (
    "replace(json_build_array('{kind}', m.project, m.user, m.agent, m.{kind})::text, U&'\\FDD0' || '0', '\\u0000')"
)
DIALECT = Dialect(
    unindexed="",
    listed="{alias}.id = ANY (ARRAY(SELECT json_array_elements_text({value}::json)))",
    tagged='lower({value} COLLATE "C") = ANY ({alias}.tag_keys)',
    contains="strpos({alias}.metadata, {value}) > 0",
    named="%({name})s",
    numbered="${number}",
)
STATEMENTS = Statements(
    Path(__file__).with_name("sql"),
    {
        # :org and not m.org, here and in every subquery: so Citus sends a statement to one node.
        "columns": f"{READ_COLUMNS}, (SELECT u.count FROM usage u WHERE u.org = %(org)s AND u.seq = m.seq), "
        "(SELECT u.last_at FROM usage u WHERE u.org = %(org)s AND u.seq = m.seq)",
        "read_columns": READ_COLUMNS,
        "names": ", ".join(_COLUMNS),
        "sign": str(SIGN),
        # JSON escapes NUL, so the text can be decoded before it is unescaped.
        "thread_of_session": _THREAD.format(kind="session"),
        "thread_of_source": _THREAD.format(kind="source"),
    },
    DIALECT,
)


class Access(NamedTuple):
    """The settings at the beginning of every transaction."""

    schema: str
    role: str | None
    """The role to set; None if row-level security applies to the login itself."""
    extensions: str
    """The schema of pgvector."""
    distributed: bool = False
    """Whether the tables are distributed by Citus, which needs one statement for each setting."""
    prepares: bool = False
    """Whether statements are prepared. Behind a pooler, the next transaction may run where they are not known."""


class _Text(Dumper):
    """Sends text without a type, so that the server infers it."""

    def dump(self, obj: str) -> Buffer | None:
        return spell_nul(obj).encode()


class _TextLoader(Loader):
    format = Format.BINARY

    def load(self, data: Buffer) -> str:
        text = str(data, "utf-8")
        return (
            _SPELT.sub(lambda found: "\0" if found[0][1] == "0" else "\ufdd0", text) if "\ufdd0" in text else text
        )


class _WrittenLoader(_TextLoader):
    """The same for the text format, which is used for statements without parameters."""

    format = Format.TEXT


# psycopg also logs errors that it raises.
logging.getLogger("psycopg").addFilter(lambda record: not str(record.msg).startswith("error ignored"))


class Rows:
    """The result of a statement."""

    def __init__(self, cursor: "psycopg.Cursor[Any] | psycopg.RawCursor[Any]") -> None:
        self._cursor = cursor

    @property
    def get(self) -> Any:
        row = self._cursor.fetchone()
        return row[0] if row is not None and len(row) == 1 else row

    def fetchone(self) -> Any:
        return self._cursor.fetchone()

    def fetchall(self) -> list[Any]:
        return self._cursor.fetchall()

    def __iter__(self) -> Iterator[Any]:
        # Fetching all rows at once is several times as fast.
        return iter(self._cursor.fetchall())


class PostgresConnection:
    """A connection with Satchel's statements. Every transaction is bound to one tenant."""

    dialect = DIALECT

    def __init__(self, raw: "psycopg.Connection[Any]", access: Access, shown: str) -> None:
        raw.prepare_threshold = PREPARE_AFTER if access.prepares else None
        self.raw = raw
        self.org: str | None = None
        self.access = access
        self.shown = shown
        """The address, for errors."""
        self.fresh = True
        """Whether this is its first transaction."""
        self._cursor: psycopg.Cursor[Any] | psycopg.RawCursor[Any] | None = None
        self._held: set[str] = set()
        self._entries: dict[str, IndexedTerms] = {}
        self._tallies: dict[str, Tally] = {}
        self._changed: dict[str, set[int | str]] = {}
        self.generations: dict[str, Generation | None] | None = None
        """The generations that were read in a snapshot, in which they cannot change; None in other transactions."""

    @cached_property
    def vectors(self) -> PostgresVectors:
        return PostgresVectors(self)

    @property
    def distributed(self) -> bool:
        return self.access.distributed

    @property
    def lost(self) -> bool:
        return self.raw.closed or self.raw.broken

    @property
    def has_written(self) -> bool:
        """Whether the transaction may have written something."""
        return bool(self._held)

    @property
    def idle(self) -> bool:
        """Whether the connection can be reused: not in a transaction, nothing pending."""
        return (
            not self.lost
            and self.raw.info.transaction_status == TransactionStatus.IDLE
            and self.raw.info.pipeline_status == PipelineStatus.OFF
        )

    @property
    def failed(self) -> bool:
        """Whether the transaction has failed and can only be rolled back."""
        return self.raw.info.transaction_status in (TransactionStatus.INERROR, TransactionStatus.UNKNOWN)

    def begin(self, org: str | None = None, *, snapshot: bool = False, lock_seconds: float = LOCK_SECONDS) -> None:
        """Begin a transaction, for a tenant or none yet. All settings are local, as connection poolers require."""
        words = self._beginning(org, snapshot=snapshot, lock_seconds=lock_seconds)
        if self.access.distributed:
            # Citus passes a setting on by the text of its statement, so each needs a statement of its own.
            with self.raw.pipeline():
                for statement in words:
                    self.raw.execute(statement)
        else:
            self.raw.execute(sql.SQL("; ").join(words))
        self._has_begun(org, snapshot=snapshot)

    def begin_with_mark(self, org: str) -> int | None:
        """Begin to read one state of a tenant, and return its mark; None if there is no such tenant."""
        words = self._beginning(org, snapshot=True)
        mark = self._only_row(*words, _MARK.format(sql.Identifier(self.access.schema), org))
        self._has_begun(org, snapshot=True)
        return mark

    def mark(self, org: str) -> int | None:
        """Return the mark of a tenant now, with one round trip; None if there is no such tenant."""
        begin, settings = sql.SQL("BEGIN READ ONLY"), [*self._role(), _binding(org)]
        asked = _MARK.format(sql.Identifier(self.access.schema), org)
        return self._only_row(begin, *settings, asked, sql.SQL("COMMIT"))

    def _only_row(self, *statements: sql.SQL | sql.Composed) -> int | None:
        """Run statements with one round trip, and return the number that one of them brings."""
        cursor = self.raw.execute(sql.SQL("; ").join(statements))
        while cursor.description is None:
            assert cursor.nextset()
        row = cursor.fetchone()
        return None if row is None else int(row[0])

    def _beginning(
        self, org: str | None, *, snapshot: bool, lock_seconds: float = LOCK_SECONDS
    ) -> list[sql.SQL | sql.Composed]:
        # pg_catalog first, so that nobody can replace its functions.
        path = sql.SQL(", ").join(
            sql.Identifier(name)
            for name in dict.fromkeys(("pg_catalog", self.access.schema, self.access.extensions))
        )
        return [
            sql.SQL("BEGIN {}").format(_SNAPSHOT if snapshot else _PLAIN),
            sql.SQL("SET LOCAL search_path TO {}").format(path),
            sql.SQL("SET LOCAL lock_timeout TO {}").format(max(1, round(1000 * lock_seconds))),
            *_PLANNING,
            *self._role(),
            *([] if org is None else [_binding(org)]),
        ]

    def _role(self) -> list[sql.SQL | sql.Composed]:
        role = self.access.role
        return [] if role is None else [sql.SQL("SET LOCAL ROLE {}").format(sql.Identifier(role))]

    def _has_begun(self, org: str | None, *, snapshot: bool) -> None:
        self.org = org
        self._forget()
        self.generations = {} if snapshot else None

    def _forget(self) -> None:
        """Reset the state of the last transaction."""
        self._held, self._entries, self._tallies, self._changed = set(), {}, {}, {}

    def bind(self, org: str) -> None:
        """Bind the rest of the transaction to a tenant: it sees no other."""
        if org != self.org:
            self.raw.execute(_binding(org))
            self.org = org

    def hold(self) -> None:
        """Lock the tenant for writing until the transaction ends."""
        if self.org in self._held or self.org is None:
            return
        # From the system, because forked processes must not draw the same marks.
        mark = {"mark": secrets.randbits(63)}
        while self.execute(self.statement("hold_tenant"), mark).fetchone() is None:
            self.execute(self.statement("new_tenant"))
        self._held.add(self.org)

    @contextlib.contextmanager
    def part(self) -> Iterator[None]:
        """Open a savepoint, which is rolled back alone if it fails."""
        held, tallies = set(self._held), {org: tally.copied() for org, tally in self._tallies.items()}
        self.raw.execute("SAVEPOINT part")
        try:
            yield
        except BaseException:
            if not self.lost:
                self.raw.execute("ROLLBACK TO part; RELEASE part")
                # The rollback also undoes settings, locks and counts.
                self.org, self._held, self._tallies = None, held, tallies
            raise
        self.raw.execute("RELEASE part")

    def end(self, how: str) -> None:
        self.raw.execute(how)
        self.org = None

    def close(self) -> None:
        self.raw.close()

    def statement(self, name: str, **parts: str) -> str:
        return STATEMENTS.statement(name, **parts)

    def execute(self, statements: str, bindings: Mapping[str, Any] | Sequence[Any] | None = None) -> Rows:
        """Run a statement with named values, where `org` is the tenant; a sequence is for numbered parameters."""
        cursor: psycopg.Cursor[Any] | psycopg.RawCursor[Any]
        values: Any
        if isinstance(bindings, Sequence):
            cursor, values = psycopg.RawCursor(self.raw), bindings
        else:
            cursor, values = psycopg.Cursor(self.raw), self._values(bindings or {})
        self._cursor = cursor
        cursor.execute(statements, values, binary=True)
        return Rows(cursor)

    def executemany(self, statements: str, sequenceofbindings: Iterable[Mapping[str, Any]]) -> None:
        """Run a statement for each of many values. Many rows are inserted by few statements."""
        rows = [self._values(row) for row in sequenceofbindings]
        insert = insert_of(statements, DIALECT) if len(rows) > 1 else None
        if insert is None:
            if rows:
                psycopg.Cursor(self.raw).executemany(statements, rows)
            return
        from_json = _insert_from_json(insert)
        for some in in_slices(rows):
            if from_json is None or len(some) == 1:
                self.execute(insert.of(len(some)), insert.values(some))
            else:
                self.execute(from_json, {"rows": _as_json(some, insert.names)})

    def memory_rows(self, numbers: Sequence[int]) -> list[tuple[Any, ...]]:
        values = {"numbers": list(numbers)}
        with self.raw.pipeline():
            rows = self.execute(self.statement("memories_by_seq"), values)
            uses = self.execute(self.statement("uses_by_seq"), values)
        used = {seq: (count, last) for seq, count, last in uses}
        return [(*row[:-1], *used.get(row[-1], (None, None)), row[-1]) for row in rows]

    def insert_memories(self, rows: Sequence[tuple[Any, ...]]) -> None:
        named = [dict(zip(_NEW_MEMORY, row, strict=True)) for row in rows]
        self.executemany(self.statement("insert_memories", values=f"({DIALECT.values(_NEW_MEMORY)})"), named)

    def _values(self, given: Mapping[str, Any]) -> dict[str, Any]:
        values = {name: _numbers(value) if type(value) is list else value for name, value in given.items()}
        return {"org": self.org, **values}

    def literal(self, text: str) -> str:
        """Return a text as an SQL literal without characters that the driver interprets."""
        return "U&'" + "".join(f"\\+{ord(sign):06x}" for sign in spell_nul(text)) + "'"

    def changes(self) -> int:
        return 0 if self._cursor is None else self._cursor.rowcount

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        with self.raw.pipeline():
            yield

    def columns(self) -> Sequence[str]:
        return _COLUMNS

    def row(self, memory: Memory) -> tuple[Any, ...]:
        entry = self._entries[memory.id] = index_entry(memory)
        return (*memory_row(memory), tag_keys(memory), entry.vector, entry.length)

    def words_come(self, memories: Sequence[Memory]) -> None:
        for memory in memories:
            entry = self._entries.pop(memory.id)
            self._tally.count(entry.terms, entry.length)

    def words_go(self, seqs: Sequence[int]) -> None:
        for length, terms in self.execute(self.statement("words_of"), {"numbers": list(seqs)}):
            self._tally.count(terms, length, sign=-1)

    def log_changes(self, changed: Iterable[int | str]) -> None:
        # A savepoint that is rolled back may leave memories here that have not changed, which does no harm.
        self._changed.setdefault(self.org or "", set()).update(changed)

    def _write_changes(self) -> None:
        for org in sorted(self._changed):
            changed = self._changed.pop(org)
            if not changed:
                continue
            self.bind(org)
            number = self.execute(self.statement("count_change")).get
            if number is None:
                # The tenant was erased.
                continue
            ids = [each for each in changed if isinstance(each, str)]
            numbers = {each for each in changed if isinstance(each, int)}
            if ids:
                numbers |= {row[0] for row in self.execute(self.statement("numbers_of_ids"), {"ids": ids})}
            self.execute(self.statement("insert_change"), {"number": number, "numbers": sorted(numbers)})
            if number % CHANGES_BETWEEN_TRIMS == 0:
                self.execute(self.statement("trim_changes"), {"number": number - CHANGES_KEPT})

    def see_all_orgs(self) -> None:
        """Act as the login itself. If policies apply to it too, reading is an error and not an empty result."""
        for setting in ("SET LOCAL ROLE NONE", "SET LOCAL row_security TO off"):
            self.raw.execute(setting)

    def scrub(self) -> None:
        """Nothing to do: later transactions cannot see deleted rows."""

    def settle(self) -> None:
        """Write the changes of word counts: before the transaction ends, and before counts are read."""
        bound = self.org
        for org in sorted(self._tallies):
            tally = self._tallies.pop(org)
            self.bind(org)
            if changes := tally.changes:
                terms, counts = map(list, zip(*changes, strict=True))
                self.execute(self.statement("count_terms"), {"terms": terms, "counts": counts})
                if fewer := [term for term, change in changes if change < 0]:
                    self.execute(self.statement("drop_terms"), {"terms": fewer})
            counted = {"memories": tally.memories, "words": tally.words}
            self.execute(self.statement("count_words"), counted)
        self._write_changes()
        if bound is not None:
            self.bind(bound)

    @property
    def _tally(self) -> Tally:
        assert self.org is not None
        return self._tallies.setdefault(self.org, Tally())


# Many memories, passages and vectors are passed as one JSON text. A VALUES list has a parameter for each value, and
# Citus writes all of them into a new statement for the node. Not history: for a table with an identity column Citus
# would collect the rows and copy them to the node, which row-level security forbids.

_NEW_MEMORY = ("seq", *(name.strip('"') for name in _COLUMNS))
_BIGINTS = (
    "seq", "valid_from", "invalid_at", "at", "created_at", "updated_at", "revision", "tokens", "length",
    "confirmations", "confirmed_at",
)  # fmt: skip
_RECORD_TYPES = {
    **dict.fromkeys(_NEW_MEMORY, "text"),
    **dict.fromkeys(_BIGINTS, "bigint"),
    **dict.fromkeys(("start", "stop", "flags"), "integer"),
    **dict.fromkeys(("importance", "confidence"), "float8"),
    **dict.fromkeys(("codes", "vector"), "bytea"),
    # Their statements have a cast, which says the type.
    **dict.fromkeys(("number", "memory", "code"), ""),
    "pinned": "smallint",
    "tag_keys": "text[]",
    "words": "tsvector",
}
_CAST = lazy_pattern(r"::(\w+)")


@lru_cache(maxsize=64)
def _insert_from_json(insert: Insert) -> str | None:
    """Return a statement that inserts the rows of a JSON array; None if the type of a value is not known.

    The org comes from a table: so Citus sends the statement to its node and does not collect the rows itself.
    """
    if not _RECORD_TYPES.keys() >= {*insert.names} or "org" not in insert.names:
        return None
    values, types = insert.between[0].removeprefix("("), {}
    for name, after in zip(insert.names, insert.between[1:], strict=True):
        cast = _CAST.match(after)
        types[f'"{name}"'] = cast[1] if cast else _RECORD_TYPES[name]
        values += ("o.org" if name == "org" else f'r."{name}"') + after
    fields = ", ".join(f"{name} {kind}" for name, kind in types.items())
    return (
        f"{insert.head.removesuffix('VALUES ')}SELECT {values.removesuffix(')')} "
        f"FROM tenant o CROSS JOIN json_to_recordset(%(rows)s::json) r({fields}) WHERE o.org = %(org)s{insert.tail}"
    )


def _as_json(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Json:
    """Return rows as a JSON array. Bytes become text that PostgreSQL reads as bytes."""
    binary = [name for name in names if isinstance(rows[0][name], bytes)]
    if binary:
        rows = [{**row, **{name: rf"\x{row[name].hex()}" for name in binary}} for row in rows]
    content = msgspec.json.encode(rows)
    if _NUL_IN_JSON in content or _SPELT_IN_JSON in content:
        content = msgspec.json.encode([{name: _spelt(row[name]) for name in names} for row in rows])
    return Json(content, dumps=bytes)


_NUL_IN_JSON, _SPELT_IN_JSON = rb"\u0000", "\ufdd0".encode()


def _spelt(value: Any) -> Any:
    if isinstance(value, str):
        return spell_nul(value)
    return [_spelt(each) for each in value] if isinstance(value, list) else value


def _numbers(values: list[Any]) -> Any:
    """Encode integers as array text, ten times as fast as the driver. Other lists are left to the driver."""
    if values and type(values[0]) is int:
        return f"{{{','.join(map(str, values))}}}"
    return values


_MARK = sql.SQL("SELECT mark FROM {}.tenant WHERE org = {}")


def _binding(org: str) -> sql.Composed:
    return sql.SQL("SET LOCAL satchel.org TO {}").format(org)


# A server whose machine is gone says nothing. Without these, a write would wait for it a quarter of an hour.
_GIVE_UP = {"keepalives_idle": 15, "keepalives_interval": 5, "keepalives_count": 3, "tcp_user_timeout": 30_000}


def connect(address: Address, access: Access, *, connect_timeout: int = CONNECT_SECONDS) -> PostgresConnection:
    with reading_errors(address.shown):
        # Settings of the address take precedence.
        said = conninfo_to_dict(address.conninfo)
        ours: dict[str, Any] = {"connect_timeout": connect_timeout, "application_name": "satchel", **_GIVE_UP}
        ours = {name: value for name, value in ours.items() if name not in said}
        raw = psycopg.connect(address.conninfo, autocommit=True, client_encoding="utf8", **ours)
    # One type for all integers, so that a statement is prepared once. The text format is for lists.
    raw.adapters.register_dumper(int, Int8Dumper)
    raw.adapters.register_dumper(int, Int8BinaryDumper)
    raw.adapters.register_dumper(str, _Text)
    raw.adapters.register_loader("text", _TextLoader)
    raw.adapters.register_loader("text", _WrittenLoader)
    return PostgresConnection(raw, access, address.shown)


@contextlib.contextmanager
def reading_errors(shown: str) -> Iterator[None]:
    """Convert errors of the driver into a `StoreError` that says what to do, without passwords."""
    try:
        yield
    except (
        errors.LockNotAvailable,
        errors.DeadlockDetected,
        errors.SerializationFailure,
        errors.QueryCanceled,
        errors.TooManyConnections,
    ) as error:
        raise StoreBusyError(f"{shown}: {_reason(error)}; nothing was written, try again") from error
    except errors.ReadOnlySqlTransaction as error:
        raise StoreReadOnlyError(f"{shown} can only be read; name the server that takes writes") from error
    except errors.InsufficientPrivilege as error:
        raise StoreReadOnlyError(f"{shown}: {_reason(error)}; ask its owner to run `satchel db init`") from error
    except (errors.DiskFull, errors.InsufficientResources) as error:
        node = _node(error)
        where = shown if node is None else f"{shown}: the node {node[0]} of the cluster"
        raise StoreFullError(f"{where}: {_reason(error)}; nothing was written, free some disk space") from error
    except errors.ProgramLimitExceeded as error:
        raise InputError(
            f"{_reason(error)}: a name is too long for PostgreSQL's indexes; use shorter names for orgs, projects, "
            "sessions and sources"
        ) from error
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        if (node := _node(error)) is not None:
            raise StoreUnreachableError(
                f"{shown}: the node {node[0]} of the cluster does not answer: {node[1]}; tenants on other nodes "
                "are not affected"
            ) from error
        if (problem := _problem(str(error))) is not None:
            raise StoreError(f"{shown} {problem}") from error
        refusal = _reason(error).partition("FATAL: ")[2]
        if any(sign in refusal for sign in ("authentication", "does not exist", "no pg_hba.conf entry")):
            raise StoreError(
                f"{shown} refuses: {refusal.strip()}; check the login, the database and, for passwords, ~/.pgpass"
            ) from error
        raise StoreUnreachableError(f"{shown} does not answer: {_reason(error)}") from error
    except psycopg.Error as error:
        raise StoreError(f"{shown}: {_reason(error)}") from error


_UNSAFE = "cannot be reached safely"
# What is wrong with TLS and passwords, as libpq and PgBouncer say it, and what to do. Trying again does not help.
_PROBLEMS = (
    (
        lazy_pattern(r"certificate verify failed"),
        _UNSAFE,
        "sslrootcert must name the authority that signed the server's certificate",
    ),
    (
        lazy_pattern(r'server certificate for [^\n]* does not match host name "[^"]*"'),
        _UNSAFE,
        "use a host name of the certificate in the address",
    ),
    (
        lazy_pattern(r'root certificate file "[^"]*" does not exist|could not read root certificate file[^\n]*'),
        _UNSAFE,
        "name the certificate of the authority by sslrootcert=FILE, or sslrootcert=system for those of the system",
    ),
    (
        lazy_pattern(r"server does not support SSL"),
        _UNSAFE,
        "set up TLS on the server; only on a network that you trust leave sslmode out",
    ),
    (
        lazy_pattern(r"alert certificate required|alert unknown ca|alert handshake failure|alert bad certificate"),
        _UNSAFE,
        "sslcert and sslkey must name a client certificate that the server accepts, and its key",
    ),
    (
        lazy_pattern(
            r'private key file "[^"]*" has group or world access|'
            r"certificate present, but not private key file[^\n]*"
            r"|could not (?:load private key|read certificate) file[^\n]*",
        ),
        _UNSAFE,
        "sslcert and sslkey must name a certificate and its key, which only its owner may read",
    ),
    (lazy_pattern(r"SSL required"), "refuses", "add sslmode=verify-full and sslrootcert=FILE to the address"),
    (
        lazy_pattern(r"no password supplied"),
        "refuses",
        "put the password into ~/.pgpass (or passfile=FILE), which only its owner may read, or into PGPASSWORD",
    ),
    (
        lazy_pattern(r'definition of service "[^"]*" not found|service file "[^"]*" not found'),
        "cannot be found",
        "write the service into ~/.pg_service.conf, or name its file in PGSERVICEFILE",
    ),
    (lazy_pattern(r'invalid \w+ value: "[^"]*"'), "is no usable address", "correct this option of it"),
)


def _problem(message: str) -> str | None:
    """Return what is wrong and what to do if a connection cannot be made like this; None if it may be next time."""
    for pattern, what, advice in _PROBLEMS:
        if found := pattern.search(message):
            return f"{what}: {found[0]}; {advice}"
    return None


# Citus names the node in its message, or in the context of an error that the node itself reported.
_NODE = lazy_pattern(r"remote node (?:[^@ ]*@)?(\S+:\d+) failed(?: with the following error)?:? ?(.*)", re.DOTALL)
_ON_NODE = lazy_pattern(r"while executing command on (\S+:\d+)")


def _node(error: psycopg.Error) -> tuple[str, str] | None:
    """Return which node of a cluster an error is about, and what was wrong; None if it is about no single node."""
    if found := _NODE.search(error.diag.message_primary or ""):
        return found[1], found[2].partition("\n")[0].strip() or "the connection was lost"
    if found := _ON_NODE.search(error.diag.context or ""):
        return found[1], _reason(error)
    return None


def _reason(error: psycopg.Error) -> str:
    """Return the message of an error on one line."""
    return " ".join((error.diag.message_primary or str(error) or type(error).__name__).split())
