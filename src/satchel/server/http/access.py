"""Access tokens: what they allow, the token file, and the tokens that a running service knows."""

import contextlib
import hmac
import logging
import os
import re
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import msgspec

from satchel.api.transfer import write_atomically
from satchel.errors import InputError, SatchelError
from satchel.model.memory import utc_now
from satchel.model.scope_fields import DEFAULT_ORG
from satchel.store.file_lock import PATIENCE, locked

__all__ = [
    "Access",
    "Caller",
    "Keyring",
    "Token",
    "UnreadableTokensError",
    "add_token",
    "caller_of",
    "is_own_token",
    "new_token",
    "parse_token",
    "read_tokens",
    "revoke_token",
    "secret_matches",
]


Access = Literal["read", "write", "metrics"]

PREFIX = "satchel_"
OAUTH_ID = "oauth-"
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
    user: str | None = None

    @property
    def is_oauth(self) -> bool:
        """Whether an OAuth issuer vouches for the caller, and not the token file."""
        return self.id.startswith(OAUTH_ID)


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


def is_own_token(given: str) -> bool:
    """Whether a text looks like a token of a token file, and not like one of an OAuth issuer."""
    return given.startswith(PREFIX)


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


TOKEN_FILE_SECONDS = 60.0
RETRY_SECONDS = 1.0
SETTLED_NS = 100_000_000

_log = logging.getLogger(__name__)
_Stamp = tuple[int, ...]


class UnreadableTokensError(SatchelError):
    """Raised for every token when the token file has been unreadable for too long: one may have been revoked."""


class Keyring:
    """The tokens of a file, which is read again whenever it changes.

    While the file cannot be read, the known tokens stay valid for `patience` seconds and reading is tried again at
    least once a second. After that every token is refused until the file can be read. If the file is gone, no token
    is valid.
    """

    def __init__(
        self,
        path: Path,
        *,
        patience: float = TOKEN_FILE_SECONDS,
        changed: Callable[[frozenset[str]], None] = lambda ids: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = path
        self._patience = patience
        self._changed = changed
        self._clock = clock
        self._failed_since: float | None = None
        self._tried_at = 0.0
        self._failed_stamp: _Stamp | None = None
        stamp = _stamp(path)
        self._tokens: dict[str, Token] = {token.id: token for token in read_tokens(path)}
        self._stamp = _settled(stamp)

    def caller(self, authorization: str) -> Caller | None:
        """Return the caller for an Authorization header, or None if its token is unknown or expired.

        Raises `UnreadableTokensError` if the file has been unreadable for too long.
        """
        self.check()
        scheme, _, given = authorization.partition(" ")
        identifier, secret = parse_token(given.strip()) if scheme.lower() == "bearer" else ("", "")
        token = self._tokens.get(identifier)
        if not secret_matches(secret, token) or token is None or token.expired(utc_now()):
            return None
        return caller_of(token)

    @property
    def unreadable_seconds(self) -> float:
        """How long the file has been unreadable; 0 if it can be read."""
        return 0.0 if self._failed_since is None else max(self._clock() - self._failed_since, 0.001)

    def check(self) -> None:
        """Read the file if it has changed; raises `UnreadableTokensError` if that has failed for too long."""
        self._reload_if_changed()
        if self.unreadable_seconds > self._patience:
            raise UnreadableTokensError(
                f"the token file has been unreadable for more than {self._patience:g} s, "
                "so no token is accepted until it can be read"
            )

    def _reload_if_changed(self) -> None:
        # Checked before each request, so that a revoked token is rejected from the next request on.
        try:
            stamp = _stamp(self._path)
        except OSError as error:
            self._failed(None, f"cannot look at the token file {self._path}: {error.strerror}")
            return
        if stamp == self._stamp and self._failed_since is None:
            return
        # Reading the same invalid file before every request would cost too much.
        again = self._failed_since is not None and stamp == self._failed_stamp
        if again and self._clock() - self._tried_at < RETRY_SECONDS:
            return
        try:
            tokens = read_tokens(self._path) if stamp else []
        except InputError as error:
            self._failed(stamp, str(error))
            return
        self._succeeded(stamp, tokens)

    def _succeeded(self, stamp: _Stamp | None, tokens: Sequence[Token]) -> None:
        if stamp is None:
            _log.warning("the token file %s is gone: all tokens are rejected until it is back", self._path)
        elif self._failed_since is not None:
            _log.warning("the token file %s can be read again", self._path)
        # Only now: a file that could not be read is tried again.
        self._stamp, self._failed_since, self._failed_stamp = _settled(stamp), None, None
        known = {token.id: token for token in tokens}
        if known != self._tokens:
            self._tokens = known
            self._changed(frozenset(known))

    def _failed(self, stamp: _Stamp | None, reason: str) -> None:
        now = self._clock()
        if self._failed_since is None:
            self._failed_since = now
        self._failed_stamp, self._tried_at = stamp, now
        if now - self._failed_since <= self._patience:
            _log.warning("keeping the known tokens for at most %g s, because %s", self._patience, reason)
            return
        _log.error("ALL TOKENS ARE REFUSED until the token file can be read: %s", reason)
        if self._tokens:
            self._tokens = {}
            self._changed(frozenset())


def _stamp(path: Path) -> _Stamp | None:
    """Return what changes whenever the file does, or None if there is no file.

    A replacement may keep size and mtime; the kernel still sets ctime, which no program can set.
    """
    try:
        found = os.stat(path)  # noqa: PTH116  # once a request; Path.stat takes twice as long
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_ctime_ns, found.st_mtime_ns, found.st_mode, found.st_dev, found.st_ino, found.st_size


def _settled(stamp: _Stamp | None) -> _Stamp | None:
    """Return the stamp, or one that no file has if the file changed just now.

    The kernel's clock advances in steps of a few milliseconds: a second change in the same step has the same stamp.
    """
    if stamp is not None and abs(time.time_ns() - stamp[0]) < SETTLED_NS:
        return ()
    return stamp
