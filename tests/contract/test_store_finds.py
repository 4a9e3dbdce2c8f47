"""Search in every store: by any word, inside the scope, deterministic."""

import pytest

import satchel
from satchel import Draft, Satchel, Scope
from satchel.model.filters import Filter
from tables import each_row

pytestmark = pytest.mark.usefixtures("all_matches")


def texts(hits) -> list[str]:
    return [hit.memory.text for hit in hits]


def test_any_word_of_a_natural_question_finds_a_memory(bag: Satchel):
    bag.add("We rotate JWTs every hour.")
    bag.add("The cafeteria opens at noon.")
    assert texts(bag.search("How often do we rotate our tokens?")) == ["We rotate JWTs every hour."]


def test_words_are_matched_by_their_stem_without_case_or_accents(bag: Satchel):
    bag.add("Rotating the résumé keys")
    for query in ("rotated", "RESUME", "key"):
        assert len(bag.search(query)) == 1


def test_a_word_in_the_title_outranks_one_in_the_text(as_installed: None, bag: Satchel):
    bag.add("deployment is mentioned here once among many other words of the text", title="Kitchen")
    bag.add("this says nothing about it at all but has quite a few words too", title="Deployment")
    assert bag.search("deployment")[0].memory.title == "Deployment"


def test_tags_are_searched_too(bag: Satchel):
    bag.add("hourly", tags=["authentication"])
    assert len(bag.search("authentication")) == 1


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("長期記憶はとても大切です", "記憶"),
        ("我们每小时轮换一次令牌", "令牌"),
        ("토큰은 매시간 교체됩니다", "토큰"),
        ("カタカナのメモリを保存", "メモリ"),
        ("การหมุนเวียนโทเค็นทุกชั่วโมง", "โทเค็น"),
        ("設定はconfig.tomlにあります", "config"),
        ("𠮷野家で会議", "𠮷野家"),
    ],
)
def test_scripts_without_spaces_are_found_inside_a_sentence(bag: Satchel, text, query):
    bag.add(text)
    bag.add("something else altogether: 天気")
    assert texts(bag.search(query)) == [text]


def test_unspaced_titles_and_tags_are_found_too(bag: Satchel):
    bag.add("x", title="長期記憶について")
    bag.add("y", tags=["長期記憶"])
    assert sorted(texts(bag.search("記憶"))) == ["x", "y"]


def test_characters_that_only_stand_apart_do_not_make_a_word(bag: Satchel):
    bag.add("記録と追憶")
    assert list(bag.search("記憶")) == []


def test_text_after_a_nul_byte_is_found(bag: Satchel):
    bag.add("before\x00behind")
    assert len(bag.search("behind")) == 1


@each_row(
    "query",
    ['"', '"unclosed', "*", "apple*", "NEAR(apple pie)", "apple AND pear", "title:apple", "apple NOT pear",
     "^apple", "{title} : apple", "apple + pear", "(", "-apple", "apple OR", "\\", "'; DROP TABLE memory;"],
)  # fmt: skip
def test_query_syntax_is_searched_as_plain_words(bag: Satchel, query):
    bag.add("apple and nothing else")
    found = bag.search(query)
    assert len(found) == ("apple" in query)


@each_row("query", ["", "   ", "!?…", "🎒", "\x00", "\ud800"])
def test_a_query_without_words_finds_nothing(bag: Satchel, query):
    bag.add("apple 🎒")
    assert list(bag.search(query)) == []


def test_a_very_long_query_is_answered(bag: Satchel):
    bag.add("apple")
    assert len(bag.search("apple " + " ".join(f"word{number}" for number in range(20_000)))) == 1


def test_the_limit_is_kept_and_the_best_come_first(bag: Satchel):
    bag.add_many(Draft("apple " * (number + 1) + "filler " * (60 - number)) for number in range(30))
    hits = bag.search("apple", limit=5)
    assert len(hits) == 5
    scores = [hit.score for hit in hits]
    assert scores == sorted(scores, reverse=True)
    everything = bag.search("apple", limit=100)
    assert [hit.memory.id for hit in everything[:5]] == [hit.memory.id for hit in hits]


def test_ties_are_broken_by_time_then_id(bag: Satchel):
    old = bag.add("apple", at="2020-01-01", speaker="Ana")
    new = bag.add_many([Draft("apple", at="2024-01-01", speaker=f"speaker {number}") for number in range(200)])
    hits = bag.search("apple", limit=10)
    assert [hit.memory.id for hit in hits] == sorted(memory.id for memory in new)[:10]
    assert bag.search("apple", limit=201)[-1].memory.id == old.id


