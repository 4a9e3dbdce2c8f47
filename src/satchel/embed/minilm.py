"""`minilm`, the embedder of new stores: a small transformer in numpy, with its tokenizer."""

import contextlib
import os
import re
import threading
import unicodedata
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from satchel.embed.embedder import written_rows
from satchel.errors import EmbedderError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from satchel.embed.embedder import Vectors

__all__ = [
    "LAYOUT",
    "MAGIC",
    "MINILM",
    "MiniLMEmbedder",
    "Section",
    "WordPiece",
    "one_thread",
    "vocabulary_path",
    "weights_path",
]


# As numpy's own wheels name them, then other builds of OpenBLAS.
_NAMES = ("scipy_openblas_{}_num_threads64_", "scipy_openblas_{}_num_threads", "openblas_{}_num_threads")


def one_thread() -> contextlib.AbstractContextManager[None]:
    """Within it, numpy computes matrix products in the calling thread; afterwards as before.

    BLAS would start a thread for each processor. They wait for each other by spinning: where
    others use the processors too, that makes small products many times slower, and a fork in the
    middle of one may hang. The setting is one for the whole process, and callers share it. Where
    numpy computes by anything else than OpenBLAS, nothing is changed.
    """
    return _limit.hold()


class _Limit:
    """Holds the limit while anyone computes: the first sets it, the last gives back what was before."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._computing = 0
        self._before = 1
        self._threads: tuple[Callable[[], int], Callable[[int], object]] | None = None

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        self._enter()
        try:
            yield
        finally:
            self._leave()

    def forked(self) -> None:
        """In the child of a fork no other thread computes, and none will release the lock."""
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


# The package threadpoolctl does this for every BLAS; finding them takes it longer than loading our weights.
def _openblas() -> tuple[Callable[[], int], Callable[[int], object]]:
    """How many threads OpenBLAS uses, and how to change it; without OpenBLAS one, and nothing."""
    import ctypes

    import numpy as np

    package = Path(np.__file__).parent
    # Names are looked up in all that a library was linked with, except on Windows.
    extensions = (package / "_core").glob("_multiarray_umath*")
    for path in (*extensions, *package.with_name("numpy.libs").glob("*openblas*")):
        with contextlib.suppress(OSError):
            library = ctypes.CDLL(str(path))
            for name in _NAMES:
                with contextlib.suppress(AttributeError):
                    return library[name.format("get")], library[name.format("set")]
    return (lambda: 1), (lambda count: None)


_limit = _Limit()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_limit.forked)


# BERT's uncased WordPiece tokenizer: from a text to the numbers of its pieces.
#
# It gives what the `tokenizers` library gives for `bert-base-uncased`, one word at a time and with a cache,
# so that the encoder needs neither that library nor its loading time.


_LONGEST_WORD = 100
_WORDS_KEPT = 1 << 16
_LONGEST_KEPT = 32

# Written like this in a text they are the special tokens themselves, as they are for the original.
_SPECIAL = re.compile(r"(\[(?:PAD|UNK|CLS|SEP|MASK)\])")

_IDEOGRAPHS = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B920, 0x2CEAF),  # so in the original, 0x100 later than the block begins
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


class WordPiece:
    """Cuts texts into pieces of a vocabulary, longest first; a word that cannot be cut is `[UNK]`.

    `pieces` gives the numbers of a text without `[CLS]` and `[SEP]`. Threads may share one: they
    race only for what the caches hold, and write the same.
    """

    def __init__(self, vocabulary: Iterable[str]) -> None:
        self._numbers = {piece: number for number, piece in enumerate(vocabulary)}
        self._longest = max(map(len, self._numbers))
        self._unknown = self._numbers["[UNK]"]
        self._characters = _Characters()
        self._words: dict[str, list[int]] = {}
        self.start, self.end = self._numbers["[CLS]"], self._numbers["[SEP]"]

    def pieces(self, text: str, *, limit: int) -> list[int]:
        """The numbers of the first pieces of a text, at most `limit` of them."""
        numbers: list[int] = []
        parts = _SPECIAL.split(text) if "[" in text else (text,)
        for place, part in enumerate(parts):
            if place % 2:
                numbers.append(self._numbers[part])
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
        if len(word) <= _LONGEST_KEPT:
            if len(self._words) >= _WORDS_KEPT:
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
            for end in range(min(len(word), start + self._longest), start, -1):
                number = self._numbers.get(mark + word[start:end])
                if number is not None:
                    break
            else:
                return [self._unknown]
            numbers.append(number)
            start = end
        return numbers


class _Characters(dict[int, str]):
    """What each character becomes: itself in lower case without accents, a space, or nothing.

    Punctuation and ideographs are words of their own and get a space on either side. Filled as
    characters are met; `str.translate` reads it.
    """

    def __missing__(self, code: int) -> str:
        self[code] = became = _became(chr(code))
        return became


def _became(character: str) -> str:
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
    # In ASCII also what Unicode calls a symbol, such as $ and +.
    if character.isascii():
        return character.isprintable() and not character.isalnum() and character != " "
    return unicodedata.category(character)[0] == "P"


# The sentence encoder all-MiniLM-L6-v2 in numpy, with its weights as whole numbers in the package.
#
# Six layers of BERT, the mean over the tokens, length 1: what `sentence-transformers` computes, without
# torch and without a download. The weights are int8 with one scale for each row, in one file that is
# mapped; `bench/encoder_table.py` writes it. Texts are laid end to end and never padded: the
# matrices see one long list of tokens, and attention goes over the texts of one length at a time.


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
