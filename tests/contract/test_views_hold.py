"""A view isolates its scope: no call reads or writes outside it."""

import json
import random
from pathlib import Path

import msgspec
import pytest

import satchel
from satchel import Satchel
from satchel.model.memory import compact


@pytest.fixture
def views(bag: Satchel) -> tuple[Satchel, Satchel]:
    return bag.scoped(project="p"), bag.scoped(project="q")


def record(memory: satchel.Memory, **changes: object) -> bytes:
    return msgspec.json.encode({"memory": compact(memory) | changes})


def test_a_view_can_be_narrowed_but_not_widened_or_left(views):
    p, _ = views
    assert p.scoped(session="s").scope == satchel.Scope(project="p", session="s")
    assert p.scoped(project="p").scope == p.scope
    for elsewhere in ({"project": "q"}, {"org": "rival"}):
        with pytest.raises(satchel.InputError, match="outside this view"):
            p.scoped(**elsewhere)
    for blank in ("", "  "):
        with pytest.raises(satchel.InputError, match="is blank"):
            p.scoped(project=blank)
        with pytest.raises(satchel.InputError, match="is blank"):
            p.scoped(org=blank)


def test_a_tenant_cannot_become_another_one(bag: Satchel):
    tenant = bag.scoped(org="a")
    for other in ("b", "default"):
        with pytest.raises(satchel.InputError, match="outside this view"):
            tenant.scoped(org=other)


def test_the_default_org_is_a_tenant_like_any_other_once_it_is_chosen(bag: Satchel):
    for view in (bag.scoped(org="default"), bag.scoped(org="default").scoped()):
        with pytest.raises(satchel.InputError, match="org 'a' is outside this view, which is org 'default'"):
            view.scoped(org="a")
    assert bag.scoped().scoped(org="a").scope == satchel.Scope(org="a")


def test_a_relation_is_seen_where_both_of_its_memories_are(bag: Satchel, views):
    p, q = views
    ours, more, theirs = p.add("ours"), p.add("more of ours"), q.add("theirs")
    inside = p.relate(ours.id, more.id)
    for source, target in ((ours, theirs), (theirs, more)):
        bag.relate(source.id, target.id)
    assert p.relations(ours.id) == p.relations(more.id) == [inside]
    assert q.relations(theirs.id) == []
    assert len(bag.relations(ours.id)) == len(bag.relations(theirs.id)) == 2
    assert [view.stats().relations for view in (p, q, bag)] == [1, 0, 3]


def test_the_history_of_another_view_is_not_told(bag: Satchel, views):
    p, q = views
    memory = q.add("q's own business")
    q.update(memory.id, text="still q's own")
    with pytest.raises(satchel.UnknownIdError):
        p.history(memory.id)
    q.forget(memory.id, purge=True)
    for view in views:
        with pytest.raises(satchel.UnknownIdError):
            view.history(memory.id)
    assert [entry.action for entry in bag.history(memory.id.upper())] == ["purge"]
    with pytest.raises(satchel.UnknownIdError):
        bag.scoped(org="rival").history(memory.id)


def test_an_import_cannot_take_over_a_memory_of_another_view(views):
    p, q = views
    memory = q.add("q's own")
    stolen = record(memory, scope={"project": "p"}, text="stolen", updated_at="2999-01-01T00:00:00Z")
    assert "belongs to another scope" in p.import_([stolen]).problems[0].message
    foreign = record(memory, text="stolen", updated_at="2999-01-01T00:00:00Z")
    assert "outside this view" in p.import_([foreign]).problems[0].message
    assert q.get(memory.id).text == "q's own"
    assert p.recent() == []


def test_an_import_cannot_relate_memories_of_another_view(bag: Satchel, views):
    p, q = views
    one, two = q.add("one"), q.add("two")
    relation = {"source": one.id, "target": two.id, "kind": "related", "created_at": "2026-01-01T00:00:00Z"}
    done = p.import_([json.dumps({"relation": relation}).encode()])
    assert len(done.problems) == 1
    rival = bag.scoped(org="rival").import_([json.dumps({"relation": relation}).encode()])
    assert len(rival.problems) == 1
    assert q.relations(one.id) == []


def test_a_topic_goes_to_the_session_that_spoke_of_it_last(bag: Satchel):
    first = bag.scoped(session="monday").add("REST", topic_key="api")
    friday = bag.scoped(session="friday")
    second = friday.add("gRPC", topic_key="api")
    assert second.id == first.id
    assert friday.get(second.id).text == "gRPC"
    assert bag.add("GraphQL", topic_key="api").scope.session == "friday"
    assert bag.stats().memories == 1


def test_a_topic_that_went_to_another_session_can_be_imported_again(bag: Satchel):
    bag.scoped(session="monday").add("REST", topic_key="api")
    with satchel.open(":memory:") as other:
        other.import_(bag.export())
        bag.scoped(session="friday").add("gRPC", topic_key="api")
        assert other.import_(bag.export()).updated == 1
        assert list(other.export()) == list(bag.export())


def test_the_longest_names_fit_into_every_store_and_longer_ones_into_none(bag: Satchel):
    # Characters that no compression makes small.
    chance = random.Random(3)
    names = ["".join(map(chr, chance.choices(range(0x4E00, 0x9F00), k=333))) + "x" for _ in range(10)]
    assert {len(name.encode()) for name in names} == {1000}
    org, project, user, agent, session, tag, *rest = names
    view = bag.scoped(org=org, project=project, user=user, agent=agent)
    fields = dict(zip(("speaker", "source", "ref", "topic_key"), rest, strict=True))
    memory = view.add("fits", tags=[tag], session=session, **fields)
    view.add("without a session", source=fields["source"])
    view.session(session).result("say", "fits too")
    assert view.scoped(session=session).search("fits", tags=tag)[0].memory.id == memory.id
    with pytest.raises(satchel.InputError, match="project has 1,001 bytes of UTF-8; the most is 1,000"):
        bag.scoped(project=f"{project}x")
    with pytest.raises(satchel.InputError, match="source has 1,500 bytes"):
        bag.add("does not fit", source="記" * 500)


def test_a_change_of_folder_does_not_change_the_store(tmp_path: Path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with satchel.open("relative.db") as bag:
        bag.add("apple")
        monkeypatch.chdir(tmp_path / "elsewhere")
        with bag.transaction():
            bag.add("pear")
            assert bag.stats().memories == 2
        assert all(check.state == "ok" for check in bag.checks())
    assert not (tmp_path / "elsewhere" / "relative.db").exists()