def test_the_same_search_gives_the_same_bytes(bag: Satchel):
    bag.add_many(Draft(f"apple pie number {number % 7}") for number in range(100))
    assert bag.search("apple pie").text == bag.search("apple pie").text


def test_a_small_project_in_a_large_store_gets_all_its_memories(bag: Satchel):
    bag.add_many(Draft(f"apple apple apple {number}", project="large") for number in range(3000))
    small = bag.scoped(project="small")
    long = "an apple a day and much other text that lowers the score " * 3
    small.add_many(Draft(f"{long} {number}") for number in range(3))
    assert len(small.search("apple")) == 3
    assert len(bag.search("apple", kind="observation", limit=5000)) == 3003


def test_filters_narrow_by_kind_tier_and_all_of_the_tags(bag: Satchel):
    bag.add("apple one", kind="decision", tags=["Red", "round"])
    bag.add("apple two", kind="fix", tier="working", tags=["red"])
    assert texts(bag.search("apple", kind="decision")) == ["apple one"]
    assert texts(bag.search("apple", tier="working")) == ["apple two"]
    assert sorted(texts(bag.search("apple", tags="red"))) == ["apple one", "apple two"]
    assert texts(bag.search("apple", tags=["red", "ROUND"])) == ["apple one"]
    assert texts(bag.search("apple", kind=["fix", "decision"], tags=["round"])) == ["apple one"]


def test_a_view_reads_only_inside_itself_and_another_org_is_never_seen(bag: Satchel):
    bag.scoped(project="p", user="u").add("apple in p")
    bag.scoped(org="rival", project="p").add("apple of the rival")
    assert texts(bag.search("apple")) == ["apple in p"]
    assert texts(bag.scoped(user="u").search("apple")) == ["apple in p"]
    assert list(bag.scoped(project="q").search("apple")) == []
    rival = bag.scoped(org="rival").search("apple")[0].memory
    for view in (bag, bag.scoped(project="p")):
        with pytest.raises(satchel.UnknownIdError):
            view.get(rival.id)
        with pytest.raises(satchel.UnknownIdError):
            view.update(rival.id, text="stolen")
        with pytest.raises(satchel.UnknownIdError):
            view.forget(rival.id, purge=True)
        with pytest.raises(satchel.UnknownIdError):
            view.history(rival.id)


def test_a_view_refuses_to_write_outside_itself(bag: Satchel):
    thesis = bag.scoped(project="thesis")
    with pytest.raises(satchel.InputError, match="project 'other' is outside this view"):
        thesis.add_many([Draft("x", project="other")])
    assert thesis.add("y", session="s1").scope == satchel.Scope(project="thesis", session="s1")
    assert bag.stats().memories == 1


def test_recent_shows_the_newest_first_by_when_it_happened(bag: Satchel):
    bag.add("second", at="2024-01-02")
    bag.add("first", at="2024-01-01")
    bag.add("third", at="2024-01-03")
    assert [memory.text for memory in bag.recent()] == ["third", "second", "first"]
    assert [memory.text for memory in bag.recent(limit=1)] == ["third"]


def test_only_what_is_pinned_or_important_is_selected_where_that_is_asked_for(bag: Satchel):
    pinned = bag.add("always", pinned=True, project="a")
    important = bag.add("heavy", importance=0.71)
    bag.add("light", importance=0.7)
    bag.add("not here", pinned=True, importance=1.0, project="b")
    where = Filter(scope=Scope(project="a"), pinned=True)
    assert [memory.id for memory in bag._store.select(where, limit=9)] == [pinned.id]
    found = bag._store.select(Filter(important=True), limit=9)
    assert {memory.text for memory in found} == {important.text, "not here"}


def test_a_snippet_of_a_text_of_one_passage_begins_with_what_matched(bag: Satchel):
    before = "Berths are numbered from the north. " * 15
    bag.add(before + "The pilot boards at the outer buoy.")
    (hit,) = bag.search("Where does the pilot board?", detail="standard")
    assert hit.passage in (None, (0, len(hit.memory.text)))
    snippet = bag.search("Where does the pilot board?", detail="standard").entries[0]
    assert "The pilot boards at the outer buoy." in snippet
    assert len(snippet) < 400
