"""A view keeps what is inside in and what is outside out, whatever door is tried."""

import json
from pathlib import Path

import msgspec
import pytest

import satchel
from satchel import Satchel
from satchel.memory import compact


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


def test_the_history_of_another_view_is_not_told(views):
    p, q = views
    memory = q.add("q's own business")
    q.update(memory.id, text="still q's own")
    with pytest.raises(satchel.UnknownIdError):
        p.history(memory.id)
    q.forget(memory.id, purge=True)
    assert [entry.action for entry in q.history(memory.id.upper())] == ["purge"]


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
