"""`since` and `until` hold exactly, for every read and on every search path."""

import itertools
import json
from datetime import UTC, date, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from satchel import Draft, Satchel
from satchel.api.filters import filter_for
from satchel.errors import InputError

TICK = timedelta(microseconds=1)
START = datetime(2024, 3, 1, tzinfo=UTC)
EDGES = [
    START + step + tick
    for step in (timedelta(days=days) for days in range(-2, 3))
    for tick in (-TICK, 0 * TICK, TICK)
]
FAR = [datetime(1, 1, 1, tzinfo=UTC), datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)]


def texts(hits) -> list[str]:
    return sorted(hit.memory.text for hit in hits)


@pytest.fixture
def dated(notes: Satchel) -> Satchel:
    """Memories at the edges of days, of one session and related, so that each leads to the others."""
    moments = [*FAR, *EDGES]
    added = notes.add_many(
        Draft(f"Apple number {place} fell.", at=at, session="s1", importance=place % 10 / 10, pinned=place % 7 == 0)
        for place, at in enumerate(moments)
    )
    for one, other in itertools.pairwise(added):
        notes.relate(one.id, other.id)
    return notes


bounds = (
    st.none()
    | st.sampled_from([*FAR, *EDGES])
    | st.datetimes(datetime(2024, 2, 27), datetime(2024, 3, 4), timezones=st.just(UTC))
)


def test_what_comes_back_is_exactly_what_speaks_of_that_time(dated: Satchel):
    every = dated.recent(limit=1000)

    @settings(max_examples=30)
    @given(since=bounds, until=bounds)
    def check(since, until):
        if since is not None and until is not None and since > until:
            since, until = until, since
        first, last = since or FAR[0], until or datetime(9999, 1, 1, tzinfo=UTC)
        meant = {memory.id for memory in every if first <= memory.at <= last}
        chosen = {"since": since, "until": until}
        assert {memory.id for memory in dated.recent(limit=1000, **chosen)} == meant
        assert {hit.memory.id for hit in dated.search("apple fell", limit=100, **chosen)} == meant
        entries = dated.context("apple fell", token_budget=None, limit=100, **chosen).receipt.entries
        assert {entry.id for entry in entries} == meant
        assert {entry.id for entry in dated.context(token_budget=None, **chosen).receipt.entries} == meant
        packed = json.loads(dated.context_pack("apple", token_budget=None, format="json", **chosen).text or "{}")
        assert {memory["id"] for memory in packed.get("memories", ())} == meant
        exported = [json.loads(line) for line in dated.export(**chosen)]
        assert {line["memory"]["id"] for line in exported if "memory" in line} == meant

    check()


def test_the_limit_is_filled_from_what_the_span_leaves(words: Satchel):
    words.add_many(Draft(f"apple pie {number}", at="2024-05-01") for number in range(300))
    words.add_many(Draft(f"an apple among much else, {number}", at="2024-03-01") for number in range(5))
    for chosen in ({"until": "2024-03-31"}, {"since": "2024-02-01", "until": "2024-03"}):
        assert len(words.search("apple pie", limit=5, **chosen)) == 5
        assert len(words.recent(limit=5, **chosen)) == 5


def test_the_nearest_are_looked_for_inside_the_span(notes: Satchel):
    notes.add_many(Draft(f"The cat sat on mat {number}.", at="2024-05-01") for number in range(150))
    march = notes.add_many(Draft(f"Trains run late in week {number}.", at="2024-03-01") for number in range(7))
    store = notes._store
    code = np.packbits(notes._indexer.query_vector("The cat sat on mat 3.") > 0).tobytes()
    for chosen in ({"until": "2024-03"}, {"since": "2024-02", "until": "2024-03"}):
        found = store.nearest(filter_for(notes.scope, **chosen), code, limit=5)
        held = store.memories([match.key for match in found])
        assert len(held) == 5
        assert {memory.id for memory in held.values()} <= {memory.id for memory in march}


