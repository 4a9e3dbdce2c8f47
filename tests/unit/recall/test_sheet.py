"""Columns over memories and their passages, and their neighbours."""

import itertools
from collections.abc import Sequence

import numpy as np
import pytest

from satchel.recall.columns import Columns
from satchel.recall.sheet import Sheet
from satchel.store.contract import Trace, TracedPassage
from satchel.text.passages import ASKS, NUMBERS, TIMES


def passage(*codes: int, flags: int = 0, vector: bytes | None = None) -> TracedPassage:
    return TracedPassage(0, 1, flags, np.array(codes, "<u4").tobytes(), vector)


def trace(key: int, *passages: TracedPassage, thread: str | None = None, at: int | None = None, **other) -> Trace:
    fields = {"speaker": None, "kind": "fact", "tier": "knowledge", "importance": 0.5, "confidence": 1.0}
    fields |= {
        "pinned": 0,
        "tokens": 1,
        "status": "active",
        "valid_from": None,
        "invalid_at": None,
        "uses": 0,
    } | other
    held = passages or (passage(key),)
    return Trace(key=key, at=key if at is None else at, id=str(key), thread=thread, passages=held, **fields)


def joined_by(traces: Sequence[Trace], runs: Sequence[Sequence[int]]) -> Sheet:
    """A sheet in which only the memories of a run are neighbours, and only those next to each other in it."""
    pairs = np.array([pair for run in runs for pair in itertools.pairwise(run)])
    columns = Columns.from_traces(traces)
    return Sheet(columns, np.arange(columns.size), (pairs[:, 0], pairs[:, 1]))


def keys(sheet: Sheet) -> list[int]:
    return sheet.key.tolist()


def test_memories_of_a_thread_stand_together_in_the_order_of_time_and_id():
    sheet = Sheet.of(
        [trace(1, thread="a"), trace(2, thread="b"), trace(4, thread="a", at=3), trace(3, thread="a", at=3)]
    )
    assert keys(sheet) == [1, 3, 4, 2]
    assert sheet.run.tolist() == [1, 1, 1, 2]


def test_a_phrase_is_found_inside_a_passage_as_often_as_it_stands_there():
    sheet = Sheet.of([trace(1, passage(1, 2, 1, 2, 3), passage(2, 1)), trace(2, passage(1, 3, 2))])
    assert sheet.frequencies([(1, 2), (1, 2, 3), (2,)]).tolist() == [[2, 0, 0], [1, 0, 0], [2, 1, 1]]


@pytest.mark.parametrize("between", [[], [passage()], [passage(), passage()]])
def test_a_phrase_never_reaches_over_the_border_of_a_passage_or_a_memory(between):
    sheet = Sheet.of([trace(1, passage(7, 1), *between, passage(2, 7)), trace(2, passage(9, 7, 3))])
    assert not sheet.frequencies([(1, 2), (7, 9), (1, 2, 7)]).any()
    assert sheet.frequencies([(2, 7)]).sum() == 1


def test_a_phrase_that_the_end_cuts_off_is_not_found():
    assert Sheet.of([trace(1, passage(1, 2))]).frequencies([(2, 3)]).tolist() == [[0]]


@pytest.mark.parametrize(
    ("passages", "expected"),
    [
        ([passage(), passage(5)], [0, 1]),
        ([passage(5), passage()], [1, 0]),
        ([passage(), passage(), passage(5), passage(), passage(5, 5)], [0, 0, 1, 0, 2]),
        ([passage()], [0]),
    ],
)
def test_passages_without_a_term_are_counted_as_empty(passages, expected):
    sheet = Sheet.of([trace(1, *passages)])
    assert sheet.frequencies([(5,)]).tolist() == [expected]
    assert sheet.total(sheet.frequencies([(5,)])).tolist() == [[sum(expected)]]


def test_the_best_and_the_sum_are_taken_over_each_memorys_own_passages():
    sheet = Sheet.of([trace(1, passage(1), passage(1)), trace(2, passage(1)), trace(3, passage(1), passage(1))])
    values = np.array([1.0, 4.0, 2.0, 8.0, 3.0])
    assert sheet.best(values).tolist() == [4, 2, 8]
    assert sheet.total(values).tolist() == [5, 2, 11]


