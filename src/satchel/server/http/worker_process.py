"""A worker process: runs calls that come in on standard input, and answers on standard output.

`satchel.server.http.workers` starts `python -m satchel.server.http.worker_process`. It opens the store and runs
calls in threads. It has no port and no settings of its own, leaves signals to the service, and ends when its input
does: when the service closes it or is killed.

Messages are frames: a length, then MessagePack.
"""

import os
import signal
import struct
import threading
import traceback
from asyncio import StreamReader
from concurrent.futures import ThreadPoolExecutor
from typing import BinaryIO, Generic, TypeVar

import msgspec

from satchel.errors import SatchelError
from satchel.server.http.problems import unexpected
from satchel.server.http.work import Call, Done, Work
from satchel.server.process import claim_stdio, exit_within

__all__ = ["Frames", "Ready", "Request", "Response", "UnreadableFrameError", "WorkerSettings", "frame", "main"]

# How long calls may go on when the service is gone. Nobody waits for their answers.
LAST_SECONDS = 5.0
LONGEST_FRAME = 1 << 40

V = TypeVar("V")


# Messages


class WorkerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The first message to a worker: what it needs to know."""

    location: str
    read_db: str | None
    counter: str | None
    embedder: str | None
    threads: int
    most_answer: int


class Ready(msgspec.Struct, frozen=True):
    """The first message of a worker: it can run calls, or what is wrong."""

    problem: str | None = None


class Request(msgspec.Struct, frozen=True, array_like=True):
    """A call with a number; without a call, it asks for a sign of life."""

    number: int
    call: Call | None


class Response(msgspec.Struct, frozen=True, array_like=True):
    """What came of the request with this number."""

    number: int
    done: Done | None


# Frames


class UnreadableFrameError(Exception):
    """What was read is not a frame, for example because other code has written to the pipe."""


_LENGTH = struct.Struct(">Q")


def frame(value: object) -> bytes:
    content = msgspec.msgpack.encode(value)
    return _LENGTH.pack(len(content)) + content


class Frames(Generic[V]):
    """Reads frames of one type. At the end of the input it raises EOFError."""

    def __init__(self, kind: type[V]) -> None:
        self._decoder = msgspec.msgpack.Decoder(kind)

    async def read(self, stream: StreamReader) -> V:
        return self._decoded(await stream.readexactly(_length(await stream.readexactly(_LENGTH.size))))

    def read_from(self, file: BinaryIO) -> V:
        return self._decoded(_read_exactly(file, _length(_read_exactly(file, _LENGTH.size))))

    def _decoded(self, content: bytes) -> V:
        try:
            return self._decoder.decode(content)
        except msgspec.DecodeError as error:
            raise UnreadableFrameError(str(error)) from error


def _length(head: bytes) -> int:
    (length,) = _LENGTH.unpack(head)
    # Text taken for a length gives a far larger number.
    if length > LONGEST_FRAME:
        raise UnreadableFrameError(f"no frame begins with {head!r}")
    return int(length)


def _read_exactly(file: BinaryIO, size: int) -> bytes:
    if len(content := file.read(size)) < size:
        raise EOFError
    return content


# The process


def main() -> int:
    """Run the calls that come in on standard input until it ends. Returns the exit code."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    reading, writing = claim_stdio()
    try:
        with os.fdopen(reading, "rb") as requests, os.fdopen(writing, "wb") as responses:
            settings = Frames(WorkerSettings).read_from(requests)
            try:
                _serve(settings, requests, responses)
            except SatchelError as error:
                responses.write(frame(Ready(str(error))))
                return 1
    except (EOFError, BrokenPipeError):
        # The service is gone.
        return 1
    return 0


def _serve(settings: WorkerSettings, requests: BinaryIO, responses: BinaryIO) -> None:
    from satchel.api.satchel import open as open_bag
    from satchel.server.logs import configure_logging
    from satchel.text.redact import load_rules
    from satchel.text.tokens import DEFAULT_COUNTER

    configure_logging()
    load_rules()
    counter, read_db = settings.counter or DEFAULT_COUNTER, settings.read_db
    with (
        open_bag(
            settings.location, create=False, counter=counter, embedder=settings.embedder, read_db=read_db
        ) as bag,
        ThreadPoolExecutor(settings.threads, thread_name_prefix="call") as pool,
    ):
        bag.warm_up(whole=True)
        answering = _Answering(Work(bag, most_answer=settings.most_answer), responses)
        answering.send(Ready())
        incoming = Frames(Request)
        try:
            while True:
                request = incoming.read_from(requests)
                if request.call is None:
                    answering.send(Response(request.number, None))
                else:
                    pool.submit(answering.run, request.number, request.call)
        except EOFError:
            exit_within(LAST_SECONDS, 1)


class _Answering:
    """Runs calls and sends what came of them. Safe to share between threads."""

    def __init__(self, work: Work, responses: BinaryIO) -> None:
        self._work = work
        self._responses = responses
        self._lock = threading.Lock()

    def run(self, number: int, call: Call) -> None:
        try:
            content = frame(Response(number, self._work.do(call)))
        except Exception as error:  # noqa: BLE001 - outermost handler of a thread
            if os.environ.get("SATCHEL_DEBUG"):
                traceback.print_exc()
            content = frame(Response(number, Done(refusal=unexpected(error))))
        self._write(content)

    def send(self, message: object) -> None:
        self._write(frame(message))

    def _write(self, content: bytes) -> None:
        with self._lock:
            self._responses.write(content)
            self._responses.flush()


if __name__ == "__main__":
    # Without the teardown of the interpreter, because the store is closed.
    os._exit(main())
