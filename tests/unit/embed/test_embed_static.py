import hashlib
import os
import random
import subprocess
import sys
from array import array
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from satchel.embed import static
from satchel.embed.embedder import resolve_embedder
from satchel.errors import EmbedderError

TEXTS = [
    "We rotate JWTs every hour and keep the old key for ten minutes.",
    "Naïve café, ﬁligree — “quoted”; e\u0301 and \u200bzero width",
    "def f(x: int) -> str:\n    return f'{x:>8}'  # Ünïcode\n",
    "https://example.org/a/b?c=d&e=%20 user@example.org 12,345.67 €",
    "日本語のテキスト と 한국어 и кириллица",
    "emoji 👩\u200d👩\u200d👧 and \x00 control",
    "<s> <unk> </s> are only words here",
    "supercalifragilisticexpialidocious " * 3,
    "x" * 1000,
]


@pytest.fixture
def embedder():
    return resolve_embedder("static")


@pytest.fixture(scope="module")
def reference():
    """The same, computed in the plainest way from the file."""
    from splintr import Tokenizer

    encode = Tokenizer.from_pretrained("llama2").encode_ordinary
    raw = static.table_path().read_bytes()[len(static.MAGIC) :]
    scales, rows = np.frombuffer(raw[:128_000], "<f4"), np.frombuffer(raw[128_000:], "<u1").reshape(32_000, 136)
    integers = np.hstack([rows[:, :128] & 15, rows[:, :128] >> 4]).astype(np.int64) - 8
    factors = np.hstack([rows[:, 128:] & 15, rows[:, 128:] >> 4]).astype(np.int64) + 1
    weights = integers * np.repeat(factors, 16, axis=1) * scales[:, None].astype(np.float64)

    def embed(text):
        ids = encode(" ".join(text.split()))
        mean = weights[ids].mean(0)
        return ids, mean / np.linalg.norm(mean)

    return embed


def cosine(embedder, one, other):
    first, second = embedder.embed([one, other])
    return float(first @ second)


@pytest.mark.parametrize("text", TEXTS)
def test_a_vector_is_the_mean_of_the_vectors_of_its_tokens(embedder, reference, text):
    _, expected = reference(text)
    np.testing.assert_allclose(embedder.embed([text])[0], expected, atol=1e-5)


def test_cut_word_by_word_a_text_has_the_tokens_of_the_whole(reference):
    words = static._Words(*static._open_table(static.table_path()))
    chosen = random.Random(7)
    characters = "abcdefgh ABC 0123 .,:;-_/'\"()[]{} \n\t éüñßøçœ 日本語 кир 👩 "
    texts = TEXTS + ["".join(chosen.choices(characters, k=80)) + "x" for _ in range(500)]
    for text in texts:
        tokens = array("H", b"".join(words[word] for word in text.split()))
        assert list(tokens) == reference(text)[0], text


def test_rows_are_float32_of_length_one_in_the_order_of_the_texts(embedder):
    rows = embedder.embed(TEXTS)
    assert rows.dtype == np.float32
    assert rows.shape == (len(TEXTS), embedder.dimensions) == (len(TEXTS), 256)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    for row, text in zip(rows, TEXTS, strict=True):
        np.testing.assert_array_equal(row, embedder.embed([text])[0])


def test_texts_without_a_word_are_rows_of_zeros_and_leave_their_neighbours_alone(embedder):
    rows = embedder.embed(["", "hello", " \n\t ", "", "world", ""])
    assert [bool(row.any()) for row in rows] == [False, True, False, False, True, False]
    np.testing.assert_array_equal(rows[1], embedder.embed(["hello"])[0])
    assert embedder.embed([]).shape == (0, 256)
    assert embedder.embed([""]).shape == (1, 256)


def test_where_a_line_breaks_changes_nothing(embedder):
    one, other = embedder.embed(["keep the old key for ten minutes", " keep the\nold key\r\n\tfor  ten minutes\n"])
    np.testing.assert_array_equal(one, other)


