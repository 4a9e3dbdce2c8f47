"""Worker processes of the service: start, limits and pages that hold over all, and what happens when one dies."""

import asyncio
import contextlib
import itertools
import json
import os
import re
import secrets
import signal
import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import satchel
from conftest import clean_environment
from mcp_pipe import HELLO, LONGEST_WAIT, SATCHEL, lock_held, request, tool_call
from satchel.server.http import workers
from satchel.server.http.access import Caller
from satchel.server.http.metrics import Metrics
from satchel.server.http.work import RouteCall
from satchel.server.http.worker_process import WorkerSettings
from satchel.server.http.workers import Crew
from service_client import Reply, Served, token_in, until

pytestmark = pytest.mark.slow

ACCEPT = {"Accept": "application/json, text/event-stream"}
IN_FLIGHT = "satchel_in_flight"
READY = "satchel_workers_ready"
RESTARTS = "satchel_worker_restarts_total"
SAVED = 'satchel_calls_total{operation="memories.add",outcome="201"}'


def with_word_vectors(folder: Path, *options: str, **more: Any) -> Served:
    """A service with two workers."""
    return Served(folder, *options, processes=2, SATCHEL_EMBEDDER="static", **more)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Served]:
    with with_word_vectors(tmp_path) as running:
        yield running


def at_once(requests: list[Callable[[], Reply]]) -> list[Future[Reply]]:
    pool = ThreadPoolExecutor(len(requests))
    replies = [pool.submit(each) for each in requests]
    pool.shutdown(wait=False)
    return replies


@contextlib.contextmanager
def set_at_the_end(event: threading.Event) -> Iterator[None]:
    try:
        yield
    finally:
        event.set()


def saving(service: Served, text: str, token: str | None = "") -> Callable[[], Reply]:
    return lambda: service.ask("POST", "/v1/memories", {"text": text, "ref": text}, token=token)


def stored(service: Served, org: str = "acme") -> set[str]:
    with satchel.open(service.store, create=False) as bag:
        return {memory.text for memory in bag.scoped(org=org).recent(limit=10_000)}


def kill(*processes: int) -> None:
    for each in processes:
        os.kill(each, signal.SIGKILL)


# Start


def processes_with(marker: str) -> list[int]:
    """The processes whose environment has a marker, among them those that nobody is the parent of any more."""
    found = []
    for each in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            if marker.encode() in (each / "environ").read_bytes():
                found.append(int(each.name))
    return found


def not_started(folder: Path, *options: str, **environment: str) -> tuple[int, str]:
    """Start a service that is expected to fail, with two workers; returns its exit code and its one line."""
    marker = secrets.token_hex(8)
    done = subprocess.run(
        [SATCHEL, "serve", "--processes", "2", *options],
        capture_output=True,
        text=True,
        cwd=folder,
        env=clean_environment(folder) | environment | {"MARKER": marker},
        timeout=LONGEST_WAIT,
    )
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, done.stderr
    assert processes_with(marker) == []
    return done.returncode, done.stderr


def starting_with(folder: Path, script: str) -> str:
    """A path of modules with which Python runs a script when a worker process starts."""
    guard = 'import os, sys\nif "satchel.server.http.worker_process" in sys.orig_argv:\n'
    lines = "".join(f"    {line}\n" for line in script.splitlines())
    (folder / "startup").mkdir()
    (folder / "startup" / "sitecustomize.py").write_text(guard + lines)
    return str(folder / "startup")


def test_there_is_one_worker_for_each_core(tmp_path: Path):
    with Served(tmp_path, processes=None) as service:
        cores = len(os.sched_getaffinity(0))
        assert len(service.workers) == service.metric(READY) == (cores if cores > 1 else 0)


