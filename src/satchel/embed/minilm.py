"""`minilm`, the default embedder: the sentence encoder all-MiniLM-L6-v2 in numpy, with its tokenizer."""

import contextlib
import math
import os
import threading
import unicodedata
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from satchel.embed.embedder import embed_nonblank
from satchel.embed.packed_table import SIX_BITS
from satchel.errors import EmbedderError
from satchel.model.patterns import lazy_pattern
from satchel.text.mapped_vocabulary import MappedVocabulary

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from satchel.embed.embedder import Vectors

__all__ = [
    "LAYOUT",
    "MAGIC",
    "MINILM",
    "WORD_BITS",
    "MiniLMEmbedder",
    "Section",
    "WordPiece",
    "one_thread",
    "vocabulary_path",
    "weights_path",
]


# Limiting BLAS to one thread.


# The function names in numpy's wheels, then those of other builds of OpenBLAS.
_NAMES = ("scipy_openblas_{}_num_threads64_", "scipy_openblas_{}_num_threads", "openblas_{}_num_threads")


def one_thread() -> contextlib.AbstractContextManager[None]:
    """Return a context manager in which numpy computes matrix products in the calling thread.

    By default OpenBLAS starts a thread for each processor. The threads wait for each other by spinning, which
    makes small products many times slower on a busy machine, and a fork during a product may hang. The setting is
    global to the process, and callers share it. If numpy uses another BLAS, nothing is changed.
    """
    return _limit.hold()


class _ThreadLimit:
    """Reference-counted limit: the first user sets it, the last one restores the previous setting."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._computing = 0
        self._before = 1
        self._threads: tuple[Callable[[], int], Callable[[int], object]] | None = None

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Limit BLAS to one thread inside the block."""
        self._enter()
        try:
            yield
        finally:
            self._leave()

    def forked(self) -> None:
        """Reset in a forked child: it has no other threads, and nobody would release the lock."""
        self._lock = threading.Lock()
        if self._computing:
            self._computing = 1
            self._leave()

    def _enter(self) -> None:
        with self._lock:
            self._computing += 1
            if self._computing > 1:
                return
            if self._threads is None:
                self._threads = _openblas()
            count, set_count = self._threads
            self._before = count()
            if self._before > 1:
                set_count(1)

    def _leave(self) -> None:
        with self._lock:
            self._computing -= 1
            if not self._computing and self._before > 1 and self._threads is not None:
                self._threads[1](self._before)


# The package threadpoolctl supports every BLAS, but takes longer to find them than loading our weights takes.
def _openblas() -> tuple[Callable[[], int], Callable[[int], object]]:
    """Return functions that get and set the number of threads of OpenBLAS; without OpenBLAS, they do nothing."""
    import ctypes

    import numpy as np

    package = Path(np.__file__).parent
    # Except on Windows, a symbol is also found in the libraries that a library is linked with.
    extensions = (package / "_core").glob("_multiarray_umath*")
    for path in (*extensions, *package.with_name("numpy.libs").glob("*openblas*")):
        with contextlib.suppress(OSError):
            library = ctypes.CDLL(str(path))
            for name in _NAMES:
                with contextlib.suppress(AttributeError):
                    return library[name.format("get")], library[name.format("set")]
    return (lambda: 1), (lambda count: None)


_limit = _ThreadLimit()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_limit.forked)


# BERT's uncased WordPiece tokenizer.
#
# It gives the same result as the `tokenizers` library for `bert-base-uncased`, one word at a time and with a cache.
# So the encoder needs neither that library nor its loading time.


_LONGEST_WORD = 100
_LONGEST_PIECE = 18
_PIECES_CACHED = 1 << 16
_WORDS_CACHED = 1 << 16
_LONGEST_CACHED = 32

# As in the original, these strings in a text are the special tokens themselves.
_SPECIAL = lazy_pattern(r"(\[(?:PAD|UNK|CLS|SEP|MASK)\])")

_IDEOGRAPHS = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B920, 0x2CEAF),  # as in the original, 0x100 after the start of the block
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


