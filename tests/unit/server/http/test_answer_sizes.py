"""Lists are read in portions while they fit; a list that is too large is not read to its end."""

import pytest

from satchel.fitting.hits import Timeline
from satchel.model.memory import Memory, utc_now
from satchel.server.http.problems import RefusedError
from satchel.server.http.requests import ListRequest, ScopeRequest, TimelineRequest
from satchel.server.http.responses import FIRST_PORTION, Memories, read_within

MOST = 100_000


def memories(number: int, size: int) -> tuple[Memory, ...]:
    now = utc_now()
    return tuple(
        Memory(id=str(place), text="x" * size, at=now, created_at=now, updated_at=now, tokens=1)
        for place in range(number)
    )


@pytest.mark.parametrize(
    ("size", "limit", "asked"),
    [
        (10, 20, [20]),
        (10, 10_000, [32, 10_000]),
        # As many as would fit, before all of them.
        (100, 1_000, [32, 1_000]),
    ],
)
def test_what_fits_is_read_once_more_at_most(size: int, limit: int, asked: list[int]):
    limits: list[int] = []

    def read(query: ListRequest) -> Memories:
        limits.append(query.limit)
        return Memories(memories=memories(min(query.limit, 900), size))

    assert len(read_within(read, ListRequest(limit=limit), MOST).memories) == min(limit, 900)
    assert limits == asked


def test_large_ones_end_the_reading_early():
    limits: list[int] = []

    def read(query: ListRequest) -> Memories:
        limits.append(query.limit)
        return Memories(memories=memories(query.limit, 2_000))

    with pytest.raises(RefusedError, match="more than 100,000 bytes"):
        read_within(read, ListRequest(limit=10_000), MOST)
    # 32 of them fit, 50 would, and twice as many do not.
    assert limits == [FIRST_PORTION, 2 * FIRST_PORTION]


def test_both_sides_of_a_timeline_grow():
    spans: list[tuple[int, int]] = []

    def read(query: TimelineRequest) -> Timeline:
        spans.append((query.before, query.after))
        before, after = memories(query.before, 5_000), memories(query.after, 5_000)
        return Timeline(before=before, focus=memories(1, 1)[0], after=after)

    with pytest.raises(RefusedError):
        read_within(read, TimelineRequest(before=2, after=500), MOST)
    assert spans == [(2, FIRST_PORTION)]


def test_what_is_no_list_is_read_once():
    reads: list[ScopeRequest] = []
    read_within(reads.append, ScopeRequest(), MOST)
    assert len(reads) == 1