def test_a_port_that_is_taken_gives_one_line_and_starts_nothing(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        code, line = not_started(tmp_path, "--http", address)
    assert (code, line) == (2, f"satchel: cannot listen on {address}: Address already in use\n")


@pytest.mark.parametrize(
    ("script", "ending"),
    [
        ("os._exit(7)", "ended with exit code 7"),
        ("os.kill(os.getpid(), 9)", "was ended by SIGKILL"),
        ("print('hello, I am a plugin')", "has written something else than answers to its standard output"),
    ],
)
def test_a_worker_that_dies_in_start_up_ends_the_service_with_one_line(tmp_path: Path, script: str, ending: str):
    # Only one of the two; the other has to be ended.
    second = f"try:\n    open({str(tmp_path / 'first')!r}, 'x')\nexcept OSError:\n    {script}"
    code, line = not_started(tmp_path, "--http", "127.0.0.1:0", PYTHONPATH=starting_with(tmp_path, second))
    assert code == 1
    assert re.fullmatch(rf"satchel: worker process [12] {re.escape(ending)} while it started\n", line)


def test_an_interrupted_start_leaves_nothing_behind(tmp_path: Path):
    held, marker = tmp_path / "held", secrets.token_hex(8)
    os.mkfifo(held)
    environment = {"PYTHONPATH": starting_with(tmp_path, f"open({str(held)!r}).read()"), "MARKER": marker}
    command = [SATCHEL, "serve", "--processes", "2", "--http", "127.0.0.1:0"]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, cwd=tmp_path, env=clean_environment(tmp_path) | environment
    ) as process:
        until(lambda: len(processes_with(marker)) == 3)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=LONGEST_WAIT)
    assert (process.returncode, said.strip()) == (130, "satchel: stopped")
    assert processes_with(marker) == []


def test_a_store_that_only_the_service_can_open_ends_it_with_the_reason(tmp_path: Path):
    spoil = f"open({str(tmp_path / 'notes.db')!r}, 'wb').write(b'no database at all' * 1000)"
    code, line = not_started(tmp_path, "--http", "127.0.0.1:0", PYTHONPATH=starting_with(tmp_path, spoil))
    assert code == 1
    assert str(tmp_path / "notes.db") in line


# Calls


def test_a_worker_that_is_killed_fails_its_own_calls_and_comes_back(service: Served):
    texts = [f"text {number}" for number in range(4)]
    first, second = service.workers
    with lock_held(service.store):
        replies = at_once([saving(service, text) for text in texts])
        until(lambda: service.metric(IN_FLIGHT) == 4)
        kill(first)
        until(lambda: sum(map(Future.done, replies)) == 2)
        until(lambda: service.metric(READY) == 2)
    answers = [each.result(LONGEST_WAIT) for each in replies]
    assert sorted(each.status for each in answers) == [201, 201, 503, 503]
    refused = [each for each in answers if each.status == 503]
    assert {each.value["type"] for each in refused} == {"urn:satchel:problem:interrupted"}
    assert {each.headers["Retry-After"] for each in refused} == {"1"}
    assert stored(service) == {each.value["text"] for each in answers if each.status == 201}
    assert service.metric(RESTARTS) == 1
    assert service.metric(SAVED) == 2
    assert second in service.workers
    assert first not in service.workers
    assert service.complaints[1:] == [
        "satchel: worker process 1 was ended by SIGKILL and is replaced; calls that failed: 2\n"
    ]


def test_writes_that_were_acknowledged_are_there_though_workers_are_killed_again_and_again(service: Served):
    acknowledged: list[str] = []
    others: list[Reply] = []
    over = threading.Event()

    def write(writer: int) -> None:
        for number in itertools.count():
            if over.is_set():
                return
            reply = saving(service, f"{writer} said {number}")()
            if reply.status == 201:
                acknowledged.append(reply.value["text"])
            else:
                others.append(reply)

    with ThreadPoolExecutor(6) as pool, set_at_the_end(over):
        writers = [pool.submit(write, number) for number in range(6)]
        for restarts in range(1, 5):
            before = len(acknowledged)
            until(lambda before=before: len(acknowledged) > before + 5)
            kill(service.workers[restarts % 2])
            until(lambda restarts=restarts: service.metric(RESTARTS) == restarts)
        before = len(acknowledged)
        until(lambda: len(acknowledged) > before + 5)
    for each in writers:
        each.result()
    assert {each.value["type"] for each in others} <= {"urn:satchel:problem:interrupted"}
    # What was interrupted may be stored or not.
    left = stored(service) - set(acknowledged)
    assert set(acknowledged) <= stored(service)
    assert len(left) <= len(others)
    assert service.metric(READY) == 2
    assert service.metric(SAVED) == len(acknowledged)
    assert service.ended()[0] == 0