class WordPiece:
    """Splits texts into pieces of a vocabulary, longest match first; a word that cannot be split is `[UNK]`.

    `pieces` returns the numbers of the pieces without `[CLS]` and `[SEP]`. Threads may share an instance: they may
    fill the caches at the same time, but write the same values.
    """

    def __init__(self, vocabulary: MappedVocabulary) -> None:
        self._numbers = _Numbers(vocabulary)
        self._characters = _Characters()
        self._words: dict[str, list[int]] = {}
        self._unknown, self.start, self.end = (self._special(name) for name in ("[UNK]", "[CLS]", "[SEP]"))

    def pieces(self, text: str, *, limit: int) -> list[int]:
        """Return the numbers of the first pieces of a text, at most `limit`."""
        numbers: list[int] = []
        parts = _SPECIAL.split(text) if "[" in text else (text,)
        for place, part in enumerate(parts):
            if place % 2:
                numbers.append(self._special(part))
            else:
                self._cut(part, numbers, limit)
            if len(numbers) >= limit:
                break
        return numbers[:limit]

    def _cut(self, text: str, numbers: list[int], limit: int) -> None:
        known = self._words
        for word in text.translate(self._characters).split():
            found = known.get(word)
            numbers += self._pieces_of(word) if found is None else found
            if len(numbers) >= limit:
                return

    def _pieces_of(self, word: str) -> list[int]:
        numbers = self._greedy(word)
        if len(word) <= _LONGEST_CACHED:
            if len(self._words) >= _WORDS_CACHED:
                self._words.clear()
            self._words[word] = numbers
        return numbers

    def _greedy(self, word: str) -> list[int]:
        if len(word) > _LONGEST_WORD:
            return [self._unknown]
        numbers: list[int] = []
        start = 0
        while start < len(word):
            mark = "##" if start else ""
            for end in range(min(len(word), start + _LONGEST_PIECE), start, -1):
                number = self._numbers[mark + word[start:end]]
                if number is not None:
                    break
            else:
                return [self._unknown]
            numbers.append(number)
            start = end
        return numbers

    def _special(self, name: str) -> int:
        number = self._numbers[name]
        if number is None:
            raise ValueError(f"it has no {name}")
        return number


class _Numbers(dict[str, int | None]):
    """The numbers of the pieces that were looked up; None for those that are not in the vocabulary."""

    def __init__(self, vocabulary: MappedVocabulary) -> None:
        super().__init__()
        self._vocabulary = vocabulary

    def __missing__(self, piece: str) -> int | None:
        if len(self) >= _PIECES_CACHED:
            self.clear()
        self[piece] = number = self._vocabulary.number(piece.encode("utf-8", "surrogatepass"))
        return number


class _Characters(dict[int, str]):
    """A table for `str.translate`: each character in lower case without accents, or as a space, or removed.

    Punctuation and ideographs are words of their own and get a space on either side. The table is filled when a
    character is first seen.
    """

    def __missing__(self, code: int) -> str:
        self[code] = normalized = _normalized(chr(code))
        return normalized


def _normalized(character: str) -> str:
    if character in "\t\n\r":
        return " "
    if character == "\ufffd" or unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co"):
        return ""
    if character.isspace():
        return " "
    plain = "".join(
        part.lower() for part in unicodedata.normalize("NFD", character) if unicodedata.category(part) != "Mn"
    )
    spaced = "".join(f" {part} " if _is_punctuation(part) else part for part in plain)
    return f" {spaced} " if any(first <= ord(character) <= last for first, last in _IDEOGRAPHS) else spaced


def _is_punctuation(character: str) -> bool:
    # In ASCII, symbols such as $ and + count as punctuation too.
    if character.isascii():
        return character.isprintable() and not character.isalnum() and character != " "
    return unicodedata.category(character)[0] == "P"


# The sentence encoder all-MiniLM-L6-v2 in numpy.
#
# Six layers of BERT, the mean over the tokens, normalized: what `sentence-transformers` computes, without torch
# and without a download. The weights are int8 with one scale per output, the word vectors have six bits for each
# number, all in one memory-mapped file that `bench/encoder_table.py` writes. Texts are concatenated and never
# padded: the matrices get one long list of tokens, and attention is computed for all texts of one length at a time.


WORDS, WIDTH, LAYERS, HEADS, INNER, POSITIONS = 30_522, 384, 6, 12, 1_536, 256
WORD_BITS = SIX_BITS
_HEAD = WIDTH // HEADS
_EPSILON = 1e-12

# Only so much of a text is tokenized. Apart from white space, hardly any text has 32 characters per token.
_CHARACTERS_READ = 32 * POSITIONS
# So many batches are computed before the weights are converted to floats for good, which takes as long as five.
_BATCHES_UNCONVERTED = 4
# Enough tokens for BLAS to be efficient, and few enough for the processor's cache.
_TOKENS_AT_ONCE = 1_024
_ROWS_AT_ONCE = 16
# Faster than one multiplication of all integers, for which numpy converts them in small pieces.
_CONVERTED_AT_ONCE = 1 << 15

_DATA = Path(__file__).with_name("minilm_data")


class Section(NamedTuple):
    """One array in the file of weights; each starts at a multiple of 64 bytes."""

    name: str
    kind: str
    shape: tuple[int, ...]


