"""`as_of` shows memories, their order and their relations as they were at an earlier moment."""

import io
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import numpy as np
import pytest

import satchel
from call_by_call import CallByCall
from conftest import Opening
from satchel import Draft, InputError, Relation, Satchel, Scope, UnknownIdError
from satchel.model.filters import Filter
from satchel.recall import indexer
from satchel.recall.as_of import PastStore, store_at
from satchel.store.contract import SearchStore, Trace

pytestmark = pytest.mark.usefixtures("all_matches")

START = datetime(2026, 1, 1, 12, tzinfo=UTC)


def day(number: float) -> datetime:
    return START + timedelta(days=number)


class Days:
    """A clock that is set to a day."""

    def __init__(self, clock: list[datetime]) -> None:
        self._clock = clock

    def __call__(self, number: float) -> None:
        self._clock[0] = day(number)


@pytest.fixture
def on_day(clock: list[datetime]) -> Days:
    return Days(clock)


def texts(memories: Any) -> list[str]:
    return [getattr(each, "memory", each).text for each in memories]


@pytest.fixture
def port(on_day: Days, notes: Satchel) -> Satchel:
    """Said on day 1, said otherwise on day 10, now it is day 20."""
    on_day(1)
    notes.add("The gateway listens on port 8000.", title="Gateway", ref="port", session="s", tier="conversation")
    notes.add("Bo waters the plants.", ref="plants", session="s", tier="conversation")
    on_day(10)
    notes.update(notes.recent()[-1].id, text="The gateway listens behind nginx.", title="Proxy")
    on_day(20)
    return notes


def test_a_text_that_changed_later_is_shown_as_it_was(port: Satchel):
    (memory,) = [each for each in port.recent() if each.ref == "port"]
    for moment, said in ((day(5), "port 8000"), (day(10), "behind nginx"), (None, "behind nginx")):
        assert said in port.search("gateway", as_of=moment)[0].memory.text
        assert said in port.search("gateway", as_of=moment).text
        assert said in port.context("gateway", as_of=moment).text
        assert said in port.context(as_of=moment).text
        assert said in port.context_pack("gateway", as_of=moment).to_markdown()
        assert said in port.context_pack(as_of=moment, format="json").text
        assert said in port.timeline(memory.id, as_of=moment).focus.text
        plants = port.search("plants", as_of=moment)[0].memory
        assert said in port.timeline(plants.id, as_of=moment).before[0].text
        assert said in port.get(memory.id, as_of=moment).text
        assert said in "".join(texts(port.recent(as_of=moment)))


def test_all_of_a_memory_is_as_it_was(on_day: Days, notes: Satchel):
    on_day(1)
    fields = {
        "kind": "fact",
        "tags": ["red"],
        "importance": 0.9,
        "confidence": 0.4,
        "pinned": True,
        "source": "a.md",
    }
    first = notes.add("The key is sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD now.", topic_key="t", **fields)
    versions = [first]
    for number, changes in enumerate(
        [
            {"text": "The door is green, and it is a longer text than before.", "title": "Door", "tags": None},
            {"kind": "decision", "tier": "working", "importance": 0.1, "pinned": False, "source": None},
            {"status": "archived", "valid_from": "2025-01-01", "invalid_at": "2030-01-01", "at": day(2)},
            {"status": "active", "speaker": "Ana", "confidence": 1.0},
        ],
        start=2,
    ):
        on_day(number)
        versions.append(notes.update(first.id, **changes))
    on_day(20)
    for number, version in enumerate([*versions, *versions], start=2):
        # From the very moment of a change on, until the next.
        moment = day(number - 1 if number < 7 else number - 5.5)
        found = notes.get(first.id, as_of=moment)
        assert msgspec.structs.replace(found, access_count=0, accessed_at=None) == version
    assert [version.revision for version in versions] == [1, 2, 3, 4, 5]


def test_words_find_what_stood_there_then_and_nothing_that_came_later(port: Satchel):
    assert texts(port.search("8000", as_of=day(5))) == ["The gateway listens on port 8000."]
    assert list(port.search("8000")) == []
    assert list(port.search("nginx", as_of=day(5))) == []
    assert list(port.search("proxy", as_of=day(5))) == []
    assert texts(port.search("nginx")) == ["The gateway listens behind nginx."]
    # In the text of then a misspelt word is found too.
    assert texts(port.search("prot 8000", as_of=day(5)))[0] == "The gateway listens on port 8000."