def test_beside_looks_later_with_a_plus_and_earlier_with_a_minus_and_never_into_another_thread():
    sheet = Sheet.of([trace(1, thread="a"), trace(2, thread="a"), trace(3, thread="a"), trace(4, thread="b")])
    values = np.array([1.0, 2.0, 3.0, 4.0])
    assert sheet.beside(values, 1).tolist() == [2, 3, 0, 0]
    assert sheet.beside(values, -1).tolist() == [0, 1, 2, 0]
    assert sheet.beside(values, 2).tolist() == [3, 0, 0, 0]
    assert sheet.beside(values, -2).tolist() == [0, 0, 1, 0]
    assert sheet.beside(values, 4).tolist() == [0, 0, 0, 0]


def test_around_sums_up_to_the_ends_of_the_thread():
    """The narrow window reaches two memories far, the wide one six."""
    sheet = Sheet.of([trace(key, thread="a" if key < 5 else "b") for key in range(1, 13)])
    near, far = sheet.around(np.arange(1.0, 13.0))
    assert near.tolist() == [6, 10, 10, 9, 18, 26, 35, 40, 45, 50, 42, 33]
    assert far.tolist() == [10, 10, 10, 10, 56, 68, 68, 68, 68, 68, 68, 63]


def test_memories_of_no_thread_are_alone():
    sheet = Sheet.of([trace(1), trace(2), trace(3)])
    values = np.array([1.0, 2.0, 4.0])
    assert sheet.beside(values, 1).tolist() == [0, 0, 0]
    assert sheet.thread_sums(values).tolist() == sheet.thread_best(values).tolist() == [1, 2, 4]


def test_a_thread_is_not_another_ones_number():
    """A memory without a thread is known by its number, a thread by its name."""
    assert Sheet.of([trace(1, thread="2"), trace(2)]).thread.tolist() == [0, 1]


def test_only_what_a_run_joins_is_side_by_side():
    traces = [trace(key, thread="a") for key in (1, 2, 3, 7, 8)] + [trace(9, thread="b")]
    sheet = joined_by(traces, [[1, 2, 3], [2, 3], [7, 8]])
    assert sheet.run.tolist() == [1, 1, 1, 2, 2, 3]
    values = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0])
    assert sheet.beside(values, 1).tolist() == [2, 4, 0, 16, 0, 0]
    around, _ = sheet.around(values)
    assert around.tolist() == [7, 7, 7, 24, 24, 32]
    assert sheet.thread_sums(values).tolist() == [31, 32]
    assert sheet.thread_best(values).tolist() == [16] * 5 + [32]


def test_runs_that_leave_a_memory_out_do_not_join_what_is_around_it():
    """1 and 3 are here and neighbours of 2, which is not."""
    sheet = joined_by([trace(1, thread="a"), trace(3, thread="a")], [[1, 2, 3]])
    assert sheet.run.tolist() == [1, 2]


def test_a_memory_asks_where_its_last_passage_does():
    asking, plain = passage(1, flags=ASKS), passage(1, flags=TIMES | NUMBERS)
    sheet = Sheet.of([trace(1, asking, plain), trace(2, plain, asking), trace(3, asking)])
    assert sheet.asks.tolist() == [0, 1, 1]
    assert sheet.has_time.tolist() == sheet.has_number.tolist() == [1, 1, 0]


def test_vectors_have_length_one_and_those_of_another_size_are_none():
    sheet = Sheet.of([trace(1, passage(1, vector=bytes([3, 4]))), trace(2, passage(1, vector=b"a")), trace(3)])
    assert np.allclose(sheet.vectors, [[0.6, 0.8], [0, 0], [0, 0]])
    assert sheet.has_vectors(2)
    assert not sheet.has_vectors(3)


def test_a_machine_is_known_by_how_it_is_called():
    speakers = ["Assistant", "Ana", None, "TOOL", "agent"]
    sheet = Sheet.of([trace(key, speaker=speaker) for key, speaker in enumerate(speakers)])
    assert sheet.replies.tolist() == [1, 0, 0, 1, 1]


def test_an_empty_sheet_has_columns_of_nothing():
    sheet = Sheet.of([])
    assert (sheet.size, sheet.frequencies([(1,)]).tolist(), sheet.beside(np.zeros(0), 1).tolist()) == (0, [[]], [])


def test_bytes_are_counted_while_another_thread_computes_more():
    """What stands for the other thread computes something whenever its own bytes are looked at."""
    sheet = Sheet.of([trace(1), trace(2)])

    class Other:
        @property
        def __class__(self) -> type:
            vars(sheet)[f"computed {len(vars(sheet))}"] = np.zeros(3)
            return object

    vars(sheet)["other"] = Other()
    before = sheet.nbytes
    assert sheet.nbytes > before
