"""The sentence encoder all-MiniLM-L6-v2 in numpy, with its weights as whole numbers in the package.

Six layers of BERT, the mean over the tokens, length 1: what `sentence-transformers` computes, without
torch and without a download. The weights are int8 with one scale for each row, in one file that is
mapped; `bench/encoder_table.py` writes it. Texts are laid end to end and never padded: the
matrices see one long list of tokens, and attention goes over the texts of one length at a time.
"""

import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from satchel.embed.blas import one_thread
from satchel.embed.embedder import written_rows
from satchel.embed.wordpiece import WordPiece
from satchel.errors import EmbedderError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from satchel.embed.embedder import Vectors

__all__ = ["LAYOUT", "MAGIC", "MINILM", "MiniLMEmbedder", "Section", "vocabulary_path", "weights_path"]

WORDS, WIDTH, LAYERS, HEADS, INNER, POSITIONS = 30_522, 384, 6, 12, 1_536, 256
_HEAD = WIDTH // HEADS
_EPSILON = 1e-12

# White space aside, hardly any text has 32 characters to a token; what comes later is not even looked at.
_CHARACTERS_READ = 32 * POSITIONS
# Enough for BLAS to be at its best, and few enough that the work space stays in the processor's cache.
_TOKENS_AT_ONCE = 1_024
_ROWS_AT_ONCE = 16

_DATA = Path(__file__).with_name("minilm_data")


class Section(NamedTuple):
    """One array in the file of weights; each begins at a multiple of 64 bytes."""

    name: str
    kind: str
    shape: tuple[int, ...]


def _matrix(name: str, rows: int, columns: int) -> list[Section]:
    """Whole numbers, the scale of each row, and what is added to each output."""
    return [
        Section(f"{name}.weight", "<i1", (rows, columns)),
        Section(f"{name}.scale", "<f4", (rows,)),
        Section(f"{name}.bias", "<f4", (rows,)),
    ]


def _norm(name: str) -> list[Section]:
    return [Section(f"{name}.weight", "<f4", (WIDTH,)), Section(f"{name}.bias", "<f4", (WIDTH,))]


def _layer(name: str) -> list[Section]:
    return [
        *_matrix(f"{name}.qkv", 3 * WIDTH, WIDTH),
        *_matrix(f"{name}.out", WIDTH, WIDTH),
        *_norm(f"{name}.attention_norm"),
        *_matrix(f"{name}.up", INNER, WIDTH),
        *_matrix(f"{name}.down", WIDTH, INNER),
        *_norm(f"{name}.output_norm"),
    ]


MAGIC = b"satchel minilm-l6-v2-int8 1\n".ljust(64, b"\0")
LAYOUT = (
    Section("words.weight", "<i1", (WORDS, WIDTH)),
    Section("words.scale", "<f4", (WORDS,)),
    Section("positions", "<f4", (POSITIONS, WIDTH)),
    *_norm("embedding_norm"),
    *(section for number in range(LAYERS) for section in _layer(f"layer{number}")),
)


def weights_path() -> Path:
    """The file of weights, which begins with `MAGIC` and holds the arrays of `LAYOUT`."""
    return _DATA / "weights.bin"


def vocabulary_path() -> Path:
    """The pieces of the vocabulary, one to a line."""
    return _DATA / "vocab.txt"


class MiniLMEmbedder:
    """Embeds the first 256 tokens of a text by what it says, not by which words it has.

    Loaded when first used; any number of threads may share it. A text without a token gives zeros.
    """

    name = "minilm-l6-v2-int8"
    dimensions = WIDTH
    passages_inline = 160

    def __init__(self) -> None:
        self._model: _Model | None = None
        self._loading = threading.Lock()

    def forked(self) -> None:
        """In the child of a fork nobody is left who would release the lock."""
        self._loading = threading.Lock()

    def embed(self, texts: Sequence[str]) -> "Vectors":
        """One row for each text; zeros for a text without a token."""
        model = self._model if self._model is not None else self._load()
        return written_rows(texts, model.encode, dimensions=WIDTH)

    def _load(self) -> "_Model":
        with self._loading:
            if self._model is None:
                self._model = _Model(_open_weights(weights_path()), _read_vocabulary(vocabulary_path()))
            return self._model

    def __repr__(self) -> str:
        return f"<satchel embedder {self.name}>"