def test_a_misspelt_word_is_looked_for_in_the_texts_of_then(on_day: Days, words: Satchel):
    on_day(1)
    memory = words.add("The quokka sleeps.")
    on_day(10)
    words.update(memory.id, text="Nobody is here.")
    assert texts(words.search("quokak", as_of=day(5))) == ["The quokka sleeps."]
    assert list(words.search("quokak")) == []


def twin(opened: Satchel, on_day: Days) -> list[str]:
    """Memories of several sorts, on days 1 to 4; their ids."""
    said = [
        Draft("We rent the warehouse in Lyon.", ref="0", kind="decision", importance=0.8),
        Draft("The violin was repaired in Lyon.", ref="1", tags=["music"], title="Violin"),
        Draft("Did anybody feed the cat?", ref="2", session="s", tier="conversation", speaker="Ana"),
        Draft("Yes, the cat had fish.", ref="3", session="s", tier="conversation", speaker="Bo"),
        Draft("The cat sleeps in the warehouse.", ref="4", session="s", tier="conversation", speaker="Ana"),
        Draft("Deploys happen on Fridays.", ref="5", source="ops.md"),
        Draft("Deploys need two reviewers.", ref="6", source="ops.md"),
        Draft("We no longer rent in Lyon, we moved the warehouse to Nice.", ref="7", kind="decision"),
    ]
    ids = []
    for number, draft in enumerate(said):
        on_day(1 + number / 4)
        ids.append(opened.add_many([draft])[0].id)
    opened.relate(ids[1], ids[5])
    opened.relate(ids[6], ids[5], "part_of", strength=0.6)
    opened.relate(ids[0], ids[3], "contradicts", strength=0.5)
    return ids


def muddle(opened: Satchel, ids: list[str], on_day: Days) -> None:
    """Change much of it on days 10 to 12."""
    on_day(10)
    opened.update(ids[0], text="The office has no walls.", kind="lesson", importance=0.2)
    opened.update(ids[1], tags=["wood"], title=None, text="Fish is sold on Fridays to the cat.")
    opened.update(ids[3], text="No.", speaker="Ana", at=day(0))
    opened.forget(ids[4])
    opened.add("The lighthouse, in Lyon, feeds a cat in the warehouse.", session="s", tier="conversation")
    on_day(11)
    new = opened.add("Deploys happen on Mondays.")
    opened.relate(new.id, ids[5], "supersedes")
    opened.relate(ids[6], ids[5], "part_of", strength=0.1)
    opened.relate(ids[0], ids[3], "contradicts", strength=1.0)
    opened.relate(ids[2], ids[7])
    opened.update(ids[6], source=None, pinned=True)
    on_day(12)
    opened.update(ids[7], status="archived", confidence=0.1)


QUESTIONS = [
    "Where do we rent the warehouse?", "violin", "cat", "What did the cat have?", "deploys", "Lyon", "music",
    "What did we decide?", "on 2 January 2026", "Who fed the animal?",
]  # fmt: skip


@pytest.fixture
def twins(
    on_day: Days, opening: Opening, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[dict[str, Any], dict[str, Any], bool]]:
    """What was found on day 5, what is found as of then after many changes, and whether scopes are read whole."""
    whole = satchel.recall.ranking.SMALL > 0
    with opening() as opened:
        # What was found moves up a little the next time.
        monkeypatch.setattr(type(opened._store), "touch", lambda *_: None)
        ids = twin(opened, on_day)
        on_day(5)
        before = answers(opened, ids, None)
        muddle(opened, ids, on_day)
        on_day(20)
        yield before, answers(opened, ids, day(5)), whole


