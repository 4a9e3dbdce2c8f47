"""The service process: start, changes it notices while running, shutdown."""

import contextlib
import json
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import satchel
from mcp_pipe import HELLO, LONGEST_WAIT, lock_held, request, tool_call
from satchel.cli import app
from satchel.server.http import serving
from satchel.server.http.access import read_tokens, revoke_token
from service_client import Reply, Served, token_in, until

pytestmark = pytest.mark.slow

ACCEPT = {"Accept": "application/json, text/event-stream"}
BEGINNING = request(1, "initialize", HELLO)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("process"), "--rate", "40/s") as running:
        yield running


def test_a_token_works_at_once_and_is_refused_once_it_is_revoked(service: Served):
    token = token_in(service.tokens, "acme", "read")
    assert service.ask("GET", "/v1/stats", token=token).status == 200
    revoke_token(service.tokens, token.split("_")[1])
    assert service.ask("GET", "/v1/stats", token=token).status == 401
    assert service.ask("GET", "/v1/stats").status == 200


def test_a_call_in_flight_is_answered_though_its_token_is_revoked(service: Served):
    token, watcher = token_in(service.tokens, "acme"), token_in(service.tokens, None, "metrics")
    session = service.ask("POST", "/mcp", BEGINNING, headers=ACCEPT, token=token).headers["Mcp-Session-Id"]
    replies: list[Reply] = []
    saving = tool_call(2, "mem_save", text="saved in time")
    carried = ACCEPT | {"Mcp-Session-Id": session}

    def save() -> None:
        replies.append(service.ask("POST", "/mcp", saving, headers=carried, token=token))

    waiting = threading.Thread(target=save)
    with lock_held(service.store):
        waiting.start()
        until(lambda: b"satchel_in_flight 1" in service.ask("GET", "/metrics", token=watcher).content)
        revoke_token(service.tokens, token.split("_")[1])
        assert service.ask("POST", "/mcp", saving, headers=carried, token=token).status == 401
    waiting.join(LONGEST_WAIT)
    assert [reply.status for reply in replies] == [200]
    assert b"saved" in replies[0].content


def test_a_file_that_is_broken_leaves_the_tokens_as_they_were_and_one_that_is_gone_none(service: Served):
    before = service.tokens.read_bytes()
    service.tokens.write_bytes(before[:-9])
    assert service.ask("GET", "/v1/stats").status == 200
    service.wait_for_line("is not a token")
    service.tokens.unlink()
    assert service.ask("GET", "/v1/stats").status == 401
    service.wait_for_line("all tokens are rejected until it is back")
    service.tokens.write_bytes(before)
    service.tokens.chmod(0o600)
    assert service.ask("GET", "/v1/stats").status == 200
    assert read_tokens(service.tokens)


def test_who_asks_too_often_is_told_when_to_come_again(service: Served):
    token = token_in(service.tokens, "hasty")
    replies = [service.ask("GET", "/v1/memories/x", token=token) for _ in range(200)]
    refused = [reply for reply in replies if reply.status == 429]
    assert refused
    assert {reply.value["type"] for reply in refused} == {"urn:satchel:problem:too-often"}
    assert refused[0].headers["Retry-After"] == "1"
    assert service.ask("GET", "/v1/stats").status == 200


@pytest.mark.parametrize("processes", [1, 2])
def test_a_stop_finishes_the_calls_in_flight_and_takes_no_new_ones(tmp_path: Path, processes: int):
    replies: list[Reply] = []
    with contextlib.ExitStack() as stack:
        service = stack.enter_context(Served(tmp_path, processes=processes))
        service.done("POST", "/v1/memories", {"text": "the first"})
        session = service.ask("POST", "/mcp", BEGINNING, headers=ACCEPT).headers["Mcp-Session-Id"]
        carried = ACCEPT | {"Mcp-Session-Id": session}
        head = f"Host: 127.0.0.1\r\nAuthorization: Bearer {service.token}\r\n"
        lines = [stack.enter_context(socket.create_connection(("127.0.0.1", service.port))) for _ in range(3)]
        lines[0].sendall(b"POST /v1/memories HTTP/1.1\r\nX-Slow: ")
        lines[1].sendall(f"POST /v1/memories HTTP/1.1\r\n{head}Content-Length: 99\r\n\r\n{{".encode())
        lines[2].sendall(
            f"GET /mcp HTTP/1.1\r\n{head}Accept: text/event-stream\r\nMcp-Session-Id: {session}\r\n\r\n".encode()
        )
        assert b"200 OK" in lines[2].recv(4096)

        def ask(*request: object) -> None:
            replies.append(service.ask(*request, headers=carried))

        with lock_held(service.store):
            waiting = [
                threading.Thread(target=ask, args=("POST", "/v1/memories", {"text": "in flight"})),
                threading.Thread(target=ask, args=("POST", "/mcp", tool_call(2, "mem_save", text="in flight too"))),
            ]
            for each in waiting:
                each.start()
            # They wait for the lock once both are taken on.
            watcher = token_in(service.tokens, None, "metrics")
            until(lambda: b"satchel_in_flight 2" in service.ask("GET", "/metrics", token=watcher).content)
            service.process.send_signal(signal.SIGTERM)
            until(lambda: not reachable(service.port))
            assert service.process.poll() is None
            refused = lines[1].recv(4096)
            assert refused.startswith(b"HTTP/1.1 503 ")
            assert b"connection: close" in refused
            assert b"urn:satchel:problem:stopping" in refused + lines[1].recv(4096)
        for each in waiting:
            each.join(LONGEST_WAIT)
        assert service.process.wait(LONGEST_WAIT) == 0
        assert service.complaints[1:] == []
    assert sorted(reply.status for reply in replies) == [200, 201]
    with satchel.open(service.store) as bag:
        texts = {memory.text for memory in bag.scoped(org="acme").recent()}
        assert texts == {"the first", "in flight", "in flight too"}
        assert [check for check in bag.checks() if check.state != "ok"] == []


