"""Lists of memories in other orders and with offsets, and the projects and tags of a view."""

import pytest

import satchel
from satchel import Draft, Satchel


def texts(bag: Satchel, **options: object) -> str:
    return "".join(memory.text for memory in bag.recent(**options))


@pytest.fixture
def letters(bag: Satchel) -> Satchel:
    bag.add("a", at="2024-01-03", importance=0.2)
    bag.add("b", at="2024-01-01", importance=0.9)
    bag.add("c", at="2024-01-02", importance=0.5)
    bag.update(bag.recent(sort="created")[1].id, tags=["x"])
    return bag


def test_memories_are_listed_in_the_order_asked_for(letters: Satchel):
    assert texts(letters) == texts(letters, sort="at") == "acb"
    assert texts(letters, sort="created") == "cba"
    assert texts(letters, sort="updated") == "bca"
    assert texts(letters, sort="importance") == "bca"


def test_what_was_used_last_is_listed_first_and_what_never_was_last(letters: Satchel):
    by_text = {memory.text: memory.id for memory in letters.recent()}
    letters.get(by_text["c"])
    letters.get(by_text["a"])
    assert texts(letters, sort="used") == "acb"
    letters.get(by_text["c"])
    assert texts(letters, sort="used") == "cab"


def test_pages_of_a_list_join_to_the_whole(letters: Satchel):
    for sort in ("at", "created", "updated", "used", "importance"):
        whole = letters.recent(sort=sort)
        pages = [letters.recent(sort=sort, limit=1, offset=offset)[0] for offset in range(3)]
        assert pages == whole, sort
    assert letters.recent(offset=3) == []


def test_the_past_is_listed_in_the_order_asked_for_too(letters: Satchel):
    before = letters.history(letters.recent(sort="created")[0].id)[0].at
    letters.update(letters.recent(sort="importance")[0].id, importance=0.1)
    assert texts(letters, sort="importance") == "cab"
    assert texts(letters, sort="importance", as_of=before) == "bca"
    assert texts(letters, sort="importance", as_of=before, limit=1, offset=1) == "c"
    assert texts(letters, sort="created", as_of=before) == "cba"


def test_a_bad_order_or_offset_is_refused(letters: Satchel):
    with pytest.raises(satchel.InputError, match="unknown sort 'name'; known: at, created, updated, used, imp"):
        letters.recent(sort="name")
    for offset in (-1, 1.5, "x", True):
        with pytest.raises(satchel.InputError, match=r"offset .* is not a whole number from 0"):
            letters.recent(offset=offset)


def test_projects_and_tags_are_counted_most_first(bag: Satchel):
    harbor = bag.scoped(project="harbor")
    harbor.add_many([Draft("a", tags=["auth", "db"]), Draft("b", tags=["Auth"]), Draft("c", tags=["auth"])])
    bag.scoped(project="thesis").add("d", tags=['"quoted" \x00 größe'])
    bag.add("personal", tags=["db"])
    ended = bag.scoped(project="gone").add("e", tags=["old"])
    bag.forget(ended)
    assert list(bag.projects().items()) == [("harbor", 3), ("thesis", 1)]
    assert list(bag.tags().items()) == [("auth", 3), ("db", 2), ('"quoted" \x00 größe', 1)]
    assert harbor.projects() == {"harbor": 3}
    assert harbor.tags() == {"auth": 3, "db": 1}
    assert bag.scoped(org="acme").projects() == bag.scoped(org="acme").tags() == {}
