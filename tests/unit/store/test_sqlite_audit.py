"""`doctor` reports inconsistent passages and vectors, and `--fix` repairs them."""

from pathlib import Path

import pytest

import satchel
from call_by_call import CallByCall
from in_step import Letters, differences
from satchel import Draft, Satchel
from satchel.api.saving import new_candidate
from satchel.store.contract import Check, Embedding
from satchel.store.rows import text_key
from satchel.store.sqlite.vectors import CHUNK_BITS

# Each is a fault that no code of ours makes: foreign keys are off, as in another program.
FAULTS = {
    "a passage is missing": ("DELETE FROM passage WHERE seq = (4 << 12) + 1", "passages"),
    "all passages of a memory are missing": ("DELETE FROM passage WHERE seq >> 12 = 3", "passages"),
    "a passage is too short": ("UPDATE passage SET stop = stop - 1 WHERE seq = 1 << 12", "passages"),
    "a passage starts too late": ("UPDATE passage SET start = 1 WHERE seq = 1 << 12", "passages"),
    "a passage belongs to no memory": (
        "INSERT INTO passage SELECT (999 << 12), start, stop, flags, codes FROM passage LIMIT 1",
        "passages",
    ),
    "a vector is missing": ("DELETE FROM vector_1 WHERE passage = 1 << 12", "vectors"),
    "codes are wrong": ("UPDATE code_1 SET codes = zeroblob(length(codes))", "vectors"),
    "codes are missing": ("UPDATE code_1 SET codes = substr(codes, 4)", "vectors"),
    "a vector belongs to no passage": (
        "INSERT INTO vector_1 SELECT 999 << 12, vector FROM vector_1 LIMIT 1",
        "vectors",
    ),
    "codes belong to no passage": ("UPDATE code_1 SET passages = zeroblob(length(passages))", "vectors"),
    "a vector has a wrong size": ("UPDATE vector_1 SET vector = x'01' WHERE passage = 1 << 12", "vectors"),
    "a memory that is gone waits": ("INSERT INTO backlog VALUES (999)", "vectors"),
    "the vectors are gone": ("DROP TABLE vector_1", "vectors"),
    "the codes are gone": ("DROP TABLE code_1", "vectors"),
    "codes and passages are gone": ("DROP TABLE code_1; DELETE FROM passage", "passages"),
    "a text has the hash of another": ("UPDATE memory SET text_key = text_key + 1 WHERE seq = 2", "text hashes"),
    "a text has no hash": ("UPDATE memory SET text_key = NULL WHERE seq = 3", "text hashes"),
    "nobody's vectors are here": ("DELETE FROM embedding; DROP TABLE vector_1; DROP TABLE code_1", "vectors"),
}


@pytest.fixture
def bag(path: Path):
    with satchel.open(path, embedder=Letters()) as opened:
        opened.add_many(Draft(text) for text in ("apple", "pear \0 fig", "  spaced \n"))
        opened.add("\n\n".join(f"{number} " + "word " * 150 for number in range(6)))
        opened.add_many(Draft(f"{'grape ' * (number % 7)}{number}") for number in range(1 << CHUNK_BITS))
        opened.forget(opened.add("ended").id)
        yield opened


def unwell(bag: Satchel) -> list[Check]:
    return [check for check in bag.checks() if check.state != "ok"]


def spoil(bag: Satchel, sql: str) -> None:
    with bag._store._read() as db:
        db.execute("PRAGMA foreign_keys = OFF")
        try:
            db.execute(sql)
        finally:
            db.execute("PRAGMA foreign_keys = ON")


def test_all_is_well_with_what_was_stored(bag: Satchel):
    assert unwell(bag) == []
    assert bag.repair() == []
    details = {check.name: check.detail for check in bag.checks()}
    assert details["vectors"] == "by letters"
    assert details["passages"].endswith(" in step")


@pytest.mark.parametrize(("sql", "name"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_said_and_mended(bag: Satchel, sql, name):
    exported = list(bag.export())
    spoil(bag, sql)
    (found,) = [check for check in unwell(bag) if check.name == name]
    assert (found.state, "`satchel doctor --fix`" in found.detail) == ("failed", True)
    assert bag.repair()
    assert [check for check in unwell(bag) if check.state == "failed"] == []
    assert differences(bag) == []
    assert bag.repair() == []
    bag.add("goes on")
    bag.reembed(Letters())
    assert unwell(bag) == []
    assert differences(bag) == []
    assert list(bag.export())[: len(exported)] == exported


def test_a_hash_that_another_text_has_too_merges_nothing(bag: Satchel):
    apple = bag.recent(limit=999)[-1]
    new = new_candidate(Draft("plum"), bag.scope).memory
    spoil(bag, f"UPDATE memory SET text_key = {text_key(new)} WHERE id = '{apple.id}'")
    added = bag.add("plum")
    assert (added.id != apple.id, added.confirmations) == (True, 0)
    assert bag.get(apple.id).confirmations == 0


def test_what_waits_is_a_warning_that_names_the_command(path: Path):
    with satchel.open(path, embedder=Letters()) as bag:
        bag.add("one")
    with satchel.open(path) as bag:
        bag.add_many([Draft("two"), Draft("three")])
        (found,) = unwell(bag)
        assert (found.name, found.state) == ("vectors", "warning")
        assert "2 memories wait for theirs; `satchel reembed` makes them" in found.detail
        assert bag.repair() == []


def test_a_reembedding_that_was_not_finished_is_a_warning(bag: Satchel):
    CallByCall(bag._store).begin_reembedding(Embedding("static:other", 8))
    (found,) = unwell(bag)
    assert (found.name, found.state) == ("vectors", "warning")
    assert "`satchel reembed --embedder static:other` was begun" in found.detail


def test_a_store_without_an_embedder_is_well(path: Path):
    with satchel.open(path, embedder="none") as bag:
        bag.add("one")
        assert unwell(bag) == []
        assert {check.name: check.detail for check in bag.checks()}["vectors"] == "by none"
    with satchel.open(":memory:") as bag:
        assert unwell(bag) == []
