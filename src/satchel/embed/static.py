"""`static`: the mean of WordLlama's word vectors. It needs no network and runs no model.

Only the weights of the package `wordllama` are used. It is never imported, because that is slow and its loader
requests a file from the network that the package already contains. Its vocabulary is that of Llama 2, which splintr
also has and loads several times faster.
"""

import threading
from array import array
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from satchel.embed.embedder import unit_rows
from satchel.errors import EmbedderError
from satchel.model.checks import repair_surrogates

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from satchel.embed.embedder import Vectors

__all__ = ["STATIC", "StaticEmbedder"]

_WEIGHTS = "weights/l2_supercat_256.safetensors"
_TENSOR = "embedding.weight"
_TOKENS, _DIMENSIONS = 32_000, 256

_WORDS_CACHED = 1 << 17
_LONGEST_CACHED = 32
_TOKENS_AT_ONCE = 4_096
_CONVERTED_SINGLY = 1_000


class StaticEmbedder:
    """Embeds with a lookup of word vectors. All white space is equal, so line breaks change nothing."""

    name = "static:wordllama-l2-supercat-256"
    dimensions = _DIMENSIONS

    def __init__(self) -> None:
        self._words: _Words | None = None
        self._loading = threading.Lock()

    def embed(self, texts: Sequence[str]) -> "Vectors":
        """Return one row for each text; zeros for a text without words."""
        import numpy as np

        words = self._words if self._words is not None else self._load()
        tokens_of, vectors_of = words.__getitem__, words.vectors.take
        rows = np.zeros((len(texts), _DIMENSIONS), np.float32)
        # One text at a time: its vectors stay in the processor's cache, which is several times faster than
        # collecting those of many texts for `np.add.reduceat`.
        for row, text in zip(rows, texts, strict=True):
            tokens = np.frombuffer(b"".join(map(tokens_of, text.split())), np.uint16)
            for start in range(0, len(tokens), _TOKENS_AT_ONCE):
                row += np.add.reduce(vectors_of(tokens[start : start + _TOKENS_AT_ONCE], 0), 0)
        return unit_rows(rows)

    def _load(self) -> "_Words":
        with self._loading:
            if self._words is None:
                self._words = _Words(_open_weights())
            return self._words

    def __repr__(self) -> str:
        return f"<satchel embedder {self.name}>"


class _Words(dict[str, bytes]):
    """Cache of the tokens of each word, as packed integers, and the vectors of these tokens.

    No token of Llama 2 extends over a space, so each word can be tokenized alone. Threads may add the same word at
    the same time; they write the same value.
    """

    def __init__(self, weights: "NDArray[np.float16]") -> None:
        import numpy as np
        from splintr import Tokenizer

        super().__init__()
        self.vectors: NDArray[np.float32] = np.empty(weights.shape, np.float32)
        self._converted: set[int] = set()
        self._weights = weights
        self._encode = Tokenizer.from_pretrained("llama2").encode_ordinary

    def __missing__(self, word: str) -> bytes:
        try:
            tokens = self._encode(word)
        except UnicodeEncodeError:
            tokens = self._encode(repair_surrogates(word))
        if not self._converted.issuperset(tokens):
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
            self.vectors[tokens] = self._weights[tokens]
            self._converted.update(tokens)
        else:
            self.vectors[:] = self._weights
            self._converted.update(range(_TOKENS))


def _open_weights() -> "NDArray[np.float16]":
    """Return the matrix in wordllama's package, memory-mapped."""
    found = find_spec("wordllama")
    if found is None or not found.submodule_search_locations:
        raise EmbedderError(
            "the embedder static needs the package wordllama: `pip install '.[static]'` in the folder of Satchel, "
            "or switch this store to another embedder with `satchel reembed --embedder minilm`"
        )
    return _open_tensor(Path(found.submodule_search_locations[0], _WEIGHTS))


def _open_tensor(path: Path) -> "NDArray[np.float16]":
    import msgspec
    import numpy as np

    try:
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            header: dict[str, dict[str, Any]] = msgspec.json.decode(file.read(min(size, 1 << 20)))
        tensor = header[_TENSOR]
        if (tensor["dtype"], tensor["shape"]) != ("F16", [_TOKENS, _DIMENSIONS]):
            raise ValueError(f"{_TENSOR} is {tensor['dtype']} of shape {tensor['shape']}")
        start = 8 + size + tensor["data_offsets"][0]
        # As a plain array: slices of an `np.memmap` are memmaps too, which is slow for small rows.
        return np.asarray(np.memmap(path, "<f2", "r", start, (_TOKENS, _DIMENSIONS)))
    except (OSError, ValueError, KeyError, TypeError, msgspec.DecodeError) as error:
        raise EmbedderError(f"the weights of the embedder static cannot be read from {path}: {error}") from error


STATIC = StaticEmbedder()
