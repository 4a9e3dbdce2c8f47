"""Runners of calls: threads of this process, or worker processes (`satchel.server.http.worker_process`)."""

import asyncio
import contextlib
import logging
import signal
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from typing import Protocol
from zlib import crc32

from satchel.errors import SatchelError, StoreError
from satchel.server.http.metrics import Metrics
from satchel.server.http.problems import SOON, RefusedError, as_problem
from satchel.server.http.work import Call, Done, Work
from satchel.server.http.worker_process import (
    Frames,
    Ready,
    Request,
    Response,
    UnreadableFrameError,
    WorkerSettings,
    frame,
)
from satchel.server.process import short_line

__all__ = ["PIPES_OF_WORKER", "Crew", "Runner", "Threads", "no_worker"]

PIPES_OF_WORKER = 2
# A worker that lived for this long is replaced at once; the next try after that waits longer and longer.
PROVEN_SECONDS = 10.0
LONGEST_PAUSE = 30.0
# How long a call waits for a worker while none is ready.
PATIENCE = 10.0
# A worker is asked for a sign of life this often, and killed if it gives none so many times in a row.
CHECK_SECONDS = 5.0
MOST_SILENT_CHECKS = 12
# How long a process without calls may take to end.
KILL_SECONDS = 10.0
# Answers are read in pieces of up to twice this size.
BUFFER_BYTES = 256 * 1024

_log = logging.getLogger(__name__)


class Runner(Protocol):
    """Runs calls of the library."""

    @property
    def is_ready(self) -> bool:
        """Whether it can run calls now."""

    async def run(self, call: Call, *, org: str | None) -> Done: ...


class Threads:
    """Runs calls in threads of this process."""

    def __init__(self, work: Work, *, threads: int) -> None:
        self._work = work
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="call")

    @property
    def is_ready(self) -> bool:
        return True

    async def run(self, call: Call, *, org: str | None) -> Done:
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._work.do, call)


class Crew:
    """Worker processes. One that dies fails the calls that it was running, and is replaced.

    A call whose client has left is finished like any other. A worker that does not respond is killed and replaced.
    """

    def __init__(self, settings: WorkerSettings, processes: int, metrics: Metrics) -> None:
        self._metrics = metrics
        self._some_ready = asyncio.Event()
        self._workers = [
            _Worker(settings, number, metrics, changed=self._note_ready) for number in range(1, processes + 1)
        ]
        self._keepers: list[asyncio.Task[None]] = []

    @property
    def is_ready(self) -> bool:
        return self._some_ready.is_set()

    async def start(self) -> None:
        """Start all workers; raises an error that says why if one of them cannot be started."""
        starting = [asyncio.create_task(each.start()) for each in self._workers]
        try:
            await asyncio.gather(*starting)
        except BaseException:
            for task in starting:
                # Cancelled twice, it would not wait for the end of a process that it has just started.
                if not task.cancelling():
                    task.cancel()
            await asyncio.gather(*starting, return_exceptions=True)
            await self.close(0)
            raise
        self._keepers = [asyncio.create_task(each.keep()) for each in self._workers]
        self._keepers.append(asyncio.create_task(self._check()))

    async def close(self, grace: float) -> bool:
        """End all workers. They close the store, or are killed if their calls do not end in this many seconds.

        Returns whether all calls have ended.
        """
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)
        return all(await asyncio.gather(*(each.end(grace) for each in self._workers)))

    async def run(self, call: Call, *, org: str | None) -> Done:
        """Run a call on the worker with the fewest calls, among equals on the one that keeps the org's columns."""
        worker = await self._chosen(org)
        return await worker.run(call)

    async def _chosen(self, org: str | None) -> "_Worker":
        try:
            async with asyncio.timeout(PATIENCE):
                while not (ready := [each for each in self._workers if each.is_ready]):
                    await self._some_ready.wait()
        except TimeoutError:
            raise no_worker() from None
        home = self._workers[crc32((org or "").encode()) % len(self._workers)]
        return min(ready, key=lambda each: (each.running, each is not home))

    def _note_ready(self) -> None:
        self._metrics.workers_ready = sum(each.is_ready for each in self._workers)
        if self._metrics.workers_ready:
            self._some_ready.set()
        else:
            self._some_ready.clear()

    async def _check(self) -> None:
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            for each in self._workers:
                each.check()


