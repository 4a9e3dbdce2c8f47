"""The sentence encoder gives what the original gives, for any text, in any batch, from any thread."""

import hashlib
import os
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from satchel.embed import minilm
from satchel.embed import minilm as blas
from satchel.embed.embedder import resolve_embedder
from satchel.embed.minilm import LAYOUT, MAGIC, MINILM, MiniLMEmbedder, WordPiece, vocabulary_path, weights_path
from satchel.errors import EmbedderError, InputError
from satchel.text.mapped_vocabulary import MappedVocabulary

# By the library `tokenizers` 0.23 with the model's own tokenizer.json.
PIECES = {
    "Hello, World!": [7592, 1010, 2088, 999],
    "unaffable": [14477, 20961, 3468],
    "don't e-mail $5+3=8": [2123, 1005, 1056, 1041, 1011, 5653, 1002, 1019, 1009, 1017, 1027, 1022],
    "Ünïcödé Straße": [27260, 2358, 27807],
    "ΑΣ ΟΔΟΣ": [1155, 29733, 1169, 29722, 29730, 29733],
    "İstanbul": [9960],
    "東京タワー": [1879, 1755, 1709, 30262, 30265],
    "한국어": [1469, 30006, 30021, 29991, 30014, 30020, 29999, 30008],
    "\xa0tabs\tand\u3000wide\u2028lines": [21628, 2015, 1998, 2898, 3210],
    "a\x0bb\x00c\u200dd\ufffde": [5925, 3207],
    "[MASK] me [SEP]ond [mask]": [103, 2033, 102, 2006, 2094, 1031, 7308, 1033],
    "x" * 100: [22038, *[20348] * 49],
    "x" * 101: [100],
    "\U0001f600 emoji\U0001f469\u200d\U0001f4bb": [100, 100],
    "ﬁne ½ ²": [1984, 2638, 1092, 1082],
    "na\xefve cafe\u0301": [15743, 7668],
    "\u037e;\u1fef": [1025, 1025, 1036],
    "𠀀𫢠丽": [100, 100, 100],
    "snake_case.CamelCase/path": [7488, 1035, 2553, 1012, 19130, 18382, 1013, 4130],
    "Привет, как дела?": [
        *[1194, 16856, 10325, 25529, 15290, 22919, 1010, 1189, 10260, 23925],
        *[1184, 15290, 29436, 10260, 1029],
    ],
    "مرحبا": [1295, 17149, 29820, 29816, 25573],
}

# The first numbers of the vectors that sentence-transformers makes with the original weights.
ORIGINAL = {
    "The cat sat on the mat.": [
        *[0.130, -0.016, -0.037, 0.058, -0.060, 0.033, 0.030, 0.029, -0.019, 0.055, -0.028, 0.070],
        *[0.040, 0.026, -0.055, -0.052, -0.053, -0.037, 0.061, 0.037, -0.030, -0.013, 0.031, -0.062],
    ],
    "We chose PostgreSQL because several services write at once.": [
        *[-0.038, -0.098, -0.048, 0.042, -0.063, -0.034, -0.030, 0.008, 0.103, 0.044, -0.046, 0.135],
        *[-0.009, -0.014, 0.034, -0.047, 0.059, -0.116, 0.022, -0.066, -0.077, -0.036, -0.025, 0.050],
    ],
    "Où est la gare ?": [
        *[-0.059, -0.020, 0.010, -0.034, 0.023, 0.052, 0.112, 0.013, 0.003, -0.016, 0.048, -0.007],
        *[-0.000, -0.019, -0.035, -0.114, -0.023, -0.053, 0.042, 0.040, 0.076, 0.043, -0.025, 0.034],
    ],
    # Longer than the 256 tokens that are read.
    "deploy failed: error 0x7f in step 3\n" * 40: [
        *[0.012, -0.040, -0.003, -0.053, -0.009, -0.041, -0.039, -0.027, -0.049, 0.072, 0.030, -0.118],
        *[0.019, -0.018, -0.028, 0.013, -0.086, -0.018, -0.079, -0.005, 0.031, -0.021, -0.045, 0.014],
    ],
}

PAIRS = [
    ("How do I reset my password?", "Steps to recover a forgotten login", 0.590),
    ("The weather is lovely in June", "Summers here are warm and sunny", 0.585),
    ("Our database is PostgreSQL", "We store the data in Postgres", 0.674),
]


