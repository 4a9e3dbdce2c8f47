"""Parsing a question: its terms, times, people, and intent."""

from datetime import UTC, datetime
from unittest.mock import patch

import pytest

import satchel
from satchel.recall.question import ASKING, MAX_TERMS, QueryTerm, Question, corrected, index_term, read_question
from satchel.text.terms import stem, term_codes
from tables import each_row

NOW = datetime(2026, 5, 4, tzinfo=UTC)


def read(text: str) -> Question:
    return read_question(text, now=NOW)


def test_terms_are_the_telling_words_once_each_by_their_stem():
    assert read("How do we rotate, rotating the Tokens?").searchable == ["rotate", "tokens"]


def test_words_that_only_ask_for_something_weigh_less():
    weights = {term.text: term.weight for term in read("Summarize our discussion of cranes").terms}
    assert weights == {"summarize": ASKING, "discussion": ASKING, "cranes": 1.0}


def test_no_question_has_too_many_terms():
    assert len(read(" ".join(f"word{number}" for number in range(500))).terms) == MAX_TERMS


def test_unspaced_characters_are_phrases_of_two():
    terms = {term.text: len(term.codes) for term in read("長期記憶").terms}
    assert terms == {"長 期": 2, "期 記": 2, "記 憶": 2, "長  期  記  憶": 4}


@pytest.mark.parametrize(
    ("text", "latin"),
    [
        ("plain", True),
        ("Čeština, ñandú & Ø 3 €", True),
        ("🎒 — ok", True),
        ("记忆", False),
        ("note μεγάλο", False),
        ("Привет", False),
    ],
)
def test_whether_all_letters_are_latin(text, latin):
    assert read(text).latin is latin


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("When did I move?", (True, True, False)),
        ("How many cranes are there?", (False, False, True)),
        ("How long did our trip take?", (True, True, False)),
        ("Which colour is the crane?", (False, False, False)),
        ("Tell me the number of cranes", (True, False, True)),
    ],
)
def test_what_it_wants_to_know(text, wanted):
    question = read(text)
    assert (question.first_person, question.asks_when, question.asks_many) == wanted


def test_nothing_is_embedded_where_there_is_no_word():
    with satchel.open(":memory:") as bag, patch.object(bag._indexer, "query_vector", return_value=None) as embed:
        bag.search("?!")
        assert not embed.called
        bag.search("crane")
        embed.assert_called_once()
        assert embed.call_args.args == ("crane",)


@each_row(
    "word",
    [
        "database",
        "universe",
        "license",
        "purchases",
        "course",
        "houses",
        "agreed",
        "kubernetes",
        "token",
        "running",
    ],
)
def test_a_correction_is_known_to_the_index_by_the_term_it_was_taken_for(word):
    found = stem(word)
    term = corrected(QueryTerm("slip", (0,)), found, 0.7)
    assert index_term(term) == found
    assert term.codes == (int.from_bytes(term_codes(word), "little"),)
    assert (term.weight, term.meant) == (0.7, "slip")
