"""Conversations are saved once on every store, whoever adds them and however often."""

import contextlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import satchel
from satchel import Satchel

TALK = [{"role": ("user", "assistant")[number % 2], "content": f"Turn {number % 5}."} for number in range(12)]


def texts(bag: Satchel) -> list[str]:
    return [memory.text for memory in reversed(bag.recent(limit=100))]


def test_a_conversation_grows_by_what_is_new(bag: Satchel):
    for end in (4, 4, 9, 12, 12):
        memories = bag.add_messages(TALK[:end], session="chat")
        assert [memory.text for memory in memories] == texts(bag) == [each["content"] for each in TALK[:end]]
    assert [memory.at for memory in memories] == sorted({memory.at for memory in memories})
    assert bag.add_messages(TALK[6:], session="chat") == memories[6:]


def test_writers_that_add_the_same_conversation_at_once_save_it_once(location: Path | str):
    def add(number: int) -> list[satchel.Memory]:
        with satchel.open(location, embedder="none") as bag:
            return [*bag.add_messages(TALK, session="chat"), *bag.add_messages(TALK, session="chat")]

    with satchel.open(location, embedder="none") as bag:
        with ThreadPoolExecutor(4) as pool:
            added = list(pool.map(add, range(4)))
        assert texts(bag) == [each["content"] for each in TALK]
        assert {memory.id for memories in added for memory in memories} == {
            each.id for each in bag.recent(limit=100)
        }


def test_what_is_remembered_is_undone_with_its_transaction(bag: Satchel):
    session = bag.session("chat")

    with contextlib.suppress(ZeroDivisionError), bag.transaction():
        bag.add_messages(TALK, session="chat")
        session.record("user", "My dog is called Rex.", remember=True)
        assert bag.stats().memories == len(TALK) + 1
        raise ZeroDivisionError
    assert (bag.stats().memories, session.entries()) == (0, [])
    session.record("user", "My dog is called Rex.", remember=True)
    assert [(hit.memory.speaker, hit.memory.scope.session) for hit in bag.search("dog called")] == [
        ("user", "chat")
    ]
