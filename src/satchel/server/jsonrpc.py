"""Messages of JSON-RPC on the wire: lines of JSON, and what can be told of one that is none."""

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from satchel.errors import SatchelError
from satchel.model.surrogates import repaired_value

__all__ = [
    "INTERNAL_ERROR",
    "INVALID_PARAMS",
    "INVALID_REQUEST",
    "LONGEST_LINE",
    "METHOD_NOT_FOUND",
    "PARSE_ERROR",
    "Identifier",
    "Lines",
    "Message",
    "UnreadableLineError",
    "answer",
    "as_identifier",
    "call_in",
    "decoded",
    "encoded",
    "failure",
    "notification",
    "request",
]

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603

LONGEST_LINE = 64 * 1024 * 1024

Message = dict[str, Any]
Identifier = str | int

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode

# An answer names its call before what it answers, or behind it; in between, "id" may mean anything.
_CALL_AT_START = re.compile(rb'\s*\{[^{\[]{0,100}?"id"\s*:\s*(\d{1,18})\s*[,}]')
_CALL_AT_END = re.compile(rb'[}"\]]\s*,\s*"id"\s*:\s*(\d{1,18})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*\Z')
_END = 200


class UnreadableLineError(SatchelError):
    """Catch this where a peer may write anything."""


def decoded(line: bytes) -> Any:
    """The value a line holds. Halves of characters are replaced; what is no number in JSON becomes null."""
    try:
        return _decode(line)
    except UnicodeDecodeError as error:
        raise UnreadableLineError(f"not UTF-8: {error.reason} 0x{error.object[error.start]:02x}") from None
    except (msgspec.MsgspecError, RecursionError):
        # It is stricter than what others write.
        return _forgiven(line)


def encoded(message: Message) -> bytes:
    return _encode(message) + b"\n"


def request(identifier: Identifier, method: str, params: Message | None) -> Message:
    message: Message = {"jsonrpc": "2.0", "id": identifier, "method": method}
    return message if params is None else message | {"params": params}


def notification(method: str, params: Message | None = None) -> Message:
    message: Message = {"jsonrpc": "2.0", "method": method}
    return message if params is None else message | {"params": params}


def answer(identifier: Identifier, result: Any) -> Message:
    return {"jsonrpc": "2.0", "id": identifier, "result": result}


def failure(identifier: Identifier | None, code: int, message: str, data: Any = None) -> Message:
    error: Message = {"code": code, "message": message}
    return {"jsonrpc": "2.0", "id": identifier, "error": error if data is None else error | {"data": data}}


def as_identifier(value: object) -> Identifier | None:
    return value if isinstance(value, str | int) and not isinstance(value, bool) else None


def call_in(line: bytes) -> int | None:
    """The number of the call that an unreadable line answers, as far as that can be seen."""
    found = _CALL_AT_START.match(line) or _CALL_AT_END.search(line, max(0, len(line) - _END))
    return int(found[1]) if found else None


class Lines:
    """Cuts what comes in pieces into lines; one that is too long is given up, its beginning told."""

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self._longest = longest
        self._pieces: list[bytes] = []
        self._size = 0

    def fed(self, data: bytes) -> Iterator[bytes]:
        """The lines that are complete now, without their ends; too long ones are cut to one byte too many."""
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            self._keep(data[start:end])
            line = b"".join(self._pieces)
            self._pieces, self._size = [], 0
            start = end + 1
            if line.strip():
                yield line
        self._keep(data[start:])

    def rest(self) -> bytes:
        """What came after the last line, where there is no more to come."""
        line, self._pieces, self._size = b"".join(self._pieces), [], 0
        return line.strip()

    def _keep(self, piece: bytes) -> None:
        if room := self._longest + 1 - self._size:
            self._pieces.append(piece[:room])
            self._size += len(self._pieces[-1])


def _forgiven(line: bytes) -> Any:
    try:
        return repaired_value(json.loads(line.decode("utf-8-sig")))
    except (ValueError, RecursionError) as error:
        what = str(error) if isinstance(error, ValueError) else "nested too deeply"
        raise UnreadableLineError(f"not JSON: {what[:200]}") from None
