"""What recall reads from every store: its indexes, neighbours of a memory, and data for ranking."""

import contextlib
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

import satchel
from call_by_call import CallByCall
from in_step import Letters, differences
from satchel import Draft, Satchel, Scope
from satchel.model.filters import Filter
from satchel.recall.indexer import packed
from satchel.store.sqlite.store import SqliteStore
from satchel.store.store import Store
from satchel.text.passages import parts_of

START = datetime(2024, 1, 1, tzinfo=UTC)
EVERYTHING = Filter()
ENDED_TOO = Filter(statuses=())


@pytest.fixture
def bag(location: Path | str):
    with satchel.open(location, embedder=Letters()) as opened:
        yield opened


@pytest.fixture
def store(bag: Satchel) -> Store:
    return bag._store


def key(bag: Satchel, memory: satchel.Memory) -> int:
    (trace,) = bag._store.traces(Filter(scope=Scope(org=memory.scope.org), ids=(memory.id,), statuses=()))
    return trace.key


def code(text: str) -> bytes:
    return packed(Letters().embed([text]))[0][1]


def texts(bag: Satchel, keys) -> list[str]:
    found = bag._store.memories(keys)
    return [found[each].text for each in keys]


def day(number: int) -> datetime:
    return START + timedelta(days=number)


def test_a_count_goes_no_further_than_asked(bag: Satchel, store: Store):
    bag.add_many(Draft(f"note {number}") for number in range(30))
    bag.scoped(project="p").add("elsewhere")
    assert store.count(EVERYTHING, most=100) == 31
    assert store.count(EVERYTHING, most=7) == 7
    assert store.count(Filter(scope=Scope(project="p")), most=100) == 1
    assert store.count(Filter(scope=Scope(org="other")), most=100) == 0


def test_matches_are_filtered_before_the_limit(bag: Satchel, store: Store):
    bag.add_many(Draft("apple apple apple", session=f"s{number}") for number in range(300))
    small = bag.scoped(project="small").add_many(Draft(f"apple and {number} other words") for number in range(3))
    found = store.matches(Filter(scope=Scope(project="small")), ["apple"], limit=5)
    assert {match.key for match in found} == {key(bag, memory) for memory in small}
    assert len(store.matches(EVERYTHING, ["apple"], limit=5)) == 5
    assert len(store.matches(EVERYTHING, ["apple"], limit=1000)) == 303


def test_matches_come_best_first_and_any_term_will_do(bag: Satchel, store: Store):
    both, one, _ = bag.add_many([Draft("apple pear"), Draft("apple plum"), Draft("fig")])
    found = store.matches(EVERYTHING, ["apple", "pear"], limit=5)
    assert [match.key for match in found] == [key(bag, both), key(bag, one)]
    assert found[0].score > found[1].score > 0
    assert store.matches(EVERYTHING, [], limit=5) == []


def test_the_nearest_of_a_small_project_are_found_among_many(bag: Satchel, store: Store):
    bag.add_many(Draft(f"aaa bbb {number}") for number in range(5000))
    small = bag.scoped(project="small").add_many([Draft("ttt sss"), Draft("aaa bbb"), Draft("ccc ddd")])
    found = store.nearest(Filter(scope=Scope(project="small")), code("aaa bbb"), limit=5)
    assert texts(bag, [match.key for match in found])[0] == "aaa bbb"
    assert {match.key for match in found} == {key(bag, memory) for memory in small}
    assert [match.score for match in found] == sorted((match.score for match in found), reverse=True)
    assert len(store.nearest(EVERYTHING, code("aaa bbb"), limit=50)) == 50


def test_a_long_memory_does_not_take_the_places_of_others_among_the_nearest(bag: Satchel, store: Store):
    view = bag.scoped(project="p")
    view.add("\n\n".join(f"{number} " + "aaa " * 150 for number in range(60)))
    view.add_many([Draft("ccc"), Draft("ddd")])
    found = store.nearest(Filter(scope=Scope(project="p")), code("aaa"), limit=3)
    assert len({match.key for match in found}) == len(found) == 3


