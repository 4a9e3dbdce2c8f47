"""The weights that ship, and what is made of them: one score, and its explanation."""

import math

import msgspec
import numpy as np
import pytest

import satchel
from satchel import Draft
from satchel.fields import utc_now
from satchel.recall.fusion import FILE, HAND_SET, PARTS, Fitted, Weights, family, fuse, part_of, shares, weights
from satchel.recall.question import read_question
from satchel.recall.ranking import examine
from satchel.store import Filter

FITTED = msgspec.json.decode(FILE.read_bytes(), type=Fitted)


@pytest.fixture(scope="module")
def seen():
    with satchel.open(":memory:") as bag:
        bag.add_many(
            Draft(f"The crane {number} is blue", session="s", importance=number / 9) for number in range(9)
        )
        bag.add("Where is it?", session="s")
        query = "Where was the blue crane?"
        question = read_question(query, now=utc_now(), vector=bag._indexer.query_vector)
        yield examine(bag._store, question, Filter(), wanted=10, now=utc_now())


def test_there_are_weights_for_the_embedder_that_ships_and_for_none():
    assert {"static", "none"} <= FITTED.families.keys() <= {"static", "none", "dense"}


@pytest.mark.parametrize("name", FITTED.families)
def test_every_weight_is_a_number_for_a_column_that_there_is(name, seen):
    chosen = FITTED.families[name]
    assert chosen.columns.keys() <= seen.columns.keys()
    assert all(map(math.isfinite, [chosen.intercept, *chosen.columns.values()]))
    assert not chosen.columns.keys() & HAND_SET.keys()


@pytest.mark.parametrize("name", FITTED.families)
def test_every_column_is_a_part_of_an_explanation(name, seen):
    assert {part_of(column) for column in FITTED.families[name].columns.keys() | HAND_SET} <= PARTS.keys()
    assert HAND_SET.keys() <= seen.columns.keys()


def test_every_column_that_is_made_is_weighed(seen):
    for name, chosen in FITTED.families.items():
        assert seen.columns.keys() == chosen.columns.keys() | HAND_SET.keys(), name


def test_without_vectors_their_columns_weigh_nothing():
    columns = FITTED.families["none"].columns
    assert all(weight == 0 for name, weight in columns.items() if "meaning" in name)


def test_every_column_has_a_number_for_every_candidate(seen):
    for name, column in seen.columns.items():
        assert column.shape == (seen.sheet.size,), name
        assert np.isfinite(column).all(), name


@pytest.mark.parametrize(
    ("embedder", "expected"),
    [
        ("none", "none"),
        ("static:wordllama-l2-supercat-256", "static"),
        ("openai:x@http://y", "dense"),
        ("m", "dense"),
    ],
)
def test_each_embedder_has_a_family(embedder, expected):
    assert family(embedder) == expected


def test_a_family_without_weights_has_those_of_the_default_embedder():
    assert weights("not fitted yet") == FITTED.families["static"]
    assert weights("none") == FITTED.families["none"]


def test_the_score_is_the_logistic_of_the_weighed_sum():
    columns = {name: np.zeros(2) for name in HAND_SET} | {"x": np.array([2.0, -1.0])}
    scores = fuse(columns, Weights(-1.0, {"x": 0.5}))
    assert scores == pytest.approx([0.5, 1 / (1 + math.exp(1.5))])
    columns["importance"] += 0.4
    assert fuse(columns, Weights(-1.0, {"x": 0.5})) == pytest.approx(
        [1 / (1 + math.exp(-0.6)), 1 / (1 + math.exp(0.9))]
    )


def test_extreme_sums_stay_between_nothing_and_certainty():
    columns = {name: np.zeros(2) for name in HAND_SET} | {"x": np.array([1e9, -1e9])}
    scores = fuse(columns, Weights(0.0, {"x": 1.0}))
    assert 0 < scores[1] < 1e-9 < 1 - 1e-9 < scores[0] <= 1


@pytest.mark.parametrize("name", FITTED.families)
def test_parts_sum_to_what_sets_a_memory_apart_from_the_average_candidate(name, seen):
    chosen = FITTED.families[name]
    scores = fuse(seen.columns, chosen)
    log_odds = np.log(scores / (1 - scores))
    for place in range(seen.sheet.size):
        parts = shares(seen.columns, place, chosen)
        assert sum(parts.values()) == pytest.approx(log_odds[place] - log_odds.mean(), abs=0.0005 * len(parts))
