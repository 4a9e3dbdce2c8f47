"""A real PgBouncer in transaction mode, in front of the PostgreSQL of the tests: the program of the system."""

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from pg_pair import Node
from pg_server import Server, end_with_parent, free_port, hand_over, not_root

__all__ = ["Bouncer", "bouncer", "needs_pgbouncer"]

PROGRAM = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
PATIENCE = 20.0
# Few connections, so that clients share them. Nothing is reset between transactions, as PgBouncer recommends.
SETTINGS = {
    "pool_mode": "transaction",
    "default_pool_size": "3",
    "server_reset_query": "",
    "auth_type": "trust",
    "max_client_conn": "300",
    "query_wait_timeout": "60",
}

needs_pgbouncer = pytest.mark.skipif(PROGRAM is None, reason="there is no program pgbouncer; Debian has it")


class Bouncer:
    """A running PgBouncer."""

    def __init__(self, port: str) -> None:
        self.port = port

    def url(self, behind: str, *, login: str = "", host: str = "127.0.0.1", options: str = "") -> str:
        """Return the address of a database through PgBouncer, given its address without it."""
        told = conninfo_to_dict(behind)
        user = login or quote(str(told["user"]))
        return f"postgresql://{user}@{host}:{self.port}/{quote(str(told['dbname']))}{options}"

    def asked(self, command: str) -> list[dict[str, object]]:
        """Return what its console answers, such as SHOW SERVERS."""
        console = f"postgresql://postgres@127.0.0.1:{self.port}/pgbouncer"
        with psycopg.connect(console, autocommit=True, row_factory=psycopg.rows.dict_row) as raw:
            # The console knows only the simple protocol.
            rows = psycopg.ClientCursor(raw).execute(command)
            return rows.fetchall() if rows.description else []


@contextlib.contextmanager
def bouncer(pg: Server | Node, settings: Mapping[str, str] | None = None, users: str = "") -> Iterator[Bouncer]:
    """Start PgBouncer in front of a server, and stop it afterwards."""
    assert PROGRAM is not None
    told = conninfo_to_dict(pg.dsn() if isinstance(pg, Server) else pg.url())
    # Not where tests keep their files, which the user that PgBouncer runs as cannot read when tests run as root.
    with TemporaryDirectory(prefix="satchel-pgbouncer-", dir="/tmp") as name:
        folder, port = Path(name), free_port()
        (folder / "users").write_text(users or '"postgres" ""\n')
        ours = {
            "listen_addr": "127.0.0.1",
            "listen_port": port,
            "unix_socket_dir": "",
            "auth_file": str(folder / "users"),
            "admin_users": "postgres",
            "logfile": str(folder / "log"),
        }
        lines = "".join(f"{name} = {value}\n" for name, value in {**ours, **SETTINGS, **(settings or {})}.items())
        where = f"host={told['host']} port={told['port']}"
        (folder / "pgbouncer.ini").write_text(f"[databases]\n* = {where}\n[pgbouncer]\n{lines}")
        hand_over(folder)
        with subprocess.Popen(
            [PROGRAM, str(folder / "pgbouncer.ini")],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            preexec_fn=end_with_parent,
            **not_root(),
        ) as process:
            try:
                _wait_for(port, process, folder / "log")
                yield Bouncer(port)
            finally:
                process.kill()


def _wait_for(port: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while b"listening on" not in (log.read_bytes() if log.exists() else b""):
        assert process.poll() is None, log.read_text() if log.exists() else "pgbouncer did not start"
        assert time.monotonic() < deadline, "pgbouncer does not listen"
        time.sleep(0.02)
