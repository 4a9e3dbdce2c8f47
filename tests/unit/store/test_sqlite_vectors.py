"""Vectors in a SQLite store: codes in chunks are always those of the vectors."""

import contextlib
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import satchel
from in_step import Letters, differences
from satchel import Draft, Satchel
from satchel.model.filters import Filter
from satchel.model.memory import Scope
from satchel.recall.indexer import packed
from satchel.store.sqlite import vectors
from satchel.store.sqlite.vectors import signs

LETTERS = "abcdefghijklmnopqrst"


@pytest.fixture
def bag(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Satchel]:
    """A store with chunks of four memories."""
    monkeypatch.setattr(vectors, "CHUNK_BITS", 2)
    with satchel.open(path, embedder=Letters()) as opened:
        yield opened


def text(chance: random.Random) -> str:
    return "".join(chance.choices(LETTERS, k=chance.randrange(1, 30))) + f" {chance.random()}"


def chunks(bag: Satchel) -> list[int]:
    with bag._store._read() as db:
        return [row[0] for row in db.execute("SELECT chunk FROM code_1 WHERE codes IS NOT NULL")]


def test_signs_are_the_bits_that_numpy_packs():
    rng = np.random.default_rng(7)
    for size in (1, 7, 8, 20, 64, 100, 256):
        row = rng.integers(-128, 128, size, np.int8)
        assert signs(row.tobytes()) == np.packbits(row > 0).tobytes(), size
    assert signs(b"") == b""


def test_vectors_are_packed_in_the_full_range_of_a_byte_and_zeros_stay_zeros():
    rows = np.array([[0, 0, 0, 0], [0.5, -0.25, 0.001, 0], [-3, 3, 1.5, -1.5]], np.float32)
    whole = [np.frombuffer(vector, np.int8).tolist() for vector, _ in packed(rows)]
    assert whole == [[0, 0, 0, 0], [127, -64, 0, 0], [-127, 127, 64, -64]]
    assert [code for _, code in packed(rows)] == [signs(vector) for vector, _ in packed(rows)]


def test_the_memory_after_a_chunk_completes_it(bag: Satchel):
    for number in range(1, 13):
        bag.add(f"note {number}")
        assert chunks(bag) == list(range(number // 4))


def test_chunks_are_in_step_whatever_is_written(bag: Satchel):
    chance = random.Random(5)
    bag.add_many(Draft(text(chance)) for _ in range(30))
    for step in range(60):
        ids = [memory.id for memory in bag.recent(limit=999)]
        match chance.randrange(6):
            case 0:
                bag.add("\n\n".join("word " * 150 for _ in range(3)) + text(chance))
            case 1:
                bag.update(chance.choice(ids), text=text(chance))
            case 2:
                bag.forget(chance.sample(ids, min(len(ids), 3)), purge=True)
            case 3:
                bag.forget(ids[: chance.randrange(6)] or [ids[0]], purge=True)
            case 4:
                bag.scoped(org="other").add_many(Draft(text(chance)) for _ in range(3))
            case 5 if step % 2:
                bag.scoped(org="other").erase()
        if len(ids) < 12:
            bag.add_many(Draft(text(chance)) for _ in range(9))
        assert differences(bag) == [], step
    assert [check for check in bag.checks() if check.state != "ok"] == []


def test_a_write_that_is_rolled_back_leaves_the_chunks_as_they_were(bag: Satchel):
    memories = bag.add_many(Draft(f"note {number}") for number in range(20))
    before = chunks(bag)
    with contextlib.suppress(ZeroDivisionError), bag.transaction():
        bag.update(memories[2].id, text="changed")
        bag.forget(memories[9].id, purge=True)
        raise ZeroDivisionError
    assert chunks(bag) == before
    assert differences(bag) == []


def test_a_transaction_reads_the_codes_that_it_has_changed(bag: Satchel):
    memories = bag.add_many(Draft(f"{letter * 9} {number}") for number, letter in enumerate(LETTERS))
    code = np.packbits(Letters().embed(["zzz b"])[0] > 0).tobytes()
    with bag.transaction():
        bag.update(memories[2].id, text="b")
        bag.forget(memories[1].id, purge=True)
        (nearest,) = bag._store.nearest(Filter(), code, limit=1)
        assert bag._store.memories([nearest.key])[nearest.key].text == "b"


def test_numbers_that_are_used_again_make_no_chunk_with_every_write(bag: Satchel):
    bag.add_many(Draft(f"note {number}") for number in range(20))
    bag.forget([memory.id for memory in bag.recent(limit=99)], purge=True)
    assert chunks(bag) == []
    bag.add("one")
    assert chunks(bag) == []
    assert differences(bag) == []


def test_the_nearest_are_those_of_a_comparison_with_every_vector(bag: Satchel):
    chance = random.Random(11)
    view = bag.scoped(project="p")
    for place in (bag, view):
        place.add_many(Draft(text(chance), kind=chance.choice(("fact", "lesson"))) for _ in range(90))
        place.add_many(Draft("\n\n".join(text(chance) * 40 for _ in range(4))) for _ in range(9))
    bag.forget([memory.id for memory in bag.recent(limit=60)])
    with bag._store._read() as db:
        rows = db.execute("SELECT passage >> 12, vector FROM vector_1").fetchall()
    found = [(seq, np.frombuffer(vector, np.int8) > 0) for seq, vector in rows]
    filters = [Filter(), Filter(statuses=()), Filter(kinds=("fact",)), Filter(scope=Scope(project="p"))]
    for where in (*filters, Filter(scope=Scope(project="none"))):
        passing = set(bag._store.keys(where))
        for limit in (1, 5, 300):
            asked = Letters().embed([text(chance)])[0] > 0
            best: dict[int, int] = {}
            for seq, bits in found:
                best[seq] = min(best.get(seq, 99), int((bits != asked).sum()))
            expected = sorted((distance, seq) for seq, distance in best.items() if seq in passing)[:limit]
            matches = bag._store.nearest(where, np.packbits(asked).tobytes(), limit=limit)
            assert [(-match.score, match.key) for match in matches] == expected
