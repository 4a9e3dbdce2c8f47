"""For any store and query, a score is a probability, hits are ordered by score, and features are numbers."""

import math
from datetime import UTC, datetime, timedelta
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import satchel
from satchel import Draft
from satchel.recall import ranking
from satchel.recall.columns import best_first
from satchel.recall.sheet import Sheet
from satchel.store.contract import Trace, TracedPassage

pytestmark = pytest.mark.slow

SOME = [
    "apple",
    "Apple pie?",
    "the",
    "記憶",
    "🎒",
    "naïve café",
    "on 1 March 2021",
    "\x01\x1b",
    "- -",
    "?",
    "1e309",
    "Ana said: nan",
    "apple " * 400,
    "One paragraph. " * 60 + "\n\n" + "Another apple. " * 60,
    "a" * 3000,
]

anything = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1, max_size=60)
texts = (st.sampled_from(SOME) | anything).filter(lambda text: text.strip())
moments = st.sampled_from(
    [datetime(2021, 3, 1, tzinfo=UTC), datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)]
)
moments |= st.integers(0, 5).map(lambda days: datetime.now(UTC) - timedelta(days=days))
portions = st.sampled_from([0.0, 0.5, 1.0]) | st.floats(0, 1)

drafts = st.builds(
    Draft,
    text=texts,
    title=st.none() | st.sampled_from(["apple", "🎒", "記憶", "of the"]),
    tags=st.none() | st.just(["apple"]),
    tier=st.sampled_from(["conversation", "knowledge"]),
    speaker=st.sampled_from([None, "Ana", "assistant"]),
    session=st.sampled_from([None, "s1", "s2"]),
    source=st.sampled_from([None, "d1"]),
    at=moments,
    importance=portions,
    confidence=portions,
    pinned=st.booleans(),
)
queries = st.lists(st.sampled_from(SOME) | anything, min_size=1, max_size=3).map(" ".join)


@settings(max_examples=150)
@given(
    stored=st.lists(drafts, max_size=12),
    query=queries,
    relations=st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11), portions), max_size=4),
    small=st.sampled_from([0, 1000]),
    embedder=st.sampled_from(["static", "none"]),
)
def test_scores_are_probabilities_in_falling_order(stored, query, relations, small, embedder):
    with satchel.open(":memory:", embedder=embedder) as bag, patch.object(ranking, "SMALL", small):
        added = bag.add_many(stored)
        for one, other, strength in relations:
            if max(one, other) < len(added) and added[one].id != added[other].id:
                bag.relate(
                    added[one].id, added[other].id, "contradicts" if one > other else "related", strength=strength
                )
        hits = bag.search(query, limit=50, explain=True)
        block = bag.context(query, token_budget=None)
        brought = block.hits
    # What says the same as another is left out.
    assert {hit.memory.id for hit in hits} <= {entry.id for entry in block.receipt.entries}
    for found in (hits, brought):
        scores = [hit.score for hit in found]
        assert all(math.isfinite(score) and 0 <= score <= 1 for score in scores)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    for hit in hits:
        assert all(map(math.isfinite, hit.parts.values()))
        start, end = hit.passage or (0, 1)
        assert 0 <= start < end <= len(hit.memory.text)


@settings(max_examples=50)
@given(text=texts, count=st.integers(1, 6), small=st.sampled_from([0, 1000]))
def test_equal_memories_have_equal_scores_and_come_by_id(text, count, small):
    moment = datetime(2021, 3, 1, tzinfo=UTC)
    with satchel.open(":memory:") as bag, patch.object(ranking, "SMALL", small):
        # Of different speakers, so that they are not the same memory.
        bag.add_many(Draft(text, at=moment, speaker=f"{number} speaks") for number in range(count))
        hits = bag.search(text, limit=50)
    assert len(hits) in (0, count)
    assert len({hit.score for hit in hits}) <= 1
    ids = [hit.memory.id for hit in hits]
    assert ids == sorted(ids)


@given(values=st.lists(st.integers(-3, 3) | st.floats(-1, 1), max_size=30), most=st.none() | st.integers(1, 35))
def test_the_best_are_the_first_of_a_stable_sort(values, most):
    expected = sorted(range(len(values)), key=lambda place: -values[place])
    assert best_first(np.array(values, np.float64), most).tolist() == expected[:most]


pieces = st.lists(st.lists(st.integers(1, 3), max_size=5), min_size=1, max_size=3)


@given(
    memories=st.lists(pieces, min_size=1, max_size=5), phrase=st.lists(st.integers(1, 3), min_size=1, max_size=3)
)
def test_a_phrase_stands_in_a_passage_as_often_as_one_counts_it_there(memories, phrase):
    traces = [
        Trace(key, key, str(key), None, None, "fact", "knowledge", 0.5, 1.0, 0, 1, "active", None, None, 0, tuple(
            TracedPassage(0, 1, 0, np.array(codes, "<u4").tobytes(), None) for codes in held
        ))
        for key, held in enumerate(memories)
    ]  # fmt: skip
    size = len(phrase)
    counted = [
        sum(codes[at : at + size] == phrase for at in range(len(codes) - size + 1))
        for held in memories
        for codes in held
    ]
    assert Sheet.of(traces).frequencies([tuple(phrase)]).tolist() == [counted]


@settings(max_examples=60)
@given(
    stored=st.lists(drafts, max_size=12),
    query=queries,
    bounds=st.tuples(portions, portions).map(sorted),
    budget=st.none() | st.integers(20, 400),
    embedder=st.sampled_from(["static", "none"]),
)
def test_a_higher_min_relevance_leaves_the_head_of_the_same_ranking(stored, query, bounds, budget, embedder):
    lower, higher = bounds
    with satchel.open(":memory:", embedder=embedder) as bag, patch.object(bag._store, "touch", lambda *used: None):
        bag.add_many(stored)
        everything = bag.search(query, limit=50, min_relevance=0)
        more, fewer = (bag.search(query, limit=50, min_relevance=least) for least in (lower, higher))
        fitted = [
            bag.search(query, limit=50, min_relevance=least, token_budget=budget) for least in (lower, higher)
        ]
        blocks = [bag.context(query, token_budget=None, min_relevance=least) for least in (lower, higher)]
    assert all(0 <= hit.relevance <= 1 for hit in everything)
    found, kept, sure = ([hit.memory.id for hit in hits] for hits in (everything, more, fewer))
    assert found[: len(kept)] == kept
    assert kept[: len(sure)] == sure
    assert (len(kept) + more.irrelevant, len(sure) + fewer.irrelevant) == (len(found), len(found))
    assert {hit.memory.id for hit in fitted[1]} <= {hit.memory.id for hit in fitted[0]}
    least_first, sure_first = ({hit.memory.id for hit in block.hits} for block in blocks)
    assert sure_first <= least_first
