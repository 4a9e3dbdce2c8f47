"""Basic operations of every store: add, find, update, forget, purge."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

import satchel
from in_step import differences
from satchel import Draft, Forgotten, Satchel

LONG_AGO = datetime(2020, 5, 17, 12, 30, 15, 123456, tzinfo=UTC)


def test_many_memories_that_are_added_together_keep_any_text(bag: Satchel):
    texts = ["a\0b", "a\ufdd0b", "a\ufdd00b", r"a\u0000b", r"\\x00", 'say "no"', "é 📏", "{1,2}", "NULL"]
    drafts = [Draft(text, title=text, tags=[text], ref=text, metadata={text: text}) for text in texts]
    added = bag.add_many(drafts)
    assert [memory.text for memory in added] == texts
    held = {memory.text: memory for memory in bag.recent(limit=20)}
    assert held.keys() == {*texts}
    for text, memory in held.items():
        assert (memory.title, memory.tags, memory.ref, memory.metadata) == (text, (text,), text, {text: text})
        assert bag.recent(tags=[text]) == [memory]
    assert differences(bag) == []


def test_a_memory_comes_back_as_it_was_put_in(bag: Satchel):
    stored = bag.scoped(project="thesis", user="ana", agent="coder", session="s1").add(
        "We rotate JWTs\nevery hour. 記憶 🎒 \x00 end",
        title="JWT rotation",
        kind="decision",
        tier="working",
        tags=["auth", "Größe"],
        importance=0.8,
        confidence=0.25,
        pinned=True,
        at=LONG_AGO,
        valid_from=LONG_AGO,
        invalid_at=datetime(2999, 1, 1, tzinfo=UTC),
        speaker="Ana",
        source="adr-7.md",
        ref="D1:3",
        topic_key="auth/jwt",
    )
    found = bag.get(stored.id)
    assert msgspec.structs.replace(found, access_count=0, accessed_at=None) == stored
    assert found.text == "We rotate JWTs\nevery hour. 記憶 🎒 \x00 end"
    assert found.scope == satchel.Scope(project="thesis", user="ana", agent="coder", session="s1")
    assert (found.at, found.tags, found.pinned) == (LONG_AGO, ("auth", "Größe"), True)
    assert found.tokens == satchel.count_tokens(found.text)


def test_what_is_not_said_gets_its_default(bag: Satchel):
    memory = bag.add("plain")
    assert (memory.kind, memory.tier, memory.status) == ("observation", "knowledge", "active")
    assert (memory.importance, memory.confidence, memory.revision) == (0.5, 1.0, 1)
    assert memory.at == memory.created_at == memory.updated_at


def test_ids_grow_with_time_and_are_version_7(bag: Satchel):
    ids = [memory.id for memory in bag.add_many(Draft(f"note {number}") for number in range(300))]
    assert ids == sorted(ids)
    assert len(set(ids)) == 300
    assert all(identifier[14] == "7" for identifier in ids)


def test_a_unique_prefix_of_eight_characters_names_a_memory(bag: Satchel):
    memory = bag.add("one")
    assert bag.get(memory.id[:8]).id == memory.id
    assert bag.get(memory.id.replace("-", "")[:14].upper()).id == memory.id
    with pytest.raises(satchel.InputError, match="at least the first 8"):
        bag.get(memory.id[:7])


def test_an_ambiguous_prefix_is_refused_with_the_candidates(bag: Satchel):
    first, second = bag.add_many([Draft("one"), Draft("two")])
    shorts = bag.short_ids([first, second])
    with pytest.raises(satchel.AmbiguousIdError) as caught:
        bag.get(first.id[:8])
    assert str(caught.value) == (
        f"'{first.id[:8]}' names several memories; did you mean one of these: {shorts[0]} 'one', {shorts[1]} 'two'"
    )


def test_an_unknown_id_is_refused(bag: Satchel):
    with pytest.raises(satchel.UnknownIdError, match="no memory has the id '00000000"):
        bag.get("00000000-0000")


def test_the_same_ref_in_the_same_scope_updates(bag: Satchel):
    first = bag.add("old", ref="D1:3", importance=0.9, title="kept")
    second = bag.add("new", ref="D1:3")
    assert (second.id, second.text, second.revision) == (first.id, "new", 2)
    assert (second.importance, second.title) == (0.9, "kept")
    assert second.tokens == satchel.count_tokens("new")
    assert bag.stats().memories == 1


def test_the_same_ref_elsewhere_is_another_memory(bag: Satchel):
    bag.scoped(project="a").add("one", ref="r")
    bag.scoped(project="b").add("two", ref="r")
    bag.scoped(project="b", session="s").add("three", ref="r")
    bag.scoped(org="other", project="b").add("four", ref="r")
    assert bag.stats().memories == 3


def test_the_same_topic_updates_across_sessions_and_counts_a_revision(bag: Satchel):
    first = bag.scoped(project="p", session="monday").add("we use REST", topic_key="api/style")
    second = bag.scoped(project="p", session="friday").add("we use gRPC", topic_key="api/style")
    assert (second.id, second.text, second.revision) == (first.id, "we use gRPC", 2)


def test_adding_the_same_again_is_no_revision(bag: Satchel):
    first = bag.add("same", ref="r")
    again = bag.add("same", ref="r")
    assert again == first
    assert [entry.action for entry in bag.history(first.id)] == ["add"]


def test_a_ref_and_a_topic_of_two_memories_are_refused(bag: Satchel):
    bag.add("one", ref="r")
    bag.add("two", topic_key="t")
    with pytest.raises(satchel.InputError, match="two different memories"):
        bag.add("three", ref="r", topic_key="t")
    assert [memory.text for memory in bag.recent()] == ["two", "one"]


def test_a_forgotten_memory_is_not_found_but_stays(bag: Satchel):
    memory = bag.add("the launch code is a secret handshake")
    assert bag.forget(memory.id).count == 1
    assert list(bag.search("handshake")) == []
    assert bag.recent() == bag.recent(status="active") == []
    assert [each.id for each in bag.recent(ended=True)] == [memory.id]
    assert len(bag.search("handshake", ended=True)) == 1
    kept = bag.get(memory.id)
    assert kept.invalid_at is not None
    assert bag.stats().memories == 1


def test_saying_something_again_revives_it(bag: Satchel):
    memory = bag.add("tabs", topic_key="indent")
    bag.forget(memory.id)
    revived = bag.add("tabs", topic_key="indent")
    assert revived.id == memory.id
    assert revived.invalid_at is None
    assert len(bag.search("tabs")) == 1


def test_an_expiry_in_the_future_survives_an_update(bag: Satchel):
    later = datetime(2999, 1, 1, tzinfo=UTC)
    bag.add("offer", ref="o", invalid_at=later)
    assert bag.add("better offer", ref="o").invalid_at == later


def test_what_is_not_yet_or_no_longer_valid_is_not_found(bag: Satchel):
    now = datetime.now(UTC)
    bag.add("apple pie", valid_from=now + timedelta(days=1))
    bag.add("apple cake", invalid_at=now - timedelta(days=1))
    bag.add("apple tart", valid_from=now - timedelta(days=1), invalid_at=now + timedelta(days=1))
    assert [hit.memory.text for hit in bag.search("apple")] == ["apple tart"]


@pytest.mark.parametrize("status", ["archived", "superseded", "pending"])
def test_only_active_memories_are_found_unless_asked_for(bag: Satchel, status):
    memory = bag.add("apple")
    bag.update(memory.id, status=status)
    assert list(bag.search("apple")) == []
    assert [hit.memory.id for hit in bag.search("apple", status=status)] == [memory.id]


def test_purging_removes_every_trace_but_the_fact(bag: Satchel):
    memory = bag.add("the merger with Blorptech", tags=["deal"])
    other = bag.add("unrelated")
    bag.relate(other.id, memory.id, "related")
    bag.update(memory.id, text="the Blorptech merger is off")
    assert bag.forget(memory.id, purge=True) == Forgotten(count=1, purged=True)
    with pytest.raises(satchel.UnknownIdError):
        bag.get(memory.id)
    assert [entry.action for entry in bag.history(memory.id)] == ["purge"]
    assert list(bag.search("Blorptech", status=["active", "archived"])) == []
    assert bag.relations(other.id) == []
    assert b"Blorptech" not in b"".join(bag.export())


def test_forgetting_by_kind_or_scope_counts_what_it_ended(bag: Satchel):
    thesis = bag.scoped(project="thesis")
    thesis.add_many([Draft("a", kind="todo"), Draft("b", kind="todo"), Draft("c")])
    bag.add("d", kind="todo")
    assert thesis.forget(kind="todo").count == 2
    assert thesis.forget(kind="todo") == Forgotten(count=0)
    assert thesis.forget(everything=True, purge=True).count == 3
    assert [memory.text for memory in bag.recent()] == ["d"]


def test_forgetting_everything_by_accident_is_refused(bag: Satchel):
    bag.add("precious")
    view = bag.scoped(project="p")
    view.add("precious too")
    for purge in (False, True):
        for place in (bag, view):
            with pytest.raises(satchel.InputError, match="say what to forget"):
                place.forget(purge=purge)
            assert place.forget([], purge=purge).count == 0
            assert place.forget((each for each in ()), purge=purge).count == 0
            assert place.forget(tags=[], purge=purge).count == 0
    assert len(bag.recent()) == 2


def test_an_update_changes_only_what_it_names(bag: Satchel):
    memory = bag.add("old text", title="t", tags=["a"], importance=0.9)
    changed = bag.update(memory.id, text="new text", title=None)
    assert (changed.text, changed.title, changed.tags, changed.importance) == ("new text", None, ("a",), 0.9)
    assert changed.tokens == satchel.count_tokens("new text")
    assert list(bag.search("old")) == []
    assert len(bag.search("new")) == 1


def test_history_tells_every_change_with_old_and_new(bag: Satchel):
    memory = bag.add("one", ref="r")
    bag.update(memory.id, importance=0.9, tags=["x"])
    bag.add("two", ref="r")
    bag.forget(memory.id)
    entries = bag.history(memory.id)
    assert [entry.action for entry in entries] == ["add", "update", "update", "forget"]
    assert entries[1].changes == {"importance": [0.5, 0.9], "tags": [[], ["x"]]}
    assert entries[2].changes == {"text": ["one", "two"]}
    assert entries[3].changes["invalid_at"][0] is None
    assert [entry.at for entry in entries] == sorted(entry.at for entry in entries)


def test_supersession_ends_the_older_memory(bag: Satchel):
    old, new = bag.add("port is 8000"), bag.add("port is 9000")
    bag.relate(new.id, old.id, "supersedes")
    ended = bag.get(old.id)
    assert (ended.status, ended.superseded_by) == ("superseded", new.id)
    assert ended.invalid_at is not None
    assert [hit.memory.id for hit in bag.search("port")] == [new.id]
    assert [entry.action for entry in bag.history(old.id)] == ["add", "relate", "supersede"]


def test_a_superseded_memory_can_be_made_active_again(bag: Satchel):
    old, new = bag.add("port is 8000"), bag.add("port is 9000")
    bag.relate(new.id, old.id, "supersedes")
    revived = bag.update(old.id, status="active")
    assert (revived.superseded_by, revived.invalid_at) == (None, None)
    assert len(bag.search("port")) == 2


@pytest.mark.parametrize("kind", ["related", "supersedes"])
def test_the_same_relation_again_changes_nothing(bag: Satchel, kind):
    one, other = bag.add("The new way."), bag.add("The old way.")
    first = bag.relate(one.id, other.id, kind)
    histories = [bag.history(one.id), bag.history(other.id)]
    assert bag.relate(one.id, other.id, kind) == first
    assert [bag.history(one.id), bag.history(other.id)] == histories
    assert bag.relations(one.id) == [first]


def test_relations_are_kept_with_their_strength_and_replaced_by_a_new_one(bag: Satchel):
    cause, effect = bag.add("cache was cold"), bag.add("login was slow")
    bag.relate(effect.id, cause.id, "caused_by", strength=0.5)
    bag.relate(effect.id, cause.id, "caused_by", strength=0.75)
    bag.relate(bag.short_ids([effect])[0], cause.id, "related")
    for end in (cause, effect):
        found = {(each.kind, each.strength) for each in bag.relations(end.id)}
        assert found == {("caused_by", 0.75), ("related", 1.0)}


@pytest.mark.parametrize(
    ("kind", "strength", "complaint"),
    [("likes", 1.0, "unknown relation 'likes'"), ("fixes", 1.5, "strength 1.5 is out of range")],
)
def test_a_bad_relation_is_refused(bag: Satchel, kind, strength, complaint):
    one, two = bag.add("one"), bag.add("two")
    with pytest.raises(satchel.InputError, match=complaint):
        bag.relate(one.id, two.id, kind, strength=strength)
    with pytest.raises(satchel.InputError, match="related to itself"):
        bag.relate(one.id, one.id)
    assert bag.relations(one.id) == []


def test_a_use_is_counted_when_a_memory_is_read_or_found(bag: Satchel):
    memory, other = bag.add("apple"), bag.add("pear")
    bag.get(memory.id)
    bag.search("apple")
    bag.search("apple", token_budget=0)
    used = bag.get(memory.id)
    assert used.access_count == 3
    assert used.accessed_at is not None
    unused = next(each for each in bag.recent() if each.id == other.id)
    assert unused.access_count == 0


def test_the_timeline_shows_neighbours_in_time_inside_the_session(bag: Satchel):
    view = bag.scoped(project="p", session="s")
    days = view.add_many(Draft(f"day {day}", at=LONG_AGO + timedelta(days=day)) for day in range(9))
    bag.scoped(project="p", session="other").add("noise", at=LONG_AGO + timedelta(days=4))
    line = bag.timeline(days[4].id, before=2, after=3)
    assert [memory.text for memory in line.before] == ["day 2", "day 3"]
    assert line.focus.text == "day 4"
    assert [memory.text for memory in line.after] == ["day 5", "day 6", "day 7"]
    assert bag.timeline(days[0].id, before=5, after=0).before == ()


def test_timeline_neighbours_at_the_same_moment_are_each_shown_once(bag: Satchel):
    same = bag.add_many(Draft(f"note {number}", at=LONG_AGO) for number in range(5))
    line = bag.timeline(same[2].id)
    assert [memory.text for memory in line.before] == ["note 0", "note 1"]
    assert [memory.text for memory in line.after] == ["note 3", "note 4"]


def test_stats_count_by_kind_tier_status_and_project(bag: Satchel):
    bag.add_many([Draft("a", kind="todo", project="p"), Draft("b", tier="working"), Draft("c", status="pending")])
    stats = bag.stats()
    assert (stats.memories, stats.current, stats.tokens) == (3, 2, 3)
    assert stats.by_kind == {"observation": 2, "todo": 1}
    assert stats.by_tier == {"knowledge": 2, "working": 1}
    assert stats.by_status == {"active": 2, "pending": 1}
    assert stats.by_project == {"": 2, "p": 1}


def test_an_empty_store_has_empty_stats(bag: Satchel):
    stats = bag.stats()
    assert (stats.memories, stats.tokens, stats.by_kind, stats.oldest) == (0, 0, {}, None)


def test_uses_are_seen_by_others_once_the_store_is_closed(location: Path | str):
    with satchel.open(location) as bag:
        memory = bag.add("apple")
        bag.search("apple")
        bag.search("apple")
    with satchel.open(location) as other:
        assert other.recent()[0].access_count == 2
        assert other.get(memory.id).access_count == 3


def test_a_reader_that_never_writes_passes_its_uses_on_after_a_while(location: Path | str, monkeypatch):
    from satchel.store import store

    with satchel.open(location) as bag, satchel.open(location) as other:
        bag.add("apple")
        bag.search("apple")
        assert other.recent()[0].access_count == 0
        monkeypatch.setattr(store, "USES_WAIT_SECONDS", 0.0)
        bag.search("apple")
        assert other.recent()[0].access_count == 2


def test_reading_does_not_wait_for_a_writer(location: Path | str):
    with satchel.open(location) as bag, satchel.open(location) as writer:
        memory = bag.add("apple")
        with writer.transaction():
            writer.add("pear")
            assert len(bag.search("apple")) == 1
            assert bag.get(memory.id).access_count == 2
            assert len(bag.recent()) == 1
            assert len(list(bag.export())) == 2


def test_an_export_into_a_file_is_what_an_import_takes(bag: Satchel, tmp_path: Path):
    bag.add_many([Draft("apple", project="p"), Draft("pear", kind="fix")])
    assert bag.export(tmp_path / "all.jsonl") == 2
    assert bag.export(tmp_path / "fixes.jsonl", kind="fix") == 1
    with satchel.open(":memory:") as other:
        assert other.import_(tmp_path / "all.jsonl").added == 2
        assert list(other.export()) == list(bag.export())
    with pytest.raises(satchel.InputError, match="does not exist"):
        bag.export(tmp_path / "missing" / "all.jsonl")
    assert sorted(file.name for file in tmp_path.iterdir() if "jsonl" in file.name) == ["all.jsonl", "fixes.jsonl"]