def test_a_day_a_month_and_words_mean_their_first_and_last_moment(words: Satchel):
    now = datetime.now(UTC)
    old = words.add("old", at=now - timedelta(days=20))
    new = words.add("new", at=now - timedelta(days=3))
    march = words.add("march", at="2024-03-31T23:59:59.999999Z")
    april = words.add("april", at="2024-04-01")

    def ids(**chosen):
        return [memory.id for memory in words.recent(**chosen)]

    assert ids(since="2 weeks ago") == [new.id]
    assert ids(since="vor 4 Wochen") == ids(since="il y a 4 semaines") == [new.id, old.id]
    assert ids(until="2024-03-31") == ids(until="2024-03") == ids(until="March 2024") == [march.id]
    assert ids(until=date(2024, 3, 31)) == ids(until="2024年3月") == [march.id]
    assert ids(since="2024-04", until="2024") == ids(since=date(2024, 4, 1), until="2024-04-01T00:00") == [april.id]
    assert ids(since="2024-04-01T00:00:00.000001Z", until="2 weeks ago") == [old.id]
    assert ids(until="9999-12-31") == [new.id, old.id, april.id, march.id]


def test_as_of_and_until_both_hold_and_words_count_from_there(words: Satchel):
    for day in ("2024-01-10", "2024-02-10", "2024-03-10"):
        words.add(f"rain on {day}", at=day)
    assert texts(words.search("rain", as_of="2024-03-01", until="2024-12-31")) == [
        "rain on 2024-01-10",
        "rain on 2024-02-10",
    ]
    assert texts(words.search("rain", as_of="2024-03-31", until="2024-01-31")) == ["rain on 2024-01-10"]
    assert texts(words.search("rain", as_of="2024-03-05", since="last month")) == ["rain on 2024-02-10"]
    with pytest.raises(InputError, match="since '2024-04-01' is after as_of '2024-03-05 00:00:00"):
        words.search("rain", as_of="2024-03-05", since="2024-04-01")


def test_other_filters_hold_beside_the_span(words: Satchel):
    words.add("apple", kind="fix", tags=["red"], at="2024-03-01")
    words.add("apple", kind="fix", tags=["green"], at="2024-03-01")
    words.add("apple", kind="fix", tags=["red"], at="2024-05-01")
    assert len(words.search("apple", kind="fix", tags="red", since="2024-02", until="2024-04")) == 1


def test_a_span_that_cannot_be_meant_is_refused(words: Satchel):
    words.add("apple", at="2024-03-01")
    reads = (
        lambda **chosen: words.search("apple", **chosen),
        lambda **chosen: words.context("apple", **chosen),
        lambda **chosen: words.context_pack("apple", **chosen),
        words.recent,
        words.export,
    )
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    for read in reads:
        for chosen, said in (
            ({"since": "blursday"}, "since 'blursday' is not a date"),
            ({"until": "blursday"}, "until 'blursday' is not a date"),
            ({"since": ""}, "since '' is not a date"),
            ({"since": 2024}, "since 2024 is not a date"),
            ({"since": "2024-03-02", "until": "2024-03-01"}, "since '2024-03-02' is after until '2024-03-01'"),
            ({"since": "tomorrow"}, "since 'tomorrow' is in the future"),
            ({"since": tomorrow}, "is in the future"),
        ):
            with pytest.raises(InputError) as caught:
                read(**chosen)
            assert said in str(caught.value)
            assert "\n" not in str(caught.value)
    assert words.recent()[0].access_count == 0


def test_until_may_lie_ahead(words: Satchel):
    words.add("apple", at="2024-03-01")
    assert len(words.search("apple", until="tomorrow")) == 1
    assert len(words.search("apple", until="2999")) == 1


def test_forget_takes_a_span(words: Satchel):
    words.add("apple", at="2024-03-01")
    words.add("pear", at="2023-03-01")
    assert words.forget(since="2024-01-01", until="2024-12-31").count == 1
    assert [memory.text for memory in words.recent()] == ["pear"]
