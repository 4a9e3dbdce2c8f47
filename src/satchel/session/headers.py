"""The size of an image and the length of a recording, read from the first bytes of a file."""

import struct

__all__ = ["image_size", "wav_seconds"]

_FRAMES = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}  # the JPEG markers that carry a size
_ALONE = {0x01, *range(0xD0, 0xD9)}  # those that no length follows


def image_size(data: bytes) -> tuple[int, int] | None:
    """Width and height of a PNG, JPEG, GIF or WebP image in pixels; None if they cannot be read."""
    try:
        size = _size(data)
    except (struct.error, IndexError):
        return None
    return size if size is not None and min(size) > 0 else None


def wav_seconds(data: bytes, length: int) -> float | None:
    """How long a WAV recording of `length` bytes is; None if this is none or its header cannot be read."""
    if data[:4] != b"RIFF" or data[8:12] != b"WAVE":
        return None
    rate, place = 0, 12
    while place + 8 <= len(data):
        name, size = data[place : place + 4], int.from_bytes(data[place + 4 : place + 8], "little")
        if name == b"fmt " and place + 20 <= len(data):
            rate = int.from_bytes(data[place + 16 : place + 20], "little")
        if name == b"data":
            # A recorder that did not know the length beforehand wrote 0 or the highest number.
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
            place += 1  # a marker may be preceded by any number of these
        elif marker in _ALONE:
            place += 2
        else:
            (length,) = struct.unpack_from(">H", data, place + 2)
            place += 2 + max(2, length)
    return None


def _pair(form: str, data: bytes, place: int) -> tuple[int, int]:
    first, second = struct.unpack_from(form, data, place)
    return first, second
