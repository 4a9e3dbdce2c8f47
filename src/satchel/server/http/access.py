"""Access tokens: what they allow, the token file, and the tokens that a running service knows."""

import contextlib
import hmac
import logging
import os
import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import msgspec

from satchel.api.transfer import write_atomically
from satchel.errors import InputError, SatchelError
from satchel.model.memory import DEFAULT_ORG, utc_now
from satchel.store.file_lock import PATIENCE, locked

__all__ = [
    "Access",
    "Caller",
    "Keyring",
    "Token",
    "add_token",
    "caller_of",
    "new_token",
    "parse_token",
    "read_tokens",
    "revoke_token",
    "secret_matches",
]


Access = Literal["read", "write", "metrics"]

PREFIX = "satchel_"
ID_BYTES = 5
SECRET_BYTES = 32
_SHAPE = re.compile(rf"{PREFIX}([0-9a-f]{{{2 * ID_BYTES}}})_([A-Za-z0-9_-]{{43}})")
# A time zone is required: without it the moment is ambiguous.
_Moment = Annotated[datetime, msgspec.Meta(tz=True)]
# Compared with tokens of unknown id, so that they take as long to reject as any other.
_UNKNOWN_HASH = bytes(32)


class Token(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A token as stored: everything but its secret."""

    id: str
    hash: str
    access: Access
    org: str | None = None
    project: str | None = None
    name: str | None = None
    created_at: _Moment
    expires_at: _Moment | None = None

    def __post_init__(self) -> None:
        if (self.org is None) != (self.access == "metrics"):
            raise InputError(f"token {self.id}: a token for {self.access} {_BOUND[self.access == 'metrics']}")
        if len(bytes.fromhex(self.hash)) != len(_UNKNOWN_HASH):
            raise InputError(f"token {self.id}: its hash is not a SHA-256 hash")

    def expired(self, moment: datetime) -> bool:
        return self.expires_at is not None and self.expires_at <= moment


_BOUND = ("needs an org; give one", "has no org; leave it out")


class Caller(NamedTuple):
    """The caller of a request: whose memories it may read, and whether it may change them."""

    id: str
    access: Access
    org: str | None
    project: str | None = None


def new_token(
    *,
    access: Access,
    org: str | None,
    project: str | None = None,
    name: str | None = None,
    expires_at: datetime | None = None,
) -> tuple[str, Token]:
    """Create a token. Returns the token to hand over, which is not stored, and the record to store."""
    identifier, secret = secrets.token_hex(ID_BYTES), secrets.token_urlsafe(SECRET_BYTES)
    kept = Token(
        id=identifier,
        hash=_hash(secret).hex(),
        access=access,
        org=org,
        project=project,
        name=name,
        created_at=utc_now(),
        expires_at=expires_at,
    )
    return f"{PREFIX}{identifier}_{secret}", kept


def parse_token(given: str) -> tuple[str, str]:
    """Split a token into id and secret; both are empty if it is malformed."""
    found = _SHAPE.fullmatch(given)
    return (found[1], found[2]) if found else ("", "")


def secret_matches(secret: str, token: Token | None) -> bool:
    """Compare a secret with a token's hash in constant time."""
    expected = _UNKNOWN_HASH if token is None else bytes.fromhex(token.hash)
    return hmac.compare_digest(_hash(secret), expected) and token is not None


def caller_of(token: Token) -> Caller:
    return Caller(token.id, token.access, token.org, token.project)


def anonymous_caller(org: str | None) -> Caller:
    """Return the caller of a service without tokens, which listens only on this machine."""
    return Caller("local", "write", org or DEFAULT_ORG)


def _hash(secret: str) -> bytes:
    # One round is enough: slow hashes protect guessable passwords, and 256 random bits cannot be guessed.
    return sha256(secret.encode()).digest()


# The token file: one JSON object per line, replaced atomically under a lock


_OTHERS_WRITE = 0o022
_decoder = msgspec.json.Decoder(Token)


def read_tokens(path: Path) -> list[Token]:
    """Read the tokens of a file; raises `InputError` if others than its owner may write it."""
    try:
        with open(path, "rb") as file:
            if os.name == "posix" and os.fstat(file.fileno()).st_mode & _OTHERS_WRITE:
                raise InputError(f"other users may write {path} and so add tokens; run chmod 600 on it")
            lines = file.read().splitlines()
    except FileNotFoundError:
        raise InputError(f"there is no file {path}; `satchel token create --tokens {path}` creates it") from None
    except OSError as error:
        raise InputError(f"cannot read the token file {path}: {error.strerror}") from error
    tokens = [_token(path, number, line) for number, line in enumerate(lines, start=1) if line.strip()]
    if len({token.id for token in tokens}) < len(tokens):
        raise InputError(f"two tokens in {path} have the same id; remove one of them")
    return tokens


def add_token(path: Path, token: Token) -> None:
    """Add a token to a file, which is created if it does not exist."""
    with _file_lock(path):
        _write(path, [*(read_tokens(path) if path.exists() else ()), token])


def revoke_token(path: Path, identifier: str) -> Token:
    """Remove the token with this id from a file, and return it."""
    with _file_lock(path):
        tokens = read_tokens(path)
        found = next((token for token in tokens if token.id == identifier), None)
        if found is None:
            raise InputError(
                f"no token in {path} has the id {identifier[:40]!r}; `satchel token list` shows the ids"
            )
        _write(path, [token for token in tokens if token is not found])
    return found


def _token(path: Path, number: int, line: bytes) -> Token:
    try:
        return _decoder.decode(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"line {number} of {path} is not a token: {error}") from error


def _write(path: Path, tokens: Sequence[Token]) -> None:
    write_atomically(path, (msgspec.json.encode(token) + b"\n" for token in tokens))


@contextlib.contextmanager
def _file_lock(path: Path) -> Iterator[None]:
    """Lock the folder, so that no other process changes the file at the same time."""
    folder = Path(os.path.realpath(path)).parent
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(locked(folder))
        except BlockingIOError:
            raise SatchelError(f"another process has locked {folder} for {PATIENCE:.0f} s; try again") from None
        except OSError as error:
            raise InputError(f"cannot open the folder {folder}: {error.strerror}") from error
        yield


# The tokens that a running service knows


_log = logging.getLogger(__name__)
_Stamp = tuple[int, int, int]
_UNREADABLE = (0, 0, 0)


class Keyring:
    """The tokens of a file, which is read again whenever it changes.

    If the file cannot be read, the known tokens stay valid. If it is gone, no token is valid.
    """

    def __init__(self, path: Path, *, changed: Callable[[frozenset[str]], None] = lambda ids: None) -> None:
        self._path = path
        self._changed = changed
        self._stamp = _stamp(path)
        self._tokens: dict[str, Token] = {token.id: token for token in read_tokens(path)}

    def caller(self, authorization: str) -> Caller | None:
        """Return the caller for an Authorization header, or None if its token is unknown or expired."""
        self._reload_if_changed()
        scheme, _, given = authorization.partition(" ")
        identifier, secret = parse_token(given.strip()) if scheme.lower() == "bearer" else ("", "")
        token = self._tokens.get(identifier)
        if not secret_matches(secret, token) or token is None or token.expired(utc_now()):
            return None
        return caller_of(token)

    def _reload_if_changed(self) -> None:
        # Checked before each request, so that a revoked token is rejected from the next request on.
        stamp = _stamp(self._path)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            tokens = read_tokens(self._path) if stamp else []
        except InputError as error:
            _log.warning("keeping the known tokens, because the file cannot be used: %s", error)
            return
        if stamp is None:
            _log.warning("the token file %s is gone: all tokens are rejected until it is back", self._path)
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
