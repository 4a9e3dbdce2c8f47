"""A primary PostgreSQL and a streaming standby of it, which tests may kill, promote and start again."""

import contextlib
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg

from pg_server import PASSWORD, SETTINGS, end_with_parent, free_port, hand_over, not_root, programs, run_program

__all__ = ["Node", "Pair", "pair", "until"]

PATIENCE = 20.0


class Node:
    """One server, as a child of this process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def url(self, database: str = "postgres", options: str = "") -> str:
        return f"postgresql://postgres:{quote(PASSWORD)}@127.0.0.1:{self.port}/{database}{options}"

    def configure(self, **settings: str) -> None:
        """Set settings that apply from the next start on."""
        with (self.data / "postgresql.auto.conf").open("a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())

    def start(self) -> None:
        """Start it and wait until it answers."""
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [programs(self.folder) / "postgres", "-D", str(self.data), "-k", str(self.folder), "-p", self.port],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                preexec_fn=end_with_parent,
                **not_root(),
            )
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                self.run("SELECT 1")
            except psycopg.OperationalError:
                assert self._process.poll() is None, (self.folder / "log").read_text()
                assert time.monotonic() < deadline, (self.folder / "log").read_text()
                time.sleep(0.05)
            else:
                return

    def kill(self) -> None:
        """End it as a crash does, and wait for the end of its connections."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGINT)

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            # The processes of connections notice by themselves that their parent is gone.
            children = _children(self._process.pid)
            self._process.send_signal(how)
            self._process.wait()
            self._process = None
            until(lambda: not any(map(_is_alive, children)))

    def promote(self) -> None:
        """Make a standby a primary server."""
        run_program(self.folder, "pg_ctl", "-D", str(self.data), "-w", "-t", "60", "promote")

    def run(self, statement: str) -> Any:
        """Run a statement as the superuser, and return the first value of its result."""
        with psycopg.connect(self.url(), autocommit=True, connect_timeout=5) as raw:
            cursor = raw.execute(statement.encode())
            row = cursor.fetchone() if cursor.description else None
            return row and row[0]


class Pair:
    """A primary server and its standby."""

    def __init__(self, primary: Node, standby: Node) -> None:
        self.primary = primary
        self.standby = standby

    def both(self, database: str) -> str:
        """Return the address that leads to whichever takes writes."""
        hosts = ",".join(f"127.0.0.1:{node.port}" for node in (self.primary, self.standby))
        return f"postgresql://postgres:{quote(PASSWORD)}@{hosts}/{database}?target_session_attrs=read-write"

    def catch_up(self) -> None:
        """Wait until the standby shows what the primary has now."""
        written = self.primary.run("SELECT pg_current_wal_lsn()")
        until(lambda: self.standby.run(f"SELECT pg_last_wal_replay_lsn() >= '{written}'"))

    def pause(self) -> None:
        """Let the standby show what it shows now, whatever it receives."""
        self.catch_up()
        self.standby.run("SELECT pg_wal_replay_pause()")
        until(lambda: self.standby.run("SELECT pg_get_wal_replay_pause_state() = 'paused'"))

    def resume(self) -> None:
        self.standby.run("SELECT pg_wal_replay_resume()")
        self.catch_up()


@contextlib.contextmanager
def pair(*, synchronous: bool = False) -> Iterator[Pair]:
    """Start a primary server and a standby of it; with `synchronous`, commits wait for the standby."""
    with contextlib.ExitStack() as stack:
        primary, standby = (Node(stack.enter_context(_folder())) for _ in range(2))
        for each in (primary, standby):
            stack.callback(each.kill)
        words = primary.folder / "password"
        words.write_text(PASSWORD)
        hand_over(primary.folder)
        run_program(
            *(primary.folder, "initdb", "-D", str(primary.data), "-U", "postgres", "--pwfile", str(words)),
            *("--encoding=UTF8", "--locale=C", "--auth=scram-sha-256", "--no-sync", "--no-instructions"),
        )
        primary.configure(**SETTINGS, listen_addresses="127.0.0.1")
        primary.start()
        source = primary.url(options="?application_name=standby")
        run_program(
            *(standby.folder, "pg_basebackup", "-D", str(standby.data), "-d", source, "-R", "-X", "stream"),
            *("--checkpoint=fast", "--no-sync", "--no-manifest"),
        )
        standby.start()
        if synchronous:
            primary.run("ALTER SYSTEM SET synchronous_standby_names = 'standby'")
            primary.run("SELECT pg_reload_conf()")
            until(lambda: primary.run("SELECT sync_state FROM pg_stat_replication") == "sync")
        yield Pair(primary, standby)


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    # Short and open to the user that PostgreSQL runs as.
    folder = Path(tempfile.mkdtemp(prefix="satchel-pg-", dir="/tmp"))
    hand_over(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def until(holds: Any, *, seconds: float = PATIENCE) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def _children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(each) for each in tasks.read_text().split()] if tasks.exists() else []


def _is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    # Nobody may have taken note of the end of an orphan.
    return state != "Z"
