"""Keeps numpy's matrix products to the thread that asks for them, while we compute."""

import contextlib
import os
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

__all__ = ["one_thread"]


class _Limit:
    """Holds the limit while anyone computes: the first sets it, the last gives back what was before."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._computing = 0
        self._controller: ThreadpoolController | None = None
        self._held = contextlib.ExitStack()

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        with self._lock:
            if not self._computing:
                self._held.enter_context(self._limited())
            self._computing += 1
        try:
            yield
        finally:
            with self._lock:
                self._computing -= 1
                if not self._computing:
                    self._held.close()

    def forked(self) -> None:
        """In the child of a fork no other thread computes, and none will release the lock."""
        self._lock = threading.Lock()
        self._computing = 0
        self._held.close()

    def _limited(self) -> "contextlib.AbstractContextManager[object]":
        if self._controller is None:
            try:
                from threadpoolctl import ThreadpoolController
            except ImportError:
                # It computes the same without, only less kindly to others.
                return contextlib.nullcontext()
            self._controller = ThreadpoolController()
        return self._controller.limit(limits=1, user_api="blas")


_limit = _Limit()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_limit.forked)


def one_thread() -> contextlib.AbstractContextManager[None]:
    """Within it, numpy computes matrix products in the calling thread; afterwards as before.

    BLAS would start a thread for each processor. They wait for each other by spinning: where
    others use the processors too, that makes small products many times slower, and a fork in the
    middle of one can hang. The setting is one for the whole process, and callers share it.
    """
    return _limit.hold()
