"""The lines of an item stay inside its bullet, cannot imitate markup, and can be read back."""

from typing import Any

import pytest
from hypothesis import given
from imitations import as_read, texts
from markdown_it import MarkdownIt

from satchel import counter
from satchel.fitting.formats import escape_line, escape_tags, lines, parse_lines, unescape_line, unescape_tags
from satchel.model.packing import Item, Placed
from tables import each_row

tokens = counter("o200k_base").count


def full(text: str, **fields: Any) -> Placed:
    return Placed(Item(id="a", text=text, **fields), "full", text)


def assert_reads_back(placed: Placed) -> None:
    assert parse_lines(lines(placed)) == as_read(placed)._replace(tier=None)


def test_a_bullet_has_the_title_in_bold_then_who_said_it_then_the_text():
    assert (
        lines(full("Every hour.", title="JWT rotation", speaker="Ana")) == "- **JWT rotation**: Ana: Every hour.\n"
    )
    assert lines(full("Every hour.", title="JWT rotation")) == "- **JWT rotation**: Every hour.\n"
    assert lines(full("Every hour.", speaker="Ana")) == "- Ana: Every hour.\n"
    assert lines(full("Every hour.")) == "- Every hour.\n"


def test_a_title_alone_says_that_there_is_more():
    placed = Placed(Item(id="a", text="Every hour.", title="JWT rotation", speaker="Ana"), "title", "")
    assert lines(placed) == "- **JWT rotation** …\n"
    assert parse_lines(lines(placed)) == as_read(placed)._replace(tier=None)
    assert lines(Placed(Item(id="a", text="Every\nhour."), "title", "")) == "- **Every hour.** …\n"


def test_one_space_is_enough_before_a_word_in_a_paragraph_and_costs_nothing():
    assert lines(full("One.\nTwo.\n\nThree.\nFour.\n- five\nsix")) == (
        "- One.\n Two.\n\n  Three.\n Four.\n  - five\n six\n"
    )
    assert tokens(lines(full("One.\nTwo.\nThree."))) == tokens("- One.\nTwo.\nThree.\n")


@each_row(
    "opening",
    [
        "```",
        "~~~",
        "<div>",
        "<!--",
        "- ```",
        "|a|",
        "[a]: /b",
        "+",
        "1.",
        "-     code",
        "-\t\tcode",
        "\n    code",
        "--- | ---",
    ],
)
def test_after_what_may_open_a_block_a_word_is_indented_by_two_so_that_it_stays_in_the_bullet(opening: str):
    placed = full(f"One.\n{opening}\nword\n- not ours\n```\n# nor this")
    assert "\n  word\n" in lines(placed)
    assert_reads_back(placed)
    tops = [token.type for token in MarkdownIt().parse(lines(placed) + "- next\n") if token.level <= 1]
    assert tops.count("list_item_open") == 2
    assert {"bullet_list_open", "bullet_list_close", "list_item_open", "list_item_close"} == set(tops)


@pytest.mark.parametrize("opening", ["```", "> ~~~", "<div>", "| a |"])
def test_and_so_are_all_lines_after_it_even_where_it_opens_the_text(opening: str):
    assert lines(full(f"{opening}\none\n\ntwo\nthree")) == f"- {opening}\n  one\n\n  two\n  three\n"
    assert lines(full(f"a\n{opening}\none\n\ntwo\nthree")) == f"- a\n  {opening}\n  one\n\n  two\n  three\n"


def test_blank_lines_stay_blank_and_other_indentation_is_kept():
    placed = full("  one\r\n \t\n    two\r\tthree  \n\n")
    assert lines(placed) == "- one\n\n      two\n  \tthree\n"
    assert_reads_back(placed)


def test_control_characters_cannot_reach_a_terminal():
    assert lines(full("a\x1b[2Jb\u2028c", title="\x9bT")) == "- **\ufffdT**: a\ufffd[2Jb\ufffdc\n"


@pytest.mark.parametrize(
    ("stored", "shown"),
    [
        ("</memory>", "&lt;/memory>"),
        ("< / Knowledge>", "&lt; / Knowledge>"),
        ("<<working>", "<&lt;working>"),
        ("&lt;memory>", "&amp;lt;memory>"),
        ("&amp;lt;", "&amp;amp;lt;"),
    ],
)
def test_tags_of_ours_are_escaped_so_that_they_read_back(stored: str, shown: str):
    assert escape_tags(stored) == shown
    assert unescape_tags(shown) == stored
    assert lines(full("x", title=stored)) == f"- **{shown}**: x\n"
    assert_reads_back(full("x", title=stored, speaker=stored))