class _Worker:
    """One worker process, seen from the service."""

    def __init__(
        self, settings: WorkerSettings, number: int, metrics: Metrics, *, changed: Callable[[], None]
    ) -> None:
        self._settings = settings
        self._number = number
        self._metrics = metrics
        self._changed = changed
        self._process: asyncio.subprocess.Process | None = None
        self._waiting: dict[int, asyncio.Future[Done]] = {}
        self._sent = 0
        self._silent_checks = 0
        self._is_ready = False

    @property
    def is_ready(self) -> bool:
        """Whether it can run calls."""
        return self._is_ready

    @property
    def running(self) -> int:
        """How many calls it is running."""
        return len(self._waiting)

    async def start(self) -> None:
        """Start the process and wait until it has opened the store."""
        try:
            self._process = await asyncio.create_subprocess_exec(
                # Without the folder of the service in the path of modules.
                *(sys.executable, "-P", "-m", "satchel.server.http.worker_process"),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                limit=BUFFER_BYTES,
                # Ctrl-C in a terminal reaches the service only, which lets calls finish.
                start_new_session=True,
            )
        except OSError as error:
            raise StoreError(f"cannot start worker process {self._number}: {error.strerror}") from error
        stdin, stdout = self._pipes
        stdin.write(frame(self._settings))
        try:
            ready = await Frames(Ready).read(stdout)
        except (EOFError, ConnectionError, UnreadableFrameError) as error:
            ending = await self._ending(error)
            raise StoreError(f"worker process {self._number} {ending} while it started") from None
        if ready.problem is not None:
            await self._process.wait()
            raise StoreError(ready.problem)
        self._silent_checks = 0
        self._set_ready(True)

    async def keep(self) -> None:
        """Read the answers of the process, and replace it whenever it ends."""
        pause, started = 0.0, time.monotonic()
        while True:
            ending = await self._read_answers()
            self._fail_calls(ending)
            while not self.is_ready:
                pause = 0.0 if time.monotonic() - started > PROVEN_SECONDS else min(LONGEST_PAUSE, 2 * pause + 0.5)
                await asyncio.sleep(pause)
                started = time.monotonic()
                try:
                    await self.start()
                except SatchelError as error:
                    _log.warning("cannot replace a worker process: %s", short_line(str(error)))
            self._metrics.worker_restarts += 1

    async def run(self, call: Call) -> Done:
        self._sent += 1
        request = frame(Request(self._sent, call))
        done: asyncio.Future[Done] = asyncio.get_running_loop().create_future()
        number = self._sent
        self._waiting[number] = done
        try:
            # A process that has just died is noticed by its keeper, which fails this call.
            self._pipes[0].write(request)
            return await done
        finally:
            self._waiting.pop(number, None)

    def check(self) -> None:
        """Ask for a sign of life, and kill a process that has given none for long."""
        if not self.is_ready:
            return
        if self._silent_checks >= MOST_SILENT_CHECKS:
            _log.warning("worker process %d does not respond and is killed", self._number)
            self._kill()
            return
        self._silent_checks += 1
        self._pipes[0].write(frame(Request(0, None)))

    async def end(self, grace: float) -> bool:
        """End the process; returns False if its calls did not end in time. One that is only starting is killed."""
        seconds = 0.0 if not self.is_ready else grace if self.running else KILL_SECONDS
        self._set_ready(False)
        if self._process is None or self._process.returncode is not None:
            return True
        stdin, stdout = self._pipes
        stdin.close()
        try:
            async with asyncio.timeout(seconds):
                # To its end, so that a worker is not held up by answers that nobody reads.
                while await stdout.read(BUFFER_BYTES):
                    pass
                await self._process.wait()
        except TimeoutError:
            self._kill()
            await self._process.wait()
        return not self.running

    @property
    def _pipes(self) -> tuple[asyncio.StreamWriter, asyncio.StreamReader]:
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        return self._process.stdin, self._process.stdout

    def _set_ready(self, is_ready: bool) -> None:
        self._is_ready = is_ready
        self._changed()

    async def _read_answers(self) -> str:
        """Pass on the answers of the process until it ends; returns what happened in words."""
        frames, (_, stdout) = Frames(Response), self._pipes
        try:
            while True:
                response = await frames.read(stdout)
                self._silent_checks = 0
                done = self._waiting.get(response.number)
                if response.done is not None and done is not None and not done.done():
                    done.set_result(response.done)
        except (EOFError, ConnectionError, UnreadableFrameError) as error:
            # Before anything is awaited, so that no other call is sent to it.
            self._set_ready(False)
            return await self._ending(error)

    async def _ending(self, reason: Exception) -> str:
        """Wait for the end of a process that sends no more answers, and return what happened in words."""
        assert self._process is not None
        if isinstance(reason, UnreadableFrameError):
            self._kill()
            await self._process.wait()
            return "has written something else than answers to its standard output"
        try:
            async with asyncio.timeout(KILL_SECONDS):
                code = await self._process.wait()
        except TimeoutError:
            self._kill()
            code = await self._process.wait()
        return f"was ended by {_signal_name(-code)}" if code < 0 else f"ended with exit code {code}"

    def _fail_calls(self, ending: str) -> None:
        calls = [each for each in self._waiting.values() if not each.done()]
        for each in calls:
            each.set_result(Done(refusal=as_problem(_interrupted())))
        _log.warning(
            "worker process %d %s and is replaced; calls that failed: %d", self._number, ending, len(calls)
        )

    def _kill(self) -> None:
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a realtime signal
        return f"signal {number}"


def _interrupted() -> RefusedError:
    return RefusedError(
        HTTPStatus.SERVICE_UNAVAILABLE,
        "interrupted",
        "the process that ran this call ended; a write may have taken effect: look before you try again",
        Retry_After=str(SOON),
    )


def no_worker() -> RefusedError:
    """Return the error of a call that no worker can run."""
    return RefusedError(
        HTTPStatus.SERVICE_UNAVAILABLE,
        "no-worker",
        "no worker process is ready; try again",
        Retry_After=str(SOON),
    )
