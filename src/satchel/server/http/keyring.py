"""The tokens that a running service knows, as its file has them now."""

import logging
import os
from collections.abc import Callable
from pathlib import Path

from satchel.errors import InputError
from satchel.model.fields import utc_now
from satchel.server.http.access import Caller, Token, caller_of, fits, parsed
from satchel.server.http.token_file import read_tokens

__all__ = ["Keyring"]

_log = logging.getLogger(__name__)
_Stamp = tuple[int, int, int]
_UNREADABLE = (0, 0, 0)


class Keyring:
    """Reads the file again whenever it has changed.

    One that cannot be read leaves what was known; one that is gone holds no token.
    """

    def __init__(self, path: Path, *, changed: Callable[[frozenset[str]], None] = lambda ids: None) -> None:
        self._path = path
        self._changed = changed
        self._stamp = _stamp(path)
        self._tokens: dict[str, Token] = {token.id: token for token in read_tokens(path)}

    def caller(self, authorization: str) -> Caller | None:
        """Whoever carries a token that is known and has not expired."""
        self._catch_up()
        scheme, _, given = authorization.partition(" ")
        identifier, secret = parsed(given.strip()) if scheme.lower() == "bearer" else ("", "")
        token = self._tokens.get(identifier)
        if not fits(secret, token) or token is None or token.expired(utc_now()):
            return None
        return caller_of(token)

    def _catch_up(self) -> None:
        # Asked of the file system before each request: a revoked token is refused from the next one on.
        stamp = _stamp(self._path)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            tokens = read_tokens(self._path) if stamp else []
        except InputError as error:
            _log.warning("the tokens stay as they were: %s", error)
            return
        if stamp is None:
            _log.warning("there is no file %s any more: no token is known until there is one", self._path)
        self._tokens = {token.id: token for token in tokens}
        self._changed(frozenset(self._tokens))


def _stamp(path: Path) -> _Stamp | None:
    try:
        found = os.stat(path)  # noqa: PTH116  # once a request; Path.stat takes twice as long
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        return _UNREADABLE
    return found.st_mtime_ns, found.st_ino, found.st_size
