"""Only for stores in a file: the log, backups, deleted data in pages, and files of older versions."""

import os
import threading
from pathlib import Path

import apsw
import numpy as np
import pytest

import satchel
from call_by_call import CallByCall
from in_step import Letters, differences
from old_store import make_old, make_unchunked, make_unconfirmed
from satchel import Draft, Satchel
from satchel.model.filters import Filter
from satchel.store.sqlite import connection, store
from satchel.store.sqlite.vectors import CHUNK_BITS


def test_backing_up_inside_a_transaction_is_refused(bag: Satchel, tmp_path: Path):
    with pytest.raises(satchel.StoreError, match="inside a transaction; leave it first"), bag.transaction():
        bag.backup(tmp_path / "copy.db")
    assert bag.add("works on").revision == 1


def test_purged_words_leave_the_log_even_inside_a_transaction(bag: Satchel, path: Path):
    log = Path(f"{path}-wal")
    for outer in (False, True):
        memory = bag.add("the merger with Blorptech")
        if outer:
            with bag.transaction():
                bag.forget(memory.id, purge=True)
        else:
            bag.forget(memory.id, purge=True)
        assert b"lorptech" not in path.read_bytes() + log.read_bytes()


def test_the_log_stays_short_although_others_write_while_it_is_copied(path: Path, monkeypatch):
    pages, page_bytes = 100, 4096
    monkeypatch.setattr(connection, "LONGEST_LOG", pages)
    copy_log = connection.SqliteConnection.wal_checkpoint
    copying: list[str] = []

    def copy_while_another_writes(db: connection.SqliteConnection, name: str, mode: int) -> tuple[int, int]:
        if copying:
            raise apsw.BusyError
        if mode != apsw.SQLITE_CHECKPOINT_PASSIVE:
            return copy_log(db, name, mode)
        # What comes after the state that somebody reads is not copied: as if it came while the log is copied.
        copying.append("now")
        with other._store.reading():
            third.add(f"note {third.stats().memories}, while the log is copied")
            copied = copy_log(db, name, mode)
        copying.clear()
        return copied

    with (
        satchel.open(path, embedder="none") as bag,
        satchel.open(path, embedder="none") as other,
        satchel.open(path, embedder="none") as third,
    ):
        monkeypatch.setattr(connection.SqliteConnection, "wal_checkpoint", copy_while_another_writes)
        for number in range(80):
            bag.add(f"note {number}")
        assert bag.stats().memories > 80
        assert Path(f"{path}-wal").stat().st_size < 2 * pages * page_bytes


def test_a_log_that_cannot_be_copied_now_fails_no_write_and_is_copied_later(bag: Satchel, path: Path, monkeypatch):
    monkeypatch.setattr(connection, "LONGEST_LOG", 1)
    bag.add("copied at once")
    file = path.read_bytes()
    assert b"copied at once" in file
    reader = connection.connect(str(path))
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM memory").fetchall()
    try:
        bag.add("while somebody reads")
        bag.add("again while somebody reads")
    finally:
        reader.close()
    bag.add("afterwards")
    assert b"again while somebody reads" in path.read_bytes()


def test_a_reader_elsewhere_does_not_hold_up_a_purge(bag: Satchel, path: Path, monkeypatch):
    monkeypatch.setattr(store, "CLOSING_SECONDS", 0.05)
    memory = bag.add("the merger with Blorptech")
    reader = connection.connect(str(path))
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM memory").fetchall()
    try:
        assert bag.forget(memory.id, purge=True).count == 1
    finally:
        reader.close()


def test_any_number_of_ids_can_be_forgotten(path: Path, monkeypatch):
    """More than SQLite takes variables in a statement, which are 32,766 where nobody says less."""

    def take_few(db: apsw.Connection) -> None:
        db.limit(apsw.SQLITE_LIMIT_VARIABLE_NUMBER, 100)

    with satchel.open(path, embedder="none") as bag:
        ids = [memory.id for memory in bag.add_many(Draft(f"note {number}") for number in range(1_000))]
    monkeypatch.setattr(apsw, "connection_hooks", [*apsw.connection_hooks, take_few])
    with satchel.open(path) as bag:
        assert bag.forget(ids[:500]).count == 500
        assert bag.forget(ids, purge=True).count == 1_000


