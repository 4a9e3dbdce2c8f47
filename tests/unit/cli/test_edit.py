"""A memory as a document to edit, and back to the fields that were changed."""

import re
from collections.abc import Callable, Iterator

import pytest

import satchel
from satchel import InputError, Memory
from satchel.cli.edit import as_document, changes_in


@pytest.fixture
def memory() -> Iterator[Memory]:
    with satchel.open(":memory:", embedder="none") as bag:
        yield bag.add("We rotate keys.\n\n---\ntitle: no header\n", title="Keys: rotation", tags=["auth", "cron"])


def test_a_document_that_was_not_touched_changes_nothing(memory: Memory):
    assert changes_in(as_document(memory), memory) == {}


@pytest.mark.parametrize("text", ["x", "x\n", "x\r\n", "\n\nx", "  x  ", "a\x0cb\u2028c", "---", "# x"])
def test_every_text_comes_back_as_it_is(text: str):
    with satchel.open(":memory:", embedder="none") as bag:
        memory = bag.add(text, title="two\nlines", tags=["a,b", "[c]"])
        assert changes_in(as_document(memory), memory) == {}
        assert changes_in("\ufeff" + as_document(memory), memory) == {}


def test_only_what_was_edited_is_changed(memory: Memory):
    document = as_document(memory)
    assert changes_in(document.replace("We rotate", "We change"), memory) == {
        "text": memory.text.replace("We rotate", "We change")
    }
    edited = document.replace("kind: observation", "kind: decision").replace("auth, cron", " auth ,, ops")
    assert changes_in(edited, memory) == {"kind": "decision", "tags": ["auth", "ops"]}
    edited = document.replace("Keys: rotation", "").replace("pinned: no", "pinned: YES")
    assert changes_in(edited, memory) == {"title": None, "pinned": True}
    assert changes_in(document.replace("importance: 0.5", "importance: 0.75"), memory) == {"importance": 0.75}
    assert changes_in(document.replace("auth, cron", '["a,b","c"]'), memory) == {"tags": ["a,b", "c"]}


def test_header_lines_may_be_left_out(memory: Memory):
    assert changes_in(f"---\n{memory.text}\n", memory) == {}


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        (lambda document: document.replace("---", "--"), "the line --- "),
        (lambda document: document.replace("kind:", "sort:"), "line 2 is none of `title:`"),
        (lambda document: document.replace("kind:", "kind"), "line 2"),
        (lambda document: document.replace("0.5", "much"), "importance 'much'"),
        (lambda document: document.replace(": no", ": perhaps"), "pinned 'perhaps'"),
        (lambda document: document.replace("observation", "rumour", 1), "unknown kind 'rumour'"),
        (lambda document: document.replace("0.5", "7"), "importance 7.0"),
        (lambda document: document.partition("---\nWe")[0] + "---\n \n", "text is empty"),
    ],
)
def test_a_document_that_cannot_be_read_says_why(memory: Memory, edit: Callable[[str], str], why: str):
    with pytest.raises(InputError, match=re.escape(why)):
        changes_in(edit(as_document(memory)), memory)
