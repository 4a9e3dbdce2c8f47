"""Vectors computed once and read by every system, so that the time of an embedder is nobody's.

A table is two files: the digests of the texts, and the vectors as float32 in the same order.
"""

import hashlib
import os
import sys
from array import array
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

__all__ = ["DIMENSIONS", "VectorCache", "VectorTable"]

DIMENSIONS = 384
ROW = 4 * DIMENSIONS
DIGEST = 16
AT_ONCE = 512


def digest_of(text: str) -> bytes:
    """Return the key of a text without the white space around it, which some systems remove."""
    return hashlib.blake2b(text.strip().encode("utf-8", "surrogatepass"), digest_size=DIGEST).digest()


class VectorTable:
    """Reads vectors by text. They stay in the file, so that a table hardly counts in the memory of a process."""

    def __init__(self, folder: Path) -> None:
        keys = (folder / "keys").read_bytes()
        self._rows = {keys[start : start + DIGEST]: start // DIGEST for start in range(0, len(keys), DIGEST)}
        self._file = os.open(folder / "vectors", os.O_RDONLY)

    def find(self, text: str) -> bytes | None:
        """Return the vector of a text as packed float32; None if it is not in the table."""
        row = self._rows.get(digest_of(text))
        return None if row is None else os.pread(self._file, ROW, row * ROW)

    def packed(self, text: str) -> bytes:
        found = self.find(text)
        if found is None:
            raise KeyError(f"no vector was made for {text[:60]!r}")
        return found

    def floats(self, text: str) -> list[float]:
        return array("f", self.packed(text)).tolist()

    def close(self) -> None:
        os.close(self._file)


class VectorCache:
    """A table that grows: what was embedded once is kept for the next run."""

    def __init__(self, folder: Path, embed: Callable[[Sequence[str]], Any]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._keys, self._vectors = folder / "keys", folder / "vectors"
        self._embed = embed
        for path in (self._keys, self._vectors):
            path.touch()
        # An interrupted run may have written one file further than the other.
        count = min(self._keys.stat().st_size // DIGEST, self._vectors.stat().st_size // ROW)
        os.truncate(self._keys, count * DIGEST)
        os.truncate(self._vectors, count * ROW)
        keys = self._keys.read_bytes()
        self._known = {keys[start : start + DIGEST] for start in range(0, len(keys), DIGEST)}

    def embed(self, texts: Iterable[str]) -> None:
        """Embed the texts that are not there yet."""
        missing = [text for text in dict.fromkeys(texts) if digest_of(text) not in self._known]
        # Of similar length at once, the longest first.
        missing.sort(key=len, reverse=True)
        for start in range(0, len(missing), AT_ONCE):
            print(f"  embedding {start:,} of {len(missing):,} texts", file=sys.stderr, flush=True)
            some = missing[start : start + AT_ONCE]
            digests = [digest_of(text) for text in some]
            with open(self._vectors, "ab") as vectors, open(self._keys, "ab") as keys:
                vectors.write(self._embed(some).tobytes())
                keys.write(b"".join(digests))
            self._known.update(digests)

    def table(self, folder: Path, texts: Iterable[str]) -> Path:
        """Write a table with these texts only, and return its folder."""
        wanted = list(dict.fromkeys(texts))
        self.embed(wanted)
        folder.mkdir(parents=True, exist_ok=True)
        whole = VectorTable(self._keys.parent)
        with open(folder / "keys", "wb") as keys, open(folder / "vectors", "wb") as vectors:
            for text in wanted:
                keys.write(digest_of(text))
                vectors.write(whole.packed(text))
        whole.close()
        return folder
