"""The rest of an answer is cached under its cursor, as long as there is room."""

import pytest

from satchel.errors import InputError
from satchel.fitting.listing import Portion
from satchel.server.mcp import answers
from satchel.server.mcp.answers import MOST_REMAINDERS, PageCache, Remainder, cursor_for


def rest_of(text: str) -> Remainder:
    return Remainder("mem_search", (Portion(text),), 1, "memories")


def known(cache: PageCache, cursor: str) -> bool:
    try:
        cache.get(cursor, "mem_search")
    except InputError:
        return False
    return True


def test_the_one_that_nobody_asked_for_the_longest_goes_first():
    cache = PageCache()
    for number in range(MOST_REMAINDERS):
        cache.put(f"c{number}", rest_of("text"))
    cache.get("c0", "mem_search")
    cache.put("one more", rest_of("text"))
    assert known(cache, "c0")
    assert not known(cache, "c1")
    assert known(cache, "c2")


def test_long_ones_leave_room_for_fewer_but_always_for_the_last(monkeypatch):
    monkeypatch.setattr(answers, "MOST_CHARACTERS", 1_000)
    cache = PageCache()
    for number in range(4):
        cache.put(f"c{number}", rest_of("x" * 400))
    assert [known(cache, f"c{number}") for number in range(4)] == [False, False, True, True]
    cache.put("long", rest_of("x" * 5_000))
    assert known(cache, "long")
    assert not known(cache, "c3")
    cache.put("c4", rest_of("x" * 400))
    assert known(cache, "c4")
    assert not known(cache, "long")


def test_the_same_again_takes_no_more_room(monkeypatch):
    monkeypatch.setattr(answers, "MOST_CHARACTERS", 1_000)
    cache = PageCache()
    cache.put("first", rest_of("x" * 400))
    for _ in range(5):
        cache.put("second", rest_of("x" * 400))
    assert known(cache, "first")


def test_a_cursor_is_of_the_tool_the_budget_and_all_that_is_to_be_shown():
    portions = [Portion("a"), Portion("b")]
    cursor = cursor_for("mem_search", portions, 100)
    assert cursor == cursor_for("mem_search", list(portions), 100)
    others = [
        cursor_for("mem_get", portions, 100),
        cursor_for("mem_search", portions, 101),
        cursor_for("mem_search", portions[:1], 100),
        cursor_for("mem_search", [Portion("a"), Portion("c")], 100),
    ]
    assert len({cursor, *others}) == 5


def test_another_tools_cursor_is_not_known():
    cache = PageCache()
    cache.put("c0ffee", rest_of("text"))
    with pytest.raises(
        InputError, match="the cursor 'c0ffee' is not known to mem_get any more; ask again without it"
    ):
        cache.get("c0ffee", "mem_get")
