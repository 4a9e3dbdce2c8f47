"""Regular expressions that are compiled when they are first used."""

import re
from typing import Any, cast

__all__ = ["lazy_pattern"]


def lazy_pattern(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Return a pattern to be used like one of `re.compile`, which compiles when a method is first called.

    Compiling takes from 0.1 to 4 ms, and a command uses a few of the patterns of the modules that it loads.
    """
    return cast("re.Pattern[str]", _Lazy(pattern, flags))


_METHODS = ("findall", "finditer", "fullmatch", "match", "search", "split", "sub", "subn")


class _Lazy:
    def __init__(self, pattern: str, flags: int) -> None:
        self.pattern = pattern
        self._wanted = flags

    def __getattr__(self, name: str) -> Any:
        """Compile, and keep the methods, so that from then on they are found without this."""
        compiled = re.compile(self.pattern, self._wanted)
        for method in _METHODS:
            setattr(self, method, getattr(compiled, method))
        return getattr(compiled, name)

    def __repr__(self) -> str:
        return f"lazy_pattern({self.pattern!r})"
