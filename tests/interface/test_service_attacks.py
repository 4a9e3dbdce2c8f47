"""The HTTP servers under attack: connections that send nothing, no descriptors left, a token file out of reach."""

import contextlib
import resource
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mcp_pipe import LONGEST_WAIT
from satchel.server.http.access import revoke_token
from service_client import Served, token_in

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="needs Linux: prlimit and /proc"),
]

HALF_OPEN = b"GET /v1/stats HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "


def until(condition: Callable[[], bool]) -> None:
    """Wait for what comes soon."""
    give_up = time.monotonic() + LONGEST_WAIT
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.01)


def descriptors(service: Served) -> int:
    return len([*Path(f"/proc/{service.process.pid}/fd").iterdir()])


@contextlib.contextmanager
def half_open(service: Served, count: int) -> Iterator[list[socket.socket]]:
    """Open so many connections that never finish their first request head."""
    with contextlib.ExitStack() as stack:
        lines = []
        for _ in range(count):
            line = stack.enter_context(socket.create_connection(("127.0.0.1", service.port), LONGEST_WAIT))
            with contextlib.suppress(ConnectionError):
                line.sendall(HALF_OPEN)
            lines.append(line)
        yield lines


def closed(line: socket.socket) -> bool:
    line.setblocking(False)
    try:
        return line.recv(4096) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def test_500_connections_that_send_nothing_leave_room_for_requests(tmp_path: Path):
    with Served(tmp_path) as service:
        service.done("GET", "/v1/stats")
        before = descriptors(service)
        with half_open(service, 500) as lines:
            assert service.ask("GET", "/v1/stats").status == 200
            assert descriptors(service) <= before + 130
            until(lambda: sum(map(closed, lines)) >= 400)
            assert service.done("POST", "/v1/memories", {"text": "saved under attack"})["outcome"] == "saved"
        until(lambda: descriptors(service) <= before + 30)
        watcher = token_in(service.tokens, None, "metrics")
        metrics = service.ask("GET", "/metrics", token=watcher).content
        assert b'satchel_refusals_total{reason="idle-connection"}' in metrics
        complaints = [line for line in service.complaints if "too many connections" in line]
        assert len(complaints) == 1, complaints
        assert "127.0.0.1" in complaints[0]


def test_a_connection_with_a_valid_token_is_not_closed_for_those_without(tmp_path: Path):
    with Served(tmp_path, "--max-connections", "20", "--max-per-address", "0") as service:
        known = socket.create_connection(("127.0.0.1", service.port), LONGEST_WAIT)
        with known, known.makefile("rb") as answers:
            asked = f"GET /v1/stats HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {service.token}\r\n\r\n"
            for _ in range(2):
                known.sendall(asked.encode())
                assert answers.readline() == b"HTTP/1.1 200 OK\r\n"
                length = next(int(line.split()[1]) for line in answers if line.startswith(b"content-length"))
                while answers.readline() != b"\r\n":
                    pass
                answers.read(length)
                with half_open(service, 60) as lines:
                    until(lambda lines=lines: sum(map(closed, lines)) >= 40)


def test_a_service_without_descriptors_complains_once_a_minute_and_recovers(tmp_path: Path):
    with Served(tmp_path, "--max-connections", "5000", "--max-per-address", "0") as service:
        service.done("POST", "/v1/memories", {"text": "the first"})
        limits = resource.prlimit(service.process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(service.process.pid, resource.RLIMIT_NOFILE, (descriptors(service) + 20, limits[1]))
        # asyncio complains 128 times at once, and again every second.
        with half_open(service, 100):
            service.wait_for_line("Too many open files")
        resource.prlimit(service.process.pid, resource.RLIMIT_NOFILE, limits)
        until(lambda: service.ask("GET", "/v1/stats").status == 200)
        assert len([line for line in service.complaints if "Too many open files" in line]) <= 3


def test_a_token_revoked_while_there_are_no_descriptors_is_refused_afterwards(tmp_path: Path):
    with Served(tmp_path) as service:
        token = token_in(service.tokens, "acme", "read")
        known = socket.create_connection(("127.0.0.1", service.port), LONGEST_WAIT)
        with known, known.makefile("rb") as answers:

            def status(given: str) -> int:
                asked = f"GET /v1/stats HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {given}\r\n\r\n"
                known.sendall(asked.encode())
                code = int(answers.readline().split()[1])
                length = 0
                while (line := answers.readline()) != b"\r\n":
                    length = int(line.split()[1]) if line.startswith(b"content-length") else length
                answers.read(length)
                return code

            assert status(token) == 200
            limits = resource.prlimit(service.process.pid, resource.RLIMIT_NOFILE)
            # No descriptor is left for opening the token file; stat needs none.
            resource.prlimit(service.process.pid, resource.RLIMIT_NOFILE, (3, limits[1]))
            revoke_token(service.tokens, token.split("_")[1])
            assert status(token) == 200
            service.wait_for_line("keeping the known tokens for at most 60 s")
            resource.prlimit(service.process.pid, resource.RLIMIT_NOFILE, limits)
            until(lambda: status(token) == 401)
            assert status(service.token or "") == 200


def test_a_service_that_cannot_read_its_tokens_refuses_all_and_says_so(tmp_path: Path):
    with Served(tmp_path, "--token-file-seconds", "0.2") as service:
        content = service.tokens.read_bytes()
        service.tokens.unlink()
        service.tokens.mkdir()
        until(lambda: service.ask("GET", "/v1/stats").status == 503)
        refused = service.ask("GET", "/v1/stats")
        assert refused.value["type"] == "urn:satchel:problem:unreadable-tokens"
        assert refused.headers["Retry-After"]
        assert service.ask("GET", "/healthz").status == 503
        until(lambda: service.ask("GET", "/healthz").status == 503 and len(service.complaints) > 2)
        service.wait_for_line("ALL TOKENS ARE REFUSED")
        service.tokens.rmdir()
        service.tokens.write_bytes(content)
        service.tokens.chmod(0o600)
        assert service.ask("GET", "/v1/stats").status == 200
        assert service.ask("GET", "/healthz").status == 200