def test_a_worker_that_does_not_come_back_leaves_the_service_to_the_others(tmp_path: Path):
    broken = tmp_path / "broken"
    modules = starting_with(tmp_path, f"if os.path.exists({str(broken)!r}):\n    os._exit(9)")
    with with_word_vectors(tmp_path, PYTHONPATH=modules) as service:
        broken.touch()
        first, second = service.workers
        kill(first)
        service.wait_for_line(
            "cannot replace a worker process: worker process 1 ended with exit code 9 while it started"
        )
        assert service.metric(READY) == 1
        assert [saving(service, f"text {number}")().status for number in range(5)] == [201] * 5
        assert service.ask("GET", "/healthz").status == 200
        kill(second)
        until(lambda: service.metric(READY) == 0)
        sick = service.ask("GET", "/healthz")
        assert (sick.status, sick.value["type"]) == (503, "urn:satchel:problem:no-worker")
        # A call that comes now waits for the first that is ready.
        (waiting,) = at_once([saving(service, "late")])
        until(lambda: service.metric(IN_FLIGHT) == 1)
        broken.unlink()
        assert waiting.result(LONGEST_WAIT).status in (201, 503)
        until(lambda: service.metric(READY) == 2)
        assert saving(service, "later")().status == 201
        assert service.ask("GET", "/healthz").status == 200


def test_a_page_is_continued_by_another_worker(service: Served):
    session = service.ask("POST", "/mcp", request(1, "initialize", HELLO), headers=ACCEPT)
    carried = ACCEPT | {"Mcp-Session-Id": session.headers["Mcp-Session-Id"]}

    def call(tool: str, **arguments: Any) -> str:
        answer = service.ask("POST", "/mcp", tool_call(2, tool, **arguments), headers=carried)
        assert not answer.value["result"].get("isError"), answer.content
        return str(answer.value["result"]["content"][0]["text"])

    for number in range(12):
        service.done("POST", "/v1/memories", {"text": f"{number}: {'quince ' * 900}"})
    text = call("mem_list", limit=12, detail_level="full", max_tokens=3_000)
    seen = set(re.findall(r"(\d+): quince", text))
    for restarts in (2, 4, 6):
        # Whoever has made the page before is not there any more.
        kill(*service.workers)
        until(lambda restarts=restarts: service.metric(RESTARTS) == restarts)
        text = call("mem_list", cursor=text.rpartition("cursor=")[2].split()[0], max_tokens=3_000)
        assert not seen & set(re.findall(r"(\d+): quince", text))
        seen |= set(re.findall(r"(\d+): quince", text))
    assert len(seen) >= 10


def test_a_call_whose_client_has_left_is_finished_and_gives_its_place_back(tmp_path: Path):
    with with_word_vectors(tmp_path, "--threads", "1", "--waiting", "0", guarded=False) as service:
        with lock_held(service.store):
            for number in range(2):
                body = json.dumps({"text": f"text {number}"})
                head = "POST /v1/memories HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                with socket.create_connection(("127.0.0.1", service.port)) as line:
                    line.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
                    until(lambda number=number: service.metric(IN_FLIGHT) == number + 1)
            busy = saving(service, "one too many")()
        assert busy.value["type"] == "urn:satchel:problem:busy"
        until(lambda: service.metric(IN_FLIGHT) == 0)
        assert [saving(service, f"later {number}")().status for number in range(3)] == [201] * 3
        assert stored(service, "default") == {"text 0", "text 1", "later 0", "later 1", "later 2"}


def test_large_bodies_and_answers_pass_between_the_processes(tmp_path: Path):
    with with_word_vectors(tmp_path, "--max-body", "32M", "--max-answer", "64M") as service:
        service.done("PUT", "/v1/sessions/large", {})
        outputs = [f"{number}\n" + "a line of output, and then another\n" * 500_000 for number in range(3)]
        place = "/v1/sessions/large/results"
        bodies = [{"tool": "log", "output": output} for output in outputs]
        replies = at_once([lambda body=body: service.ask("POST", place, body) for body in bodies])
        handles = [each.result(LONGEST_WAIT).value["handle"] for each in replies]
        replies = at_once([lambda handle=handle: service.ask("GET", f"{place}/{handle}") for handle in handles])
        wholes = [each.result(LONGEST_WAIT) for each in replies]
        assert min(len(each.content) for each in wholes) > 16 * 1024 * 1024
        assert [each.value["content"] for each in wholes] == outputs


