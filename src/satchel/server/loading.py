"""Load in a thread what a server needs later, and run its calls in threads."""

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Generic, TypeVar

__all__ = ["Loading", "Workers"]

T = TypeVar("T")


class Loading(Generic[T]):
    """A value that is made in a thread: as soon as somebody asks for it, or earlier if there is time.

    If it cannot be made, all who wait for it get the error, and the next one who asks makes another attempt.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._value: list[T] = []
        self._then: Callable[[], object] | None = None
        self.failure: Exception | None = None
        """Why the last attempt failed."""

    def start(self, *, then: Callable[[], object] | None = None) -> None:
        """Begin to make the value, if it is neither made nor in the making; `then` is called after the attempt."""
        with self._changed:
            self._then = then or self._then
            self._begin()

    def made(self) -> T | None:
        """Return the value if it is there."""
        return self._value[0] if self._value else None

    def get(self) -> T:
        """Return the value; waits until it is made, and raises the error if it cannot be."""
        with self._changed:
            attempt = self._begin()
            while not self._value and self._thread is attempt:
                self._changed.wait()
            if not self._value:
                assert self.failure is not None
                raise self.failure
            return self._value[0]

    def finish(self, seconds: float) -> T | None:
        """Wait for an attempt that is under way, and return the value if there is one. Nothing is begun."""
        with self._changed:
            self._changed.wait_for(lambda: self._thread is None, seconds)
            return self._value[0] if self._value else None

    def _begin(self) -> threading.Thread | None:
        if not self._value and self._thread is None:
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()
        return self._thread

    def _run(self) -> None:
        value: list[T] = []
        failure: Exception | None = None
        try:
            value = [self._make()]
        except Exception as error:  # noqa: BLE001 - raised by whoever asks for the value
            failure = error
        with self._changed:
            self._value, self.failure, self._thread = value, failure, None
            self._changed.notify_all()
        if self._then is not None:
            self._then()


class Workers:
    """A few threads that run calls in the order of their arrival. They do not keep the process from exiting."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._calls: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._idle = 0

    def run(self, call: Callable[[], None]) -> None:
        """Run a call soon. It must not raise."""
        self._calls.put(call)
        with self._lock:
            if self._idle or self._threads == self._most:
                return
            self._threads += 1
        threading.Thread(target=self._work, daemon=True).start()

    def _work(self) -> None:
        while True:
            with self._lock:
                self._idle += 1
            call = self._calls.get()
            with self._lock:
                self._idle -= 1
            call()
