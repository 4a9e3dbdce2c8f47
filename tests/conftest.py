"""Shared fixtures: the fast and slow tiers, stores of each kind, and the real command in a real process."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any

import pytest
from hypothesis import settings

import citus_cluster
import satchel
from citus_cluster import Cluster
from pg_bouncer import Bouncer, bouncer
from pg_server import Database, Server, server
from satchel import Satchel
from satchel.embed.embedder import DEFAULT_EMBEDDER
from satchel.embed.minilm import MiniLMEmbedder
from satchel.recall import indexer, ranking

settings.register_profile("satchel", deadline=None, derandomize=True)
settings.load_profile("satchel")

# Rewrite assertions in helper modules too, so that a failure shows their values.
pytest.register_assert_rewrite("complaint", "in_step", "mcp_pipe", "operations", "samples")

# Most tests do not depend on meaning, so their stores use word vectors, which are a hundred times as fast. Commands
# in separate processes, and tests that use `as_installed`, have the default embedder.
indexer.DEFAULT_EMBEDDER = "static"

# A shell that starts tests in the background makes them ignore Ctrl-C, and their child processes too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

Cli = Callable[..., subprocess.CompletedProcess[str]]
Opening = Callable[..., Satchel]

# What makes a test slow, wherever it is: PostgreSQL, cold starts of a command, crashes, real clients.
SLOW_FIXTURES = {"pg", "pg_rows_url", "citus", "cold_cli"}
# With this, tests that get an address of the tests' PostgreSQL reach it through PgBouncer.
THROUGH_PGBOUNCER = bool(os.environ.get("SATCHEL_TEST_PGBOUNCER"))
SLOW_FOLDERS = {"clients", "crash"}
ON_A_SERVER = pytest.param("on a server", marks=pytest.mark.slow)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests as slow by the fixtures they use; other slow tests are marked with `@pytest.mark.slow`."""
    for item in items:
        if SLOW_FIXTURES & set(getattr(item, "fixturenames", ())) or item.path.parent.name in SLOW_FOLDERS:
            item.add_marker(pytest.mark.slow)


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A folder for the test; on a disk for tests that kill and lock, because memory is too fast for them."""
    if "crash" not in request.node.path.parts:
        yield tmp_path
        return
    with TemporaryDirectory(prefix="satchel-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@pytest.fixture
def as_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the default embedder for new stores, with each text embedded only once."""
    monkeypatch.setattr(MiniLMEmbedder, "embed", _embed_once)
    monkeypatch.setattr(indexer, "DEFAULT_EMBEDDER", DEFAULT_EMBEDDER)


_embed = MiniLMEmbedder.embed
_vectors: dict[tuple[str, ...], Any] = {}


def _embed_once(embedder: MiniLMEmbedder, texts: Sequence[str]) -> Any:
    """Cache vectors, because many tests begin with the same store and ask the same question."""
    if (key := tuple(texts)) not in _vectors:
        _vectors[key] = _embed(embedder, texts)
    return _vectors[key].copy()


@pytest.fixture
def all_matches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Return all matches, however irrelevant: for tests about what is found and in which order."""
    monkeypatch.setattr("satchel.api.satchel.MIN_RELEVANCE", 0.0)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[datetime]:
    """The current time for writes and reads, as a list of one value that a test can change."""
    now = [datetime(2026, 1, 1, 12, tzinfo=UTC)]
    for name in ("api.filters", "api.satchel", "api.saving", "recall.finder", "store.memories"):
        monkeypatch.setattr(import_module(f"satchel.{name}"), "utc_now", lambda: now[0])
    return now


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "notes.db"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests/contract with every kind of store."""
    if "location" in metafunc.fixturenames and "contract" in metafunc.definition.path.parts:
        metafunc.parametrize("location", ["file", ON_A_SERVER], indirect=True)


@pytest.fixture
def location(request: pytest.FixtureRequest, path: Path) -> Path | str:
    """The location of a store: a file, or a database on a server."""
    if getattr(request, "param", "file") == "file":
        return path
    return str(request.getfixturevalue("pg_rows_url"))


@pytest.fixture
def bag(location: Path | str) -> Iterator[satchel.Satchel]:
    with satchel.open(location) as opened:
        yield opened


@pytest.fixture(params=["whole", "by index", ON_A_SERVER])
def opening(request: pytest.FixtureRequest, path: Path, monkeypatch: pytest.MonkeyPatch) -> Opening:
    """Opens an in-memory store whose scopes are read whole, or one that uses only the indexes."""
    if request.param == "whole":
        return lambda **options: satchel.open(":memory:", **options)
    monkeypatch.setattr(ranking, "SMALL", 0)
    chosen = path if request.param == "by index" else request.getfixturevalue("pg_rows_url")
    return lambda **options: satchel.open(chosen, **options)


@pytest.fixture
def notes(opening: Opening) -> Iterator[Satchel]:
    with opening() as opened:
        yield opened


@pytest.fixture
def words(opening: Opening) -> Iterator[Satchel]:
    """A store without vectors."""
    with opening(embedder="none") as opened:
        yield opened


