"""Short ids: long enough to name one memory, no longer, and never less than 8 characters."""

from hypothesis import given
from hypothesis import strategies as st

import satchel
from call_by_call import CallByCall
from satchel.model.memory import Memory, Scope
from satchel.store.contract import Record
from satchel.store.sqlite.store import SqliteStore

MOMENT = dict.fromkeys(("at", "created_at", "updated_at"), "2026-02-10T09:30:00Z")
# Few different digits, so that many ids share long beginnings.
digits = st.text("01", min_size=32, max_size=32).map(
    lambda text: f"{text[:8]}-{text[8:12]}-7{text[13:16]}-8{text[17:20]}-{text[20:]}"
)


def stored(ids: list[str]) -> CallByCall:
    import msgspec

    store = CallByCall(SqliteStore(":memory:"))
    store.put(
        Scope(),
        [Record(memory=msgspec.convert({"id": each, "text": "x", "tokens": 1, **MOMENT}, Memory)) for each in ids],
    )
    return store


@given(st.lists(digits, unique=True, min_size=1, max_size=12))
def test_a_short_id_names_its_memory_and_no_shorter_one_does(ids: list[str]):
    store = stored(ids)
    try:
        for identifier, short in zip(ids, store.short_ids(ids), strict=True):
            assert store.resolve(Scope(), short) == identifier
            assert len(short.replace("-", "")) >= 8
            others = [each for each in ids if each != identifier]
            shorter = short[:-1].rstrip("-")
            assert len(shorter.replace("-", "")) < 8 or any(each.startswith(shorter) for each in others)
    finally:
        store.close()


def test_ids_that_differ_in_the_last_digit_are_given_whole():
    ids = [f"00000000-0000-7000-8000-00000000000{digit}" for digit in "012"]
    store = stored(ids)
    assert store.short_ids(ids) == ids
    store.close()


def test_ids_that_differ_after_a_hyphen_are_cut_after_the_digit():
    ids = ["00000000-1000-7000-8000-000000000000", "00000000-2000-7000-8000-000000000000"]
    store = stored(ids)
    assert store.short_ids(ids) == ["00000000-1", "00000000-2"]
    store.close()


def test_one_memory_needs_8_characters():
    with satchel.open(":memory:") as bag:
        memory = bag.add("alone")
        assert bag.short_ids([memory]) == [memory.id[:8]]


def test_an_id_that_is_not_stored_has_a_short_form_too():
    store = stored(["00000000-1000-7000-8000-000000000000"])
    assert store.short_ids(["00000000-2000-7000-8000-000000000000"]) == ["00000000-2"]
    assert store.short_ids([]) == []
    store.close()