def answers(opened: Satchel, ids: list[str], moment: datetime | None) -> dict[str, Any]:
    found: dict[str, Any] = {"recent": opened.recent(limit=100, as_of=moment)}
    for question in QUESTIONS:
        found[question] = opened.search(question, explain=True, as_of=moment)
        found[f"context {question}"] = opened.context(question, as_of=moment).text
        found[f"pack {question}"] = opened.context_pack(question, as_of=moment).text
    for identifier in ids:
        found[f"timeline {identifier}"] = opened.timeline(identifier, as_of=moment)
        found[f"relations {identifier}"] = opened.relations(identifier, as_of=moment)
    return found


def test_after_many_changes_a_search_as_of_then_gives_what_it_gave_then(twins):
    before, after, whole = twins
    for name, expected in before.items():
        if whole:
            told = list(after[name]) if hasattr(expected, "token_count") else after[name]
            assert told == (list(expected) if hasattr(expected, "token_count") else expected), name
        elif hasattr(expected, "token_count"):
            # Of a large scope the counts of words are those of now, which moves the scores a little.
            assert sorted(texts(after[name])) == sorted(texts(expected)), name
            assert texts(after[name])[:1] == texts(expected)[:1], name
        elif name.startswith(("recent", "timeline", "relations")):
            assert after[name] == expected, name


FILTERS = [
    Filter(valid_at=day(5), until=day(5)),
    Filter(statuses=(), until=day(5)),
    Filter(scope=Scope(session="s"), until=day(5)),
    Filter(kinds=("decision",), until=day(5)),
    Filter(tags=("music",), until=day(5)),
    Filter(important=True, until=day(5)),
    Filter(since=day(2), until=day(5)),
]
SPANS = [(day(0), day(9)), (day(1.25), day(1.75)), (day(1.5), day(2.1))]


def reads(store: SearchStore, keys: list[int], code: bytes) -> Iterator[tuple[str, Any]]:
    """Each of the answers that a search asks a store for."""
    everything = {trace.key: trace for trace in store.traces(FILTERS[1], keys)}
    for number, where in enumerate(FILTERS):
        yield f"select {number}", [store.select(where, limit=limit) for limit in (2, 100)]
        yield f"count {number}", [store.count(where, most=most) for most in (2, 100)]
        yield f"between {number}", [store.between(where, *span, limit=limit) for span in SPANS for limit in (2, 9)]
        yield (
            f"traces {number}",
            [[_comparable(trace) for trace in store.traces(where, some)] for some in (None, keys[:3])],
        )
        for reach in (1, 4):
            yield f"beside {number} {reach}", store.beside([everything[key] for key in keys], where, reach=reach)
        yield f"links {number}", [store.links(keys, where, limit=limit) for limit in (1, 100)]
        matches = store.matches(where, ["lyon", "warehouse", "cat", "fish"], limit=100)
        yield f"matches {number}", {match.key for match in matches}
        yield f"nearest {number}", [match.score for match in store.nearest(where, code, limit=3)]
    yield "memories", store.memories(keys[::-1])


def _comparable(trace: Trace) -> Trace:
    return trace._replace(thread=None if trace.thread is None else "".join(trace.thread.split()))


def test_a_store_as_of_then_answers_every_read_as_it_did_then(on_day: Days, notes: Satchel):
    ids = twin(notes, on_day)
    store = notes._store
    vector = notes._indexer.query_vector("the animal in the house")
    assert vector is not None
    code = np.packbits(vector > 0).tobytes()
    keys = {trace.id: trace.key for trace in store.traces(Filter(statuses=()))}
    asked = [keys[identifier] for identifier in ids]
    before = dict(reads(store, asked, code))
    muddle(notes, ids, on_day)
    past = store_at(store, FILTERS[1], day(5), embed=notes._indexer.past_vectors)
    after = dict(reads(past, asked, code))
    assert before.keys() == after.keys()
    for name, expected in before.items():
        assert after[name] == expected, name


def test_words_that_stand_in_earlier_texts_only_are_counted(on_day: Days, words: Satchel):
    on_day(1)
    memory = words.add("The quokka sleeps.")
    on_day(10)
    words.update(memory.id, text="Nobody is here.")
    past = store_at(words._store, Filter(), day(5))
    assert past.frequencies(["quokka", "sleep", "absent"])[1] == [1, 1, 0]
    assert words._store.frequencies(["quokka"])[1] == [0]


