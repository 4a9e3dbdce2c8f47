"""Start the command `satchel`, also as `python -m satchel`.

Ctrl-C ends the command with exit code 130 and without a traceback, whenever it comes: while modules are imported,
while a command runs, and while the interpreter shuts down. This module therefore imports next to nothing.
"""

import gc
import os
import signal
import sys
from types import FrameType, ModuleType

__all__ = ["main"]

INTERRUPTED = 130

_BLAS_THREADS = "OPENBLAS_NUM_THREADS"
# By default the collector runs after 700 new objects, hundreds of times while modules are imported. A server lives
# long, so it collects more often than a command.
_OBJECTS_PER_COLLECTION = 200_000
_OBJECTS_PER_COLLECTION_OF_SERVER = 20_000
_SERVERS = ("mcp", "gateway", "serve")
# What numpy imports and a command does not use: the docstrings of its C functions, and its types for type checkers,
# of which `numpy.linalg` only subscripts NDArray in annotations. They take 40 % of the time to import numpy.
_UNUSED_IN_NUMPY: dict[str, dict[str, object]] = {
    "numpy._core._add_newdocs": {},
    "numpy._core._add_newdocs_scalars": {},
    "numpy._typing": {"NDArray": list},
}


def main() -> None:
    """Run the command that the arguments of the process name, and exit with its code."""
    # A shell starts jobs in the background with Ctrl-C ignored; that stays as it is.
    interruptible = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if interruptible:
        signal.signal(signal.SIGINT, _exit_now)
        sys.unraisablehook = _exit_if_interrupted
    _start_fast()
    from satchel.cli.app import run

    code = INTERRUPTED
    try:
        if interruptible:
            # A command undoes or reports what it was doing, so it gets the exception.
            signal.signal(signal.SIGINT, signal.default_int_handler)
        code = run()
    except KeyboardInterrupt:
        # Ctrl-C again, while the first one was handled.
        pass
    if interruptible:
        signal.signal(signal.SIGINT, _exit_now)
    _exit(code)


def _exit(code: int) -> None:
    """Exit at once: everything is closed, and taking apart all modules takes 4 % of the time of a search.

    If a thread is still running or the output cannot be written, the interpreter waits for the one and reports the
    other, as usual.
    """
    import atexit
    import contextlib
    import threading

    if threading.active_count() == 1:
        with contextlib.suppress(OSError, ValueError):
            atexit._run_exitfuncs()
            for stream in (sys.stdout, sys.stderr):
                if stream is not None:
                    stream.flush()
            os._exit(code)
    # Else the interpreter looks for unreachable objects among all there are.
    gc.freeze()
    sys.exit(code)


def _start_fast() -> None:
    """Set what makes a short command faster, before anything is imported."""
    serves = any(word in _SERVERS for word in sys.argv[1:2])
    gc.set_threshold(_OBJECTS_PER_COLLECTION_OF_SERVER if serves else _OBJECTS_PER_COLLECTION)
    if _BLAS_THREADS not in os.environ:
        # Else OpenBLAS starts a thread for each processor when numpy is imported, which spins for 100 ms. Products
        # are computed in one thread anyway (`embed.minilm.one_thread`). Not in `os.environ`: the servers behind a
        # gateway inherit that.
        os.putenv(_BLAS_THREADS, "1")
    for name, contents in _UNUSED_IN_NUMPY.items():
        sys.modules[name] = _Postponed(name, contents)


class _Postponed(ModuleType):
    """Stands for a module until someone uses a name of it that is not in `contents`; then the module is loaded."""

    def __init__(self, name: str, contents: dict[str, object]) -> None:
        super().__init__(name)
        vars(self).update(contents)

    def __getattr__(self, attribute: str) -> object:
        from importlib import import_module

        if attribute == "__path__":
            # An import asks for it: the folder of a package, where its modules are.
            package, _, folder = self.__name__.rpartition(".")
            return [os.path.join(each, folder) for each in sys.modules[package].__path__]  # noqa: PTH118
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        module = import_module(self.__name__)
        # Also for an import that is taking several names from here.
        vars(self).update(vars(module))
        return getattr(module, attribute)


def _exit_now(number: int, frame: FrameType | None) -> None:
    os._exit(INTERRUPTED)


def _exit_if_interrupted(failure: "sys.UnraisableHookArgs") -> None:
    """Exit when Ctrl-C came where Python cannot raise, such as in a destructor: it would print a traceback."""
    if failure.exc_type is not None and issubclass(failure.exc_type, KeyboardInterrupt):
        os._exit(INTERRUPTED)
    sys.__unraisablehook__(failure)


if __name__ == "__main__":
    main()
