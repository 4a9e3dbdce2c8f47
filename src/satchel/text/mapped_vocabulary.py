"""A vocabulary in a mapped file: the number of each token, without loading all of them.

A dictionary of a vocabulary takes from 7 ms (30,000 tokens) to over 50 ms (200,000) to make, and a short command
looks up a few hundred tokens. Here a lookup reads a few bytes of the file, and processes share its pages.
"""

import mmap
from collections.abc import Sequence
from pathlib import Path
from struct import Struct
from zlib import crc32

__all__ = ["MappedVocabulary", "packed_vocabulary"]

# The file: a header; where the entries of each bucket start and those of the last one end; the entries. The bucket
# of a token is the CRC-32 of its bytes modulo the number of buckets. An entry is the number of bytes of the token,
# its number, and its bytes.
_HEADER = Struct("<24sIII")  # the format, and the numbers of buckets, tokens and bytes in the file
_FORMAT = b"satchel vocabulary 1\n".ljust(24, b"\0")
_OFFSET = Struct("<I")
_START_AND_END = Struct("<II")
_LENGTH_SIZE, _NUMBER_SIZE = 1, 3
# More make the file smaller and lookups slower: with 4, by 12 % and 10 % of what 1.5 needs.
_TOKENS_PER_BUCKET = 4


class MappedVocabulary:
    """Finds the number of a token in a file that `packed_vocabulary` made."""

    def __init__(self, path: Path) -> None:
        """Map the file. Raises `OSError` if it cannot be read and `ValueError` if it is not whole."""
        with path.open("rb") as file:
            self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        if len(self._data) < _HEADER.size:
            raise ValueError("it is cut off")
        form, self._buckets, self.size, length = _HEADER.unpack_from(self._data)
        if form != _FORMAT:
            raise ValueError("it does not start with the expected header")
        if length != len(self._data):
            raise ValueError(f"it has {len(self._data):,} bytes where {length:,} are needed")

    def number(self, token: bytes) -> int | None:
        """Return the number of a token, or None if the vocabulary does not have it."""
        data = self._data
        bucket = crc32(token) % self._buckets
        start, end = _START_AND_END.unpack_from(data, _HEADER.size + _OFFSET.size * bucket)
        while start < end:
            token_start = start + _LENGTH_SIZE + _NUMBER_SIZE
            token_end = token_start + data[start]
            if data[token_start:token_end] == token:
                return int.from_bytes(data[start + _LENGTH_SIZE : token_start], "little")
            start = token_end
        return None


def packed_vocabulary(tokens: Sequence[bytes]) -> bytes:
    """Return the content of a file in which each token has its place in the sequence as its number."""
    count = round(len(tokens) / _TOKENS_PER_BUCKET)
    buckets = [b""] * count
    for number, token in enumerate(tokens):
        header = len(token).to_bytes(_LENGTH_SIZE, "little") + number.to_bytes(_NUMBER_SIZE, "little")
        buckets[crc32(token) % count] += header + token
    place = _HEADER.size + _OFFSET.size * (count + 1)
    offsets = [_OFFSET.pack(place)]
    for bucket in buckets:
        place += len(bucket)
        offsets.append(_OFFSET.pack(place))
    return b"".join((_HEADER.pack(_FORMAT, count, len(tokens), place), *offsets, *buckets))
