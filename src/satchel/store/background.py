"""A thread that repeats small steps of work while there is any, and ends with the program."""

import atexit
import contextlib
import os
import threading
import weakref
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

__all__ = ["BackgroundThread", "Step"]

Step: TypeAlias = Callable[[threading.Event], bool]
"""Does a little and returns whether more is left. It must not raise, and ends soon once the event is set."""


class _Worker(NamedTuple):
    thread: threading.Thread
    stopping: threading.Event


class BackgroundThread:
    """Repeats small steps of work in a thread of its own, for as long as they have something to do.

    The thread is a daemon and lives only while there is work. When the program ends, the step
    that runs is waited for: no C library may be unloaded under a thread that computes with it.
    """

    def __init__(self) -> None:
        self._stopped = False
        self._begin()
        _all.add(self)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._wanted: dict[Step, None] = {}
        self._worker: _Worker | None = None
        self._pid = os.getpid()

    @property
    def awake(self) -> bool:
        """Whether the thread runs."""
        self._leave_to_parent()
        return self._worker is not None

    def wake(self, step: Step) -> None:
        """Have a step repeated until nothing is left. The same step is never queued twice."""
        self._leave_to_parent()
        with self._lock:
            if self._stopped:
                return
            self._wanted[step] = None
            if self._worker is None:
                stopping = threading.Event()
                thread = threading.Thread(
                    target=self._run, args=(stopping,), name="satchel-background", daemon=True
                )
                # While the program ends no thread can be started: what waits is left for the next one.
                with contextlib.suppress(RuntimeError):
                    thread.start()
                    self._worker = _Worker(thread, stopping)

    def pause(self) -> None:
        """Drop what is wanted, and return when the step that runs is over; `wake` starts again."""
        self._leave_to_parent()
        with self._lock:
            self._wanted.clear()
            worker, self._worker = self._worker, None
        if worker is not None:
            worker.stopping.set()
            if worker.thread is not threading.current_thread():
                worker.thread.join()

    def stop(self) -> None:
        """Pause for good: `wake` does nothing any more."""
        self._stopped = True
        self.pause()

    def _run(self, stopping: threading.Event) -> None:
        while (step := self._next(stopping)) is not None:
            while not stopping.is_set() and step(stopping):
                pass

    def _next(self, stopping: threading.Event) -> Step | None:
        with self._lock:
            if stopping.is_set():
                return None
            step = next(iter(self._wanted), None)
            if step is None:
                self._worker = None
            else:
                del self._wanted[step]
            return step

    def _leave_to_parent(self) -> None:
        """A forked child has neither the thread nor whoever held the lock."""
        if self._pid != os.getpid():
            self._begin()


_all: "weakref.WeakSet[BackgroundThread]" = weakref.WeakSet()


@atexit.register
def _stop_all() -> None:
    for each in list(_all):
        each.stop()