def test_ended_memories_and_those_of_other_orgs_are_never_near(bag: Satchel, store: Store):
    ended = bag.add("apple")
    bag.forget(ended.id)
    bag.scoped(org="other").add("apple")
    mine = bag.add("apple")
    where = Filter(valid_at=datetime.now(UTC))
    assert [match.key for match in store.nearest(where, code("apple"), limit=9)] == [key(bag, mine)]
    assert [match.key for match in store.matches(where, ["apple"], limit=9)] == [key(bag, mine)]
    assert [trace.id for trace in store.traces(where)] == [mine.id]


def test_a_code_of_another_size_is_near_to_nothing(bag: Satchel, store: Store):
    bag.add("apple")
    assert store.nearest(EVERYTHING, bytes(32), limit=5) == []


def test_memories_of_a_span_of_time_come_newest_first(bag: Satchel, store: Store):
    bag.add_many(Draft(f"day {number}", at=day(number)) for number in range(10))
    found = store.between(EVERYTHING, day(3), day(6), limit=10)
    assert texts(bag, found) == ["day 5", "day 4", "day 3"]
    assert texts(bag, store.between(EVERYTHING, day(3), day(6), limit=2)) == ["day 5", "day 4"]
    assert store.between(Filter(scope=Scope(project="p")), day(3), day(6), limit=2) == []


@pytest.mark.parametrize("thread", ["session", "source"])
def test_what_stands_beside_a_memory_is_of_its_own_thread(bag: Satchel, store: Store, thread):
    def place(project: str, name: str) -> Satchel:
        view = bag.scoped(project=project)
        return view.scoped(session=name) if thread == "session" else view

    def add(project: str, name: str, number: int) -> satchel.Memory:
        source = name if thread == "source" else None
        return place(project, name).add(f"{project} {name} {number}", at=day(number), source=source)

    for number in range(9):
        add("p", "one", number)
        add("p", "two", number)
        add("q", "one", number)
    (middle,) = [trace for trace in store.traces(EVERYTHING) if texts(bag, [trace.key]) == ["p one 4"]]
    assert middle.thread is not None
    assert json.loads(middle.thread) == [thread, "p", "", "", "one"]
    (around,) = store.beside([middle], EVERYTHING, reach=2)
    assert texts(bag, around) == [f"p one {number}" for number in (2, 3, 4, 5, 6)]
    first, last = (
        trace for trace in store.traces(EVERYTHING) if texts(bag, [trace.key])[0] in ("p one 0", "p one 8")
    )
    runs = store.beside([first, last], EVERYTHING, reach=1)
    assert [texts(bag, run) for run in runs] == [["p one 0", "p one 1"], ["p one 7", "p one 8"]]


def test_what_stands_beside_a_memory_passes_the_filter(bag: Satchel, store: Store):
    view = bag.scoped(session="s")
    added = [
        view.add(f"note {number}", at=day(number), kind="fact" if number % 2 else "todo") for number in range(7)
    ]
    trace = next(trace for trace in store.traces(EVERYTHING) if trace.id == added[3].id)
    (around,) = store.beside([trace], Filter(kinds=("fact",)), reach=5)
    assert texts(bag, around) == ["note 1", "note 3", "note 5"]
    (known,) = store.beside([trace], Filter(until=day(3)), reach=1)
    assert texts(bag, known) == ["note 2", "note 3"]


def test_a_memory_of_no_session_or_document_stands_alone(bag: Satchel, store: Store):
    bag.add_many(Draft(f"note {number}") for number in range(3))
    for trace, run in zip(
        store.traces(EVERYTHING), store.beside(store.traces(EVERYTHING), EVERYTHING, reach=3), strict=True
    ):
        assert (trace.thread, run) == (None, [trace.key])


def test_links_are_seen_from_both_ends_and_filtered_at_the_other(bag: Satchel, store: Store):
    one, two, three = bag.add_many([Draft("one"), Draft("two", kind="fact"), Draft("three")])
    bag.relate(one.id, two.id, "fixes", strength=0.5)
    bag.relate(three.id, one.id, "related")
    keys = {memory.id: key(bag, memory) for memory in (one, two, three)}
    found = store.links([keys[one.id]], EVERYTHING, limit=10)
    assert [(link.origin, link.key, link.kind, link.strength, link.outgoing) for link in found] == [
        (keys[one.id], keys[two.id], "fixes", 0.5, True),
        (keys[one.id], keys[three.id], "related", 1.0, False),
    ]
    assert [link.key for link in store.links([keys[one.id]], Filter(kinds=("fact",)), limit=10)] == [keys[two.id]]
    assert store.links([], EVERYTHING, limit=10) == []
    bag.forget(two.id, purge=True)
    assert [link.key for link in store.links([keys[one.id]], EVERYTHING, limit=10)] == [keys[three.id]]


