"""Search by words: stems, misspellings and all scripts; and what must not match."""

import pytest

import satchel
from satchel import Draft, Satchel
from satchel.text.terms import stem
from tables import each_row

pytestmark = pytest.mark.usefixtures("all_matches")

DAY = "2024-03-01"


def texts(hits) -> list[str]:
    return [hit.memory.text for hit in hits]


def test_the_words_that_only_make_a_question_do_not_matter(words: Satchel):
    words.add_many([Draft("We rotate tokens hourly.", at=DAY), Draft("How do they do that, and why?", at=DAY)])
    bare = words.search("rotate tokens")
    asked = words.search("How and why do they rotate the tokens?")
    assert texts(asked) == texts(bare) == ["We rotate tokens hourly."]
    assert asked[0].score == bare[0].score


def test_a_question_of_nothing_else_is_searched_by_them(words: Satchel):
    words.add_many([Draft("To be, or not to be."), Draft("Apples ripen late.")])
    assert texts(words.search("to be or not to be")) == ["To be, or not to be."]


@each_row("query", ["rotate", "rotated", "rotating", "ROTATES", "Rotation"])
def test_any_form_of_a_word_finds_it(words: Satchel, query):
    words.add_many([Draft("The rotating keys"), Draft("A rotten apple")])
    assert texts(words.search(query)) == ["The rotating keys"]


def test_a_title_counts_more_than_the_text_and_a_tag_counts_too(words: Satchel):
    words.add("A page with a few words on the deployment.", title="Various matters", at=DAY)
    words.add("A page with a few words on various matters.", title="The deployment", at=DAY)
    words.add("A page with a few words on other matters.", title="Various matters", tags=["deployment"], at=DAY)
    words.add("A page with a few words on other matters.", title="Various matters", at=DAY)
    hits = words.search("deployment")
    assert len(hits) == 3
    assert hits[0].memory.title == "The deployment"


@pytest.mark.parametrize(
    ("text", "apart", "query"),
    [
        ("長期記憶はとても大切です", "記録と追憶", "記憶"),
        ("每小时轮换令牌", "口令和招牌", "令牌"),
        ("토큰은 매시간 교체", "토끼와 큰집", "토큰"),
    ],
)
def test_characters_find_the_word_they_make_and_not_those_they_only_stand_in(notes: Satchel, text, apart, query):
    notes.add_many([Draft(text), Draft(apart)])
    assert texts(notes.search(query)) == [text]


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("Μου αρέσουν οι γάτες", "Αγόρασα νέο αυτοκίνητο"),
        ("אני אוהב חתולים", "קניתי רכב חדש"),
        ("الطقس جميل اليوم", "قاعدة البيانات"),
        ("고양이를 좋아한다", "데이터베이스"),
    ],
)
def test_a_script_in_common_is_not_a_meaning_in_common(notes: Satchel, text, query):
    notes.add(text)
    assert list(notes.search(query)) == []
    assert len(notes.search(f"{query} {text}")) == 1


@pytest.mark.parametrize(
    "slip",
    [
        "kuberntes",  # missing
        "kubernettes",  # too many
        "kubernitis",  # wrong
        "kubenretes",  # swapped
        "ubernetes",  # the same, where the word begins
        "xkubernetes",
        "hubernetes",
        "ukbernetes",
    ],
)
def test_a_slip_of_any_kind_still_finds_the_word(words: Satchel, slip):
    assert stem(slip) != stem("kubernetes"), "the index would take it for the word itself"
    words.add_many([Draft("The kubernetes cluster"), Draft("The vegetable garden"), Draft("Cubicles and rulers")])
    assert texts(words.search(slip)) == ["The kubernetes cluster"]


