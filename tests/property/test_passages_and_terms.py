"""Passages cover a text without overlap, terms match their codes, and no text raises an error."""

import itertools
from datetime import UTC, datetime

from hypothesis import example, given
from hypothesis import strategies as st

from satchel.recall.entities import entities, query_entities
from satchel.recall.question import near_terms
from satchel.text.dates import named_times
from satchel.text.passages import passages, sentences
from satchel.text.terms import query_words, stem, term_codes, terms

prose = st.lists(
    st.sampled_from(
        ["word", "Größe", "記憶", "e\u0301", "👩🏽\u200d🚀", ". ", "! ", "。", " ", "\n", "\n\n", "\r\n"]
    )
    | st.sampled_from(["```\n", "- ", "1. ", "# ", ":\n", "\u2028", "\xa0", "a" * 40])
    | st.text(max_size=10),
    max_size=60,
).map("".join)


def assert_covered(text, spans):
    position = 0
    for start, end in spans:
        assert position <= start < end
        assert not text[position:start].strip()
        assert text[start:end] == text[start:end].strip()
        position = end
    assert not text[position:].strip()


@given(text=prose, size=st.integers(-1, 120))
@example(text="\ud83c" + "\udfff" * 10, size=3)
def test_passages_cover_the_text(text, size):
    spans = passages(text, size=size)
    assert_covered(text, spans)
    assert all(end - start <= max(1, size) * 3 // 2 for start, end in spans)


@given(text=prose, size=st.integers(1, 120))
def test_two_neighbouring_passages_would_not_fit_into_one(text, size):
    spans = passages(text, size=size)
    assert all(after[1] - before[0] > size for before, after in itertools.pairwise(spans))


@given(text=prose)
def test_sentences_cover_the_text(text):
    spans = sentences(text)
    assert_covered(text, spans)
    assert not any("\n" in text[start:end] for start, end in spans)


@given(text=prose | st.text())
def test_a_text_has_the_codes_of_its_words(text):
    found = terms(text)
    assert len(term_codes(text)) == 4 * len(found)
    assert term_codes(text) == b"".join(term_codes(word) for word in text.split())


@given(text=prose | st.text())
def test_the_words_of_a_query_are_words_of_the_text(text):
    assert {stem(word) for word in query_words(text)} <= set(terms(text))


questions = st.lists(
    st.sampled_from(
        ["between", "since", "before", "and", "May", "march", "last", "week of", "early", "2023", "8th"]
    )
    | st.sampled_from(["9999-12-31", "0001-01-01", "9999", "weeks ago", "Easter", "Q4", "Sunday", "past", "the"])
    | st.sampled_from(
        ["seit", "bis", "im", "letzten", "März", "depuis", "mars", "dernier", "hier", "jusqu'à", "de"]
    )
    | st.sampled_from(["hace", "desde", "mayo", "semana", "ſept", "İ", "先週", "3月", "から", "まで", "年", "の前"])
    | st.text(max_size=6),
    max_size=12,
).map(" ".join)


@given(query=questions, now=st.datetimes(timezones=st.none() | st.timezones()))
@example(query="week of 9999-12-30", now=datetime.max)
def test_any_question_names_times_that_begin_before_they_end(query, now):
    for span in named_times(query, now):
        assert span.start < span.end
        assert span.start.tzinfo is UTC
        assert span.text


@given(text=prose | st.text() | questions)
def test_any_text_names_distinct_things(text):
    for found in (entities(text), query_entities(text)):
        assert len(set(found)) == len(found)
        assert all(found)


@given(word=st.text(max_size=12), vocabulary=st.lists(st.text(max_size=8)))
def test_near_terms_are_terms(word, vocabulary):
    found = near_terms(word, vocabulary)
    assert {term for term, _ in found} <= set(vocabulary)
    assert all(0 < weight < 1 for _, weight in found)