# Limits


def test_the_rate_of_a_token_is_limited_for_all_workers_together(tmp_path: Path):
    with with_word_vectors(tmp_path, "--rate", "5/s") as service:
        other, watcher = token_in(service.tokens, "globex"), token_in(service.tokens, None, "metrics")
        started = time.monotonic()
        replies = at_once([lambda: service.ask("GET", "/v1/stats")] * 100)
        statuses = Counter(each.result(LONGEST_WAIT).status for each in replies)
        seconds = time.monotonic() - started
        assert set(statuses) == {200, 429}
        # Bursts of twice the rate. Each of two workers with a limit of its own would let through twice as many.
        assert 10 <= statuses[200] <= 10 + 5 * seconds + 1
        assert service.ask("GET", "/v1/stats", token=other).status == 200
        refused = service.ask("GET", "/metrics", token=watcher).content.decode()
        assert f'satchel_refusals_total{{reason="too-often"}} {statuses[429]}' in refused


def test_the_queue_of_an_org_is_limited_for_all_workers_together(tmp_path: Path):
    with with_word_vectors(tmp_path, "--threads", "2", "--waiting", "4") as service:
        other = token_in(service.tokens, "globex")
        with lock_held(service.store):
            # Two of the four threads, and half of the queue.
            held = at_once([saving(service, f"held {number}") for number in range(4)])
            until(lambda: service.metric(IN_FLIGHT) == 4)
            refused = [saving(service, f"refused {number}")() for number in range(3)]
            others = at_once([saving(service, f"other {number}", other) for number in range(4)])
            until(lambda: service.metric(IN_FLIGHT) == 8)
        assert {each.value["type"] for each in refused} == {"urn:satchel:problem:busy"}
        assert [each.result(LONGEST_WAIT).status for each in (*held, *others)] == [201] * 8
        assert stored(service) == {f"held {number}" for number in range(4)}
        assert stored(service, "globex") == {f"other {number}" for number in range(4)}
        assert service.metric(SAVED) == 8


def test_a_small_tenant_is_answered_while_a_large_one_keeps_the_queue_full(tmp_path: Path):
    with with_word_vectors(tmp_path, "--rate", "100000/s") as service:
        small = token_in(service.tokens, "small")
        for token in (service.token, small):
            memories = [{"text": f"Quince {number} ripens in October."} for number in range(100)]
            service.done("POST", "/v1/memories/batch", {"memories": memories}, token=token)
        asked = {"query": "when do quinces ripen", "token_budget": 500}
        large: list[int] = []
        over = threading.Event()

        def keep_asking() -> None:
            while not over.is_set():
                large.append(service.ask("POST", "/v1/context", asked).status)

        with ThreadPoolExecutor(40) as pool, set_at_the_end(over):
            crowd = [pool.submit(keep_asking) for _ in range(40)]
            until(lambda: service.metric(IN_FLIGHT) > 30)
            before = len(large)
            answers = [service.ask("POST", "/v1/context", asked, token=small).status for _ in range(10)]
            meanwhile = len(large) - before
        for each in crowd:
            each.result()
        assert set(answers) == set(large) == {200}
        # In the order of arrival, each of the ten would wait for about forty.
        assert meanwhile < 200


# The end


def test_workers_end_when_the_service_is_killed(tmp_path: Path):
    marker = secrets.token_hex(8)
    with with_word_vectors(tmp_path, MARKER=marker) as service, lock_held(service.store):
        replies = at_once([saving(service, f"text {number}") for number in range(4)])
        until(lambda: service.metric(IN_FLIGHT) == 4)
        assert len(processes_with(marker)) == 3
        kill(service.process.pid)
        service.process.wait(LONGEST_WAIT)
        # Though their calls wait for a lock that is not released.
        until(lambda: not processes_with(marker))
        assert all(isinstance(each.exception(LONGEST_WAIT), OSError) for each in replies)
        assert service.complaints[1:] == []


