"""Runners of calls: threads of this process, or worker processes.

A worker process (`python -m satchel.server.http.workers`) opens the store, runs calls in threads, and talks to the
service over its standard input and output, in frames of a length and MessagePack. It has no port and no settings of
its own, and ends when its input does: when the service closes it or is killed.
"""

import asyncio
import logging
import os
import signal
import struct
import sys
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from typing import BinaryIO, Generic, Protocol, TypeVar
from zlib import crc32

import msgspec

from satchel.errors import SatchelError, StoreError
from satchel.server.http.problems import SOON, RefusedError, as_problem, unexpected
from satchel.server.http.work import Call, Done, Work
from satchel.server.process import claim_stdio, short_line

__all__ = ["Crew", "Runner", "Threads", "WorkerSettings", "main"]

# A worker that lived for this long is replaced at once; the next try after that waits longer and longer.
PROVEN_SECONDS = 10.0
LONGEST_PAUSE = 30.0
# How long a call waits for a worker while all are starting.
PATIENCE = 10.0
KILL_SECONDS = 1.0

_log = logging.getLogger(__name__)

V = TypeVar("V")


class Runner(Protocol):
    """Runs calls of the library."""

    async def run(self, call: Call, *, org: str | None) -> Done: ...


class Threads:
    """Runs calls in threads of this process."""

    def __init__(self, work: Work, *, threads: int) -> None:
        self._work = work
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="call")

    async def run(self, call: Call, *, org: str | None) -> Done:
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._work.do, call)


# Frames


class _Request(msgspec.Struct, frozen=True, array_like=True):
    number: int
    call: Call


class _Response(msgspec.Struct, frozen=True, array_like=True):
    number: int
    done: Done


class WorkerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker process needs to know."""

    location: str
    read_db: str | None
    counter: str | None
    embedder: str | None
    threads: int
    most_answer: int


class _Ready(msgspec.Struct, frozen=True):
    """The first frame of a worker: it can run calls, or what is wrong."""

    problem: str | None = None


_LENGTH = struct.Struct(">I")


def _frame(value: object) -> bytes:
    content = msgspec.msgpack.encode(value)
    return _LENGTH.pack(len(content)) + content


class _Frames(Generic[V]):
    """Reads the frames of one type."""

    def __init__(self, kind: type[V]) -> None:
        self._decode = msgspec.msgpack.Decoder(kind).decode

    async def read(self, stream: asyncio.StreamReader) -> V:
        """Return the next value; raises EOFError at the end."""
        length = await stream.readexactly(_LENGTH.size)
        return self._decode(await stream.readexactly(*_LENGTH.unpack(length)))

    def read_from(self, file: BinaryIO) -> V:
        """Return the next value; raises EOFError at the end."""
        return self._decode(_exactly(file, *_LENGTH.unpack(_exactly(file, _LENGTH.size))))


def _exactly(file: BinaryIO, size: int) -> bytes:
    if len(content := file.read(size)) < size:
        raise EOFError
    return content


# In the service


class Crew:
    """Worker processes. One that dies fails the calls that it was running, and is replaced."""

    def __init__(self, settings: WorkerSettings, processes: int) -> None:
        self._settings = settings
        self._workers = [_Worker(settings, number) for number in range(1, processes + 1)]
        self._keepers: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Start all workers; raises an error that says why if one of them cannot be started."""
        try:
            await asyncio.gather(*(each.start() for each in self._workers))
        except BaseException:
            await self.close(0)
            raise
        self._keepers = [asyncio.create_task(each.keep()) for each in self._workers]

    async def close(self, grace: float) -> None:
        """End all workers: they finish their calls and close the store, or are killed after this many seconds."""
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)
        await asyncio.gather(*(each.end(grace) for each in self._workers))

    async def run(self, call: Call, *, org: str | None) -> Done:
        """Run a call on the worker with the fewest calls, among equals on the one that keeps the org's columns."""
        worker = await self._chosen(org)
        return await worker.run(call)

    async def _chosen(self, org: str | None) -> "_Worker":
        deadline = time.monotonic() + PATIENCE
        while not (ready := [each for each in self._workers if each.is_ready]):
            if time.monotonic() > deadline:
                raise _no_worker()
            await asyncio.sleep(0.05)
        home = self._workers[crc32((org or "").encode()) % len(self._workers)]
        return min(ready, key=lambda each: (each.running, each is not home))


