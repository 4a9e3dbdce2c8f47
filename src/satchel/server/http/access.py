"""Access tokens: what they allow, how they are kept in a file, and which a running service knows."""

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
# Without a zone nobody can say when it is.
_Moment = Annotated[datetime, msgspec.Meta(tz=True)]
# What a token of an unknown id is held against, so that its answer takes as long as any.
_NOBODY = bytes(32)


class Token(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A token as it is kept: everything but the token itself."""

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
            raise InputError(f"token {self.id}: a token for {self.access} is {_BOUND[self.access == 'metrics']}")
        if len(bytes.fromhex(self.hash)) != len(_NOBODY):
            raise InputError(f"token {self.id}: its hash is not one of SHA-256")

    def expired(self, moment: datetime) -> bool:
        return self.expires_at is not None and self.expires_at <= moment


_BOUND = ("bound to an org; give one", "bound to none; leave the org out")


class Caller(NamedTuple):
    """Who asks: whose memories they may see, and whether they may change them."""

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
    """A token to hand over, which is not kept, and what is kept of it."""
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
    """The id and the secret of a token; both are empty for anything else."""
    found = _SHAPE.fullmatch(given)
    return (found[1], found[2]) if found else ("", "")


def secret_matches(secret: str, token: Token | None) -> bool:
    """Compare a secret with that of a token, in constant time."""
    expected = _NOBODY if token is None else bytes.fromhex(token.hash)
    return hmac.compare_digest(_hash(secret), expected) and token is not None


def caller_of(token: Token) -> Caller:
    return Caller(token.id, token.access, token.org, token.project)


def anonymous_caller(org: str | None) -> Caller:
    """The caller of a service without tokens, which listens on this machine alone."""
    return Caller("local", "write", org or DEFAULT_ORG)


def _hash(secret: str) -> bytes:
    # One round is enough: a slow hash protects passwords that can be guessed, and nobody guesses 256 random bits.
    return sha256(secret.encode()).digest()


# The file of tokens: one line of JSON each, replaced atomically, by one process at a time


_OTHERS_WRITE = 0o022
_decoder = msgspec.json.Decoder(Token)


def read_tokens(path: Path) -> list[Token]:
    """The tokens of a file, which only its owner may write."""
    try:
        with open(path, "rb") as file:
            if os.name == "posix" and os.fstat(file.fileno()).st_mode & _OTHERS_WRITE:
                raise InputError(f"others may write {path}, and make tokens of their own; chmod 600 it")
            lines = file.read().splitlines()
    except FileNotFoundError:
        raise InputError(f"there is no file {path}; `satchel token create --tokens {path}` makes it") from None
    except OSError as error:
        raise InputError(f"cannot read the tokens in {path}: {error.strerror}") from error
    tokens = [_token(path, number, line) for number, line in enumerate(lines, start=1) if line.strip()]
    if len({token.id for token in tokens}) < len(tokens):
        raise InputError(f"two tokens of {path} have the same id; remove one of them")
    return tokens


def add_token(path: Path, token: Token) -> None:
    """Put a token into a file, which is made if there is none."""
    with _alone_at(path):
        _write(path, [*(read_tokens(path) if path.exists() else ()), token])


def revoke_token(path: Path, identifier: str) -> Token:
    """Take a token out of a file: the one that was there by this id."""
    with _alone_at(path):
        tokens = read_tokens(path)
        found = next((token for token in tokens if token.id == identifier), None)
        if found is None:
            raise InputError(f"no token of {path} has the id {identifier[:40]!r}; `satchel token list` names them")
        _write(path, [token for token in tokens if token is not found])
    return found


def _token(path: Path, number: int, line: bytes) -> Token:
    try:
        return _decoder.decode(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"line {number} of {path} is no token: {error}") from error


def _write(path: Path, tokens: Sequence[Token]) -> None:
    write_atomically(path, (msgspec.json.encode(token) + b"\n" for token in tokens))


@contextlib.contextmanager
def _alone_at(path: Path) -> Iterator[None]:
    """Lock the folder, so that no other process changes the file meanwhile."""
    folder = Path(os.path.realpath(path)).parent
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(locked(folder))
        except BlockingIOError:
            raise SatchelError(f"another process has kept {folder} locked for {PATIENCE:.0f} s") from None
        except OSError as error:
            raise InputError(f"cannot open the folder {folder}: {error.strerror}") from error
        yield


# The tokens that a running service knows


_log = logging.getLogger(__name__)
_Stamp = tuple[int, int, int]
_UNREADABLE = (0, 0, 0)


class Keyring:
    """The tokens of a file, which is read again whenever it has changed.

    One that cannot be read leaves what was known; one that is gone holds no token.
    """

    def __init__(self, path: Path, *, changed: Callable[[frozenset[str]], None] = lambda ids: None) -> None:
        self._path = path
        self._changed = changed
        self._stamp = _stamp(path)
        self._tokens: dict[str, Token] = {token.id: token for token in read_tokens(path)}

    def caller(self, authorization: str) -> Caller | None:
        """The caller with this header, if it has a token that is known and has not expired."""
        self._catch_up()
        scheme, _, given = authorization.partition(" ")
        identifier, secret = parse_token(given.strip()) if scheme.lower() == "bearer" else ("", "")
        token = self._tokens.get(identifier)
        if not secret_matches(secret, token) or token is None or token.expired(utc_now()):
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
