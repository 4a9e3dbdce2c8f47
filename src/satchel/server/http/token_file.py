"""The file of the tokens: one line of JSON each, replaced in one step, by one process at a time."""

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from satchel.api.transfer.files import write_atomically
from satchel.errors import InputError, SatchelError
from satchel.server.http.access import Token
from satchel.store.file_lock import PATIENCE, locked

__all__ = ["add_token", "read_tokens", "revoke_token"]

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
    """Whoever else changes a file of this folder waits, so that none undoes what another did."""
    folder = Path(os.path.realpath(path)).parent
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(locked(folder))
        except BlockingIOError:
            raise SatchelError(f"another process has kept {folder} locked for {PATIENCE:.0f} s") from None
        except OSError as error:
            raise InputError(f"cannot open the folder {folder}: {error.strerror}") from error
        yield
