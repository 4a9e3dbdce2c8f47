"""`static`: the mean of WordLlama's word vectors. It needs no network and runs no model.

The vectors are a table inside the package: four bits for each number (`embed.packed_table`) and one scale per
token, memory-mapped, made from the package `wordllama` by `bench/static_table.py`. The vocabulary is that of
Llama 2, which splintr has.
"""

import threading
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from satchel.embed.embedder import unit_rows
from satchel.embed.packed_table import FOUR_BITS
from satchel.errors import EmbedderError
from satchel.model.checks import repair_surrogates

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from satchel.embed.embedder import Vectors

__all__ = ["MAGIC", "STATIC", "TABLE_SHAPE", "StaticEmbedder", "table_path"]

# The file: MAGIC, the scale of each token as float32, the rows of the vectors in four bits.
MAGIC = b"satchel wordllama-l2-supercat-256-int4 1\n".ljust(64, b"\0")
TABLE_SHAPE = _TOKENS, _DIMENSIONS = 32_000, 256

_WORDS_CACHED = 1 << 17
_LONGEST_CACHED = 32
_TOKENS_AT_ONCE = 4_096
_CONVERTED_SINGLY = 1_000
_CONVERTED_AT_ONCE = 1_000
_MANY_TEXTS = 32


class StaticEmbedder:
    """Embeds with a lookup of word vectors. All white space is equal, so line breaks change nothing.

    A vector has a cosine of about 0.997, and more than 0.99, with the one of WordLlama's own float16 weights, and
    with the one of earlier versions of the table, in int8. So they can be compared, and the name is the same.
    """

    name = "static:wordllama-l2-supercat-256"
    dimensions = _DIMENSIONS

    def __init__(self) -> None:
        self._words: _Words | None = None
        self._loading = threading.Lock()

    def embed(self, texts: Sequence[str]) -> "Vectors":
        """Return one row for each text; zeros for a text without words."""
        import numpy as np

        words = self._words if self._words is not None else self._load()
        if len(texts) >= _MANY_TEXTS:
            words.convert_all()
        tokens_of, vectors_of = words.__getitem__, words.vectors.take
        rows = np.zeros((len(texts), _DIMENSIONS), np.float32)
        found = np.empty((0, _DIMENSIONS), np.float32)
        # One text at a time, with the same memory for the vectors of each: it stays in the processor's cache, which
        # is several times faster than collecting those of many texts for `np.add.reduceat`.
        for row, text in zip(rows, texts, strict=True):
            tokens = np.frombuffer(b"".join(map(tokens_of, text.split())), np.uint16)
            count = len(tokens)
            if count <= _TOKENS_AT_ONCE:
                if count > len(found):
                    found = np.empty((min(2 * count, _TOKENS_AT_ONCE), _DIMENSIONS), np.float32)
                # Tokens are never out of range; without "clip", numpy makes a copy first.
                np.add.reduce(vectors_of(tokens, 0, found[:count], "clip"), 0, out=row)
                continue
            for start in range(0, count, _TOKENS_AT_ONCE):
                row += np.add.reduce(vectors_of(tokens[start : start + _TOKENS_AT_ONCE], 0), 0)
        return unit_rows(rows)

    def _load(self) -> "_Words":
        with self._loading:
            if self._words is None:
                self._words = _Words(*_open_table(table_path()))
            return self._words

    def __repr__(self) -> str:
        return f"<satchel embedder {self.name}>"


class _Words(dict[str, bytes]):
    """Cache of the tokens of each word, as packed integers, and the vectors of these tokens.

    No token of Llama 2 extends over a space, so each word can be tokenized alone. Threads may add the same word at
    the same time; they write the same value.
    """

    def __init__(self, scales: "Vectors", packed: "NDArray[np.uint8]") -> None:
        import numpy as np
        from splintr import Tokenizer

        super().__init__()
        self.vectors: NDArray[np.float32] = np.empty(TABLE_SHAPE, np.float32)
        self._converted: set[int] = set()
        self._scales, self._packed = scales[:, None], packed
        self._encode = Tokenizer.from_pretrained("llama2").encode_ordinary

    def __missing__(self, word: str) -> bytes:
        try:
            tokens = self._encode(word)
        except UnicodeEncodeError:
            tokens = self._encode(repair_surrogates(word))
        if len(self._converted) < _TOKENS and not self._converted.issuperset(tokens):
            self._convert(tokens)
        packed = array("H", tokens).tobytes()
        if len(word) <= _LONGEST_CACHED:
            if len(self) >= _WORDS_CACHED:
                self.clear()
            self[word] = packed
        return packed

    def _convert(self, tokens: list[int]) -> None:
        """Convert vectors to float32 when needed: a query needs a few, many texts need all."""
        if len(self._converted) < _CONVERTED_SINGLY:
            self.vectors[tokens] = FOUR_BITS.unpacked(self._packed[tokens], _DIMENSIONS) * self._scales[tokens]
            self._converted.update(tokens)
        else:
            self.convert_all()

    def convert_all(self) -> None:
        """Convert all vectors to float32 now, which takes as long as converting those of a few hundred words."""
        if len(self._converted) < _TOKENS:
            for start in range(0, _TOKENS, _CONVERTED_AT_ONCE):
                rows = slice(start, start + _CONVERTED_AT_ONCE)
                self.vectors[rows] = FOUR_BITS.unpacked(self._packed[rows], _DIMENSIONS) * self._scales[rows]
            self._converted.update(range(_TOKENS))


def table_path() -> Path:
    """Return the path of the table, which `python -m bench.static_table` writes."""
    return Path(__file__).with_name("static_data") / "vectors.bin"


def _open_table(path: Path) -> "tuple[Vectors, NDArray[np.uint8]]":
    """Return the scales and the packed vectors, memory-mapped."""
    import numpy as np

    try:
        # As a plain array: slices of an `np.memmap` are memmaps too, which is slow for small rows.
        whole = np.asarray(np.memmap(path, np.uint8, "r"))
        if bytes(whole[: len(MAGIC)]) != MAGIC:
            raise ValueError("it does not start with the expected header")
        start = len(MAGIC) + 4 * _TOKENS
        return whole[len(MAGIC) : start].view("<f4"), whole[start:].reshape(_TOKENS, FOUR_BITS.width(_DIMENSIONS))
    except (OSError, ValueError) as error:
        raise EmbedderError(f"the vectors of the embedder static cannot be read from {path}: {error}") from error


STATIC = StaticEmbedder()