@pytest.fixture(scope="session")
def pg(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A PostgreSQL shared by all workers of this run; a test that stops its server has its own."""
    own = tmp_path_factory.getbasetemp()
    found = server(own.parent if "PYTEST_XDIST_WORKER" in os.environ else own)
    yield found
    found.leave()


@pytest.fixture(scope="session")
def worker_database(pg: Server) -> Iterator[Database]:
    with pg.database(template=pg.template("satchel_ready", _make_ready)) as found:
        yield found


@pytest.fixture
def pg_rows_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """A database with an empty store, for tests that change only its rows.

    If there is a cluster, the contract and the property tests run on it.
    """
    assert request.node.get_closest_marker("slow"), "use ON_A_SERVER for the case that asks for a server"
    on_cluster = citus_cluster.ADDRESS and {"contract", "property"} & set(request.node.path.parts)
    database = request.getfixturevalue("citus" if on_cluster else "worker_database")
    pooled = THROUGH_PGBOUNCER and not on_cluster
    yield request.getfixturevalue("pg_bouncer").url(database.url) if pooled else database.url
    database.empty()


@pytest.fixture(scope="session")
def pg_bouncer(pg: Server) -> Iterator[Bouncer]:
    """A PgBouncer in transaction mode in front of the PostgreSQL of the tests."""
    with bouncer(pg) as started:
        yield started


@pytest.fixture(scope="session")
def citus() -> Iterator[Cluster]:
    """A store on the Citus cluster that `SATCHEL_TEST_CITUS` names."""
    if not citus_cluster.ADDRESS:
        pytest.skip("SATCHEL_TEST_CITUS names no cluster")
    with citus_cluster.cluster() as made:
        yield made


@pytest.fixture
def pg_url(pg: Server) -> Iterator[str]:
    """A separate database with an empty store, which takes longer."""
    url = pg.new_database(template=pg.template("satchel_ready", _make_ready))
    yield url
    pg.drop(url)


def _make_ready(url: str) -> None:
    satchel.open(url, embedder="none").close()


COMMAND = Path(sys.executable).with_name("satchel")


@pytest.fixture
def cold_cli(tmp_path: Path) -> Cli:
    """Run `satchel ARGS…` as a user would, on a store in the test's folder."""

    def run(
        *arguments: str | Path, stdin: bytes | str = "", **environment: str
    ) -> subprocess.CompletedProcess[str]:
        content = stdin if isinstance(stdin, bytes) else stdin.encode()
        done = subprocess.run(
            [str(COMMAND), *map(str, arguments)],
            input=content,
            capture_output=True,
            timeout=60,
            cwd=tmp_path,
            env=clean_environment(tmp_path) | environment,
        )
        return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())

    return run


# Forks for each command; the child becomes `satchel ARGS…` with its own folder and environment. Memory shared with
# the parent is copied on write, and garbage collection or interpreter shutdown would write to all of it. The child
# skips both, and takes a tenth of the time.
NURSERY = """
import atexit, gc, importlib, json, os, pkgutil, runpy, socket, sys, threading
import satchel, satchel.cli
for module in pkgutil.walk_packages(satchel.cli.__path__, "satchel.cli."):
    importlib.import_module(module.name)
with satchel.open(":memory:") as bag:
    bag.add("loads all that is loaded late, once for every child")
    bag.search("what is late?")
    bag.context("late")
gc.collect()
gc.freeze()
line = socket.socket(fileno=int(sys.argv[1]))
requests = line.makefile()
while files := socket.recv_fds(line, 1, 3)[1]:
    request = json.loads(requests.readline())
    child = os.fork()
    if child == 0:
        break
    for file in files:
        os.close(file)
    line.sendall(b"%d\\n" % os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
else:
    sys.exit()
for number, file in enumerate(files):
    os.dup2(file, number)
    os.close(file)
requests.close()
line.close()
os.chdir(request["folder"])
os.environ.clear()
os.environ.update(request["environment"])
sys.argv = request["command"]
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
except SystemExit as end:
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(end.code)
"""


@pytest.fixture(scope="session")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[socket.socket]:
    ours, theirs = socket.socketpair()
    ours.settimeout(60)
    with (
        ours,
        subprocess.Popen(
            [sys.executable, "-c", NURSERY, str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            env=clean_environment(tmp_path_factory.mktemp("nursery")),
        ),
    ):
        theirs.close()
        yield ours
        ours.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def cli(tmp_path: Path, nursery: socket.socket) -> Cli:
    """Run `satchel ARGS…` in a fork of a process that has it loaded: for tests of output, not of startup."""

    def run(
        *arguments: str | Path, stdin: bytes | str = "", **environment: str
    ) -> subprocess.CompletedProcess[str]:
        command = [str(COMMAND), *map(str, arguments)]
        request = {
            "command": command,
            "folder": str(tmp_path),
            "environment": clean_environment(tmp_path) | environment,
        }
        with contextlib.ExitStack() as stack:
            files = [stack.enter_context(TemporaryFile()) for _ in range(3)]
            files[0].write(stdin if isinstance(stdin, bytes) else stdin.encode())
            files[0].seek(0)
            socket.send_fds(nursery, [b"."], [file.fileno() for file in files])
            nursery.sendall(json.dumps(request).encode() + b"\n")
            code = int(nursery.recv(16))
            files[1].seek(0)
            files[2].seek(0)
            return subprocess.CompletedProcess(command, code, files[1].read().decode(), files[2].read().decode())

    return run


def clean_environment(folder: Path) -> dict[str, str]:
    """Return an environment without the user's own store, with the default location in the test's folder."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SATCHEL")}
    ours = {"SATCHEL_DB": str(folder / "notes.db"), "HOME": str(folder), "XDG_DATA_HOME": str(folder)}
    ours["XDG_CACHE_HOME"] = str(folder / ".cache")
    # Tests already use all cores; more threads for small vectors would only wait for each other.
    return kept | ours | {"OPENBLAS_NUM_THREADS": "1"}
