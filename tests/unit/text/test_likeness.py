"""Near-duplicate texts: equal, almost equal, or one contained in the other."""

import pytest

from satchel.text.near_duplicates import contained_texts, exact_duplicates, near_duplicates
from tables import each_row


def test_equal_texts_are_those_of_the_same_characters():
    assert exact_duplicates(["a", "b", "a", "A", "b", "a"]) == {2: 0, 4: 1, 5: 0}
    assert exact_duplicates(["a", "b"]) == exact_duplicates([]) == {}


@pytest.mark.parametrize(
    "other",
    [
        "we use postgresql for everything",
        "We use PostgreSQL, for everything!",
        "We use the PostgreSQL for everything.",
        "  We use\n\nPostgreSQL - for “everything” …",
        "WE USE A POSTGRESQL FOR AN EVERYTHING",
    ],
)
def test_case_punctuation_and_articles_make_no_difference(other: str):
    assert near_duplicates(["We use PostgreSQL for everything.", other]) == {1: 0}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The staging server is in Frankfurt.", "Staging server: in Frankfurt"),
        ("Ana said that the tests are flaky.", "Ana said the tests are flaky."),
        ("Keys that are older than 90 days are revoked.", "Keys older than 90 days are revoked."),
        ("# Deploys\n\nWe deploy on Friday.", "Deploys: We deploy on Friday"),
        ("* We deploy on **Friday**.", "- we deploy on `Friday`"),
    ],
)
def test_function_words_and_markup_make_no_difference(one: str, other: str):
    assert near_duplicates([one, other]) == near_duplicates([other, one]) == {1: 0}


@pytest.mark.parametrize(
    "other",
    [
        "We use PostgreSQL 17 for everything.",
        "We do not use PostgreSQL for everything.",
        "We use MySQL for everything.",
        "For everything we use PostgreSQL.",
        "We use PostgreSQL for everything. And Redis.",
    ],
)
def test_another_word_makes_a_difference(other: str):
    assert near_duplicates(["We use PostgreSQL for everything.", other]) == {}


@each_row(
    ("one", "other"),
    [
        ("The cache is warm.", "The cache was warm."),
        ("The cache is warm.", "The cache is not warm."),
        ("The cache is warm.", "The cache isn't warm."),
        ("The cache is warm.", "Is the cache warm?"),
        ("The cache is warm.", "Is the cache warm"),
        ("The cache is warm.", "The cache is warm?"),
        ("Ana is the manager of Ben.", "Ben is the manager of Ana."),
        ("Dogs are animals.", "Animals are dogs."),
        ("Ana reports to Ben.", "Ana reports to Bea."),
        ("Deploys are on Monday.", "Deploys are on Tuesday."),
        ("The build needs C.", "The build needs C++."),
        ("The build needs C++.", "The build needs C#."),
        ("See issue 12.", "See issue #12."),
        ("It holds that a == b.", "It holds that a != b."),
        ("Retry if load > 5.", "Retry if load < 5."),
        ("The fee is 5 %.", "The fee is 5."),
        ("The fee is 5 $.", "The fee is 5 €."),
        ("x = a + b", "x = a - b"),
        ("The plan: 👍", "The plan: 👎"),
        ("Set the flag verbose.", "Set the flag !verbose."),
        ("The meeting is at 10 am.", "The meeting is at 10."),
    ],
)
def test_what_may_mean_something_else_is_no_duplicate(one: str, other: str):
    assert near_duplicates([one, other]) == near_duplicates([other, one]) == {}


@pytest.mark.parametrize(
    ("one", "other"),
    [("16", "17"), ("1.5", "15"), ("1.5", "1, 5"), ("2026-03-01", "2026-03-02"), ("-1", "11"), ("-1", "1")],
)
def test_numbers_that_differ_are_no_duplicates(one: str, other: str):
    assert (
        near_duplicates([f"The staging server has {one} of them.", f"The staging server has {other} of them."])
        == {}
    )


def test_texts_that_differ_only_at_their_end_are_no_duplicates():
    beginning = "The same beginning of a long text, again and again. " * 20
    assert near_duplicates([beginning + "One.", beginning + "Two.", beginning + "one"]) == {2: 0}


def test_without_any_word_nothing_is_alike():
    assert near_duplicates(["!!!", "???", "the", "a"]) == {}


def test_a_book_is_compared_to_the_letter_only():
    book = "One word after the other. " * 2_000
    assert near_duplicates([book, book.upper()]) == {}


def test_of_three_alike_the_first_stands_for_both_others():
    assert near_duplicates(["Deploy on Friday", "deploy on friday", "Deploy on the Friday."]) == {1: 0, 2: 0}


STATEMENT = "We deploy on every Friday evening."


@pytest.mark.parametrize(
    "longer",
    [
        f"{STATEMENT} The team likes it.",
        f"As it was said: nobody asked. {STATEMENT}",
        f"Notes\n- {STATEMENT}\n- Nobody was asked.",
        f"Before. {STATEMENT.lower()} After.",
    ],
)
def test_a_statement_that_stands_in_a_longer_text_is_within_it(longer: str):
    assert contained_texts([STATEMENT, longer]) == {0: 1}
    assert contained_texts([longer, STATEMENT]) == {1: 0}


@pytest.mark.parametrize(
    "longer",
    [
        "We deploy on every Friday evening but the first of a month.",
        "Nobody says that we deploy on every Friday evening.",
        "We deploy on every Monday evening. The team likes it.",
    ],
)
def test_a_part_of_a_sentence_is_not_what_the_sentence_says(longer: str):
    assert contained_texts([STATEMENT, longer]) == {}


def test_what_is_short_stands_in_many_a_text_by_chance():
    assert contained_texts(["Yes.", "Yes. We deploy on every Friday evening."]) == {}


def test_equal_texts_are_not_within_each_other():
    assert contained_texts([STATEMENT, STATEMENT]) == {}


def test_of_texts_that_stand_in_each_other_the_longest_is_named():
    two = f"{STATEMENT} The team likes it."
    three = f"{two} Nobody was asked."
    assert contained_texts([STATEMENT, two, three]) == {0: 2, 1: 2}
    assert contained_texts([three, two, STATEMENT]) == {1: 0, 2: 0}