def _matrix(name: str, outputs: int, inputs: int) -> list[Section]:
    """Return the sections of a matrix: int8 weights with a column for each output, their scales, the bias."""
    return [
        Section(f"{name}.weight", "<i1", (inputs, outputs)),
        Section(f"{name}.scale", "<f4", (outputs,)),
        Section(f"{name}.bias", "<f4", (outputs,)),
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


MAGIC = b"satchel minilm-l6-v2-int8 2\n".ljust(64, b"\0")
LAYOUT = (
    Section("words.weight", "|u1", (WORDS, WORD_BITS.width(WIDTH))),
    Section("words.scale", "<f4", (WORDS,)),
    Section("positions", "<f2", (POSITIONS, WIDTH)),
    *_norm("embedding_norm"),
    *(section for number in range(LAYERS) for section in _layer(f"layer{number}")),
)


def weights_path() -> Path:
    """Return the path of the weights: a file that starts with `MAGIC` and holds the arrays of `LAYOUT`."""
    return _DATA / "weights.bin"


def vocabulary_path() -> Path:
    """Return the path of the vocabulary, in the format of `text.mapped_vocabulary`."""
    return _DATA / "vocab.bin"


class MiniLMEmbedder:
    """Embeds the meaning of the first 256 tokens of a text.

    The model is loaded when first used, and threads may share it. A text without tokens gives zeros. Vectors of
    earlier versions, whose word vectors had eight bits, have cosines of at least 0.9997 with these, so the name is
    the same.
    """

    name = "minilm-l6-v2-int8"
    dimensions = WIDTH
    passages_inline = 160

    def __init__(self) -> None:
        self._model: _Model | None = None
        self._loading = threading.Lock()

    def forked(self) -> None:
        """Reset the lock in a forked child, where nobody would release it."""
        self._loading = threading.Lock()

    def embed(self, texts: Sequence[str]) -> "Vectors":
        """Return one row for each text; zeros for a text without tokens."""
        model = self._model if self._model is not None else self._load()
        return embed_nonblank(texts, model.encode, dimensions=WIDTH)

    def _load(self) -> "_Model":
        with self._loading:
            if self._model is None:
                self._model = _Model(_open_weights(weights_path()), _open_tokenizer(vocabulary_path()))
            return self._model

    def __repr__(self) -> str:
        return f"<satchel embedder {self.name}>"


class _Model:
    """The loaded tokenizer and layers."""

    def __init__(self, arrays: "dict[str, NDArray[np.generic]]", tokenizer: WordPiece) -> None:
        import numpy as np

        self._tokenizer = tokenizer
        self._words, self._scales = arrays["words.weight"].view(np.uint8), _floats(arrays, "words.scale")
        self._positions = _floats(arrays, "positions")
        self._norm = _Norm(arrays, "embedding_norm")
        self._layers = [_Layer(arrays, f"layer{number}") for number in range(LAYERS)]
        self._batches = 0

    def encode(self, texts: list[str]) -> "Vectors":
        """Return the mean of the last layer over the tokens of each text, not normalized."""
        import numpy as np

        tokens = [self._tokens(text) for text in texts]
        rows = np.zeros((len(texts), WIDTH), np.float32)
        batches = _batches([len(each) for each in tokens])
        self._batches += len(batches)
        if self._batches > _BATCHES_UNCONVERTED:
            for layer in self._layers:
                layer.convert()

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
        hidden: Vectors = WORD_BITS.unpacked(self._words[numbers], WIDTH).astype(np.float32)
        hidden *= self._scales[numbers, None]
        hidden += self._positions[np.concatenate([np.arange(len(text)) for text in texts])]
        self._norm(hidden)
        # Room for one matrix: it stays in the processor's cache, and using memory again costs no page faults.
        room = np.empty(INNER * WIDTH, np.float32)
        for layer in self._layers:
            hidden = layer(hidden, shapes, room)
        starts = np.cumsum([0, *map(len, texts[:-1])])
        means: Vectors = np.add.reduceat(hidden, starts)
        means /= np.array([[len(text)] for text in texts], np.float32)
        return means


class _Layer:
    """One layer: attention, then two matrices. The weights of the queries include the scaling of the scores."""

    def __init__(self, arrays: "dict[str, NDArray[np.generic]]", name: str) -> None:
        self._qkv = _Matrix(arrays, f"{name}.qkv")
        self._out = _Matrix(arrays, f"{name}.out")
        self._attention_norm = _Norm(arrays, f"{name}.attention_norm")
        self._up = _Matrix(arrays, f"{name}.up")
        self._down = _Matrix(arrays, f"{name}.down")
        self._output_norm = _Norm(arrays, f"{name}.output_norm")

    def convert(self) -> None:
        """Convert the weights to floats for good: twice as fast for each text, four times the memory."""
        for matrix in (self._qkv, self._out, self._up, self._down):
            matrix.convert()

    def __call__(self, hidden: "Vectors", shapes: list[tuple[int, int]], room: "Vectors") -> "Vectors":
        attended = self._out(_attention(self._qkv(hidden, room), shapes), room)
        attended += hidden
        self._attention_norm(attended)
        inner = self._up(attended, room)
        _gelu(inner)
        output = self._down(inner, room)
        output += attended
        self._output_norm(output)
        return output


class _Matrix:
    """A linear layer: a matrix of integers, the scale of each of its columns, and a bias.

    The integers are converted to floats for each product, until `convert` keeps the floats. A process that embeds
    one query, such as a command, is done before converting all would be. The result is the same to the bit, because
    both give BLAS the same matrices in the same order: with another order, its rounding depends on the processor.
    """

    def __init__(self, arrays: "dict[str, NDArray[np.generic]]", name: str) -> None:
        self._integers, self._scales = arrays[f"{name}.weight"], _floats(arrays, f"{name}.scale")
        self._bias = _floats(arrays, f"{name}.bias")
        self._floats: Vectors | None = None

    def convert(self) -> None:
        """Keep the weights as floats. Threads may do it at the same time; they store the same values."""
        import numpy as np

        if self._floats is None:
            floats = np.empty(self._integers.shape, np.float32)
            self._convert_into(floats)
            self._floats = floats

    def __call__(self, rows: "Vectors", room: "Vectors") -> "Vectors":
        """Return the product with some rows; `room` is memory for as many floats as the matrix has."""
        weights = self._floats
        if weights is None:
            weights = room[: self._integers.size].reshape(self._integers.shape)
            self._convert_into(weights)
        product: Vectors = rows @ weights
        product += self._bias
        return product

    def _convert_into(self, weights: "Vectors") -> None:
        """Write the weights as floats, a few rows at a time: both steps then find them in the processor's cache."""
        rows = _CONVERTED_AT_ONCE // weights.shape[1]
        for start in range(0, len(weights), rows):
            block = weights[start : start + rows]
            block[:] = self._integers[start : start + rows]
            block *= self._scales


class _Norm:
    """Layer normalization, in place."""

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
    """Compute attention inside each text. `shapes` are pairs of a length and how many texts have it."""
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


# tanh of this odd polynomial approximates erf(x / √2). The error of GELU is at most 3e-6.
_GELU = (1.1190821863647707e-06, -3.058100614425294e-05, -0.0001248616377164627, 0.03646879096600655)
_GELU_FIRST = 0.7978281359946672


def _gelu(rows: "Vectors") -> None:
    """Compute x · (1 + erf(x / √2)) in place. This is twice GELU; the weights after it include the factor 1/2."""
    import numpy as np

    # A few rows at a time, so that they stay in the nearest cache.
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
    """Run the batches in this thread and one more; an error in either is raised here."""
    waiting = deque(batches)
    failed: list[BaseException] = []

    def run_batches() -> None:
        while not failed:
            try:
                batch = waiting.popleft()
            except IndexError:
                return
            work(batch)

    def run_in_helper() -> None:
        try:
            run_batches()
        except BaseException as error:  # noqa: BLE001 - raised by the caller's thread
            failed.append(error)

    if len(batches) < 2 or processors < 2:
        return run_batches()
    helper = threading.Thread(target=run_in_helper, name="satchel-minilm", daemon=True)
    try:
        helper.start()
    except RuntimeError:
        # The interpreter is shutting down.
        return run_batches()
    try:
        run_batches()
    finally:
        waiting.clear()
        helper.join()
    if failed:
        raise failed[0]
    return None


def _batches(lengths: Sequence[int]) -> list[list[int]]:
    """Group the indexes of texts by length into batches of at most `_TOKENS_AT_ONCE` tokens."""
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

    # Without a copy, except of what has another type or, on some machines, another byte order.
    return np.asarray(arrays[name], np.float32)


def _open_weights(path: Path) -> "dict[str, NDArray[np.generic]]":
    """Return the arrays of the file, memory-mapped."""
    import numpy as np

    try:
        whole = np.asarray(np.memmap(path, np.uint8, "r"))
        if bytes(whole[: len(MAGIC)]) != MAGIC:
            raise ValueError("it does not start with the expected header")
        arrays: dict[str, NDArray[np.generic]] = {}
        start = len(MAGIC)
        for section in LAYOUT:
            size = math.prod(section.shape) * np.dtype(section.kind).itemsize
            arrays[section.name] = whole[start : start + size].view(section.kind).reshape(section.shape)
            start += -(-size // 64) * 64
    except (OSError, ValueError) as error:
        raise EmbedderError(f"the weights of the embedder minilm cannot be read from {path}: {error}") from error
    return arrays


def _open_tokenizer(path: Path) -> WordPiece:
    try:
        return WordPiece(MappedVocabulary(path))
    except (OSError, ValueError) as error:
        raise EmbedderError(f"the vocabulary of the embedder minilm cannot be read from {path}: {error}") from error


MINILM = MiniLMEmbedder()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=MINILM.forked)
