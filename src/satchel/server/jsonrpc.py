"""JSON-RPC 2.0 over lines of JSON, shared by the MCP server and the gateway.

This module builds messages, reads and writes them as lines, and says what is wrong with an invalid line or request.
It knows no methods, and imports little, so that a server can answer before it has loaded the rest.
"""

import contextlib
import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from satchel.errors import SatchelError

__all__ = [
    "INTERNAL_ERROR",
    "INVALID_PARAMS",
    "INVALID_REQUEST",
    "LONGEST_LINE",
    "METHOD_NOT_FOUND",
    "PARSE_ERROR",
    "Fault",
    "LineBuffer",
    "Message",
    "RequestError",
    "RequestId",
    "UnreadableLineError",
    "as_request_id",
    "decode",
    "decode_text",
    "encode",
    "error_response",
    "find_response_id",
    "json_type",
    "notification",
    "read_message",
    "repair_escapes",
    "repeated_key",
    "repeated_key_fault",
    "repeated_key_response",
    "request",
    "request_fault",
    "response",
]

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603

LONGEST_LINE = 64 * 1024 * 1024
LONGEST_KEY = 60

Message = dict[str, Any]
RequestId = str | int


# Building messages


def request(identifier: RequestId, method: str, params: Message | None) -> Message:
    message: Message = {"jsonrpc": "2.0", "id": identifier, "method": method}
    return message if params is None else message | {"params": params}


def notification(method: str, params: Message | None = None) -> Message:
    message: Message = {"jsonrpc": "2.0", "method": method}
    return message if params is None else message | {"params": params}


def response(identifier: RequestId, result: Any) -> Message:
    return {"jsonrpc": "2.0", "id": identifier, "result": result}


def error_response(identifier: RequestId | None, code: int, message: str, data: Any = None) -> Message:
    """Return an error response; the id is None if the id of the request could not be read."""
    error: Message = {"code": code, "message": message}
    return {"jsonrpc": "2.0", "id": identifier, "error": error if data is None else error | {"data": data}}


# Checking messages


class RequestError(SatchelError):
    """Catch this to answer a request with an error response."""

    def __init__(self, code: int, message: str, data: Any = None, *, identifier: RequestId | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data
        self.identifier = identifier
        """The id of the request, if it was raised where that is not known otherwise."""

    def response(self, identifier: RequestId | None) -> Message:
        return error_response(identifier, self.code, str(self), self.data)


class Fault(NamedTuple):
    """Why a request is rejected: an error code, the broken rule, and the offending value."""

    code: int
    rule: str
    value: Any

    @property
    def with_type(self) -> str:
        """The rule, and the type of the value found instead."""
        return f"{self.rule}, not {json_type(self.value)}"


def request_fault(message: Message) -> Fault | None:
    """Return what is wrong with the id, method or params of a request or notification, or None."""
    if "id" in message and as_request_id(message["id"]) is None:
        return Fault(INVALID_REQUEST, "an id is a string or a whole number", message["id"])
    if not isinstance(message["method"], str):
        return Fault(INVALID_REQUEST, "method must be a string", message["method"])
    if not isinstance(message.get("params"), dict | None):
        return Fault(INVALID_PARAMS, "params must be an object", message["params"])
    return None


def as_request_id(value: object) -> RequestId | None:
    """Return the value if it is a valid request id, otherwise None."""
    return value if isinstance(value, str | int) and not isinstance(value, bool) else None


def json_type(value: object) -> str:
    """Return the type of a value for an error message: Python's name, but `null` as in JSON."""
    return "null" if value is None else type(value).__name__


# Reading and writing lines


class UnreadableLineError(SatchelError):
    """Catch this where a peer may write anything. The message completes "a line is" or "a line that is"."""


# Above this length msgspec is worth the time that its import takes.
_LONG_LINE = 16 * 1024
_encoder = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)

# Matches escapes from left to right, so that the second backslash of `\\ud800` does not start one.
_ESCAPE = (
    r"\\(?:(u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u(?![dD][89a-fA-F])|[^u])|u[0-9a-fA-F]{4})"
)
_SURROGATE_ESCAPE = r"\\u[dD][89a-fA-F]"


