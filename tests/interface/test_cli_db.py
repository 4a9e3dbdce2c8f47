"""The command line on a PostgreSQL store: `satchel db`, the other commands, and passwords that are not printed."""

import importlib
import json
import logging
import secrets
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import psycopg
import pytest
from complaint import complaint
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

import satchel
from conftest import Cli
from pg_server import Server
from satchel.cli.app import run as run_command
from satchel.store.locations import shown_location
from satchel.store.postgres import connection
from tables import each_row

MARKER = "Ze3bra-Quokka"
PARTS = ("ze3bra", "quokka")


class Said(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def line(self) -> str:
        """The one line of a complaint."""
        assert self.out == ""
        assert self.err.startswith("satchel: ")
        assert self.err.count("\n") == 1
        assert "unexpected" not in self.err
        return self.err


Command = Callable[..., Said]


@pytest.fixture
def command(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Run `satchel ARGS…` in this process, which need not be started for it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "pgpass"))

    def run(*arguments: str, store: str = "") -> Said:
        monkeypatch.setenv("SATCHEL_DB", store)
        capfd.readouterr()
        code = run_command(arguments)
        return Said(code, *capfd.readouterr())

    return run


@pytest.fixture
def login(pg: Server, pg_rows_url: str) -> Iterator[str]:
    """The address of a login with a password, which may use the store."""
    name = f"app_{secrets.token_hex(4)}"
    role = sql.Identifier(name)
    pg.run(sql.SQL("CREATE ROLE {} LOGIN PASSWORD {} IN ROLE satchel_app").format(role, f"{MARKER}/?@%"))
    place = pg.dsn(str(conninfo_to_dict(pg_rows_url)["dbname"]), tcp=True).partition("@")[2]
    yield f"postgresql://{name}:{quote(f'{MARKER}/?@%', safe='')}@{place}"
    pg.run(sql.SQL("DROP ROLE {}").format(role))


@pytest.mark.usefixtures("pg_rows_url")
def test_a_database_is_set_up_looked_at_and_brought_up_to_date(pg: Server, command: Command) -> None:
    """The role belongs to the server, and was made for the store of the fixture."""
    url = pg.new_database()
    shown = shown_location(url)
    assert command("db", "upgrade", "--db", url).line.endswith(
        f"there is no store at {shown}; `satchel db init` creates one\n"
    )
    would = command("db", "init", "--dry-run", store=url)
    assert would.out.startswith(f"would be done: {shown}\n  added pgvector ")
    done = command("--db", url, "db", "init")
    assert done.out == would.out.replace("would be done", "done")
    assert command("db", "init", "--db", url).out == f"nothing to do: {shown}\n"
    assert command("db", "upgrade", "--dry-run", "--db", url).out == f"nothing to do: {shown}\n"
    said = command("db", "status", "--db", url).out
    assert "acting as satchel_app: bound by row-level security" in said
    told = json.loads(command("db", "status", "--json", "--db", url).out)
    assert told["upgrade_due"] is False
    assert told["status"]["version"] == told["newest"]
    assert told["status"]["place"] == shown
    with psycopg.connect(url) as raw:
        raw.execute("ALTER TABLE satchel.turn DISABLE ROW LEVEL SECURITY")
    assert "NOT bound by row-level security" in command("db", "status", "--db", url).out
    assert command("stats", "--db", url).code == 1
    assert command("db", "init", "--db", url).code == 0
    assert "acting as satchel_app: bound" in command("db", "status", "--db", url).out
    refused = command("db", "distribute", "--db", url)
    assert "has no Citus; install it on every node" in refused.line
    assert refused.code == 1
    assert "has no login 'nobody_here'" in command("db", "init", "--grant", "nobody_here", "--db", url).line
    pg.drop(url)


