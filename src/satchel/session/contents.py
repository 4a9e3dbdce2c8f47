"""What was said as bytes, packed for the store and back."""

import contextlib
import json
import threading
import zlib
from hashlib import blake2b
from typing import Any

from satchel.errors import InputError, StoreFormatError
from satchel.fitting.as_json import as_json
from satchel.store.ledger import Content

__all__ = ["Packing", "Said", "packed", "said", "unpacked"]

# Below this, packing saves less than its own overhead.
_WORTH_PACKING = 200
# Starting a thread takes about as long as packing this much.
_WORTH_A_THREAD = 50_000

Said = str | bytes


def said(output: Any) -> Said:
    """An output as text, or as bytes where they are not UTF-8; anything but these as JSON."""
    if isinstance(output, bytearray | memoryview):
        output = bytes(output)
    if isinstance(output, bytes):
        try:
            return output.decode("utf-8")
        except UnicodeDecodeError:
            return output
    if isinstance(output, str):
        return output
    try:
        return _json(output)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InputError(f"an output is a text, bytes or JSON, not {type(output).__name__}: {error}") from error


def _json(value: Any) -> str:
    """A value as JSON; half a surrogate pair, which UTF-8 does not know, is spelled out."""
    try:
        return as_json(value)
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":"))


def packed(whole: Said) -> Content:
    # A lone surrogate, which JSON can spell, comes back as it was.
    data = whole if isinstance(whole, bytes) else whole.encode("utf-8", "surrogatepass")
    name = blake2b(data, digest_size=16).digest()
    if len(data) >= _WORTH_PACKING:
        small = zlib.compress(data, 1)
        if len(small) < len(data):
            return Content(name, "zlib", small)
    return Content(name, "plain", data)


class Packing:
    """A content on its way: a large one is packed in a thread, while others look at it."""

    def __init__(self, whole: Said) -> None:
        self._whole = whole
        self._packed: Content | None = None
        self._thread: threading.Thread | None = None
        if len(whole) > _WORTH_A_THREAD:
            self._thread = threading.Thread(target=self._pack, daemon=True)
            self._thread.start()

    def done(self) -> Content:
        if self._thread is not None:
            self._thread.join()
        # Also where the thread failed: here the error has somebody to tell.
        return self._packed or packed(self._whole)

    def _pack(self) -> None:
        with contextlib.suppress(MemoryError):
            self._packed = packed(self._whole)


def unpacked(content: Content) -> bytes:
    """The very bytes that were packed."""
    if content.codec == "plain":
        return content.data
    try:
        return zlib.decompress(content.data)
    except zlib.error as error:
        raise StoreFormatError(
            f"a stored result is damaged: {error}; `satchel doctor` looks at the file"
        ) from error
