"""Text in unspaced scripts becomes single-character words, queries become pairs of them."""

import pytest

from satchel.text.terms import query_terms, segment
from tables import each_row


@pytest.mark.parametrize("text", ["", "plain English", "Größe café", "Ελληνικά и русский", "🎒"])
def test_text_with_spaces_needs_no_other_form(text):
    assert segment(text) is None


def test_each_unspaced_character_stands_alone():
    assert segment("a記憶b") == "a 記  憶 b"


def test_decomposed_text_is_composed_first():
    assert segment("\u1112\u1161\u11ab") == " 한 "


@each_row(
    ("query", "terms"),
    [
        ("How do WE rotate?", ("how", "do", "we", "rotate")),
        ("rotate rotate", ("rotate",)),
        ("snake_case path/to.file", ("snake", "case", "path", "to", "file")),
        ("憶", ("憶",)),
        ("記憶", ("記 憶", "記  憶")),
        ("長期記憶", ("長 期", "期 記", "記 憶", "長  期  記  憶")),
        ("JWTの記憶", ("jwt", "の 記", "記 憶", "jwt の  記  憶")),
        ('"*():', ()),
        ("", ()),
    ],
)
def test_a_query_is_cut_into_distinct_terms(query, terms):
    assert query_terms(query) == terms