@pytest.mark.parametrize(
    "broken", ["ALTER TABLE satchel.turn DISABLE ROW LEVEL SECURITY", "DROP POLICY tenant ON satchel.turn"]
)
def test_what_keeps_tenants_apart_is_missed_and_put_back(pg_url: str, command: Command, broken: str) -> None:
    with psycopg.connect(pg_url, autocommit=True) as raw:
        raw.execute(broken)
    status = command("db", "status", "--db", pg_url)
    assert status.code == 1
    assert "NOT bound by row-level security" in status.out
    assert "row-level security does not bind" in command("list", "--db", pg_url).line
    assert "put back row-level security on satchel.turn" in command("db", "init", "--db", pg_url).out
    assert command("db", "status", "--db", pg_url).code == 0
    assert "nothing to do" in command("db", "init", "--db", pg_url).out


def test_whoever_only_uses_a_store_has_nothing_to_upgrade(login: str, command: Command) -> None:
    assert "nothing to do" in command("db", "upgrade", "--db", login).out


@pytest.mark.parametrize("name", ["upgrade", "index", "distribute"])
def test_where_there_is_no_store_it_says_how_to_make_one(pg: Server, command: Command, name: str) -> None:
    with pg.database(template="template0") as empty:
        said = command("db", name, "--db", empty.url)
        assert "there is no store at" in said.line
        assert "`satchel db init` creates one" in said.line
        assert command("db", "status", "--db", empty.url).code == 1


def test_the_doctor_says_whose_part_of_a_server_it_looked_at(pg_rows_url: str, command: Command) -> None:
    assert command("doctor", "--db", pg_rows_url, "--org", "acme").out.splitlines()[0].endswith(", org acme")


def test_the_commands_of_a_server_are_not_for_a_file(command: Command) -> None:
    for words in (["db", "init"], ["db", "upgrade"], ["db", "status"], ["db", "distribute"]):
        said = command(*words, "--db", "notes.db")
        assert "is for PostgreSQL stores (--db postgresql://…)" in said.line
        assert said.code == 2


def test_every_command_works_on_a_server(pg_rows_url: str, command: Command, tmp_path: Path) -> None:
    def done(*arguments: str) -> str:
        said = command(*arguments, store=pg_rows_url)
        assert said.code == 0, said
        return said.out

    first = done("add", "We rotate the keys every hour", "--title", "Keys", "--tag", "auth", "--embedder", "none")
    first = first.split()[0]
    second = done("add", "Pears are ripe in autumn", "--org", "default", "--embedder", "none").split()[0]
    done("relate", first, second)
    assert "Keys" in done("search", "rotate keys")
    assert "We rotate the keys" in done("context", "how often are keys rotated?", "--token-budget", "200")
    assert "We rotate the keys" in done("context-pack", "keys")
    assert "▶" in done("timeline", first)
    assert "Keys" in done("list")
    assert "autumn" in done("get", second)
    done("update", second, "--text", "Pears are ripe in October")
    assert "October" in done("history", second)
    assert "memories" in done("stats")
    done("export", "-o", str(tmp_path / "all.jsonl"))
    done("forget", second)
    assert "added 0" in done("import", str(tmp_path / "all.jsonl"))
    assert "in step with 2 memories" in done("doctor", "--fix")
    assert "in step with 0 memories" in done("doctor", "--org", "another")
    assert json.loads(done("doctor", "--json"))["store"] == shown_location(pg_rows_url)
    assert "searches use words only" in done("reembed", "--embedder", "none")
    done("budget")
    assert "1 memory" in done("forget", first, "--purge")
    assert not list(tmp_path.glob("postgres*"))


def test_copies_of_files_are_refused_in_one_line(pg_rows_url: str, command: Command) -> None:
    said = command("backup", "copy.db", store=pg_rows_url)
    assert "is backed up there, by pg_dump" in said.line
    assert said.code == 1
    said = command("restore", "copy.db", store=pg_rows_url)
    assert "a backup is restored to a file" in said.line
    assert said.code == 2