@pytest.mark.parametrize(
    ("then", "later"),
    [
        ({"kind": "fact"}, {"kind": "fix"}),
        ({"tier": "working"}, {"tier": "knowledge"}),
        ({"tags": ["Red"]}, {"tags": ["blue"]}),
        ({"status": "pending"}, {"status": "archived"}),
    ],
)
def test_filters_hold_for_what_a_memory_was(on_day: Days, words: Satchel, then, later):
    on_day(1)
    memory = words.add("The crane is blue.", **then)
    on_day(10)
    words.update(memory.id, **later)
    on_day(20)
    same = {"tags": "rED"} if "tags" in then else then
    assert texts(words.search("crane", as_of=day(5), **same)) == ["The crane is blue."]
    assert list(words.search("crane", as_of=day(5), **later)) == []
    assert texts(words.search("crane", as_of=day(15), **later)) == ["The crane is blue."]
    assert list(words.search("crane", as_of=day(15), **then)) == []


def test_importance_and_pins_are_those_of_then(on_day: Days, words: Satchel):
    on_day(1)
    first = words.add("The crane is blue.", importance=0.9, pinned=True)
    second = words.add("The crane is green.", importance=0.1)
    on_day(10)
    words.update(first.id, importance=0.1, pinned=False)
    words.update(second.id, importance=0.9, pinned=True)
    on_day(20)
    for moment, best in ((day(5), first), (None, second)):
        assert words.search("crane", as_of=moment)[0].memory.id == best.id
        assert [each.id for each in words.recent(pinned=True, as_of=moment)] == [best.id]
        assert words.context("nothing of the sort", as_of=moment).hits[0].memory.id == best.id


def test_what_was_forgotten_superseded_or_archived_later_held_then(on_day: Days, words: Satchel):
    on_day(1)
    gone, old, filed = (words.add(f"The {name} crane.", ref=name).id for name in ("gone", "old", "filed"))
    on_day(10)
    words.forget(gone)
    new = words.add("The new crane.")
    words.relate(new.id, old, "supersedes")
    words.update(filed, status="archived")
    on_day(20)
    assert sorted(texts(words.search("crane", as_of=day(5)))) == [
        "The filed crane.",
        "The gone crane.",
        "The old crane.",
    ]
    assert texts(words.search("crane", as_of=day(15))) == ["The new crane."]
    assert words.get(old, as_of=day(5)).superseded_by is None
    assert "The old crane." in words.context("crane", as_of=day(5)).text
    assert texts(words.search("crane", status="superseded", as_of=day(15))) == ["The old crane."]
    assert list(words.search("crane", status="superseded", as_of=day(5))) == []


def test_what_had_ended_by_then_comes_on_request(on_day: Days, words: Satchel):
    on_day(1)
    memory = words.add("The crane is blue.")
    on_day(2)
    words.forget(memory.id)
    on_day(10)
    words.update(memory.id, text="The crane is green.", status="active")
    on_day(20)
    for number, said in ((1.5, ["The crane is blue."]), (5, []), (15, ["The crane is green."])):
        assert texts(words.search("crane", as_of=day(number))) == said
    assert texts(words.search("crane", ended=True, as_of=day(5))) == ["The crane is blue."]
    # Words such as "last week" count from then as well.
    asked = "What happened last week?"
    assert texts(words.search(asked, ended=True, as_of=day(8))) == ["The crane is blue."]
    assert list(words.search(asked, ended=True)) == []


def test_a_relation_counts_from_when_it_was_made_and_as_it_was(on_day: Days, words: Satchel):
    on_day(1)
    cat, fish = words.add("The cat sleeps.").id, words.add("A bowl of fish.").id
    on_day(2)
    words.relate(cat, fish, strength=0.4)
    on_day(10)
    words.relate(cat, fish, strength=0.9)
    on_day(20)
    for number, strengths in ((1.5, []), (5, [0.4]), (15, [0.9])):
        moment = day(number)
        assert [each.strength for each in words.relations(fish, as_of=moment)] == strengths
        assert len(words.search("cat", as_of=moment)) == 1 + len(strengths)
    weak, strong = (words.search("cat", explain=True, as_of=day(number))[1].parts["graph"] for number in (5, 15))
    assert 0 < weak < strong
    assert [each.created_at for each in words.relations(cat, as_of=day(5))] == [day(2)]