@pytest.mark.parametrize(
    ("slip", "text"),
    [("datbase", "Two databases"), ("unverse", "The universe"), ("licnse", "A license"), ("purchse", "Purchases")],
)
def test_a_slip_finds_a_word_whose_stem_has_a_stem_of_its_own(words: Satchel, slip, text):
    words.add_many([Draft(text), Draft("Nothing of the kind")])
    assert texts(words.search(slip)) == [text]


def test_a_word_that_is_known_is_not_taken_for_another(words: Satchel):
    words.add_many([Draft("Fill in the form"), Draft("Visit the farm"), Draft("Stand firm")])
    assert texts(words.search("farm")) == ["Visit the farm"]


def test_a_word_that_is_known_elsewhere_in_the_store_is_no_slip(words: Satchel):
    words.scoped(project="p").add("Fill in the form")
    words.scoped(project="q").add("Visit the farm")
    assert list(words.scoped(project="p").search("farm")) == []


@pytest.mark.parametrize("query", ["v2x", "error4042", "ca"])
def test_numbers_and_very_short_words_have_no_slips(words: Satchel, query):
    words.add_many([Draft("v3x"), Draft("error4043"), Draft("cat")])
    assert list(words.search(query)) == []


def test_what_was_meant_ranks_below_what_was_said(words: Satchel):
    words.add("kubernetes upgrade", at=DAY)
    words.add("postgres upgrade", at=DAY)
    hits = words.search("postgres kuberntes", explain=True)
    assert texts(hits) == ["postgres upgrade", "kubernetes upgrade"]
    assert hits[0].parts["words"] > hits[1].parts["words"]
    spelt = words.search("postgres kubernetes", explain=True)
    assert spelt[0].parts["words"] == spelt[1].parts["words"]


def test_a_word_said_right_and_wrong_counts_once(words: Satchel):
    words.add_many([Draft("The kubernetes cluster", at=DAY), Draft("The cluster of grapes", at=DAY)])
    once = [(hit.memory.text, hit.score) for hit in words.search("kubernetes cluster")]
    assert [(hit.memory.text, hit.score) for hit in words.search("kubernetes kuberntes cluster")] == once


def test_the_words_of_another_tenant_do_not_stand_in_for_those_of_this_one():
    with satchel.open(":memory:", embedder="none") as bag:
        bag.scoped(org="rival").add("tokens tokeny tokenz tokenx")
        here = bag.scoped(org="ours")
        here.add("We sell tokers")
        assert texts(here.search("tokenw")) == ["We sell tokers"]


@each_row(
    "query",
    ["sheet.py", "recall/sheet", "src/satchel/recall/sheet.py", "frequencies()", "max_tokens", "Sheet.frequencies",
     "ERR_1042", "GET /v1/users", "user@example.org", "#4711", "v2.14.0"],
)  # fmt: skip
def test_identifiers_and_paths_are_found_as_they_are_written(words: Satchel, query):
    texts_there = [
        "See `Sheet.frequencies()` in src/satchel/recall/sheet.py",
        "`max_tokens` was raised",
        "It failed with ERR_1042 in GET /v1/users",
        "Mail user@example.org about #4711 in v2.14.0",
    ]
    words.add_many(Draft(text) for text in [*texts_there, "Nothing of the kind"])
    assert query in words.search(query)[0].memory.text


def test_a_pasted_page_is_searched_by_its_first_words(words: Satchel):
    words.add_many([Draft("The harbour crane was painted blue"), Draft("Bread needs flour")])
    page = "Painted blue: the harbour crane.\n" + "\n".join(
        f"line{number} of something else" for number in range(5000)
    )
    assert texts(words.search(page)) == ["The harbour crane was painted blue"]


@each_row("query", ["", " \n\t", "?!…", "—", "🎒🎒", "()[]{}"])
def test_a_query_without_a_word_finds_nothing(notes: Satchel, query):
    notes.add("Something 🎒 — with marks?!")
    assert list(notes.search(query)) == []
    # A blank question is none, and brings what is recent.
    assert len(notes.context(query).hits) == (not query.strip())