def test_advice_names_the_store_without_its_password(login: str, command: Command, pg_rows_url: str) -> None:
    with psycopg.connect(pg_rows_url, autocommit=True) as owner, satchel.open(pg_rows_url, embedder="none") as bag:
        bag.add("one")
        owner.execute("DELETE FROM satchel.passage")
    said = command("doctor", "--db", login)
    assert "`satchel --db" in said.out
    assert f"{shown_location(login)}" in said.out
    assert "differ from the texts" in said.out
    _without_secret(said)


def test_a_client_is_told_the_address_and_its_user_that_the_password_stands_there(
    login: str, command: Command, tmp_path: Path
) -> None:
    file = tmp_path / "mcp.json"
    would = command("mcp", "install", "cursor", "--file", str(file), "--dry-run", "--db", login)
    assert "+" in would.out
    _without_secret(would)
    done = command("mcp", "install", "cursor", "--file", str(file), "--db", login)
    assert done.code == 0
    assert "PGPASSFILE" in done.err
    _without_secret(done)
    assert json.loads(file.read_text())["mcpServers"]["satchel"]["args"] == ["mcp", "--db", login]
    plain = shown_location(login)
    again = command("mcp", "install", "cursor", "--file", str(file), store=plain)
    assert "PGPASSFILE" not in again.err
    assert json.loads(file.read_text())["mcpServers"]["satchel"]["args"] == ["mcp", "--db", plain]
    wrong = command("mcp", "install", "cursor", "--file", str(file), "--db", f"postgresql://u:{MARKER}@h:x/d")
    assert wrong.code == 2
    _without_secret(wrong)


def _without_secret(said: object) -> None:
    text = repr(said).lower()
    assert not any(part in text for part in PARTS), text


FORMS = [
    # Well formed, and nobody answers.
    "postgresql://u:{m}@127.0.0.1:1/d",
    "postgres://u:{m}@127.0.0.1:1/d",
    "postgresql://u:{m}%2F%3F%40@127.0.0.1:1/d",
    "postgresql://u:{m}%20%C3%A4@127.0.0.1:1/d",
    "postgresql://:{m}@127.0.0.1:1/d",
    "postgresql://u:{m}@127.0.0.1:1,127.0.0.1:2/d",
    "postgresql://127.0.0.1:1/d?user=u&password={m}",
    "postgresql:///d?host=127.0.0.1&port=1&password={m}",
    "postgresql:///d?host=/no/such/folder&password={m}",
    "postgresql://u:{m}@%2Fno%2Fsuch/d",
    "postgresql://u:{m}@[::1]:1/d",
    "postgresql://u@127.0.0.1:1/d?sslpassword={m}",
    "postgresql://u:{m}@127.0.0.1:1/d?sslmode=require",
    "postgresql://u:{m}@127.0.0.1:1/d?service=no_such_service",
    "postgresql://u:{m}@127.0.0.1:1/d?passfile=/no/such/file",
    "postgresql://u:{m}@127.0.0.1:1/d?connect_timeout=2",
    # Malformed.
    "postgresql://u:{m}/x@127.0.0.1:1/d",
    "postgresql://u:x/{m}@127.0.0.1:1/d",
    "postgresql://u:{m}@x@127.0.0.1:1/d",
    "postgresql://u:x@{m}@127.0.0.1:1/d",
    "postgresql://u:{m}?x@127.0.0.1:1/d",
    "postgresql://u:x?{m}@127.0.0.1:1/d",
    "postgresql://u:{m}%ZZ@127.0.0.1:1/d",
    "postgresql://u:{m}%00@127.0.0.1:1/d",
    "postgresql://u:{m}%@127.0.0.1:1/d",
    "postgresql://u:{m}@127.0.0.1:port/d",
    "postgresql://u:{m}@127.0.0.1:99999/d",
    "postgresql://u:{m}@[::1/d",
    "postgresql://u:{m}",
    "postgresql://u@x:{m}/d",
    "postgresql://u:x:{m}/d",
    "postgresql://127.0.0.1:1/d?pasword={m}",
    "postgresql://127.0.0.1:1/d?password={m}%ZZ",
    "postgresql://127.0.0.1:1/d&password={m}",
    "postgresql://127.0.0.1:1/d;password={m}",
    "postgresql://127.0.0.1:1/d?sslmode=require;password={m}",
    "postgresql://127.0.0.1:1/d?password={m}&nonsense",
    "postgresql:/u:{m}@127.0.0.1:1/d",
    "postgresql:u:{m}@127.0.0.1:1/d",
    "postgres:{m}",
    " postgresql://u:{m}@127.0.0.1:1/d",
    "POSTGRESQL://u:{m}@127.0.0.1:1/d",
    "mysql://u:{m}@127.0.0.1:1/d",
    "u:{m}@h://d",
    "host=127.0.0.1 port=1 user=u password={m}",
    "password={m} host=127.0.0.1",
    "user=u password = '{m}'",
]