class _Worker:
    """One worker process, seen from the service."""

    def __init__(self, settings: WorkerSettings, number: int) -> None:
        self._settings = settings
        self._number = number
        self._process: asyncio.subprocess.Process | None = None
        self._waiting: dict[int, asyncio.Future[Done]] = {}
        self._sent = 0
        self.is_ready = False

    @property
    def running(self) -> int:
        """How many calls it is running."""
        return len(self._waiting)

    async def start(self) -> None:
        """Start the process and wait until it has opened the store."""
        self._process = await asyncio.create_subprocess_exec(
            # Without the folder of the service in the path of modules.
            *(sys.executable, "-P", "-m", "satchel.server.http.workers"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        stdin, stdout = self._pipes
        stdin.write(_frame(self._settings))
        try:
            ready = await _Frames(_Ready).read(stdout)
        except (EOFError, ConnectionError):
            raise StoreError(f"worker process {self._number} {await self._ending()} while it started") from None
        if ready.problem is not None:
            await self._process.wait()
            raise StoreError(ready.problem)
        self.is_ready = True

    async def keep(self) -> None:
        """Read the answers of the process, and replace it whenever it ends."""
        pause, started = 0.0, time.monotonic()
        while True:
            await self._read_answers()
            self._log_end(await self._ending())
            while not self.is_ready:
                pause = 0.0 if time.monotonic() - started > PROVEN_SECONDS else min(LONGEST_PAUSE, 2 * pause + 0.5)
                await asyncio.sleep(pause)
                started = time.monotonic()
                try:
                    await self.start()
                except (SatchelError, OSError) as error:
                    _log.warning("cannot start another worker process: %s", short_line(str(error)))

    async def run(self, call: Call) -> Done:
        self._sent += 1
        number = self._sent
        done: asyncio.Future[Done] = asyncio.get_running_loop().create_future()
        self._waiting[number] = done
        stdin, _ = self._pipes
        try:
            stdin.write(_frame(_Request(number, call)))
            return await done
        finally:
            self._waiting.pop(number, None)

    async def end(self, grace: float) -> None:
        self.is_ready = False
        if self._process is None or self._process.returncode is not None:
            return
        stdin, stdout = self._pipes
        stdin.close()
        try:
            # To its end, so that a worker is not held up by answers that nobody reads.
            await asyncio.wait_for(stdout.read(), grace + KILL_SECONDS)
            await asyncio.wait_for(self._process.wait(), KILL_SECONDS)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()

    @property
    def _pipes(self) -> tuple[asyncio.StreamWriter, asyncio.StreamReader]:
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        return self._process.stdin, self._process.stdout

    async def _read_answers(self) -> None:
        frames, (_, stdout) = _Frames(_Response), self._pipes
        try:
            while True:
                response = await frames.read(stdout)
                done = self._waiting.get(response.number)
                if done is not None and not done.done():
                    done.set_result(response.done)
        except (EOFError, ConnectionError):
            self.is_ready = False

    async def _ending(self) -> str:
        """Wait for the end of the process, and return what happened in words."""
        assert self._process is not None
        code = await self._process.wait()
        return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"

    def _log_end(self, ending: str) -> None:
        calls = list(self._waiting.values())
        for each in calls:
            if not each.done():
                each.set_result(Done(refusal=as_problem(_interrupted())))
        _log.warning("worker process %d %s; %d calls failed; starting another", self._number, ending, len(calls))


def _interrupted() -> RefusedError:
    return RefusedError(
        HTTPStatus.SERVICE_UNAVAILABLE,
        "interrupted",
        "the process that ran this call ended; a write may have taken effect: look before you try again",
        Retry_After=str(SOON),
    )


def _no_worker() -> RefusedError:
    return RefusedError(
        HTTPStatus.SERVICE_UNAVAILABLE,
        "no-worker",
        "no worker process is running; try again",
        Retry_After=str(SOON),
    )


# In the worker process


def main() -> int:
    """Run the calls that come in on standard input until it ends. Returns the exit code."""
    reading, writing = claim_stdio()
    # The service gets the signals, and tells its workers when to end.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    with os.fdopen(reading, "rb") as calls, os.fdopen(writing, "wb") as answers:
        settings = _Frames(WorkerSettings).read_from(calls)
        try:
            _serve(settings, calls, answers)
        except SatchelError as error:
            answers.write(_frame(_Ready(str(error))))
            return 1
        except (EOFError, BrokenPipeError):
            # The service is gone.
            return 1
    return 0


def _serve(settings: WorkerSettings, calls: BinaryIO, answers: BinaryIO) -> None:
    from satchel.api.satchel import open as open_bag
    from satchel.server.logs import configure_logging
    from satchel.text.redact import load_rules
    from satchel.text.tokens import DEFAULT_COUNTER

    configure_logging()
    load_rules()
    requests, lock = _Frames(_Request), threading.Lock()

    def answer(request: _Request) -> None:
        try:
            content = _frame(_Response(request.number, work.do(request.call)))
        except Exception as error:  # noqa: BLE001 - outermost handler of a thread
            if os.environ.get("SATCHEL_DEBUG"):
                traceback.print_exc()
            content = _frame(_Response(request.number, Done(refusal=unexpected(error))))
        with lock:
            answers.write(content)
            answers.flush()

    counter, read_db = settings.counter or DEFAULT_COUNTER, settings.read_db
    with (
        open_bag(
            settings.location, create=False, counter=counter, embedder=settings.embedder, read_db=read_db
        ) as bag,
        ThreadPoolExecutor(settings.threads, thread_name_prefix="call") as pool,
    ):
        bag.warm_up(whole=True)
        work = Work(bag, most_answer=settings.most_answer)
        answers.write(_frame(_Ready()))
        answers.flush()
        while True:
            try:
                pool.submit(answer, requests.read_from(calls))
            except EOFError:
                return


if __name__ == "__main__":
    sys.exit(main())