class _Model:
    """The tokenizer and the layers, ready to be used."""

    def __init__(self, arrays: "dict[str, NDArray[np.generic]]", vocabulary: list[str]) -> None:
        self._tokenizer = WordPiece(vocabulary)
        self._words, self._scales = arrays["words.weight"], _floats(arrays, "words.scale")
        self._positions = _floats(arrays, "positions")
        self._norm = _Norm(arrays, "embedding_norm")
        self._layers = [_Layer(arrays, f"layer{number}") for number in range(LAYERS)]

    def encode(self, texts: list[str]) -> "Vectors":
        """The mean of the last layer over the tokens of each text, not yet of length 1."""
        import numpy as np

        tokens = [self._tokens(text) for text in texts]
        rows = np.zeros((len(texts), WIDTH), np.float32)
        batches = _batches([len(each) for each in tokens])

        def work(places: list[int]) -> None:
            rows[places] = self._forward([tokens[place] for place in places])

        with one_thread():
            _in_two_threads(work, batches, processors=os.cpu_count() or 1)
        return rows

    def _tokens(self, text: str) -> list[int]:
        pieces = self._tokenizer.pieces(text.lstrip()[:_CHARACTERS_READ], limit=POSITIONS - 2)
        return [self._tokenizer.start, *pieces, self._tokenizer.end] if pieces else []

    def _forward(self, texts: list[list[int]]) -> "Vectors":
        import numpy as np

        shapes = [(length, len(list(same))) for length, same in groupby(map(len, texts))]
        numbers = np.array([number for text in texts for number in text])
        hidden: Vectors = self._words[numbers].astype(np.float32)
        hidden *= self._scales[numbers, None]
        hidden += self._positions[np.concatenate([np.arange(len(text)) for text in texts])]
        self._norm(hidden)
        for layer in self._layers:
            hidden = layer(hidden, shapes)
        starts = np.cumsum([0, *map(len, texts[:-1])])
        means: Vectors = np.add.reduceat(hidden, starts)
        means /= np.array([[len(text)] for text in texts], np.float32)
        return means


class _Layer:
    """Attention and the two matrices after it; the scores' factor is in the weights of the queries."""

    def __init__(self, arrays: "dict[str, NDArray[np.generic]]", name: str) -> None:
        self._qkv = _Matrix(arrays, f"{name}.qkv")
        self._out = _Matrix(arrays, f"{name}.out")
        self._attention_norm = _Norm(arrays, f"{name}.attention_norm")
        self._up = _Matrix(arrays, f"{name}.up")
        self._down = _Matrix(arrays, f"{name}.down")
        self._output_norm = _Norm(arrays, f"{name}.output_norm")

    def __call__(self, hidden: "Vectors", shapes: list[tuple[int, int]]) -> "Vectors":
        attended = self._out(_attention(self._qkv(hidden), shapes))
        attended += hidden
        self._attention_norm(attended)
        inner = self._up(attended)
        _gelu(inner)
        output = self._down(inner)
        output += attended
        self._output_norm(output)
        return output


class _Matrix:
    """A matrix as floats, and what is added to its product."""

    def __init__(self, arrays: "dict[str, NDArray[np.generic]]", name: str) -> None:
        import numpy as np

        # A column for each output: the other way BLAS takes half as long again for a few tokens.
        self._weight = np.ascontiguousarray(arrays[f"{name}.weight"].T).astype(np.float32)
        self._weight *= _floats(arrays, f"{name}.scale")
        self._bias = _floats(arrays, f"{name}.bias")

    def __call__(self, rows: "Vectors") -> "Vectors":
        product: Vectors = rows @ self._weight
        product += self._bias
        return product


class _Norm:
    """Brings rows to mean 0 and variance 1, then stretches and shifts them; in place."""

    def __init__(self, arrays: "dict[str, NDArray[np.generic]]", name: str) -> None:
        self._weight, self._bias = _floats(arrays, f"{name}.weight"), _floats(arrays, f"{name}.bias")

    def __call__(self, rows: "Vectors") -> None:
        import numpy as np

        rows -= rows.mean(axis=1, keepdims=True)
        variances = np.einsum("ij,ij->i", rows, rows) / WIDTH
        rows /= np.sqrt(variances + _EPSILON)[:, None]
        rows *= self._weight
        rows += self._bias


