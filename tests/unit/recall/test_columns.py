"""Columns of traces, selections from them, and the cache that keeps them."""

import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

import satchel
from satchel import Draft, InputError, Satchel
from satchel.model.filters import Filter
from satchel.model.memory import Scope
from satchel.recall import columns as columns_module
from satchel.recall import ranking
from satchel.recall.columns import ColumnCache, Columns
from satchel.recall.indexer import MEGABYTE

START = datetime(2024, 1, 1, tzinfo=UTC)
EVERYTHING = Filter(statuses=())
THINGS = ("pump", "winch", "sail", "hull", "keel", "mast", "rope", "anchor")


def fill(bag: Satchel, count: int = 40) -> None:
    """Add turns of four sessions, notes of one document, and notes on their own; some of the same moment."""
    for number in range(count):
        thing, other = THINGS[number % 8], THINGS[(number * 3 + 1) % 8]
        text = f"The {thing} number {number} is beside the {other}."
        if number % 9 == 0:
            text = "\n\n".join(f"{text} Part {part}. " + f"{other} " * 120 for part in range(3))
        placed = {
            0: {
                "session": f"s{number % 4}",
                "tier": "conversation",
                "speaker": "Ana" if number % 2 else "assistant",
            },
            1: {"source": "log.md"},
            2: {},
        }[number % 3]
        bag.add(text, at=START + timedelta(minutes=number // 2), tags=[thing], **placed)


@pytest.fixture
def filled(tmp_path: Path):
    with satchel.open(tmp_path / "notes.db", embedder="static") as bag:
        fill(bag)
        yield bag


def rows(columns: Columns) -> list[tuple]:
    """The contents of columns as plain values, one tuple a memory."""
    found = []
    for row in range(columns.size):
        passages = [
            (
                columns.codes[columns.starts[each] : columns.starts[each + 1]].tolist(),
                columns.packed[each].tolist(),
                bool(columns.has_vector[each]),
                int(columns.start[each]),
                int(columns.end[each]),
                int(columns.flags[each]),
            )
            for each in range(columns.first[row], columns.first[row + 1])
        ]
        names = [
            columns.vocabulary.names[getattr(columns, name)[row]] for name in ("kind", "tier", "speaker", "beside")
        ]
        found.append((int(columns.key[row]), columns.ids[row], int(columns.at[row]), names, passages))
    return found


def test_rows_taken_apart_and_joined_again_are_the_same(filled: Satchel):
    traces = filled._store.traces(EVERYTHING)
    whole = Columns.from_traces(traces)
    apart = Columns.from_traces(traces[:11], whole.vocabulary).joined(
        Columns.from_traces(traces[11:], whole.vocabulary)
    )
    assert rows(apart) == rows(whole)
    mixed = np.array([30, 0, 9, 18, 5])
    assert rows(whole.take(mixed)) == [rows(whole)[each] for each in mixed]
    assert rows(whole.take(np.zeros(0, np.int64))) == []


def test_rows_without_vectors_join_rows_that_have_them(filled: Satchel):
    traces = filled._store.traces(EVERYTHING)
    without = [
        trace._replace(passages=tuple(each._replace(vector=None) for each in trace.passages))
        for trace in traces[:3]
    ]
    names = Columns.from_traces(traces)
    joined = Columns.from_traces(without, names.vocabulary).joined(
        Columns.from_traces(traces[3:], names.vocabulary)
    )
    assert rows(joined) == rows(Columns.from_traces([*without, *traces[3:]], names.vocabulary))


FILTERS = (
    Filter(),
    Filter(kinds=("observation",), tiers=("conversation",)),
    Filter(since=START + timedelta(minutes=5), until=START + timedelta(minutes=12)),
    Filter(tags=("pump",)),
    Filter(valid_at=START + timedelta(days=900)),
    Filter(scope=Scope(session="s0")),
)


@pytest.mark.parametrize("where", FILTERS)
def test_a_selection_answers_as_the_store_does(filled: Satchel, where: Filter):
    store = filled._store
    filled.forget([filled.recent(limit=40)[7].id])
    chosen = ColumnCache(MEGABYTE * 10).select(store, where, load=True)
    assert chosen is not None
    expected = store.traces(where)
    assert sorted(chosen.columns.key[chosen.rows].tolist()) == sorted(trace.key for trace in expected)
    vector = filled._indexer.query_vector("the winch beside the mast")
    code = np.packbits(vector > 0).tobytes()
    for limit in (1, 7, 60):
        assert chosen.nearest(code, limit=limit) == [match.key for match in store.nearest(where, code, limit=limit)]
    span = (START + timedelta(minutes=3), START + timedelta(minutes=11))
    assert chosen.between(*span, limit=9) == store.between(where, *span, limit=9)
    queried = ranking._Queried(store, where)
    keys = [trace.key for trace in expected][::-1]
    for most, reach in ((5, 1), (100, 4)):
        kept = chosen.with_neighbours(keys[:6], most=most, reach=reach)
        read = queried.with_neighbours(keys[:6], most=most, reach=reach)
        assert sorted(zip(kept.before, kept.after, strict=True)) == sorted(
            zip(read.before, read.after, strict=True)
        )
        assert sorted(rows(kept.columns.take(kept.rows))) == sorted(rows(read.columns.take(read.rows)))
    for words, limit in (("winch", 3), ("the winch beside the mast", 7), ("the", 100)):
        expected = [match.key for match in store.matches(where, words.split(), limit=limit)]
        for depth in (limit, 200):
            best = chosen.best_of(store.leading_matches(words.split(), limit=depth), limit=limit, depth=depth)
            assert best == expected if best is not None else depth < 200


def test_a_code_of_another_length_is_near_nothing(filled: Satchel):
    chosen = ColumnCache(MEGABYTE).select(filled._store, Filter(), load=True)
    assert chosen.nearest(b"\0" * 7, limit=3) == []


def test_a_memory_that_becomes_valid_or_expires_is_seen_at_its_moment(filled: Satchel):
    later = filled.add("The dinghy arrives.", valid_from=START + timedelta(days=1000))
    sold = filled.add("The pram is for sale.", invalid_at=START + timedelta(days=1001))
    cache = ColumnCache(MEGABYTE)

    def there(days: float) -> set[str]:
        chosen = cache.select(filled._store, Filter(valid_at=START + timedelta(days=days)))
        return set(chosen.columns.ids[chosen.rows]) & {later.id, sold.id}

    # Also backwards: a clock may jump.
    for days, expected in ((999, {sold.id}), (1000, {later.id, sold.id}), (1001, {later.id}), (2, {sold.id})):
        assert there(days) == expected, days


def test_the_same_filter_gets_the_same_selection_until_something_changes(filled: Satchel):
    cache = ColumnCache(MEGABYTE)
    first = cache.select(filled._store, Filter())
    assert cache.select(filled._store, Filter()) is first
    added = filled.add("The oars are new.")
    second = cache.select(filled._store, Filter())
    assert second is not first
    assert added.id in second.columns.ids[second.rows]
    assert second.size == first.size + 1


def test_a_change_elsewhere_keeps_the_columns_of_a_scope(filled: Satchel):
    filled.scoped(project="boat").add("The tiller is loose.")
    cache, where = ColumnCache(MEGABYTE), Filter(scope=Scope(project="boat"))
    first = cache.select(filled._store, where)
    filled.scoped(project="house").add("The roof leaks.")
    assert cache.select(filled._store, where) is first


def test_inside_a_transaction_nothing_is_kept_so_a_rollback_leaves_no_trace(filled: Satchel):
    filled.search("pump")

    def write_and_fail() -> None:
        with filled.transaction():
            filled.add("The gaff is of ash.")
            assert filled.search("gaff ash", min_relevance=0)[0].text == "The gaff is of ash."
            filled.add("")

    with pytest.raises(InputError):
        write_and_fail()
    assert not [hit for hit in filled.search("gaff ash", min_relevance=0) if "gaff" in hit.text]
    # A new change gets the number of the one that was rolled back.
    filled.add("The boom is of spruce.")
    found = filled.search("boom spruce", min_relevance=0)
    assert found[0].text == "The boom is of spruce."
    assert not [hit for hit in found if "gaff" in hit.text]


def test_a_large_scope_is_read_when_it_is_asked_for_the_second_time(
    filled: Satchel, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(columns_module, "SMALL", 10)
    cache = ColumnCache(MEGABYTE)
    for _ in range(9):
        assert cache.select(filled._store, Filter()) is None
    assert cache.select(filled._store, Filter()).size == 40
    assert ColumnCache(MEGABYTE).select(filled._store, Filter(), load=True).size == 40


def test_a_limit_below_one_scope_keeps_nothing_and_gives_the_same_answers(filled: Satchel):
    with satchel.open(filled._store.location, cache_mb=0) as bare:
        for question in ("pump", "Where is the winch?", "anchor beside the keel"):
            for _ in range(2):
                assert [hit.id for hit in bare.search(question)] == [hit.id for hit in filled.search(question)]
                assert bare.context(question).text == filled.context(question).text
        assert bare.stats().cache_bytes == 0
        assert bare.stats().cache_limit == 0


def test_a_scope_that_is_too_large_is_not_read_again_and_again(filled: Satchel, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(columns_module, "SMALL", 10)
    read = []
    traces = type(filled._store).traces
    monkeypatch.setattr(
        type(filled._store), "traces", lambda self, *given: read.append(given) or traces(self, *given)
    )
    cache = ColumnCache(15_000)
    for _ in range(14):
        cache.select(filled._store, Filter())
    assert len(read) == 1
    assert cache.nbytes == 0


def test_the_least_recently_used_scope_makes_room(tmp_path: Path):
    with satchel.open(tmp_path / "notes.db", embedder="static") as bag:
        for name in ("one", "two", "three"):
            bag.scoped(project=name).add_many([Draft(f"{name} pump {number}") for number in range(50)])
        scopes = {name: Filter(scope=Scope(project=name)) for name in ("one", "two", "three")}
        size = ColumnCache(MEGABYTE)
        size.select(bag._store, scopes["one"])
        cache = ColumnCache(int(size.nbytes * 2.5))
        kept = {name: cache.select(bag._store, scopes[name]) for name in ("one", "two")}
        assert cache.select(bag._store, scopes["one"]) is kept["one"]
        cache.select(bag._store, scopes["three"])
        assert cache.nbytes <= cache.limit
        assert cache.select(bag._store, scopes["one"]) is kept["one"]
        assert cache.select(bag._store, scopes["two"]) is not kept["two"]


def test_stats_show_what_is_kept(filled: Satchel):
    assert filled.stats().cache_bytes == 0
    filled.search("pump")
    assert 10_000 < filled.stats().cache_bytes < filled.stats().cache_limit == 256 * MEGABYTE
    assert filled.scoped(project="boat").stats().cache_bytes == 0
    assert filled.scoped(org="acme").stats().cache_bytes == 0


def test_the_limit_can_be_set_and_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "notes.db"
    with satchel.open(path, cache_mb=3) as bag:
        assert bag.stats().cache_limit == 3 * MEGABYTE
    for wrong in (-1, 2.5, True, "9"):
        with pytest.raises(InputError, match="cache_mb must be a whole number of megabytes"):
            satchel.open(path, cache_mb=wrong)
    monkeypatch.setenv("SATCHEL_CACHE_MB", "7")
    with satchel.open(path) as bag:
        assert bag.stats().cache_limit == 7 * MEGABYTE
    monkeypatch.setenv("SATCHEL_CACHE_MB", "lots")
    with pytest.raises(InputError, match=r"\$SATCHEL_CACHE_MB must be a whole number of megabytes, not 'lots'"):
        satchel.open(path)


def test_a_store_that_is_replaced_under_a_running_process_is_not_answered_from_memory(tmp_path: Path):
    """The new file has as many changes as the old one, so only the mark of the last change tells them apart."""
    for name in ("old", "new"):
        with satchel.open(tmp_path / f"{name}.db", embedder="static") as bag:
            bag.add_many([Draft(f"The {name} pump number {number} is loud.") for number in range(5)])
    with satchel.open(tmp_path / "old.db") as bag:
        assert all("old" in hit.text for hit in bag.search("pump", min_relevance=0))
        found: list[str] = []

        def search() -> None:
            found.extend(hit.text for hit in bag.search("pump", min_relevance=0))

        with bag._store.reading():
            for end in ("", "-wal", "-shm"):
                (tmp_path / f"old.db{end}").unlink(missing_ok=True)
            (tmp_path / "new.db").rename(tmp_path / "old.db")
            # The connection to the old file is in use, so this opens another one.
            other = threading.Thread(target=search)
            other.start()
            other.join()
        assert found
        assert all("new" in text for text in found)
        # And back on the connection to the old file, which still has the old state.
        assert all("old" in hit.text for hit in bag.search("pump", min_relevance=0))


def test_a_repair_is_seen_by_who_keeps_columns(filled: Satchel):
    cache = ColumnCache(MEGABYTE)
    first = cache.select(filled._store, Filter())
    with satchel.open(filled._store.location) as other:
        with other._store.writing() as tx:
            tx.execute("DELETE FROM passage WHERE seq IN (SELECT seq << 12 FROM memory LIMIT 3)")
        other.repair()
    second = cache.select(filled._store, Filter())
    assert second is not first
    assert second.size == first.size


def test_ranking_reads_a_text_once_until_its_memory_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    question = "Where is the keel of the yawl painted?"
    with satchel.open(tmp_path / "notes.db", embedder="static") as bag:
        keel = bag.add("The keel of the yawl is painted in Trondheim.")
        bag.add_many([Draft(f"Dock {number} in {town}") for number in range(5) for town in ("Trondheim", "Bergen")])
        bag.search(question)
        read: list[int] = []
        memories = type(bag._store).memories
        monkeypatch.setattr(
            type(bag._store), "memories", lambda store, keys: (read.extend(keys), memories(store, keys))[1]
        )
        shown = bag.search(question)
        assert len(shown) == len(read) < 5
        bag.update(keel.id, text="The keel of the yawl is painted in Bergen.")
        with satchel.open(tmp_path / "notes.db", cache_mb=0) as bare:
            expected, found = (
                {hit.id: hit.parts["graph"] for hit in each.search(question, min_relevance=0, explain=True)}
                for each in (bare, bag)
            )
        assert found == expected


def test_what_is_derived_from_texts_has_a_limit():
    derived = columns_module.Derived()
    for key in range(columns_module.MOST_DERIVED + 10):
        derived.add("names", key, ())
    assert derived.get("names", 0) is None
    assert derived.get("names", columns_module.MOST_DERIVED + 9) == ()
    assert 0 < derived.nbytes <= columns_module.MOST_DERIVED * columns_module.DERIVED_BYTES
    assert derived.without([columns_module.MOST_DERIVED]).get("names", columns_module.MOST_DERIVED) is None
