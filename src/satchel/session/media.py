"""Token counts of images, audio and other non-text parts of a tool result, by fixed rules."""

import base64
import math
import struct
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

__all__ = ["part_tokens", "wholly_text"]


_FRAMES = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}  # JPEG markers that contain the image size
_ALONE = {0x01, *range(0xD0, 0xD9)}  # JPEG markers without a length field


def image_size(data: bytes) -> tuple[int, int] | None:
    """Return width and height of a PNG, JPEG, GIF or WebP image in pixels, or None if they cannot be read."""
    try:
        size = _size(data)
    except (struct.error, IndexError):
        return None
    return size if size is not None and min(size) > 0 else None


def wav_seconds(data: bytes, length: int) -> float | None:
    """Return the duration of a WAV file of `length` bytes, or None if it is not WAV or the header is unreadable."""
    if data[:4] != b"RIFF" or data[8:12] != b"WAVE":
        return None
    rate, place = 0, 12
    while place + 8 <= len(data):
        name, size = data[place : place + 4], int.from_bytes(data[place + 4 : place + 8], "little")
        if name == b"fmt " and place + 20 <= len(data):
            rate = int.from_bytes(data[place + 16 : place + 20], "little")
        if name == b"data":
            # A streaming recorder writes 0 or the maximum here, because it does not know the length yet.
            rest = max(0, length - place - 8)
            return (min(size, rest) if size else rest) / rate if rate else None
        place += 8 + size + size % 2
    return None


def _size(data: bytes) -> tuple[int, int] | None:
    if data[:8] == b"\x89PNG\r\n\x1a\n":
        return _pair(">II", data, 16)
    if data[:6] in (b"GIF87a", b"GIF89a"):
        return _pair("<HH", data, 6)
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return _webp(data)
    return _jpeg(data) if data[:2] == b"\xff\xd8" else None


def _webp(data: bytes) -> tuple[int, int] | None:
    form = data[12:16]
    if form == b"VP8 ":
        width, height = _pair("<HH", data, 26)
        return width & 0x3FFF, height & 0x3FFF
    if form == b"VP8L":
        (bits,) = struct.unpack_from("<I", data, 21)
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if form == b"VP8X" and len(data) >= 30:
        return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
    return None


def _jpeg(data: bytes) -> tuple[int, int] | None:
    place = 2
    while data[place] == 0xFF:
        marker = data[place + 1]
        if marker in _FRAMES:
            height, width = _pair(">HH", data, place + 5)
            return width, height
        if marker == 0xFF:
            place += 1  # fill bytes: any number of them may precede a marker
        elif marker in _ALONE:
            place += 2
        else:
            (length,) = struct.unpack_from(">H", data, place + 2)
            place += 2 + max(2, length)
    return None


def _pair(form: str, data: bytes, place: int) -> tuple[int, int]:
    first, second = struct.unpack_from(form, data, place)
    return first, second


# The counting rules:
#
# | part | tokens |
# |---|---|
# | image | width × height / 750, after scaling to at most 1,568 px on the long side; at most 1,600 |
# | audio | 32 for each second; without a WAV header, a second is taken to have 8,000 bytes |
# | link to a resource, unknown part | tokens of its JSON |
# | embedded text | tokens of the text and its URI |
# | embedded bytes | as an image or audio by MIME type, otherwise 1 for each base64 character |
#
# Images follow platform.claude.com/docs, "Vision", for the models that scale to 1,568 px; an image whose size
# cannot be read counts 1,600. Audio follows ai.google.dev/gemini-api/docs/audio; 8,000 bytes are a second of speech
# at 64 kbit/s. Some clients paste embedded bytes as base64, which has 1.1 to 1.5 characters to a token.


Count = Callable[[str], int]

_LONG_SIDE = 1568
_PIXELS_OF_TOKEN = 750
_MOST_OF_IMAGE = 1600
_AUDIO_TOKENS = 32
_AUDIO_BYTES = 8000
_HEADER_BYTES = 512 * 1024  # a JPEG's size comes after its colour profile and thumbnail
_URL_SAFE = bytes.maketrans(b"-_", b"+/")


def wholly_text(part: Any) -> bool:
    """Whether the part is plain text, so that it can be cut and joined."""
    return isinstance(part, Mapping) and part.get("type") == "text" and isinstance(part.get("text"), str)


def part_tokens(part: Mapping[str, Any], *, count: Count | None = None) -> int:
    """Return the tokens of one part of an MCP tool result; malformed parts are counted too.

    Text is counted with `count`. Without it, three characters count as one token.
    """
    count = _by_length if count is None else count
    kind = part.get("type") if isinstance(part, Mapping) else None
    if kind == "text" and wholly_text(part):
        return count(part["text"])
    if kind == "image":
        return _image(part.get("data"))
    if kind == "audio":
        return _audio(part.get("data"))
    if kind == "resource" and isinstance(part.get("resource"), Mapping):
        return _resource(part["resource"], count)
    return count(_json(part))


def _resource(resource: Mapping[str, Any], count: Count) -> int:
    address, mime = resource.get("uri"), resource.get("mimeType")
    name = count(address) if isinstance(address, str) else 0
    if isinstance(resource.get("text"), str):
        return name + count(resource["text"])
    blob = resource.get("blob")
    if not isinstance(blob, str):
        return count(_json(resource))
    kind = mime.partition("/")[0].lower() if isinstance(mime, str) else ""
    rule = {"image": _image, "audio": _audio}.get(kind, len)
    return name + rule(blob)


def _image(data: object) -> int:
    size = image_size(_beginning(data))
    if size is None:
        return _MOST_OF_IMAGE
    scale = min(1.0, _LONG_SIDE / max(size))
    return min(_MOST_OF_IMAGE, math.ceil(size[0] * scale * size[1] * scale / _PIXELS_OF_TOKEN))


def _audio(data: object) -> int:
    length = len(data) * 3 // 4 if isinstance(data, str) else 0
    seconds = wav_seconds(_beginning(data), length)
    return math.ceil((length / _AUDIO_BYTES if seconds is None else seconds) * _AUDIO_TOKENS)


def _beginning(data: object) -> bytes:
    """Decode the first bytes of base64 text, as far as possible."""
    if not isinstance(data, str):
        return b""
    text = data[: _HEADER_BYTES * 4 // 3]
    if text.startswith("data:"):
        text = text.partition(",")[2]
    plain = text.encode("ascii", "ignore").translate(_URL_SAFE, b" \t\r\n=")
    try:
        return base64.b64decode(plain[: len(plain) // 4 * 4], validate=True)
    except ValueError:
        return b""


def _json(value: Any) -> str:
    try:
        return msgspec.json.encode(value, enc_hook=repr).decode()
    except (TypeError, ValueError, RecursionError, OverflowError):
        return " " * 3 * _MOST_OF_IMAGE


def _by_length(text: str) -> int:
    return -(-len(text) // 3)