def _attention(qkv: "Vectors", shapes: list[tuple[int, int]]) -> "Vectors":
    """Each token looks at the tokens of its own text; `shapes` are lengths and how many texts have each."""
    import numpy as np

    attended = np.empty((len(qkv), WIDTH), np.float32)
    start = 0
    for length, count in shapes:
        end = start + length * count
        queries, keys, values = qkv[start:end].reshape(count, length, 3, HEADS, _HEAD).transpose(2, 0, 3, 1, 4)
        scores = queries @ keys.swapaxes(2, 3)
        scores -= scores.max(axis=3, keepdims=True)
        np.exp(scores, out=scores)
        mixed = scores @ values
        mixed /= scores.sum(axis=3, keepdims=True)
        attended[start:end].reshape(count, length, HEADS, _HEAD)[:] = mixed.swapaxes(1, 2)
        start = end
    return attended


# tanh of this odd polynomial is erf(x / √2) so closely that GELU is off by 3e-6 at most.
_GELU = (1.1190821863647707e-06, -3.058100614425294e-05, -0.0001248616377164627, 0.03646879096600655)
_GELU_FIRST = 0.7978281359946672


def _gelu(rows: "Vectors") -> None:
    """x · (1 + erf(x / √2)) in place: twice GELU, whose half is in the weights that follow."""
    import numpy as np

    # A few rows at a time: all that is done to them finds them in the nearest cache.
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        block = rows[start : start + _ROWS_AT_ONCE]
        squares = block * block
        inner = squares * _GELU[0]
        for coefficient in _GELU[1:]:
            inner += coefficient
            inner *= squares
        inner += _GELU_FIRST
        inner *= block
        np.tanh(inner, out=inner)
        inner += 1
        block *= inner


def _in_two_threads(work: Callable[[list[int]], None], batches: Sequence[list[int]], *, processors: int) -> None:
    """Does the batches here and in one more thread; an error of either is raised here."""
    waiting = deque(batches)
    failed: list[BaseException] = []

    def take() -> None:
        while not failed:
            try:
                batch = waiting.popleft()
            except IndexError:
                return
            work(batch)

    def help_out() -> None:
        try:
            take()
        except BaseException as error:  # noqa: BLE001 - raised by the caller's thread
            failed.append(error)

    if len(batches) < 2 or processors < 2:
        return take()
    helper = threading.Thread(target=help_out, name="satchel-minilm", daemon=True)
    try:
        helper.start()
    except RuntimeError:
        # The program is about to end.
        return take()
    try:
        take()
    finally:
        waiting.clear()
        helper.join()
    if failed:
        raise failed[0]
    return None


def _batches(lengths: Sequence[int]) -> list[list[int]]:
    """Places of texts in the order of their lengths, so many at once that their tokens fit the work space."""
    batches: list[list[int]] = []
    tokens = 0
    for place in sorted((place for place, length in enumerate(lengths) if length), key=lengths.__getitem__):
        tokens += lengths[place]
        if not batches or tokens > _TOKENS_AT_ONCE:
            batches.append([])
            tokens = lengths[place]
        batches[-1].append(place)
    return batches


def _floats(arrays: "dict[str, NDArray[np.generic]]", name: str) -> "Vectors":
    import numpy as np

    return np.array(arrays[name], np.float32)


def _open_weights(path: Path) -> "dict[str, NDArray[np.generic]]":
    """The arrays of the file, mapped and not read."""
    import numpy as np

    try:
        whole = np.asarray(np.memmap(path, np.uint8, "r"))
        if bytes(whole[: len(MAGIC)]) != MAGIC:
            raise ValueError("it does not begin as it should")
        arrays: dict[str, NDArray[np.generic]] = {}
        start = len(MAGIC)
        for section in LAYOUT:
            size = int(np.prod(section.shape)) * np.dtype(section.kind).itemsize
            arrays[section.name] = whole[start : start + size].view(section.kind).reshape(section.shape)
            start += -(-size // 64) * 64
    except (OSError, ValueError) as error:
        raise EmbedderError(f"the weights of the embedder minilm cannot be read from {path}: {error}") from error
    return arrays


def _read_vocabulary(path: Path) -> list[str]:
    try:
        pieces = path.read_text("utf-8").split("\n")[:WORDS]
        if len(pieces) != WORDS:
            raise ValueError(f"it has {len(pieces)} lines where {WORDS} are needed")
    except (OSError, ValueError) as error:
        raise EmbedderError(f"the vocabulary of the embedder minilm cannot be read from {path}: {error}") from error
    return pieces


MINILM = MiniLMEmbedder()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=MINILM.forked)
