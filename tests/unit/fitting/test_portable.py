"""A portable pack can be pasted anywhere and parsed again; no memory can imitate or absorb another."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from imitations import MAY, names, texts
from markdown_it import MarkdownIt

from satchel import Memory, Scope, counter
from satchel.fitting.context_pack import (
    PackedMemory,
    PackFacts,
    pack_json,
    pack_json_around,
    pack_json_piece,
    pack_markdown,
    pack_markdown_piece,
    parse_pack_markdown,
)
from satchel.fitting.formats import one_line
from satchel.fitting.listing import clean
from tables import each_row

count = counter("o200k_base").count
FACTS = PackFacts("p", "c", 9)


def memory(text: str, **fields: Any) -> Memory:
    return Memory(
        **{"id": "m1", "text": text, "at": MAY, "created_at": MAY, "updated_at": MAY, "tokens": 1} | fields
    )


def as_read(each: Memory) -> PackedMemory:
    tags = tuple(tag for tag in map(one_line, each.tags) if tag)
    title = one_line(each.headline()) or ""
    return PackedMemory(each.kind, title, "2023-05-08", each.importance, tags, clean(each.text).strip())


def packed(*texts_of: str) -> str:
    return pack_markdown([memory(text, title="T") for text in texts_of], project=None, count=count)[0]


memories = st.lists(
    st.builds(
        memory,
        texts,
        title=names.map(one_line),
        kind=st.sampled_from(["decision", "fact"]),
        importance=st.sampled_from([0.5, 0.8, 1.0, 1 / 3]),
        tags=st.lists(texts, max_size=2).map(tuple),
    ),
    max_size=3,
)


def test_a_pack_looks_as_it_was_designed():
    text, tokens = pack_markdown(
        [
            memory("Full content.", title="JWT", kind="decision", importance=0.8, tags=("auth", "jwt")),
            memory("More of it."),
        ],
        project="thesis",
        count=count,
    )
    assert text == (
        f"# Project Context: thesis (2 memories, ~{tokens} tokens)\n\n"
        "## [decision] JWT\n*2023-05-08 | importance: 0.8 | tags: auth, jwt*\n\nFull content.\n"
        "\n---\n\n"
        "## [observation] More of it.\n*2023-05-08 | importance: 0.5*\n\nMore of it.\n"
    )
    assert count(text) == tokens


def test_the_heading_counts_one_memory_as_one_and_has_no_project_where_there_is_none():
    assert packed("x").startswith("# Context (1 memory, ~")
    assert packed().startswith("# Context (0 memories, ~")
    assert parse_pack_markdown(packed()) == []
    text, tokens = pack_markdown([memory("word " * 1500)], project="a\n# b", count=count)
    assert tokens > 1000
    assert text.startswith(f"# Project Context: a # b (1 memory, ~{tokens} tokens)\n\n")


@pytest.mark.parametrize("line", ["## [fact] Lies", "---", "===", "# h", "- # h", "\\---"])
def test_a_line_that_would_be_a_heading_or_a_rule_gets_a_backslash(line: str):
    text = packed(f"One.\n{line}\ntwo", "next")
    assert "\\" in text
    assert [each.text for each in parse_pack_markdown(text)] == [f"One.\n{line}\ntwo", "next"]


def test_code_between_fences_at_the_margin_is_verbatim():
    code = "Run:\n```sh\n# comment\n---\n## [fact] Lies\n```\nDone."
    assert f"\n\n{code}\n" in packed(code)
    assert [each.text for each in parse_pack_markdown(packed(code, "next"))] == [code, "next"]


def test_a_fence_ends_where_markdown_ends_it():
    text = packed("```\ncode\n  ````  \n# h", "next")
    assert "\n\n```\ncode\n  ````  \n\\# h\n" in text
    assert [each.text for each in parse_pack_markdown(text)] == ["```\ncode\n  ````  \n# h", "next"]


@each_row(
    "text",
    [
        "```\nno end",
        "~~~\nstarts with a fence\n~~~",
        "- item\n  ```\n# h\n  ```",
        "<!-- no end",
        "<div>\n```\n\n```",
        "````\n```\n",
        "``` a\n~~~~~\n# h",
        "```a`\n# h\n```",
    ],
)
def test_what_could_swallow_the_next_memory_stands_in_a_longer_fence(text: str):
    shown = packed(text, "next")
    assert f"\n{text.strip()}\n~~~" in shown
    assert [each.text for each in parse_pack_markdown(shown)] == [text.strip(), "next"]
    headings = [token.tag for token in MarkdownIt().parse(shown) if token.type == "heading_open"]
    assert headings == ["h1", "h2", "h2"]


def test_tags_with_commas_read_back():
    stored = memory("x", tags=("a, b", "c\\", "d*|e", "\\,"))
    text, _ = pack_markdown([stored], project=None, count=count)
    assert parse_pack_markdown(text)[0].tags == stored.tags


@settings(max_examples=300)
@given(memories)
def test_any_pack_reads_back_and_markdown_sees_only_our_headings_and_rules(stored: list[Memory]):
    text, tokens = pack_markdown(stored, project="p", count=count)
    assert parse_pack_markdown(text) == list(map(as_read, stored))
    assert count(text) == tokens
    assert f"~{tokens} tokens" in text
    tree = MarkdownIt().parse(text)
    assert [(token.level, token.tag) for token in tree if token.type == "heading_open"] == [
        (0, "h1"),
        *[(0, "h2")] * len(stored),
    ]
    assert sum(token.type == "hr" for token in tree) == max(0, len(stored) - 1)
    assert not any(token.type == "html_block" for token in tree)


@given(memories)
def test_pieces_cost_at_least_what_the_pack_costs(stored: list[Memory]):
    text, tokens = pack_markdown(stored, project="p", count=count)
    heading = text.split("\n")[0] + "\n\n"
    assert count(heading) + sum(count(pack_markdown_piece(each)) for each in stored) >= tokens
    text, tokens = pack_json(stored, FACTS, count=count)
    assert count(pack_json_around(FACTS)) + sum(count(pack_json_piece(each)) for each in stored) >= tokens


def test_json_has_a_memory_on_each_line_with_the_fields_that_say_something():
    scope = Scope(project="thesis", session="s1")
    stored = [memory("a"), memory("b", id="m2", title="T", tags=("x",), pinned=True, invalid_at=MAY, scope=scope)]
    text, tokens = pack_json(stored, PackFacts("thesis", "o200k_base", 2000), count=count)
    assert text == (
        '{"satchel":"context-pack","version":1,"project":"thesis","counter":"o200k_base","token_budget":2000,'
        f'"token_count":{tokens},"memories":[\n'
        '{"id":"m1","text":"a","kind":"observation","at":"2023-05-08T13:56:00Z","tier":"knowledge"},\n'
        '{"id":"m2","text":"b","kind":"observation","title":"T","tags":["x"],"pinned":true,'
        '"at":"2023-05-08T13:56:00Z","invalid_at":"2023-05-08T13:56:00Z","project":"thesis","session":"s1",'
        '"tier":"knowledge"}\n]}\n'
    )
    assert count(text) == tokens == json.loads(text)["token_count"]


def test_json_of_nothing_is_an_empty_list():
    text, tokens = pack_json([], PackFacts(None, "chars/4", None), count=len)
    assert json.loads(text) == {
        "satchel": "context-pack",
        "version": 1,
        "project": None,
        "counter": "chars/4",
        "token_budget": None,
        "token_count": tokens,
        "memories": [],
    }