def test_halves_of_surrogate_pairs_are_read_as_elsewhere_in_satchel(embedder):
    lone, replaced, pair, joined = embedder.embed(["a \ud83d b", "a \ufffd b", "a \ud83d\udc69", "a 👩"])
    np.testing.assert_array_equal(lone, replaced)
    np.testing.assert_array_equal(pair, joined)


def test_texts_of_like_meaning_are_nearer_than_others(embedder):
    question = "how often are access tokens renewed"
    near = cosine(embedder, question, "JWT credentials are rotated every hour")
    far = cosine(embedder, question, "the cat sleeps on the warm window sill")
    assert near > far + 0.1


def test_a_very_long_text_takes_bounded_memory(embedder):
    program = (
        "import tracemalloc, numpy\nfrom satchel.embed.embedder import resolve_embedder\n"
        "static = resolve_embedder('static'); static.embed(['warm'])\n"
        "words = 'the quick brown fox ' * 250_000\n"
        "tracemalloc.start(); rows = static.embed([words]); peak = tracemalloc.get_traced_memory()[1]\n"
        "once = static.embed(['the quick brown fox'])\n"
        "assert abs(float(rows[0] @ once[0]) - 1) < 1e-4\nprint(peak)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    # A million tokens at once would be a gigabyte; the words themselves are 60 MB of it.
    assert int(done.stdout) < 150_000_000


def test_a_forgotten_word_gives_the_same_vector_again(embedder, monkeypatch):
    expected = embedder.embed(TEXTS)
    monkeypatch.setattr(static, "_WORDS_CACHED", 2)
    monkeypatch.setattr(static, "_CONVERTED_SINGLY", 5)
    fresh = static.StaticEmbedder()
    np.testing.assert_array_equal(fresh.embed(TEXTS), expected)
    assert len(fresh._words) <= 2


def test_long_words_are_not_kept():
    fresh = static.StaticEmbedder()
    fresh.embed(["short " + "x" * 33])
    assert list(fresh._words) == ["short"]


def test_threads_that_load_it_at_once_get_the_same_vectors(embedder):
    fresh = static.StaticEmbedder()
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: fresh.embed(TEXTS), range(32)))
    for answer in answers:
        np.testing.assert_array_equal(answer, embedder.embed(TEXTS))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_a_forked_child_embeds_without_a_warning():
    program = (
        "import os, sys\nfrom satchel.embed.embedder import resolve_embedder\n"
        "static = resolve_embedder('static')\n"
        "static.embed(['before the fork'] * 100)\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    os._exit(0 if static.embed(['after the fork', 'new words']).any(axis=1).all() else 1)\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_file_is_the_one_the_name_stands_for():
    """Other weights make other vectors: if those of stores do not fit them, the name has to change too."""
    assert hashlib.sha256(static.table_path().read_bytes()).hexdigest()[:16] == "34d4543cfefb99cf"
    assert "MIT License" in static.table_path().with_name("NOTICE").read_text("utf-8")


@pytest.mark.parametrize("content", [None, b"", static.MAGIC, b"\0" * 4096, static.MAGIC + bytes(200_000)])
def test_a_damaged_table_is_an_error_that_names_the_file(tmp_path, content):
    path = tmp_path / "vectors.bin"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(EmbedderError, match=r"vectors\.bin") as refused:
        static._open_table(path)
    assert "\n" not in str(refused.value)


def test_many_texts_at_once_have_the_vectors_that_each_has_alone():
    texts = [f"{text} {number}" for number in range(8) for text in TEXTS]
    together, alone = static.StaticEmbedder(), static.StaticEmbedder()
    assert len(texts) >= static._MANY_TEXTS
    assert np.array_equal(together.embed(texts), np.concatenate([alone.embed([text]) for text in texts]))