def test_a_damaged_backup_is_not_restored(bag: Satchel, tmp_path: Path):
    bag.add_many(Draft(f"note {number} " * 200) for number in range(200))
    bag.backup(tmp_path / "copy.db")
    content = bytearray((tmp_path / "copy.db").read_bytes())
    content[40 * 4096 : 80 * 4096] = os.urandom(40 * 4096)
    (tmp_path / "copy.db").write_bytes(content)
    with pytest.raises(satchel.StoreError, match="damaged"):
        satchel.restore(tmp_path / "copy.db", tmp_path / "new.db")
    assert not (tmp_path / "new.db").exists()


def test_an_export_never_replaces_a_database_or_a_pipe(bag: Satchel, path: Path, tmp_path: Path):
    bag.add("apple")
    for name in (path, tmp_path / "link.jsonl"):
        if name != path:
            name.symlink_to(path)
        with pytest.raises(satchel.InputError, match="is a database"):
            bag.export(name)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    assert bag.export(pipe) == 1
    reader.join(30)
    assert pipe.is_fifo()
    assert b"apple" in read[0]


def test_a_store_that_was_upgraded_meanwhile_is_not_written(bag: Satchel, path: Path):
    newer = connection.connect(str(path))
    newer.pragma("user_version", 99)
    newer.close()
    with pytest.raises(satchel.StoreVersionError, match="restart this process with the newer Satchel"):
        bag.add("with an old program")


def test_purged_words_are_gone_from_the_file(path: Path):
    with satchel.open(path) as bag:
        memory = bag.add("the merger with Blorptech")
        bag.add("unrelated")
        assert b"Blorptech" in path.read_bytes() + Path(f"{path}-wal").read_bytes()
        bag.forget(memory.id, purge=True)
    assert b"lorptech" not in path.read_bytes()


def test_an_old_store_is_found_by_words_at_once_and_embedded_with_the_next_writes(path: Path):
    newer = path.with_name("newer.db")
    with satchel.open(newer) as bag:
        long = "\n\n".join(f"{number} " + "word " * 150 for number in range(5))
        bag.add_many([Draft("apple pie", title="Fruit", tags=["t"]), Draft(long), Draft("記憶")])
        gone = bag.add("gone")
        bag.forget(gone.id)
        exported = list(bag.export())
    make_old(newer, path)
    with satchel.open(path) as bag:
        assert list(bag.export()) == exported
        assert CallByCall(bag._store).embedding() is None
        assert len(CallByCall(bag._store).backlog(limit=9)) == 4
        assert differences(bag) == []
        assert [hit.memory.title for hit in bag.search("apple")] == ["Fruit"]
        (vectors_check,) = [check for check in bag.checks() if check.name == "vectors"]
        assert (vectors_check.state, "4 memories wait" in vectors_check.detail) == ("warning", True)
        bag.add("the next")
        assert CallByCall(bag._store).backlog(limit=9) == []
        assert differences(bag) == []
        assert [check for check in bag.checks() if check.state != "ok"] == []
    assert path.with_name("notes.db.schema-1.backup").exists()


@pytest.mark.parametrize("version", [1, 4])
def test_memories_of_an_old_store_are_confirmed_by_their_text(path: Path, version: int):
    newer = path.with_name("newer.db")
    with satchel.open(newer) as bag:
        view = bag.scoped(project="p", session="s")
        note, odd, turn = view.add_many([Draft("apple"), Draft("a\0b"), Draft("Yes.", tier="conversation")])
        exported = list(bag.export())
    if version == 1:
        make_old(newer, path)
    else:
        make_unconfirmed(newer)
        newer.rename(path)
    with satchel.open(path) as bag:
        assert list(bag.export()) == exported
        assert [check for check in bag.checks() if check.state == "failed"] == []
        view = bag.scoped(project="p", session="s")
        assert (view.add("apple").id, view.add("a\0b").id) == (note.id, odd.id)
        assert view.add("Yes.", tier="conversation").id != turn.id
        assert bag.get(note.id).confirmations == 1
    assert path.with_name(f"notes.db.schema-{version}.backup").exists()


