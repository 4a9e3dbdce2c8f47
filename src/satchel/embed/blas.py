"""Keeps numpy's matrix products to the thread that asks for them, while we compute."""

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

__all__ = ["one_thread"]

# As numpy's own wheels name them, then other builds of OpenBLAS.
_NAMES = ("scipy_openblas_{}_num_threads64_", "scipy_openblas_{}_num_threads", "openblas_{}_num_threads")


def one_thread() -> contextlib.AbstractContextManager[None]:
    """Within it, numpy computes matrix products in the calling thread; afterwards as before.

    BLAS would start a thread for each processor. They wait for each other by spinning: where
    others use the processors too, that makes small products many times slower, and a fork in the
    middle of one may hang. The setting is one for the whole process, and callers share it. Where
    numpy computes by anything else than OpenBLAS, nothing is changed.
    """
    return _limit.hold()


class _Limit:
    """Holds the limit while anyone computes: the first sets it, the last gives back what was before."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._computing = 0
        self._before = 1
        self._threads: tuple[Callable[[], int], Callable[[int], object]] | None = None

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        self._enter()
        try:
            yield
        finally:
            self._leave()

    def forked(self) -> None:
        """In the child of a fork no other thread computes, and none will release the lock."""
        self._lock = threading.Lock()
        if self._computing:
            self._computing = 1
            self._leave()

    def _enter(self) -> None:
        with self._lock:
            self._computing += 1
            if self._computing > 1:
                return
            if self._threads is None:
                self._threads = _openblas()
            count, set_count = self._threads
            self._before = count()
            if self._before > 1:
                set_count(1)

    def _leave(self) -> None:
        with self._lock:
            self._computing -= 1
            if not self._computing and self._before > 1 and self._threads is not None:
                self._threads[1](self._before)


# The package threadpoolctl does this for every BLAS; finding them takes it longer than loading our weights.
def _openblas() -> tuple[Callable[[], int], Callable[[int], object]]:
    """How many threads OpenBLAS uses, and how to change it; without OpenBLAS one, and nothing."""
    import ctypes

    import numpy as np

    package = Path(np.__file__).parent
    # Names are looked up in all that a library was linked with, except on Windows.
    extensions = (package / "_core").glob("_multiarray_umath*")
    for path in (*extensions, *package.with_name("numpy.libs").glob("*openblas*")):
        with contextlib.suppress(OSError):
            library = ctypes.CDLL(str(path))
            for name in _NAMES:
                with contextlib.suppress(AttributeError):
                    return library[name.format("get")], library[name.format("set")]
    return (lambda: 1), (lambda count: None)


_limit = _Limit()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_limit.forked)
