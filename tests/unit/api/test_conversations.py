"""Messages of providers become memories of a conversation, each of them once."""

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

import satchel
from satchel.api.conversations import align
from tables import each_row

ANTHROPIC = [
    {"role": "user", "content": "Where do quinces grow?"},
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "hmm", "signature": "x"},
            {"type": "text", "text": "Let me look."},
            {"type": "tool_use", "id": "t1", "name": "look", "input": {"q": "quinces"}},
        ],
    },
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "in the orchard"}]},
    {
        "role": "assistant",
        "content": [{"type": "text", "text": "In the orchard."}, {"type": "text", "text": "Row 3."}],
    },
    {"role": "user", "content": [{"type": "image", "source": {}}, {"type": "text", "text": "This one?"}]},
]
OPENAI = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Where do quinces grow?", "name": "Ana"},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "type": "function", "function": {}}]},
    {"role": "tool", "tool_call_id": "c1", "content": "in the orchard"},
    {"role": "assistant", "content": "In the orchard."},
    {"role": "user", "content": [{"type": "text", "text": "And"}, {"type": "image_url", "image_url": {}}]},
    {"type": "function_call", "name": "look", "arguments": "{}"},
    {"role": "user", "content": "   "},
]


@pytest.fixture
def bag() -> Iterator[satchel.Satchel]:
    with satchel.open(":memory:", embedder="none") as opened:
        yield opened


def said(role: str, *texts: str) -> list[dict[str, Any]]:
    return [{"role": role, "content": text} for text in texts]


def told(memories: list[satchel.Memory]) -> list[tuple[str | None, str]]:
    return [(memory.speaker, memory.text) for memory in memories]


def test_anthropic_messages_become_turns_without_tools_and_thinking(bag: satchel.Satchel):
    assert told(bag.add_messages(ANTHROPIC, session="chat")) == [
        ("user", "Where do quinces grow?"),
        ("assistant", "Let me look."),
        ("assistant", "In the orchard.\n\nRow 3."),
        ("user", "This one?"),
    ]


def test_openai_messages_become_turns_without_system_and_tools(bag: satchel.Satchel):
    assert told(bag.add_messages(OPENAI, session="chat")) == [
        ("Ana", "Where do quinces grow?"),
        ("assistant", "In the orchard."),
        ("user", "And"),
    ]
    instructions = bag.add_messages(OPENAI, session="all", skip=())[0]
    assert (instructions.speaker, instructions.text) == ("system", "Be brief.")


def test_turns_are_memories_of_the_conversation_in_their_order(bag: satchel.Satchel):
    view = bag.scoped(project="orchard")
    memories = view.add_messages(
        ANTHROPIC, session="chat", at="2026-02-10", tags="trees", source="chat.json", metadata={"day": 1}
    )
    assert {(each.tier, each.scope.session, each.scope.project) for each in memories} == {
        ("conversation", "chat", "orchard")
    }
    assert [each.at for each in memories] == sorted({each.at for each in memories})
    assert memories[0].at.isoformat() == "2026-02-10T00:00:00+00:00"
    assert {(each.tags, each.source) for each in memories} == {(("trees",), "chat.json")}
    assert len(view.recent(metadata={"day": 1})) == len(memories)
    assert view.search("where do quinces grow")[0].memory in memories
    later = view.add_messages([*ANTHROPIC, *said("assistant", "Yes.")], session="chat", at="2026-02-10")[-1]
    assert later.at - memories[-1].at <= timedelta(milliseconds=1)
    assert later.at > memories[-1].at


def test_the_same_list_again_or_grown_adds_only_what_is_new(bag: satchel.Satchel):
    talk = said("user", "Hi.", "Yes.", "Yes.")
    first = bag.add_messages(talk, session="chat")
    assert bag.add_messages(talk, session="chat") == first
    grown = bag.add_messages([*talk, *said("user", "Yes.")], session="chat")
    assert grown[:3] == first
    assert len(grown) == bag.stats().memories == 4
    assert all(memory.revision == 1 for memory in grown)
    assert bag.add_messages(talk[:2], session="chat") == first[:2]
    assert bag.stats().memories == 4


def test_a_list_without_its_oldest_messages_continues_the_conversation(bag: satchel.Satchel):
    first = bag.add_messages(said("user", "one", "two", "three"), session="chat")
    again = bag.add_messages(said("user", "two", "three", "four"), session="chat")
    assert again[:2] == first[1:]
    assert [memory.text for memory in bag.recent()] == ["four", "three", "two", "one"]
    only_new = bag.add_messages(said("user", "five", "two"), session="chat")
    assert [memory.text for memory in only_new] == ["five", "two"]
    assert bag.stats().memories == 6


def test_sessions_and_projects_are_told_apart(bag: satchel.Satchel):
    talk = said("user", "Hi.")
    bag.scoped(project="one").add_messages(talk, session="chat")
    bag.add_messages(talk, session="chat")
    bag.add_messages(talk, session="other")
    bag.scoped(session="other").add_messages(talk)
    assert bag.stats().memories == 3


