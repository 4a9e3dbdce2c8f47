"""Common mistakes of users, and the damage they must not cause."""

import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

import satchel
from satchel import Draft, Satchel
from satchel.store.sqlite import connection
from tables import each_row


def test_the_callers_own_errors_leave_a_transaction_as_they_are(bag: Satchel):
    with pytest.raises(FileNotFoundError), bag.transaction():
        Path("/nonexistent/x").read_text()
    with pytest.raises(ConnectionResetError), bag.transaction():
        raise ConnectionResetError
    bag.add("works on")


def test_closing_inside_a_transaction_is_refused(bag: Satchel):
    with pytest.raises(satchel.StoreError, match="inside a transaction; leave it first"), bag.transaction():
        bag.close()
    assert bag.add("works on").revision == 1


def test_readers_find_a_connection_while_many_threads_wait_to_write(bag: Satchel):
    bag.add("apple")
    release, started = threading.Event(), threading.Barrier(20)

    def hold() -> None:
        with bag.transaction():
            bag.add("held")
            started.wait(30)
            release.wait(30)

    def wait(who: int) -> None:
        started.wait(30)
        bag.add(f"waiting {who}")

    threads = [threading.Thread(target=hold), *(threading.Thread(target=wait, args=(who,)) for who in range(18))]
    for thread in threads:
        thread.start()
    started.wait(30)
    try:
        assert len(bag.search("apple")) == 1
    finally:
        release.set()
        for thread in threads:
            thread.join(30)
    assert bag.stats().memories == 20


def test_a_strict_import_reads_its_lines_before_it_locks_the_store(bag: Satchel, location: Path | str, monkeypatch):
    monkeypatch.setattr(connection, "BUSY_SECONDS", 0.2)
    with satchel.open(location) as other:

        def lines():
            yield b'{"text": "one"}'
            other.add("while the lines are read")
            yield b'{"text": "two"}'

        assert bag.import_(lines(), strict=True).added == 2
    assert bag.stats().memories == 3


def test_an_export_made_while_others_write_can_be_imported(bag: Satchel):
    bag.add_many([Draft("one"), Draft("two")])
    lines = bag.export()
    taken = [next(lines), next(lines)]
    late = bag.add("late")
    bag.relate(late.id, bag.recent(limit=2)[1].id)
    taken += lines
    with satchel.open(":memory:") as other:
        assert other.import_(taken, strict=True).problems == ()


def test_forgetting_by_kind_ends_what_is_pending_or_not_valid_yet(bag: Satchel):
    bag.add("later", kind="todo", valid_from="2999-01-01")
    bag.add("maybe", kind="todo", status="pending")
    assert bag.forget(kind="todo").count == 2
    assert all(memory.invalid_at for memory in bag.recent(ended=True, status=["active", "pending"]))


@each_row("blank", ["  ", [""], ["a", " "], (" ",)])
def test_a_blank_tag_is_not_taken_for_any(bag: Satchel, blank):
    view = bag.scoped(project="p")
    view.add("precious", tags=["a"])
    for call in (
        lambda: view.forget(tags=blank),
        lambda: view.forget(tags=blank, purge=True),
        lambda: view.recent(tags=blank),
        lambda: view.search("precious", tags=blank),
    ):
        with pytest.raises(satchel.InputError, match="tag is blank"):
            call()
    assert len(view.recent()) == 1


def test_a_future_expiry_survives_being_made_active(bag: Satchel):
    later = datetime.now(UTC) + timedelta(days=365)
    memory = bag.add("offer", invalid_at=later)
    assert bag.update(memory.id, status="active").invalid_at == later


def test_what_is_masked_by_an_update_is_said_and_stays_said(bag: Satchel):
    secret = "ghp_" + "a1B2" * 9
    memory = bag.add("plain")
    titled = bag.update(memory.id, title=f"token {secret}")
    assert titled.masked == ("github-token",)
    assert bag.update(memory.id, text="still plain").masked == ("github-token",)
    assert bag.update(memory.id, title="clean").masked == ()


def test_a_memory_that_is_superseded_supersedes_nothing(bag: Satchel):
    one, two = bag.add("one"), bag.add("two")
    bag.relate(one.id, two.id, "supersedes")
    with pytest.raises(satchel.InputError, match="is itself superseded"):
        bag.relate(two.id, one.id, "supersedes")
    assert [memory.id for memory in bag.recent()] == [one.id]


def test_equal_scores_at_the_edge_of_the_limit_are_decided_by_time(bag: Satchel):
    start = datetime(2024, 1, 1, tzinfo=UTC)
    bag.add_many(
        Draft("apple pie", at=start + timedelta(days=number), speaker=f"speaker {number}") for number in range(1000)
    )
    newest = [hit.memory.at for hit in bag.search("apple", limit=10)]
    assert newest == [start + timedelta(days=number) for number in range(999, 989, -1)]


def test_a_record_with_more_history_completes_what_is_here(bag: Satchel):
    one, two = bag.add("one"), bag.add("two")
    with satchel.open(":memory:") as other:
        other.import_(bag.export())
        bag.relate(one.id, two.id)
        other.import_(bag.export())
        assert list(other.export()) == list(bag.export())


def test_secrets_in_an_imported_history_are_masked(bag: Satchel):
    secret = "ghp_" + "a1B2" * 9
    memory = bag.add("one")
    bag.update(memory.id, text="two")
    lines = [line.replace(b'["one","two"]', msgspec.json.encode([secret, "two"])) for line in bag.export()]
    assert any(secret.encode() in line for line in lines)
    with satchel.open(":memory:") as other:
        assert other.import_(lines).added == 1
        assert secret.encode() not in b"".join(other.export())


@each_row("bad", [None, b"", 0, 1.5, [], object()])
def test_what_is_no_id_is_refused_everywhere(bag: Satchel, bad):
    good = bag.add("x").id
    for call in (
        lambda: bag.get(bad),
        lambda: bag.update(bad, text="y"),
        lambda: bag.relations(bad),
        lambda: bag.timeline(bad),
        lambda: bag.history(bad),
        lambda: bag.relate(good, bad),
        lambda: bag.forget([bad]),
    ):
        with pytest.raises(satchel.InputError):
            call()


def test_what_is_no_filter_draft_or_path_is_refused(bag: Satchel):
    for call in (
        lambda: bag.search("x", kind=5),
        lambda: bag.search("x", tags=5),
        lambda: bag.search("x", tags=[["a"]]),
        lambda: bag.recent(status=b"active"),
        lambda: bag.add_many(["text"]),
        lambda: bag.add("x", tags={1, "b"}),
        lambda: bag.export(5),
        lambda: bag.backup("nul\0byte"),
        lambda: satchel.open(None),
        lambda: satchel.open(""),
        lambda: satchel.open("lone\ud800.db"),
        lambda: satchel.open("~nobody-of-this-name/x.db"),
        lambda: bag.search("x", kind="k" * 2_000_000),
        lambda: bag.forget("00000000", purge="no"),
    ):
        with pytest.raises(satchel.InputError) as refusal:
            call()
        assert len(str(refusal.value)) < 1000
    assert bag.import_([None]).problems[0].line == 1
    assert bag.search("x", tags=["\ud800"]).omitted == 0


def test_names_and_tags_are_the_same_however_they_are_composed(bag: Satchel):
    bag.scoped(project="cafe\u0301").add("x", tags=["re\u0301sume\u0301"])
    assert len(bag.scoped(project="café").search("x", tags="résumé")) == 1