@pytest.fixture(scope="module")
def tokenizer() -> WordPiece:
    return WordPiece(MappedVocabulary(vocabulary_path()))


def alone(text: str) -> np.ndarray:
    return MINILM.embed([text])[0]


def test_texts_are_cut_into_the_pieces_of_the_original(tokenizer: WordPiece):
    for _ in range(2):  # the second time from the cache
        for text, pieces in PIECES.items():
            assert tokenizer.pieces(text, limit=1000) == pieces, ascii(text)


def test_no_more_pieces_are_made_than_are_wanted(tokenizer: WordPiece):
    assert tokenizer.pieces("[CLS] one two three four", limit=3) == tokenizer.pieces("[CLS] one two", limit=9)
    assert tokenizer.pieces("unaffable", limit=2) == PIECES["unaffable"][:2]


def test_vectors_are_those_of_the_original_but_for_rounding():
    rows = MINILM.embed(list(ORIGINAL))
    for row, numbers in zip(rows, ORIGINAL.values(), strict=True):
        start = row[: len(numbers)]
        assert start @ numbers / np.linalg.norm(start) / np.linalg.norm(numbers) > 0.997
        assert np.abs(start - numbers).max() < 0.006
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)


def test_what_means_the_same_is_closest():
    texts = [text for first, second, _ in PAIRS for text in (first, second)]
    rows = MINILM.embed(texts)
    likeness = rows @ rows.T - 2 * np.eye(len(texts))
    assert likeness.argmax(axis=1).tolist() == [1, 0, 3, 2, 5, 4]
    for place, (_, _, original) in enumerate(PAIRS):
        assert abs(likeness[2 * place, 2 * place + 1] - original) < 0.02


def test_the_same_texts_give_the_same_bytes():
    texts = [*PIECES, *ORIGINAL]
    assert MINILM.embed(texts).tobytes() == MiniLMEmbedder().embed(texts).tobytes()


def test_a_text_gets_the_same_vector_in_any_company(monkeypatch: pytest.MonkeyPatch):
    words = ["the", "red", "house", "by", "sea"]
    texts = [" ".join(words[: 1 + number % 5] * (1 + number)) for number in range(12)]
    wanted = np.stack([alone(text) for text in texts])
    for room in (30, 1024):
        monkeypatch.setattr(minilm, "_TOKENS_AT_ONCE", room)
        for order in (texts, texts[7:] + texts[6::-1]):
            rows = MINILM.embed(order)
            assert np.abs(rows - wanted[[texts.index(text) for text in order]]).max() < 1e-5


def test_a_text_without_a_token_gives_zeros():
    rows = MINILM.embed(["", " \n\t", "\u200b\ufffd\x00", "word"])
    assert not rows[:3].any()
    assert rows[3].any()
    assert MINILM.embed([]).shape == (0, 384)


def test_halves_of_surrogate_pairs_are_no_hindrance():
    assert (alone("a \ud83d\ude00 b") == alone("a \U0001f600 b")).all()
    assert (alone("a \ud83d b") == alone("a \ufffd b")).all()


def test_only_the_beginning_of_a_long_text_is_read(monkeypatch: pytest.MonkeyPatch):
    read: list[int] = []
    pieces = WordPiece.pieces

    def watched(self: WordPiece, text: str, *, limit: int) -> list[int]:
        read.append(len(text))
        return pieces(self, text, limit=limit)

    monkeypatch.setattr(WordPiece, "pieces", watched)
    many = "word " * 254
    rows = MINILM.embed([many, many + "other " * 1_000_000, "\n" * 100_000 + many, "q" * 1_000_000])
    assert max(read) <= 8192
    assert np.abs(rows[:3] - rows[0]).max() < 1e-5
    assert rows[3].any()


def test_8_threads_that_load_it_at_once_get_the_same():
    texts = list(ORIGINAL)
    wanted = MINILM.embed(texts)
    fresh = MiniLMEmbedder()
    start = threading.Barrier(8)
    got: list[np.ndarray] = []
    models: set[int] = set()

    def work() -> None:
        start.wait(30)
        got.append(fresh.embed(texts))
        models.add(id(fresh._model))

    crew = [threading.Thread(target=work) for _ in range(8)]
    for thread in crew:
        thread.start()
    for thread in crew:
        thread.join(60)
    assert len(got) == 8
    assert len(models) == 1
    assert max(np.abs(rows - wanted).max() for rows in got) < 1e-5


