"""Markdown is split at its headings only."""

import pytest

from satchel.server.specs.documents import headings, is_empty, sections
from tables import each_row


def titled(text):
    return [(heading.line, heading.level, heading.title) for heading in headings(text)]


def test_headings_of_three_levels_are_found_with_their_lines():
    text = "intro\n\n# One\ntext\n## Two ##\n### Three\n#### Four\n"
    assert titled(text) == [(3, 1, "One"), (5, 2, "Two"), (6, 3, "Three")]


@each_row(
    "text",
    [
        "```\n# code\n```\n",
        "```\n``` not closed by this\n# code\n```\n",
        "~~~~ python\n# code\n~~~\n# still code\n~~~~\n",
        "- item\n\n  ```sh\n  # code\n  ```\n",
        "``` never closed\n# code\n## code\n",
        "---\ntitle: x\n# a comment of YAML\n---\n",
        "<!--\n# a template\n-->\n",
        "<!-- never closed\n# a template\n",
        "    # indented code\n",
        "#no-blank\n####### seven\n",
        "text\n\n---\n\n- item\n---\n| a |\n|---|\n",
        "a paragraph\nof two lines\n---\n",
    ],
)
def test_what_looks_like_a_heading_and_is_none(text):
    assert titled(text) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Title\n=====\n\nPart\n---\n", [(1, 1, "Title"), (4, 2, "Part")]),
        ("# One\nPart\n---\n", [(1, 1, "One"), (2, 2, "Part")]),
        ("```a`b```\n# after code within a line\n", [(2, 1, "after code within a line")]),
        ("---\n\n# after a rule\n\n---\n", [(3, 1, "after a rule")]),
        ("<!-- closed --> \n# after\n", [(2, 1, "after")]),
        ("# 設計 > 保存\n", [(1, 1, "設計 > 保存")]),
        ("#\n## C#\n", [(1, 1, ""), (2, 2, "C#")]),
    ],
)
def test_headings_of_other_makes(text, found):
    assert titled(text) == found


def test_sections_hold_all_of_the_text_under_the_titles_above_it():
    text = "---\nstatus: draft\n---\n# Design\nintro\n\n## Data\n### Money\ncents\n## Search\nfast"
    found = sections(text)
    assert [(section.line, section.last_line, section.label, section.body) for section in found] == [
        (1, 3, "", "---\nstatus: draft\n---"),
        (4, 5, "Design", "intro"),
        (7, 7, "Design > Data", ""),
        (8, 9, "Design > Data > Money", "cents"),
        (10, 11, "Design > Search", "fast"),
    ]
    assert "".join(section.text for section in found).replace("\n", "") == text.replace("\n", "")


def test_a_level_that_is_left_out_does_not_hold_what_comes_later():
    labels = [section.label for section in sections("# A\n### B\n## C\n### D\n# E\n")]
    assert labels == ["A", "A > B", "A > C", "A > C > D", "E"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n\t\n",
        "# Design\n\n## Data\n",
        "---\na: 1\n---\n# T\n",
        "# T\n<!-- say\nwhy -->\n## U\n<!-- how",
        "T\n===",
    ],
)
def test_a_template_is_empty(text):
    assert is_empty(sections(text))


@pytest.mark.parametrize(
    "text", ["word", "# T\n<!-- why -->because\n", "---\na: 1\n---\ntext", "```\n```", "- [ ] one"]
)
def test_what_has_a_word_below_its_headings_is_not_empty(text):
    assert not is_empty(sections(text))


def test_a_title_without_end_is_cut():
    (section,) = sections("# " + "word " * 1000)
    assert len(section.label) <= 120
    assert section.label.endswith("word…")
    assert len(section.text) > 4000