def test_a_signal_to_the_whole_group_of_processes_finishes_calls_in_flight(tmp_path: Path):
    with with_word_vectors(tmp_path) as service:
        with lock_held(service.store):
            replies = at_once([saving(service, f"text {number}") for number in range(4)])
            until(lambda: service.metric(IN_FLIGHT) == 4)
            # A terminal does not reach workers, and those that a supervisor signals ignore it.
            assert os.getpgid(service.process.pid) not in map(os.getpgid, service.workers)
            for number in (signal.SIGINT, signal.SIGTERM):
                for each in service.workers:
                    os.kill(each, number)
            service.process.send_signal(signal.SIGTERM)
        assert [each.result(LONGEST_WAIT).status for each in replies] == [201] * 4
        assert service.process.wait(LONGEST_WAIT) == 0
        assert service.complaints[1:] == []


def test_a_stop_while_a_worker_is_being_replaced_ends_it_too(tmp_path: Path):
    marker, held = secrets.token_hex(8), tmp_path / "held"
    modules = starting_with(
        tmp_path, f"if os.path.exists({str(held)!r}):\n    os.read(os.open({str(held)!r}, os.O_RDONLY), 1)"
    )
    with with_word_vectors(tmp_path, PYTHONPATH=modules, MARKER=marker) as service:
        os.mkfifo(held)
        first, second = service.workers
        kill(first)
        until(lambda: len({*service.workers} - {first, second}) == 1)
        assert service.ended()[0] == 0
        until(lambda: not processes_with(marker))


def test_calls_that_do_not_end_are_given_up_after_the_grace_period(tmp_path: Path):
    marker = secrets.token_hex(8)
    with with_word_vectors(tmp_path, "--grace", "1", MARKER=marker) as service:
        with lock_held(service.store):
            replies = at_once([saving(service, f"text {number}") for number in range(2)])
            until(lambda: service.metric(IN_FLIGHT) == 2)
            assert service.ended()[0] == 1
            until(lambda: not processes_with(marker))
        answers = [each.result(LONGEST_WAIT) for each in replies]
        assert {each.value["type"] for each in answers} == {"urn:satchel:problem:unfinished"}


# A crew without a service


def test_a_worker_that_hangs_is_killed_and_replaced(path: Path, monkeypatch: pytest.MonkeyPatch, caplog):
    monkeypatch.setattr(workers, "CHECK_SECONDS", 0.02)
    checks = 0
    check = workers._Worker.check

    def counted(self: workers._Worker) -> None:
        nonlocal checks
        checks += 1
        check(self)

    monkeypatch.setattr(workers._Worker, "check", counted)
    satchel.open(path, embedder="static").close()
    settings = WorkerSettings(
        location=str(path), read_db=None, counter=None, embedder=None, threads=2, most_answer=1_000_000
    )
    metrics = Metrics()

    async def run() -> list[int]:
        crew = Crew(settings, 1, metrics)
        await crew.start()
        try:
            return await hang(crew)
        finally:
            await crew.close(0)

    async def hang(crew: Crew) -> list[int]:
        process = crew._workers[0]._process
        assert process is not None
        # Longer than a silent worker may live: this one gives signs of life.
        async with asyncio.timeout(LONGEST_WAIT):
            while checks < 3 * workers.MOST_SILENT_CHECKS:
                await asyncio.sleep(0.01)
        assert process.returncode is None
        os.kill(process.pid, signal.SIGSTOP)
        call = RouteCall("stats", {}, Caller("1", "write", "acme"), b"", "", b"")
        async with asyncio.timeout(LONGEST_WAIT):
            failed = await crew.run(call, org="acme")
            answered = await crew.run(call, org="acme")
        assert failed.refusal is not None
        return [failed.refusal.problem.status, len(answered.content) > 0]

    assert asyncio.run(run()) == [503, True]
    assert metrics.worker_restarts == 1
    assert "worker process 1 does not respond and is killed" in caplog.text