def test_a_trace_has_all_that_ranking_needs_and_its_passages_in_order(bag: Satchel, store: Store):
    view = bag.scoped(project="p", session="s")
    memory = view.add(
        "\n\n".join(f"{number} " + "word " * 150 for number in range(6)),
        title="A title", tags=["t"], at=START, speaker="Ana", kind="fact", tier="working", importance=0.75,
        confidence=0.25, pinned=True,
    )  # fmt: skip
    (trace,) = store.traces(EVERYTHING)
    assert trace.thread is not None
    assert json.loads(trace.thread) == ["session", "p", "", "", "s"]
    assert trace[1:3] + trace[4:15] == (
        1_704_067_200_000_000, memory.id, "Ana", "fact", "working", 0.75, 0.25, True, memory.tokens, "active", None,
        None, 0,
    )  # fmt: skip
    parts = parts_of(memory)
    assert len(parts) > 3
    assert [passage[:4] for passage in trace.passages] == [
        (part.start, part.end, part.flags, part.codes) for part in parts
    ]
    vectors = packed(Letters().embed([part.text for part in parts]))
    assert [passage.vector for passage in trace.passages] == [vector for vector, _ in vectors]


def test_traces_are_of_all_that_match_or_of_some_of_them(bag: Satchel, store: Store):
    added = [
        bag.add(f"note {number}", at=day(9 - number), kind="fact" if number % 2 else "todo") for number in range(9)
    ]
    facts = Filter(kinds=("fact",))
    every = store.traces(facts)
    assert [trace.id for trace in every] == [memory.id for memory in reversed(added) if memory.kind == "fact"]
    keys = [key(bag, memory) for memory in added]
    assert store.traces(facts, keys) == every
    assert [trace.key for trace in store.traces(EVERYTHING, keys[:3])] == keys[2::-1]
    assert store.traces(EVERYTHING, []) == []
    assert store.traces(EVERYTHING, [10**9]) == []


def test_memories_are_found_by_their_numbers_while_they_are_there(bag: Satchel, store: Store):
    one, two = bag.add_many([Draft("one"), Draft("two")])
    keys = [key(bag, two), key(bag, one)]
    assert store.memories(keys) == {keys[0]: two, keys[1]: one}
    bag.forget(two.id, purge=True)
    assert store.memories(keys) == {keys[1]: one}


def test_how_often_a_term_stands_and_which_words_are_like_it(bag: Satchel, store: Store):
    bag.add_many([Draft("apple pear"), Draft("apple"), Draft("apples apples"), Draft("elsewhere")])
    total, counts = store.frequencies(["appl", "pear", "unknown"])
    assert (total, counts) == (4, [3, 1, 0])
    assert store.words_like("apple", start="a") == ["appl"]
    assert set(store.words_like("pear", start="")) == {"appl", "pear", "elsewher"}
    assert store.words_like("p", start="elsewhere and far") == []


def test_a_change_of_words_is_a_change_of_passages_and_vectors(bag: Satchel):
    memory = bag.add("apple", tags=["t"])
    for changes in (
        {"text": "pear"},
        {"title": "Fruit"},
        {"tags": ["u", "v"]},
        {"text": "long " * 900},
        {"title": None},
    ):
        bag.update(memory.id, **changes)
        assert differences(bag) == []
        assert [check.name for check in bag.checks() if check.state != "ok"] == []


@pytest.mark.parametrize("change", [{"tags": ["u"]}, {"title": "Fruit"}, {"text": "pear"}])
def test_what_is_embedded_anew_waits_for_an_embedder_that_is_not_there(location: Path | str, change):
    with satchel.open(location, embedder=Letters()) as bag:
        memory = bag.add("apple", tags=["t"])
    with satchel.open(location) as bag:
        bag.update(memory.id, importance=0.9)
        assert CallByCall(bag._store).backlog(limit=9) == []
        bag.update(memory.id, **change)
        assert [found.id for _, found in CallByCall(bag._store).backlog(limit=9)] == [memory.id]
        assert differences(bag) == []
    with satchel.open(location, embedder=Letters()) as bag:
        assert bag.catch_up() == 1
        assert differences(bag) == []