def test_a_relation_that_was_brought_or_overwritten_by_an_import_is_as_it_was(on_day: Days, words: Satchel):
    on_day(1)
    cat, fish = words.add("The cat sleeps.").id, words.add("A bowl of fish.").id
    brought = Relation(source=cat, target=fish, strength=0.4, created_at=day(2))
    CallByCall(words._store).put_relations(words.scope, [brought])
    on_day(10)
    words.relate(cat, fish, strength=0.9)
    on_day(12)
    CallByCall(words._store).put_relations(
        words.scope, [msgspec.structs.replace(brought, strength=0.1, created_at=day(12))]
    )
    on_day(20)
    for number, strengths in ((1.5, []), (5, [0.4]), (11, [0.9]), (15, [0.1])):
        assert [each.strength for each in words.relations(cat, as_of=day(number))] == strengths


def test_a_contradiction_made_later_does_not_count_against_what_was_said(on_day: Days, words: Satchel):
    on_day(1)
    one, other = words.add("The crane is blue.").id, words.add("The crane is green.").id
    on_day(10)
    words.relate(one, other, "contradicts")
    on_day(20)
    doubted = [
        {hit.memory.id: hit.parts["trust"] for hit in words.search("crane", explain=True, as_of=moment)}
        for moment in (day(5), day(15))
    ]
    assert doubted[0][other] == doubted[0][one]
    assert doubted[1][other] < doubted[1][one]


def test_a_memory_that_was_recorded_later_counts_from_its_time_on_in_its_first_version(
    on_day: Days, words: Satchel
):
    """Otherwise nothing could be asked about a time before the store was made."""
    on_day(10)
    memory = words.add("The crane is blue.", at=day(1), kind="fact")
    on_day(11)
    words.update(memory.id, text="The crane is green.", kind="decision")
    on_day(20)
    assert texts(words.search("crane", as_of=day(5))) == ["The crane is blue."]
    assert words.get(memory.id, as_of=day(5)).kind == "fact"
    assert list(words.search("crane", as_of=day(0.5))) == []
    # The times it speaks of are about the world, and later news of them counts.
    words.update(memory.id, invalid_at=day(3))
    assert list(words.search("crane", as_of=day(5))) == []
    assert texts(words.search("crane", as_of=day(2))) == ["The crane is blue."]
    # But on day 15 nobody knew of that.
    assert texts(words.search("crane", as_of=day(15))) == ["The crane is green."]


def test_what_moved_to_another_session_is_found_where_it_was(on_day: Days, words: Satchel):
    on_day(1)
    words.add("The crane is blue.", session="first", topic_key="crane")
    on_day(10)
    words.add("The crane is green.", session="second", topic_key="crane")
    on_day(20)
    first, second = words.scoped(session="first"), words.scoped(session="second")
    assert texts(first.search("crane", as_of=day(5))) == ["The crane is blue."]
    assert list(second.search("crane", as_of=day(5))) == []
    assert list(first.search("crane")) == []
    assert texts(second.search("crane", as_of=day(15))) == ["The crane is green."]


def test_a_purged_memory_is_gone_from_the_past_too(port: Satchel):
    (memory,) = [each for each in port.recent() if each.ref == "port"]
    port.forget(memory.id, purge=True)
    assert list(port.search("8000", as_of=day(5))) == []
    assert texts(port.recent(as_of=day(5))) == ["Bo waters the plants."]


def test_what_was_not_known_yet_is_an_unknown_id(port: Satchel):
    (memory,) = [each for each in port.recent() if each.ref == "port"]
    for call in (port.get, port.timeline):
        with pytest.raises(UnknownIdError, match="as of 2026-01-01T18:00:00"):
            call(memory.id, as_of=day(0.25))
        with pytest.raises(InputError, match="as_of"):
            call(memory.id, as_of="some day")