def test_an_error_in_either_thread_is_raised_to_the_caller():
    caller = threading.current_thread()
    for broken in (True, False):
        met = threading.Barrier(2)

        def work(batch: Sequence[int], broken: bool = broken, met: threading.Barrier = met) -> None:
            met.wait(30)  # so that each thread has one
            if (threading.current_thread() is caller) == broken:
                raise IndexError("broken on purpose")

        with pytest.raises(IndexError, match="on purpose"):
            minilm._in_two_threads(work, [[0], [1]], processors=2)


def test_blas_computes_in_one_thread_meanwhile_and_as_before_afterwards():
    with blas.one_thread():
        assert blas._limit._threads is not None
        count, set_count = blas._limit._threads
    before = count()
    try:
        set_count(2)
        if count() != 2:
            pytest.skip("numpy computes by another BLAS, or has one processor")
        seen = []
        with blas.one_thread(), blas.one_thread():
            seen.append(count())
        seen.append(count())
        with blas.one_thread():
            other = threading.Thread(target=lambda: MINILM.embed(["word"]))
            other.start()
            other.join(30)
            seen.append(count())
        seen.append(count())
        assert seen == [1, 2, 1, 2]
    finally:
        set_count(before)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_that_is_forked_while_others_embed_can_embed():
    wanted = alone("word")
    entered, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with MINILM._loading, blas._limit._lock:
            entered.set()
            leave.wait(30)

    holder = threading.Thread(target=hold)
    holder.start()
    assert entered.wait(30)
    child = os.fork()
    if not child:
        done = threading.Thread(target=lambda: os._exit(int(not np.allclose(MINILM.embed(["word"])[0], wanted))))
        MINILM._model = None
        done.start()
        done.join(30)
        os._exit(2)
    leave.set()
    holder.join(30)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_weights_are_converted_after_a_few_texts_and_the_vectors_stay():
    embedder = MiniLMEmbedder()
    texts = ["word", "How do we rotate tokens?", "many words " * 100]
    first = [embedder.embed([text])[0] for text in texts]
    assert embedder._model._layers[0]._qkv._floats is None
    embedder.embed(texts * 60)
    assert embedder._model._layers[0]._qkv._floats is not None
    for text, vector in zip(texts, first, strict=True):
        assert np.array_equal(embedder.embed([text])[0], vector), text


def test_the_name_and_the_short_spec_give_the_same_embedder():
    assert resolve_embedder("minilm") is resolve_embedder(" minilm-l6-v2-int8 ") is MINILM
    assert (MINILM.name, MINILM.dimensions) == ("minilm-l6-v2-int8", 384)
    for other in ("minilm:other", "minilm-l6-v2"):
        with pytest.raises(InputError, match="unknown embedder"):
            resolve_embedder(other)


def test_the_files_are_those_the_name_stands_for():
    """Other weights make other vectors. Unless they fit stored ones (test_earlier_vectors.py), the name changes."""
    sums = [hashlib.sha256(path.read_bytes()).hexdigest()[:16] for path in (weights_path(), vocabulary_path())]
    assert (MINILM.name, *sums) == ("minilm-l6-v2-int8", "9848a1a655ef834a", "5f1ceb4f8a448c21")
    size = sum(-(-int(np.prod(each.shape)) * np.dtype(each.kind).itemsize // 64) * 64 for each in LAYOUT)
    assert weights_path().stat().st_size == len(MAGIC) + size
    assert "Apache License 2.0" in weights_path().with_name("NOTICE").read_text("utf-8")


@pytest.mark.parametrize("content", [None, b"", MAGIC, b"\0" * 4096, MAGIC + b"\0" * 10_000_000])
def test_weights_that_cannot_be_read_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content):
    if content is not None:
        (tmp_path / "weights.bin").write_bytes(content)
    monkeypatch.setattr(minilm, "_DATA", tmp_path)
    with pytest.raises(EmbedderError, match=r"weights\.bin"):
        MiniLMEmbedder().embed(["word"])


@pytest.mark.parametrize("length", [0, 10, 100_000])
def test_a_vocabulary_that_is_cut_off_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, length: int):
    (tmp_path / "vocab.bin").write_bytes(vocabulary_path().read_bytes()[:length])
    (tmp_path / "weights.bin").symlink_to(weights_path())
    monkeypatch.setattr(minilm, "_DATA", tmp_path)
    with pytest.raises(EmbedderError, match=r"vocab\.bin"):
        MiniLMEmbedder().embed(["word"])
