"""Text from files and standard input."""

import sys
from pathlib import Path
from typing import IO

from satchel.errors import InputError

__all__ = ["decode", "read_file", "read_stdin", "stdin"]


def read_stdin() -> str:
    """Standard input as text, or an error that says it is not UTF-8."""
    return decode(stdin().read(), "standard input")


def stdin() -> IO[bytes]:
    if sys.stdin is None:
        raise InputError("standard input is closed; there is nothing to read")
    return sys.stdin.buffer


def read_file(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {file}: {error.strerror}") from error


def decode(content: bytes, name: str) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{name} is not UTF-8 text: byte {error.start} cannot be read") from None