def reachable(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except ConnectionRefusedError:
        return False
    return True


def test_without_tokens_it_serves_one_org_to_this_machine(tmp_path: Path):
    with Served(tmp_path, "--org", "home", guarded=False) as service:
        memory = service.done("POST", "/v1/memories", {"text": "nobody asks who I am"})
        assert memory["scope"]["org"] == "home"
        assert service.ask("GET", "/v1/stats?org=acme").status == 403
        assert b"satchel_calls_total" in service.ask("GET", "/metrics").content
        assert service.ended(signal.SIGINT)[0] == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            "--http 0.0.0.0:0",
            "other machines can reach 0.0.0.0, so a token is required; give a token file",
        ),
        ("--http [::]:0 --org acme", "other machines can reach ::"),
        ("--http nonsense", "is not HOST:PORT"),
        ("--tokens nowhere", "there is no file nowhere; `satchel token create --tokens nowhere` creates it"),
        ("--tokens .", "cannot read the token file .: Is a directory"),
        ("--tokens open", "other users may write open"),
        ("--tokens broken", "line 2 of broken is not a token"),
        ("--tokens good --org acme", "--org and --tokens cannot be combined"),
        ("--rate fast", "--rate 'fast' is not a number of requests per second"),
        ("--rate 0", "--rate '0' is not"),
        ("--max-body 0", "--max-body '0' is not a size"),
        ("--max-body 2G", "--max-body '2G' is not a size"),
        ("--max-answer none", "--max-answer 'none' is not a size"),
        ("--threads 0", "--threads 0 is out of range"),
        ("--processes 0", "--processes 0 is out of range; give 1 to 256"),
        ("--processes -1", "--processes -1 is out of range"),
        ("--processes 257", "--processes 257 is out of range"),
        ("--processes many", "'many' is not a valid integer"),
        ("--processes 2 --db :memory:", "--processes 2: a store in memory cannot be shared; name a file with --db"),
        ("--grace -1", "--grace -1 is out of range"),
    ],
)
def test_it_does_not_start_on_what_is_wrong(
    tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch, options: str, words: str
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(serving, "listen", lambda *_: pytest.fail("it listens"))
    token_in(tmp_path / "good", "acme")
    line = (tmp_path / "good").read_bytes()
    for name, content, mode in (("open", line, 0o666), ("broken", line + b'{"id": 1}\n', 0o600)):
        (tmp_path / name).write_bytes(content)
        (tmp_path / name).chmod(mode)
    before = {file.name for file in tmp_path.iterdir()}
    assert app.run(["serve", "--db", "notes.db", *options.split()]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert words in printed.err
    assert printed.err.count("\n") == 1
    assert {file.name for file in tmp_path.iterdir()} == before


def test_tokens_are_made_listed_and_revoked_by_command(tmp_path: Path, capsys):
    file = ["--tokens", str(tmp_path / "tokens.jsonl")]
    assert (
        app.run(["token", "create", *file, "--org", "acme", "--access", "read", "--name", "ci", "--expires", "90d"])
        == 0
    )
    printed = capsys.readouterr()
    token = printed.out.strip()
    assert token not in printed.err
    identifier, secret = token.split("_", 2)[1:]
    assert secret not in (tmp_path / "tokens.jsonl").read_text()
    assert (tmp_path / "tokens.jsonl").stat().st_mode & 0o777 == 0o600
    assert app.run(["token", "list", *file, "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert (listed["id"], listed["org"], listed["access"], listed["name"]) == (identifier, "acme", "read", "ci")
    assert "hash" not in listed
    assert app.run(["token", "list", *file]) == 0
    assert f"{identifier}  read  org=acme  name=ci" in capsys.readouterr().out
    assert app.run(["token", "revoke", *file, "nobody"]) == 2
    assert app.run(["token", "revoke", *file, identifier]) == 0
    assert read_tokens(tmp_path / "tokens.jsonl") == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--access write", "a token for write needs --org"),
        ("--access write --org ''", "org is blank"),
        ("--access metrics --org acme", "a token for metrics has no org"),
        ("--access write --org acme --expires soon", "--expires 'soon' is not a duration"),
        ("--access write --org acme --expires 0d", "--expires '0d' is not a duration"),
        ("--access write --org acme --expires 999999y", "is after the year 9999"),
        ("--access all --org acme", "'all' is not one of"),
    ],
)
def test_a_token_that_makes_no_sense_is_not_made(tmp_path: Path, capsys, options: str, words: str):
    arguments = [word.strip("'") for word in options.split()]
    assert app.run(["token", "create", "--tokens", str(tmp_path / "tokens.jsonl"), *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert words in printed.err
    assert not list(tmp_path.iterdir())