def test_memories_of_an_old_store_have_short_ids_and_no_metadata(path: Path):
    newer = path.with_name("newer.db")
    with satchel.open(newer) as bag:
        memories = bag.add_many(Draft(f"note {number}") for number in range(20))
        shorts = bag.short_ids(memories)
    make_old(newer, path)
    with satchel.open(path) as bag:
        assert bag.short_ids(memories) == shorts
        assert [bag.get(short).id for short in shorts] == [memory.id for memory in memories]
        assert bag.get(shorts[0]).metadata == {}
        bag.update(shorts[0], metadata={"pr": 12})
        assert [memory.id for memory in bag.recent(metadata={"pr": 12})] == [memories[0].id]


def test_an_old_store_whose_owner_wants_no_vectors_does_not_wait_for_any(path: Path):
    newer = path.with_name("newer.db")
    with satchel.open(newer) as bag:
        bag.add("one")
    make_old(newer, path)
    with satchel.open(path, embedder="none") as bag:
        bag.add("two")
        assert CallByCall(bag._store).backlog(limit=9) == []
        assert differences(bag) == []


def test_codes_of_an_old_store_become_chunks_and_are_searched_as_before(path: Path):
    with satchel.open(path, embedder=Letters()) as bag:
        bag.add_many(Draft(f"{chr(97 + number % 20) * (number % 7 + 1)} {number}") for number in range(300))
        code = np.packbits(Letters().embed(["ab"])[0] > 0).tobytes()
        before = bag._store.nearest(Filter(), code, limit=40)
    make_unchunked(path)
    with satchel.open(path, embedder=Letters()) as bag:
        assert bag._store.nearest(Filter(), code, limit=40) == before
        assert [check for check in bag.checks() if check.state != "ok"] == []
        assert differences(bag) == []
        with bag._store._read() as db:
            names = {row[0] for row in db.execute("SELECT name FROM sqlite_schema WHERE name GLOB 'code_*'")}
        assert names == {"code_1", "code_1_empty"}
    assert path.with_name("notes.db.schema-9.backup").exists()


def test_neither_words_nor_vectors_of_a_purged_memory_stay_in_the_file(path: Path):
    log = Path(f"{path}-wal")
    with satchel.open(path) as bag:
        bag.add_many(Draft(f"kept {number}") for number in range(40))
        secret = bag.add("the merger with Blorptech in spring")
        # Completes the chunk of codes that it is in.
        bag.add_many(Draft(f"kept {number} too") for number in range(1 << CHUNK_BITS))
        (trace,) = bag._store.traces(Filter(ids=(secret.id,)))
        (passage,) = trace.passages
        assert passage.vector is not None
        sign = np.packbits(np.frombuffer(passage.vector, np.int8) > 0).tobytes()
        kept = path.read_bytes() + log.read_bytes()
        for trace_of_it in (b"Blorptech", passage.vector, sign, passage.codes):
            assert trace_of_it in kept
        bag.forget(secret.id, purge=True)
        left = path.read_bytes() + log.read_bytes()
        for trace_of_it in (b"lorptech", passage.vector, sign, passage.codes):
            assert trace_of_it not in left


def test_vectors_that_were_replaced_do_not_stay_in_the_file(path: Path):
    with satchel.open(path) as bag:
        memory = bag.add("the merger with Blorptech in spring")
        (trace,) = bag._store.traces(Filter())
        vector = trace.passages[0].vector
        assert vector is not None
        bag.reembed(Letters())
        bag.forget(memory.id, purge=True)
    assert vector not in path.read_bytes()


def test_a_store_that_can_only_be_read_is_searched_by_meaning_too(path: Path, monkeypatch):
    with satchel.open(path) as bag:
        bag.add_many(Draft(f"apple {number}") for number in range(1200))
    monkeypatch.setattr("satchel.store.sqlite.migrations.os.access", lambda *_: False)
    with satchel.open(path) as bag:
        assert bag._store._readonly
        assert len(bag.search("apple")) == 10
        code = np.packbits(bag._indexer.query_vector("apple") > 0).tobytes()
        assert len(bag._store.nearest(Filter(), code, limit=5)) == 5
        assert [check.name for check in bag.checks() if check.state == "failed"] == []


def test_the_tables_of_replaced_vectors_are_gone(bag: Satchel):
    bag.add("one")
    for embedder in ("none", "static"):
        bag.reembed(embedder)
    with bag._store._read() as db:
        current = db.vectors.generation()
        names = {row[0] for row in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    assert {name for name in names if name.startswith("vector_")} == {f"vector_{current.number}"}