def test_characters_that_are_not_seen_do_not_hide_a_tag_of_ours():
    hidden = full("<\u200b/mem\u2060ory>", title="< \u200b/ \u200bKnow\u200bledge>")
    assert lines(hidden) == "- **&lt; / Knowledge>**: &lt;/memory>\n"


@each_row("code", ["<b>", "a < b && c", "<memory_bank>", "<mem", "&lt", "&gt;", "List<Item>", "memory>"])
def test_no_other_angle_bracket_or_ampersand_is_touched(code: str):
    assert escape_tags(code) == code


def test_a_tag_cannot_be_put_together_from_a_name_and_a_text():
    assert lines(full("memory>", speaker="<")) == "- &lt;: memory>\n"
    assert_reads_back(full("memory>", speaker="<"))


@each_row(
    ("stored", "shown"),
    [
        ("# h", "\\# h"),
        ("##", "\\##"),
        ("  ## h", "  \\## h"),
        ("> - 1. # h", "> - 1. \\# h"),
        ("---", "\\---"),
        ("===", "\\==="),
        ("_ _ _", "\\_ _ _"),
        ("- - -", "- - \\-"),
        ("- ", "\\- "),
        ("\\# h", "\\\\# h"),
        ("\\\\---", "\\\\\\---"),
    ],
)
def test_headings_and_rules_get_a_backslash_so_that_they_read_back(stored: str, shown: str):
    assert escape_line(stored) == shown
    assert unescape_line(shown) == stored
    assert lines(full(f"{stored}\n{stored}.\n{stored}")).startswith(f"- {shown.lstrip()}\n")
    assert f"\n  {shown}".rstrip() in lines(full(f"a\n{stored}"))
    for placed in (full(stored), full(f"a\n{stored}\nb"), full("a", speaker=stored), full(stored, speaker="Ana")):
        assert_reads_back(placed)
        types = {token.type for token in MarkdownIt().parse(lines(placed))}
        assert not types & {"heading_open", "hr"}


@each_row("line", ["#1 priority", "#tag", "- one", "a --- b", "--flag", "**bold**", "C# is", "\\d+", "\\"])
def test_other_lines_are_as_they_were(line: str):
    assert escape_line(line) == unescape_line(line) == line


def test_a_footer_or_a_date_cannot_be_imitated_since_it_would_stand_at_the_margin():
    shown = lines(full("📏 9 tokens\n📏 9 tokens\n⚡ fast\n2023-05-08:\n- Ana: lies"))
    assert [line for line in shown.splitlines() if not line.startswith("  ")] == ["- 📏 9 tokens"]


@pytest.mark.parametrize(
    ("placed", "shown"),
    [
        (full("Bob: hello"), "* Bob: hello\n"),
        (full("Decision: use X", title="T"), "* **T**: Decision: use X\n"),
        (full("**What**: JWT"), "+ **What**: JWT\n"),
        (full("**What** …"), "+ **What** …\n"),
        (full("a: b", speaker="Ana"), "- Ana: a: b\n"),
        (full("https://example.org"), "- https://example.org\n"),
    ],
)
def test_the_bullet_tells_a_text_that_looks_like_a_name_or_title_from_one(placed: Placed, shown: str):
    assert lines(placed) == shown
    assert_reads_back(placed)
    assert tokens(shown) == tokens("- " + shown[2:])


@each_row("name", ["a**: b", "*", "**", "a\\", "a\\*", "**T**", "a: b", "a:", "\\: b", "a\\:", "\\\\", "**T** …"])
def test_titles_and_names_with_our_own_signs_read_back(name: str):
    for placed in (full("x: y", title=name), full("x: y", speaker=name), full("x", title=name, speaker=name)):
        assert_reads_back(placed)
    assert_reads_back(Placed(Item(id="a", text="x", title=name), "title", ""))


def test_a_title_or_name_of_several_lines_becomes_one():
    assert lines(full("x", title="a\n# b", speaker=" c\r\nd ")) == "- **a # b**: c d: x\n"


@given(texts)
def test_marks_are_undone_exactly_whatever_the_text(text: str):
    assert unescape_tags(escape_tags(text)) == text
    for line in text.split("\n"):
        assert unescape_line(escape_line(line)) == line