def test_neighbours_in_a_conversation_are_those_of_then(on_day: Days, words: Satchel):
    turns = ["Where is the crane?", "In the harbour.", "And the boat?", "Sold."]
    on_day(1)
    ids = []
    for number, turn in enumerate(turns):
        ids.append(words.add(turn, session="s", tier="conversation", at=day(1 + number / 24)).id)
    on_day(10)
    words.update(ids[1], text="Nobody knows.", at=day(9))
    words.update(ids[2], text="And the train?")
    words.forget(ids[3])
    on_day(20)
    then = words.context("crane", as_of=day(5)).text
    assert "In the harbour." in then
    assert "And the boat?" in then
    assert "Sold." in then
    line = words.timeline(ids[0], as_of=day(5))
    assert texts(line.after) == turns[1:]
    assert texts(words.timeline(ids[2], before=1, after=1, as_of=day(5)).before) == turns[1:2]
    assert texts(words.timeline(ids[0]).after) == ["And the train?", "Nobody knows."]


def test_an_exported_history_tells_the_same_elsewhere(port: Satchel):
    lines = b"".join(port.export())
    with satchel.open(":memory:") as other:
        other.import_(io.BytesIO(lines))
        assert texts(other.search("8000", as_of=day(5))) == ["The gateway listens on port 8000."]
        assert texts(other.recent(as_of=day(5))) == texts(port.recent(as_of=day(5)))


def test_history_that_no_memory_can_have_is_left_out(on_day: Days, words: Satchel):
    on_day(1)
    memory = words.add("The crane is blue.")
    on_day(10)
    words.update(memory.id, text="The crane is green.", kind="fix")
    lines = (
        b"".join(words.export())
        .replace(b'"observation"', b'"nonsense"')
        .replace(b'"kind":["nonsense"', b'"kind":[7')
    )
    with satchel.open(":memory:", embedder="none") as other:
        other.import_(io.BytesIO(lines))
        found = other.search("crane", as_of=day(5))[0].memory
        assert (found.text, found.kind) == ("The crane is blue.", "fix")


def test_where_nothing_has_changed_since_the_store_itself_is_read(port: Satchel):
    where = Filter()
    assert store_at(port._store, where, day(15)) is port._store
    assert isinstance(store_at(port._store, where, day(5)), PastStore)
    elsewhere = msgspec.structs.replace(where, scope=Scope(project="other"))
    assert store_at(port._store, elsewhere, day(5)) is port._store


def test_what_changes_while_a_search_goes_on_is_told_as_it_was(on_day: Days, words: Satchel):
    on_day(1)
    one, other = words.add("The crane is blue.").id, words.add("The boat is blue.").id
    on_day(10)
    words.update(one, text="The crane is green.")
    past = store_at(words._store, Filter(), day(5))
    words.update(other, text="The boat is green.")
    with past.reading("default"):
        told = past.select(Filter(), limit=10)
    assert sorted(texts(told)) == ["The boat is blue.", "The crane is blue."]


class Slow:
    """An embedder that takes its time, and counts what it embeds."""

    name = "slow"
    dimensions = 8
    passages_inline = 100

    def __init__(self) -> None:
        self.seen: list[str] = []

    def embed(self, texts: Any) -> Any:
        self.seen += texts
        rows = np.array([[len(text) % (place + 2) + 1 for place in range(8)] for text in texts], np.float32)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_earlier_texts_are_embedded_a_few_at_a_time_newest_first_and_once(
    on_day: Days, opening: Opening, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(indexer, "PAST_PASSAGES_SLOW", 2)
    embedder = Slow()
    with opening(embedder=embedder) as opened:
        ids = []
        for number in range(3):
            on_day(1 + number)
            ids.append(opened.add(f"The crane number {number} is blue.").id)
        on_day(10)
        for identifier in ids:
            opened.update(identifier, text="Gone.")
        on_day(20)
        rounds = []
        for _ in range(3):
            embedder.seen.clear()
            # Found by its words, with a vector or without.
            assert len(opened.search("crane", as_of=day(5))) == 3
            rounds.append([text for text in embedder.seen if text != "crane"])
    texts = [f"The crane number {number} is blue." for number in range(3)]
    assert rounds == [[texts[2], texts[1]], [texts[0]], []]
