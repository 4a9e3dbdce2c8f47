"""The MCP server over HTTP in a separate process: access, rejected requests, shutdown."""

import contextlib
import http.client
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from email.message import Message
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import mcp
import pytest

import satchel
from conftest import clean_environment
from mcp_pipe import HELLO, LONGEST_WAIT, SATCHEL, lock_held, request, tool_call
from satchel.cli import app
from satchel.server.mcp import web
from tables import each_row

pytestmark = pytest.mark.slow

TOKEN = "a-token-of-31-characters-or-so"
LAST_SECONDS = 5.0
MOST_BYTES = 4 * 1024 * 1024
JSON = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
INITIALIZE = request(1, "initialize", HELLO)


class Answer(NamedTuple):
    status: int
    headers: Message
    text: str


class Service:
    """`satchel mcp --http` on a free port, which it tells on stderr."""

    def __init__(self, folder: Path, *, host: str = "127.0.0.1", **environment: str) -> None:
        self.store = folder / "notes.db"
        self.host = host
        self.process = subprocess.Popen(
            [SATCHEL, "mcp", "--http", f"{host}:0"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=folder,
            env=clean_environment(folder) | environment,
        )
        self.complaints: list[str] = []
        self._started = threading.Event()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        assert self._started.wait(LONGEST_WAIT)
        assert self.complaints[0].startswith(f"satchel: serving http://{host}:")
        assert self.complaints[0].endswith("/mcp\n")
        self.url = self.complaints[0].split()[-1]
        self.port = int(self.url.rsplit(":", 1)[1].removesuffix("/mcp"))

    def _listen(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as lines:
            for line in lines:
                self.complaints.append(line)
                self._started.set()
        self._started.set()

    def post(self, body: Any = INITIALIZE, *, path: str = "/mcp", **headers: str) -> Answer:
        with contextlib.closing(http.client.HTTPConnection(self.host, self.port, timeout=LONGEST_WAIT)) as line:
            line.request("POST", path, body, JSON | headers)
            answer = line.getresponse()
            return Answer(answer.status, answer.headers, answer.read().decode())

    def ended(self, number: int) -> tuple[int, float]:
        """Send a signal: the exit code, and after how many seconds."""
        started = time.monotonic()
        self.process.send_signal(number)
        return self.process.wait(LONGEST_WAIT), time.monotonic() - started

    def close(self) -> None:
        """Whatever was asked of it, it has neither printed nor complained at length."""
        self.process.kill()
        self.process.wait(LONGEST_WAIT)
        self._listener.join(LONGEST_WAIT)
        assert self.process.stdout is not None
        assert self.process.stdout.read() == ""
        self.process.stdout.close()
        assert all(line.startswith("satchel: ") for line in self.complaints if line.strip()), self.complaints


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with contextlib.closing(Service(tmp_path_factory.mktemp("open"))) as running:
        yield running


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One that needs the token, and has an address of this machine that is not the usual one, where there is."""
    host = "127.0.0.2" if sys.platform == "linux" else "127.0.0.1"
    folder = tmp_path_factory.mktemp("guarded")
    with contextlib.closing(Service(folder, host=host, SATCHEL_TOKEN=TOKEN)) as running:
        yield running


def with_clients(service: Service, talk: Callable[[mcp.Client, mcp.Client], Any]) -> Any:
    """What two of the official clients do, at the same time on one server."""

    async def meet() -> Any:
        with anyio.fail_after(LONGEST_WAIT):
            async with mcp.Client(service.url) as first, mcp.Client(service.url) as second:
                return await talk(first, second)

    return anyio.run(meet)


def test_connections_that_send_nothing_leave_room_for_requests(guarded: Service):
    with contextlib.ExitStack() as stack:
        for _ in range(300):
            line = stack.enter_context(socket.create_connection((guarded.host, guarded.port), LONGEST_WAIT))
            with contextlib.suppress(ConnectionError):
                line.sendall(b"POST /mcp HTTP/1.1\r\nX-Slow: ")
        assert guarded.post(Authorization=f"Bearer {TOKEN}").status == 200
    assert len([line for line in guarded.complaints if "too many connections" in line]) == 1


def test_a_client_that_looks_for_oauth_metadata_learns_that_there_is_none(guarded: Service, service: Service):
    for running in (guarded, service):
        for path in ("/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"):
            assert running.post(path=path).status == 404


def test_a_key_that_is_given_twice_is_named(service: Service):
    refused = service.post(b'{"jsonrpc": "2.0", "id": 7, "method": "ping", "params": {"a": 1, "a": 2}}')
    assert refused.status == 400
    said = json.loads(refused.text)
    assert (said["id"], said["error"]["code"]) == (7, -32600)
    assert said["error"]["message"] == "the key 'a' is given twice in one object; give it once"


def test_the_official_client_saves_and_finds(service: Service):
    async def talk(client: mcp.Client, other: mcp.Client) -> tuple[str, str]:
        saved = await client.call_tool("mem_save", {"text": "Quinces ripen in October."})
        found = await other.call_tool("mem_search", {"query": "when do quinces ripen"})
        return saved.structured_content["id"], found.content[0].text

    identifier, found = with_clients(service, talk)
    assert "Quinces ripen in October." in found
    with satchel.open(service.store) as bag:
        assert bag.get(identifier).text == "Quinces ripen in October."


def test_a_session_that_one_client_starts_is_not_another_ones(service: Service):
    async def talk(client: mcp.Client, other: mcp.Client) -> tuple[dict, dict, Any]:
        started = await client.call_tool("mem_session", {"action": "start", "session": "mine"})
        saved = await other.call_tool("mem_save", {"text": "said by somebody else"})
        ended = await other.call_tool("mem_session", {"action": "end", "summary": "not my session"})
        return started.structured_content, saved.structured_content, ended

    started, saved, ended = with_clients(service, talk)
    assert started["session"] == "mine"
    assert ended.is_error
    with satchel.open(service.store) as bag:
        assert bag.get(saved["id"]).scope.session is None
        assert bag.get(started["id"]).text == "Started; not summed up yet."


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil.example:80", "", "0.0.0.0"],
)
def test_a_host_that_it_is_not_called_by_is_refused(service: Service, host: str):
    assert service.post(Host=host).status == 421


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "null", "https://127.0.0.1.evil.example", "file://", "http://localhost.evil.example"],
)
def test_a_page_of_another_origin_is_refused(service: Service, origin: str):
    assert service.post(Origin=origin).status == 403


def test_pages_of_this_machine_are_let_in(service: Service):
    for host in ("127.0.0.1", f"localhost:{service.port}", "[::1]:80"):
        assert service.post(Host=host, Origin=f"http://{host}").status == 200


@each_row("path", ["/", "/mcp/", "/mcp/x", "/MCP", "//mcp", "/sse", "/../mcp", "/.well-known/x"])
def test_there_is_nothing_at_any_other_path(service: Service, path: str):
    assert service.post(path=path).status == 404


def test_a_body_of_more_than_4_mib_is_refused_whether_its_length_is_said_or_not(service: Service):
    padded = INITIALIZE + b" " * (MOST_BYTES - len(INITIALIZE))
    assert service.post(padded).status == 200
    assert service.post(padded + b" ").status == 413
    assert service.post(padded[place : place + 65_536] for place in range(0, MOST_BYTES, 65_536)).status == 200
    longer = [b" " * 65_536] * (MOST_BYTES // 65_536) + [b" "]
    assert service.post(iter(longer)).status == 413


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b'{"a": "\\ud800"}', b'{"a": "\xff"}', b"[" * 100_000, b'{"jsonrpc": "2.0", "id": 1}'],
)
def test_a_body_that_is_no_message_is_a_bad_request(service: Service, body: bytes):
    answer = service.post(body)
    assert answer.status == 400
    assert json.loads(answer.text)["error"]["message"]
    assert service.post().status == 200


@each_row(
    "header",
    [
        "",
        "Bearer",
        "Bearer ",
        f"Bearer {TOKEN[:-1]}",
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN.upper()}",
        f"Bearer {TOKEN} {TOKEN}",
        f"Basic {TOKEN}",
        TOKEN,
        "Bearer \xff\xfe",
    ],
)
def test_without_the_token_nobody_is_let_in(guarded: Service, header: str):
    for path in ("/mcp", "/elsewhere"):
        answer = guarded.post(path=path, Authorization=header)
        assert answer.status == 401
        assert answer.headers["WWW-Authenticate"] == "Bearer"
        assert TOKEN not in answer.text


def test_a_request_that_says_nothing_of_a_token_is_not_let_in(guarded: Service):
    assert guarded.post().status == 401
    assert guarded.post(b" " * (MOST_BYTES + 1)).status == 401


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_the_token_lets_in_and_takes_nothing_else_away(guarded: Service, scheme: str):
    authorization = f"{scheme} {TOKEN}"
    assert guarded.post(Authorization=authorization).status == 200
    assert guarded.post(Authorization=authorization, path="/elsewhere").status == 404
    assert guarded.post(Authorization=authorization, Host="evil.example").status == 421
    assert guarded.post(Authorization=authorization, Origin="http://evil.example").status == 403
    assert guarded.post(b" " * (MOST_BYTES + 1), Authorization=authorization).status == 413


def test_tokens_are_compared_in_a_time_that_tells_nothing(monkeypatch: pytest.MonkeyPatch):
    compared: list[tuple[bytes, bytes]] = []
    monkeypatch.setattr(web.hmac, "compare_digest", lambda *pair: bool(compared.append(pair)))
    answers: list[dict[str, Any]] = []

    async def ask() -> None:
        async def send(message: Any) -> None:
            answers.append(message)

        scope = {"type": "http", "path": "/mcp", "headers": [(b"authorization", f"Bearer {TOKEN}".encode())]}
        await web.RequireToken(None, TOKEN)(scope, None, send)

    anyio.run(ask)
    assert compared == [(f"bearer {TOKEN}".encode(), f"bearer {TOKEN}".encode())]
    assert answers[0]["status"] == 401


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("0.0.0.0:0", "other machines can reach 0.0.0.0, so a token is required; give one with --token-file"),
        ("[::]:0", "other machines can reach ::"),
        ("192.0.2.7:0", "other machines can reach 192.0.2.7"),
        ("laptop.local:0", "other machines can reach laptop.local"),
        ("localhost.evil.example:0", "a token is required"),
        ("127.1:0", "a token is required"),
        ("nonsense", "--http 'nonsense' is not HOST:PORT"),
        (":8765", "is not HOST:PORT"),
        ("127.0.0.1", "is not HOST:PORT"),
        ("127.0.0.1:", "is not HOST:PORT"),
        ("127.0.0.1:http", "is not HOST:PORT"),
        ("127.0.0.1:65536", "is not HOST:PORT"),
        ("127.0.0.1:-1", "is not HOST:PORT"),
        ("127.0.0.1:٣", "is not HOST:PORT"),
        ("::1:0", "is not HOST:PORT"),
        ("127.0.0.1:0 --token-file nowhere", "cannot read the token in nowhere: No such file"),
        ("127.0.0.1:0 --token-file .", "cannot read the token in .: Is a directory"),
        ("127.0.0.1:0 --token-file short", "the token in short must be 16 or more printable characters"),
        ("0.0.0.0:0 --token-file short", "the token in short must be 16"),
        ("0.0.0.0:0 --token-file empty", "the token in empty must be 16"),
        ("0.0.0.0:0 --token-file blanks", "the token in blanks must be 16 or more printable characters, no blanks"),
        ("0.0.0.0:0 --token-file latin", "the token in latin is not UTF-8"),
    ],
)
def test_it_does_not_start_where_strangers_would_be_let_in(
    tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch, options: str, words: str
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SATCHEL_DB", "notes.db")
    monkeypatch.delenv("SATCHEL_TOKEN", raising=False)
    monkeypatch.setattr(web, "listen", lambda *_: pytest.fail("it listens"))
    files = {"short": b"0123456789abcde\n", "empty": b"\n", "blanks": b"0123456789 abcdefgh", "latin": b"\xe9" * 20}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    assert app.run(["mcp", "--http", *options.split()]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("satchel: ")
    assert words in printed.err
    assert printed.err.count("\n") == 1
    assert "0123456789" not in printed.err
    assert {file.name for file in tmp_path.iterdir()} == set(files)


def test_a_short_token_in_the_environment_is_refused(tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SATCHEL_TOKEN", "0123456789abcde")
    monkeypatch.setattr(web, "listen", lambda *_: pytest.fail("it listens"))
    assert app.run(["mcp", "--http", "0.0.0.0:0", "--db", "notes.db"]) == 2
    assert "the token in SATCHEL_TOKEN must be 16" in capsys.readouterr().err


def test_a_port_in_use_is_said_in_a_line(service: Service, tmp_path: Path, capsys):
    address = f"127.0.0.1:{service.port}"
    assert app.run(["mcp", "--http", address, "--db", str(tmp_path / "notes.db")]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"satchel: cannot listen on {address}: Address already in use")
    assert printed.err.count("\n") == 1


@pytest.mark.parametrize(("number", "expected"), [(signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, 130)])
def test_a_signal_ends_it_soon_whatever_clients_leave_open(tmp_path: Path, number: int, expected: int):
    with contextlib.ExitStack() as stack:
        running = stack.enter_context(contextlib.closing(Service(tmp_path)))
        session = running.post().headers["mcp-session-id"]
        stack.enter_context(lock_held(running.store))
        waiting = tool_call(2, "mem_save", text="never")
        head = "Host: 127.0.0.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in JSON.items())
        for sent in (
            "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ",
            f'POST /mcp HTTP/1.1\r\n{head}Content-Length: 1000\r\n\r\n{{"half": ',
            f"GET /mcp HTTP/1.1\r\n{head}Mcp-Session-Id: {session}\r\n\r\n",
            f"POST /mcp HTTP/1.1\r\n{head}Mcp-Session-Id: {session}\r\nContent-Length: {len(waiting)}\r\n\r\n"
            + waiting.decode(),
        ):
            stack.enter_context(socket.create_connection(("127.0.0.1", running.port))).sendall(sent.encode())
        # They hold up nobody else.
        assert running.post().status == 200
        code, seconds = running.ended(number)
        assert code == expected
        assert seconds < LAST_SECONDS
    with satchel.open(running.store) as bag:
        assert bag.stats().memories == 0
        assert [check for check in bag.checks() if check.state != "ok"] == []