@each_row("form", FORMS)
def test_a_password_is_never_printed(
    form: str, command: Command, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    caplog.set_level(logging.DEBUG)
    url = form.format(m=MARKER)
    answers = [
        command("db", "status", "--db", url),
        command("doctor", store=url),
        command("--db", url, "add", "x"),
        command("restore", "copy.db", "--db", url),
        command("mcp", "install", "cursor", "--file", str(tmp_path / "c.json"), "--dry-run", "--db", url),
    ]
    for said in answers[:4]:
        assert said.code in (1, 2)
        assert said.line
    _without_secret(answers)
    with pytest.raises(satchel.SatchelError) as caught:
        satchel.open(url)
    error: BaseException | None = caught.value
    while error is not None:
        _without_secret((error, error.args))
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    _without_secret(caplog.text)
    assert not list(tmp_path.iterdir())


def test_what_is_wrong_with_a_server_is_said_in_one_line(
    pg: Server, login: str, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = conninfo_to_dict(login)
    place = f"127.0.0.1:{told['port']}"
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        monkeypatch.setattr(connection, "CONNECT_SECONDS", 1)
        port = silent.getsockname()[1]
        for url, said in {
            f"postgresql://u:{MARKER}@{place}/postgres": "password authentication failed",
            login.replace(str(told["dbname"]), "no_such_database"): 'database "no_such_database" does not exist',
            f"postgresql://u:{MARKER}@127.0.0.1:1/d": "refused",
            f"postgresql://u:{MARKER}@127.0.0.1:{port}/d": "timeout",
            f"postgresql://u:{MARKER}@no-such-host.invalid/d": "no-such-host.invalid",
        }.items():
            answer = command("stats", "--db", url)
            assert answer.code == 1
            assert said in answer.line
            assert answer.err.startswith("satchel: postgresql://")
            _without_secret(answer)


def test_without_psycopg_it_says_what_to_install(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    # The package too, which an import that fails replaces.
    monkeypatch.setattr("satchel.store.postgres", importlib.import_module("satchel.store.postgres"))
    for name in [name for name in sys.modules if name.startswith(("psycopg", "satchel.store.postgres"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    for words in (["stats"], ["db", "status"], ["add", "x"]):
        said = command(*words, "--db", f"postgresql://u:{MARKER}@h/d")
        assert (
            said.line
            == "satchel: a store on a server needs the extra 'postgres'; run: pip install 'satchel[postgres]'\n"
        )
        assert said.code == 2


def test_a_process_of_its_own_is_as_discreet(cold_cli: Cli, tmp_path: Path) -> None:
    done = cold_cli("doctor", "--db", f"postgresql://u:{MARKER}@127.0.0.1:1/d", SATCHEL_DEBUG="1")
    _without_secret(complaint(done, code=1))