def decode(line: bytes) -> Any:
    """Decode a line, tolerating what common peers write.

    A byte order mark is skipped, lone surrogates become U+FFFD, and NaN and numbers outside the range of a float
    are accepted; `encode` writes those as null.
    """
    if len(line) > _LONG_LINE:
        import msgspec

        # It is stricter than what peers write, so it decides nothing.
        with contextlib.suppress(msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            return msgspec.json.decode(line)
    return decode_text(repair_escapes(_text(line)))


def read_message(line: bytes) -> Message:
    """Decode a line of a client into a request, a notification or a response.

    Raises `RequestError` with the error to answer if the line is not a valid message, or if an object in it has a
    key twice: two programs could then read it differently.
    """
    try:
        if len(line) > LONGEST_LINE:
            raise UnreadableLineError(f"longer than {LONGEST_LINE >> 20} MB")
        text = repair_escapes(_text(line))
        try:
            message = _load(text, object_pairs_hook=_unique)
        except _RepeatedKeyError as found:
            raise _invalid(repeated_key_fault(_quoted_key(found)), json.loads(text)) from None
    except UnreadableLineError as error:
        identifier = _own_id(_decoded_leniently(line))
        raise RequestError(PARSE_ERROR, f"a line is {error}", identifier=identifier) from None
    if not isinstance(message, dict):
        raise _invalid(f"a message is an object, not {json_type(message)}; batches are not supported", None)
    if "method" in message and (fault := request_fault(message)) is not None:
        raise RequestError(fault.code, fault.with_type, identifier=_own_id(message))
    if not _is_message(message):
        raise _invalid("this is no message of JSON-RPC 2.0", message)
    return message


def _is_message(message: Message) -> bool:
    if message.get("jsonrpc") != "2.0":
        return False
    if "method" in message:
        return "result" not in message and "error" not in message
    return isinstance(message.get("result", message.get("error")), dict)


def _invalid(why: str, message: Any) -> RequestError:
    return RequestError(INVALID_REQUEST, why, identifier=_own_id(message))


def _own_id(message: Any) -> RequestId | None:
    """Return the id of a request; a response has one of the server's own ids, or an unknown one."""
    if not isinstance(message, dict) or "result" in message or "error" in message:
        return None
    return as_request_id(message.get("id"))


def _decoded_leniently(line: bytes) -> Any:
    try:
        return json.loads(line[:LONGEST_LINE].decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None


def _text(line: bytes) -> str:
    try:
        return line.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableLineError(f"not UTF-8: {error.reason} 0x{error.object[error.start]:02x}") from None


def decode_text(text: str) -> Any:
    """Decode a JSON text; `UnreadableLineError` says what is wrong and where."""
    return _load(text)


def _load(text: str, **options: Any) -> Any:
    try:
        return json.loads(text, **options)
    except (ValueError, RecursionError) as error:
        what = str(error) if isinstance(error, ValueError) else "nested too deeply"
        raise UnreadableLineError(f"not JSON: {what[:200]}") from None


class _RepeatedKeyError(Exception):
    """Carries the key that an object has twice."""


def repeated_key(text: str | bytes) -> str | None:
    """Return a key that some object of a JSON text has twice, for a message, or None.

    Decoders keep the last of two values without a word, and a proxy that checks the text may see the first one. A
    text that is not JSON has no such key here: whoever decodes it says what is wrong.
    """
    try:
        # Floats are enough, and no number is too long for them.
        json.loads(text, object_pairs_hook=_check_pairs, parse_int=float)
    except _RepeatedKeyError as found:
        return _quoted_key(found)
    except (ValueError, RecursionError):
        pass
    return None


def _quoted_key(found: _RepeatedKeyError) -> str:
    key: str = found.args[0]
    return repr(key if len(key) <= LONGEST_KEY else f"{key[:LONGEST_KEY]}…")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        _check_pairs(pairs)
    return found


def _check_pairs(pairs: list[tuple[str, Any]]) -> None:
    if len(pairs) > 1 and len({key for key, _ in pairs}) < len(pairs):
        ((key, _),) = Counter(key for key, _ in pairs).most_common(1)
        raise _RepeatedKeyError(key)


def repeated_key_response(body: bytes) -> Message | None:
    """Return the error response to a message with a repeated key, or None if it has none."""
    if (key := repeated_key(body)) is None:
        return None
    message = decode(body)
    identifier = as_request_id(message.get("id")) if isinstance(message, dict) else None
    return error_response(identifier, INVALID_REQUEST, repeated_key_fault(key))


def repeated_key_fault(key: str) -> str:
    return f"the key {key} is given twice in one object; give it once"


def repair_escapes(text: str) -> str:
    """Replace escapes of lone surrogates, which UTF-8 cannot encode, by U+FFFD."""
    if "\\u" not in text or re.search(_SURROGATE_ESCAPE, text) is None:
        return text
    return re.sub(_ESCAPE, lambda escape: escape[0] if escape[1] else r"\ufffd", text)


def encode(message: Message) -> bytes:
    """Encode a message as a line, with its newline."""
    try:
        return _encoder.encode(message).encode() + b"\n"
    except ValueError:
        # A NaN, or half of a character.
        import msgspec

        return msgspec.json.encode(message) + b"\n"


class LineBuffer:
    """Joins chunks from a pipe into lines of bounded length."""

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self._longest = longest
        self._pieces: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the lines that are complete now, without newlines, skipping blank ones.

        A line that is too long is cut to `longest + 1` bytes, so that the caller can detect it.
        """
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            self._keep(data[start:end])
            line = self._take()
            start = end + 1
            if line.strip():
                yield line
        self._keep(data[start:])

    def rest(self) -> bytes:
        """Return what followed the last newline, at the end of the input."""
        return self._take().strip()

    def _keep(self, piece: bytes) -> None:
        if room := self._longest + 1 - self._size:
            self._pieces.append(piece[:room])
            self._size += len(self._pieces[-1])

    def _take(self) -> bytes:
        line = b"".join(self._pieces)
        self._pieces, self._size = [], 0
        return line


# Finding the id of a response without decoding it

# The id comes before or after the result; inside the result, "id" may mean anything.
_ID_AT_START = rb'\s*\{[^{\[]{0,100}?"id"\s*:\s*(\d{1,18})\s*[,}]'
_ID_AT_END = rb'[}"\]]\s*,\s*"id"\s*:\s*(\d{1,18})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*\Z'
_END = 200


def find_response_id(line: bytes) -> int | None:
    """Return the id of the request that an unreadable line answers, if it can be found."""
    found = re.match(_ID_AT_START, line) or re.search(_ID_AT_END, line[-_END:])
    return int(found[1]) if found else None
