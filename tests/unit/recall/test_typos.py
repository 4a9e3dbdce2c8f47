"""A misspelt word matches similar terms, and different words do not match."""

import random

from satchel.recall.question import first_letter_variants, near_terms
from satchel.text.terms import terms
from tables import each_row

TEXT = """Caroline and Melanie talked about counseling, adoption agencies, running, kubernetes, postgres,
migrations, authentication, a conference, the pottery workshop, a cat, a car, cats, research, form, from,
trees, v2x, version3, necklaces, violin, clarinet, weather and whether"""
WORDS = sorted(set(terms(TEXT)))


@each_row(
    ("word", "meant"),
    [
        ("Carolin", "carolin"),
        ("carolnie", "carolin"),
        ("Melany", "melani"),
        ("kuberntes", "kubernet"),
        ("postgers", "postgr"),
        ("authentification", "authent"),
        ("runing", "run"),
        ("necklases", "necklac"),
        ("iolin", "violin"),
        ("fiolin", "violin"),
        ("ivolin", "violin"),
        ("xviolin", "violin"),
        ("Wether", "weather"),
        ("rsearch", "research"),
    ],
)
def test_a_misspelt_word_finds_what_was_meant(word, meant):
    found = [term for term, _ in near_terms(word, WORDS)]
    assert meant in found or terms(word) == [meant]


@each_row(
    "word", ["", "a", "ca", "v2", "version4", "3.11", "two words", "qqqqqqqq", "ça", "😀", "x" * 1_000, "記憶"]
)
def test_nothing_is_near_short_words_numbers_and_strangers(word):
    assert near_terms(word, WORDS) == []


def test_a_short_word_may_have_one_slip_only():
    assert [term for term, _ in near_terms("caz", ["cat", "czar", "cab", "bat", "dog"])] == ["cab", "cat"]
    assert near_terms("formx", ["for"]) == []


def test_nearer_terms_weigh_more_and_a_change_of_the_first_letter_costs():
    assert near_terms("violim", ["violin", "violet", "ziolim", "giolin"]) == [
        ("violin", 0.7),
        ("ziolim", 0.6),
        ("violet", 0.4),
    ]


def test_the_word_itself_is_not_near_itself():
    assert near_terms("violins", ["violin", "violins"]) == []


def test_the_order_of_the_vocabulary_does_not_matter():
    shuffled = random.Random(1).sample(WORDS, len(WORDS))
    for word in ("wether", "frm", "carr", "tree"):
        assert near_terms(word, shuffled, limit=10) == near_terms(word, WORDS, limit=10)


def test_no_more_terms_than_asked_for():
    vocabulary = [f"violi{letter}" for letter in "abcdefg"]
    assert len(near_terms("violix", vocabulary)) == 3
    assert len(near_terms("violix", vocabulary, limit=5)) == 5
    assert near_terms("violix", vocabulary, limit=0) == []


def test_every_slip_in_the_first_letter_is_among_those_that_are_looked_up():
    for word in ("violin", "weather", "cat"):
        slips = first_letter_variants(word)
        for term in ("iolin", "ivolin", "xviolin", "fiolin", "eather", "bat", "at", "scat"):
            if edit_distance(word, term) == 1:
                assert term in slips
        assert all(edit_distance(form, slip) <= 1 for slip in slips for form in [word])
    assert first_letter_variants("x1") == first_letter_variants("記憶") == []


def test_no_near_term_is_overlooked():
    """Against each pair compared one by one, where the first letter is the same or one slip is made."""
    chance = random.Random(7)
    vocabulary = {"".join(chance.choices("abcd", k=chance.randint(3, 8))) for _ in range(400)}
    for _ in range(200):
        word = "".join(chance.choices("abcd", k=chance.randint(3, 8)))
        forms = {word, *terms(word)}
        expected = {
            term
            for term in vocabulary - forms
            for form in forms
            for distance in [edit_distance(form, term)]
            if distance <= min(allowed(form), allowed(term)) and (term[0] == form[0] or distance == 1)
        }
        assert {term for term, _ in near_terms(word, vocabulary, limit=1_000)} == expected


def edit_distance(word, term):
    """Return the distance of two words, letter by letter: a swap of two neighbours is one edit."""
    rows = [list(range(len(term) + 1))]
    for i, letter in enumerate(word, start=1):
        row = [i]
        for j, other in enumerate(term, start=1):
            row.append(min(rows[-1][j] + 1, row[-1] + 1, rows[-1][j - 1] + (letter != other)))
            if i > 1 and j > 1 and letter == term[j - 2] and word[i - 2] == other:
                row[-1] = min(row[-1], rows[-2][j - 2] + 1)
        rows.append(row)
    return rows[-1][-1]


def allowed(word):
    return 0 if len(word) < 3 else 1 if len(word) < 5 else 2
