"""Writes that nobody waits for: made right after an answer is given, as many in one transaction as have come."""

import sys
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

from satchel.bag import Satchel
from satchel.errors import SatchelError
from satchel.mcp.process import short_line

__all__ = ["Behind"]

# Closing waits this long for what is still to be written.
CLOSING_SECONDS = 1.0

Work = Callable[[], object]


class Behind:
    """Does work on a store in a thread of its own, in the order it comes; a failure is told once, in one line."""

    def __init__(self, bag: Satchel) -> None:
        self._bag = bag
        self._waiting: SimpleQueue[Work | threading.Event] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._failing = False

    def do(self, work: Work) -> None:
        """Have something written soon."""
        self._waiting.put(work)
        self._start()

    def flush(self, seconds: float = CLOSING_SECONDS) -> None:
        """Wait until what has come so far is written, but not for longer."""
        if self._thread is not None:
            done = threading.Event()
            self._waiting.put(done)
            done.wait(seconds)

    close = flush

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, daemon=True)
                self._thread.start()

    def _work(self) -> None:
        while True:
            batch: list[Work] = []
            awaited: list[threading.Event] = []
            each: Work | threading.Event = self._waiting.get()
            try:
                while True:
                    if isinstance(each, threading.Event):
                        awaited.append(each)
                    else:
                        batch.append(each)
                    each = self._waiting.get_nowait()
            except Empty:
                self._write(batch)
            for event in awaited:
                event.set()

    def _write(self, batch: list[Work]) -> None:
        try:
            with self._bag.transaction():
                for work in batch:
                    work()
            self._failing = False
        except SatchelError as error:
            if not self._failing:
                print(f"satchel: answers are not recorded: {short_line(str(error))}", file=sys.stderr)
            self._failing = True
