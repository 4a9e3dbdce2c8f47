"""Packages that only some commands need, and the extra that installs them."""

import contextlib
from collections.abc import Iterator
from importlib.util import find_spec

from satchel.errors import SatchelError

__all__ = ["is_installed", "missing_extra", "needs_extra"]

_PACKAGES = {
    "postgres": ("psycopg",),
    "serve": ("anyio", "httpx2", "jwt", "mcp", "mcp_types", "pydantic", "starlette", "uvicorn"),
}


@contextlib.contextmanager
def needs_extra(extra: str, what: str, *, raises: type[SatchelError] = SatchelError) -> Iterator[None]:
    """Turn the error of an import of a package of this extra into one line that says how to install it.

    A package may be there without a part that it needs, as psycopg without libpq. Its error then names no module.
    """
    try:
        yield
    except ImportError as error:
        if error.name and error.name.partition(".")[0] not in _PACKAGES[extra]:
            raise
        raise raises(missing_extra(extra, what)) from None


def is_installed(extra: str) -> bool:
    """Whether the packages of an extra are there, without importing them."""
    try:
        return all(find_spec(name) is not None for name in _PACKAGES[extra])
    except ImportError:
        return False


def missing_extra(extra: str, what: str) -> str:
    """Return the line that says how to install what is missing."""
    return f"{what} needs the extra {extra!r}; run: pip install 'satchel[{extra}]'"