def test_what_was_forgotten_or_purged_does_not_come_back(bag: satchel.Satchel):
    talk = said("user", "one", "two", "three")
    memories = bag.add_messages(talk, session="chat")
    bag.forget(memories[0])
    bag.forget(memories[1], purge=True)
    assert [memory.text for memory in bag.add_messages([*talk, *said("user", "four")], session="chat")] == [
        "one",
        "three",
        "four",
    ]
    assert [memory.text for memory in bag.recent()] == ["four", "three"]


@each_row(
    ("saved", "given", "found"),
    [
        ("", "abc", (0, 0)),
        ("abc", "abc", (0, 3)),
        ("abc", "abcd", (0, 3)),
        ("abc", "ab", (0, 2)),
        ("abc", "bcd", (1, 2)),
        ("abcb", "bx", (3, 1)),
        ("abab", "abab", (0, 4)),
        ("aaab", "abc", (2, 2)),
        ("abc", "xbc", (3, 0)),
        ("abc", "b", (3, 0)),
        ("a_c", "abc", (0, 3)),
        ("a_", "bx", (2, 0)),
    ],
)
def test_a_list_is_aligned_with_what_is_saved(saved: str, given: str, found: tuple[int, int]):
    assert align([None if each == "_" else each for each in saved], list(given)) == found


def test_secrets_are_masked_and_a_message_that_is_only_one_is_skipped(bag: satchel.Satchel):
    key = "sk-ant-api03-" + "aB3" * 30
    talk = said("user", f"My key is {key}, keep it.", key)
    first = bag.add_messages(talk, session="chat")
    assert len(first) == 1
    assert key not in first[0].text
    assert bag.add_messages(talk, session="chat") == first


def test_objects_of_a_provider_are_read_too(bag: satchel.Satchel):
    class Block:
        def model_dump(self) -> dict[str, Any]:
            return {"type": "text", "text": "In the orchard."}

    class Message:
        def model_dump(self) -> dict[str, Any]:
            return {"role": "assistant", "content": [Block()]}

    assert told(bag.add_messages([Message()], session="chat")) == [("assistant", "In the orchard.")]


@each_row(
    ("messages", "complaint"),
    [
        ("hello", "messages must be a list of messages, not str"),
        ({"role": "user", "content": "x"}, "messages must be a list of messages, not dict"),
        (None, "messages must be a list of messages, not NoneType"),
        (["hello"], "messages[0] is a str; it must be a dict"),
        ([*said("user", "x"), {"content": "x"}], "messages[1] has no role"),
        ([{"role": 1, "content": "x"}], "messages[0] has no role"),
        ([{"role": "user", "text": "x"}], "messages[0] has no content"),
        ([{"role": "user", "content": 5}], "messages[0]: content must be a string or a list of parts, not int"),
        ([{"role": "user", "content": [5]}], "messages[0].content[0] is a int"),
        ([{"role": "user", "content": [{}]}], "messages[0].content[0] has no type"),
        ([{"role": "user", "content": [{"type": "text"}]}], "messages[0].content[0]: text must be a string"),
        ([{"role": "user", "content": "x", "name": 3}], "messages[0]: name must be a string, not int"),
        ([*said("user", "x", "y" * 1_000_001)], "messages[1]: text has 1,000,001 bytes"),
    ],
)
def test_a_bad_message_is_named_in_one_line_and_nothing_is_saved(
    bag: satchel.Satchel, messages: Any, complaint: str
):
    with pytest.raises(satchel.InputError, match=re.escape(complaint)) as raised:
        bag.add_messages(messages, session="chat")
    assert "\n" not in str(raised.value)
    assert bag.stats().memories == 0


def test_a_conversation_needs_a_session(bag: satchel.Satchel):
    with pytest.raises(satchel.InputError, match="add_messages needs a session"):
        bag.add_messages(said("user", "x"))
    with pytest.raises(satchel.InputError, match="outside this view"):
        bag.scoped(session="one").add_messages(said("user", "x"), session="two")
    assert bag.add_messages([], session="chat") == []


def test_what_a_session_records_can_be_remembered(bag: satchel.Satchel):
    view = bag.scoped(project="kennel")
    session = view.session("walk")
    session.record("user", "My dog is called Rex.", remember=True)
    session.record("assistant", "What a good name.")
    (hit,) = view.search("what is the dog called")
    assert (hit.memory.tier, hit.memory.speaker, hit.text) == ("conversation", "user", "My dog is called Rex.")
    assert (hit.memory.scope.session, hit.memory.scope.project) == ("walk", "kennel")
    assert bag.stats().memories == 1
    bag.find_session("walk").record("user", "Rex is old.", remember=True)
    assert view.stats().memories == 2


def test_what_cannot_be_remembered_is_not_recorded(bag: satchel.Satchel):
    session = bag.session("walk")
    with pytest.raises(satchel.InputError, match="text is empty"):
        session.record("user", "  ", remember=True)
    with pytest.raises(satchel.InputError, match="remember"):
        session.record("user", "x", remember="yes")
    assert session.entries() == []
    assert bag.stats().memories == 0