def test_nothing_is_left_of_what_was_purged(bag: Satchel, store: Store):
    kept = bag.add("kept")
    bag.add_many(Draft(f"gone {number} " * 300) for number in range(20))
    bag.forget([memory.id for memory in bag.recent(limit=99) if memory.id != kept.id], purge=True)
    assert differences(bag) == []
    assert [trace.id for trace in store.traces(ENDED_TOO)] == [kept.id]
    with store._read(Scope().org) as db:
        own = "vector_1" if isinstance(store, SqliteStore) else "passage_vector"
        for table in ("passage", own):
            assert db.execute(f"SELECT count(*) FROM {table}").get == 1


def test_a_number_used_again_brings_nothing_of_its_former_memory(bag: Satchel):
    memory = bag.add("\n\n".join("aaa " * 200 for _ in range(9)))
    bag.forget(memory.id, purge=True)
    bag.add("ccc")
    assert differences(bag) == []


def test_an_import_keeps_passages_and_vectors_in_step(bag: Satchel, path: Path):
    bag.add_many(Draft(f"note {number} " * 200, title=f"title {number}", tags=["t"]) for number in range(20))
    exported = list(bag.export())
    with satchel.open(path.with_name("other.db")) as other:
        other.import_(exported)
        assert differences(other) == []
        bag.update(bag.recent(limit=1)[0].id, text="changed")
        other.import_(bag.export())
        assert differences(other) == []
        assert CallByCall(other._store).backlog(limit=9) == []


@pytest.mark.parametrize("newest_last", [True, False])
def test_two_versions_of_a_memory_in_one_import_leave_the_newer_ones_passages(bag: Satchel, newest_last):
    memory = bag.add("the older words, and many of them")
    older = list(bag.export())
    bag.update(memory.id, text="newer words")
    newer = list(bag.export())
    with satchel.open(":memory:") as other:
        lines = [*older, *newer[1:]] if newest_last else [*newer, *older[1:]]
        other.import_(lines)
        assert other.get(memory.id).text == "newer words"
        assert differences(other) == []


def test_a_part_of_a_transaction_that_failed_leaves_no_vectors(bag: Satchel):
    def change() -> None:
        bag.add("two " * 400)
        bag.update(bag.recent(limit=1)[0].id, text="three")

    with bag.transaction():
        bag.add("one")
        for act in (change, lambda: bag.forget(everything=True, purge=True)):
            fail_after(bag, act)
        bag.add("four")
    fail_after(bag, change)
    assert sorted(memory.text for memory in bag.recent()) == ["four", "one"]
    assert differences(bag) == []


def fail_after(bag: Satchel, act: Callable[[], object]) -> None:
    with contextlib.suppress(RuntimeError), bag.transaction():
        act()
        raise RuntimeError


def test_tags_given_twice_in_one_batch_are_indexed_as_stored(bag: Satchel):
    bag.add_many(
        [Draft("apple", ref="a", tags=("t",)), Draft("apple", ref="a", tags=("u",)), Draft("pear", ref="a")]
    )
    assert [memory.text for memory in bag.recent()] == ["pear"]
    assert differences(bag) == []


def test_a_filter_of_tags_and_ids_holds_for_every_index(bag: Satchel, store: Store):
    tagged = bag.add("apple", tags=["t"])
    bag.add("apple")
    for where in (Filter(tags=("t",)), Filter(ids=(tagged.id,))):
        wanted = [key(bag, tagged)]
        assert [match.key for match in store.matches(where, ["apple"], limit=5)] == wanted
        assert [match.key for match in store.nearest(where, code("apple"), limit=5)] == wanted
        assert [trace.key for trace in store.traces(where)] == wanted
        assert store.between(where, START, datetime(2999, 1, 1, tzinfo=UTC), limit=5) == wanted
        assert store.count(msgspec.structs.replace(where, scope=Scope(org="other")), most=5) == 0
