"""Listings show what was requested, and stored text cannot imitate anything else."""

import json
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from satchel import Memory, Scope
from satchel.fitting.listing import DETAILS, body, entry, entry_json, join_json

NOW = datetime(2026, 2, 10, tzinfo=UTC)


def memory(text: str, **fields) -> Memory:
    return Memory(id="0192ab34-x", text=text, at=NOW, created_at=NOW, updated_at=NOW, tokens=3, **fields)


def test_an_entry_has_a_heading_and_the_text_below_it():
    shown = entry(
        memory("one\ntwo", title="T", kind="fix", tags=("a", "b"), scope=Scope(project="p")),
        short_id="0192ab34",
        detail="full",
    )
    assert shown == "0192ab34 [fix] T (2026-02-10, p, #a, #b)\n    one\n    two\n"


def test_a_summary_is_one_line_with_a_title_made_of_the_text_if_need_be():
    assert entry(memory("one\ntwo"), short_id="x", detail="summary") == "x [observation] one two (2026-02-10)\n"


def test_a_snippet_ends_at_a_word_within_300_characters():
    snippet = body("word " * 200, "standard")
    assert snippet == ("word " * 60).strip() + "…"
    assert body("x" * 900, "standard") == "x" * 300 + "…"
    assert body("short", "standard") == "short"


def test_a_snippet_of_a_match_begins_with_it_and_says_that_something_stands_before():
    text = "before " * 100 + "The rotation broke in May. " + "after " * 100
    snippet = body(text, "standard", 700)
    assert snippet.startswith("…The rotation broke in May. after")
    assert snippet.endswith("after…")
    assert body(text, "full", 700) == text


def test_a_match_at_the_end_comes_with_what_stands_before_it():
    text = "before " * 100 + "the end"
    snippet = body(text, "standard", 700)
    assert snippet.startswith("…before before")
    assert snippet.endswith("the end")
    assert 250 < len(snippet) <= 301


def test_a_status_other_than_active_is_shown():
    assert "archived" in entry(memory("x", status="archived"), short_id="x", detail="summary")


@given(st.text(min_size=1), st.text(max_size=50))
def test_no_text_reaches_the_margin_or_the_terminal(text, title):
    heading, *lines = entry(memory(text, title=title), short_id="id", detail="full")[:-1].split("\n")
    assert heading.startswith("id [observation] ")
    assert all(line == "" or line.startswith("    ") for line in lines)
    shown = "".join([heading, *lines])
    assert not any(
        (ord(character) < 32 and character != "\t") or 127 <= ord(character) < 160 for character in shown
    )


def test_a_json_entry_holds_what_a_reader_needs_and_parses():
    shown = json.loads(entry_json(memory("x", title="T", importance=0.9), detail="full"))
    assert shown == {
        "id": "0192ab34-x",
        "kind": "observation",
        "tier": "knowledge",
        "title": "T",
        "importance": 0.9,
        "at": "2026-02-10T00:00:00Z",
        "text": "x",
    }
    assert "text" not in json.loads(entry_json(memory("x"), detail="summary"))


def test_a_json_entry_says_when_its_text_is_shortened():
    long = memory("word " * 100)
    shown = {detail: json.loads(entry_json(long, detail=detail)) for detail in DETAILS}
    assert {detail: entry.get("shortened", False) for detail, entry in shown.items()} == {
        "summary": True,
        "standard": True,
        "full": False,
    }
    assert "shortened" not in json.loads(entry_json(memory("x"), detail="standard"))


def test_joined_json_is_one_document():
    assert json.loads(join_json("hits", ['{"a":1}', '{"b":2}'], omitted=3)) == {
        "hits": [{"a": 1}, {"b": 2}],
        "omitted": 3,
    }
