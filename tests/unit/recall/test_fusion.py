"""The shipped weights, and how features become one score with an explanation."""

import math

import msgspec
import numpy as np
import pytest

import satchel
from satchel import Draft
from satchel.model.filters import Filter
from satchel.model.memory import utc_now
from satchel.recall.features import FEATURES, PARTS
from satchel.recall.question import read_question
from satchel.recall.ranking import examine
from satchel.recall.rerank import RERANK_FEATURES
from satchel.recall.scoring import (
    HAND_SET,
    NOTES,
    TURNS,
    WEIGHTS_FILE,
    Family,
    FittedWeights,
    Weights,
    family,
    log_odds,
    probability,
    shares,
    weights,
)

FITTED = msgspec.json.decode(WEIGHTS_FILE.read_bytes(), type=FittedWeights)


NOTHING = Weights(0.0, {})


@pytest.fixture(scope="module", params=["conversation", "knowledge"])
def seen(request):
    with satchel.open(":memory:") as bag:
        bag.add_many(
            Draft(f"The crane {number} is blue", session="s", tier=request.param, importance=number / 9)
            for number in range(9)
        )
        bag.add("Where is it?", session="s", tier=request.param)
        query = "Where was the blue crane?"
        question = read_question(query, now=utc_now(), vector=bag._indexer.query_vector(query))
        yield examine(bag._store, question, Filter(), wanted=10)


def sorts(chosen: Family) -> tuple[tuple[Weights, tuple[str, ...]], ...]:
    return (chosen.notes, NOTES), (chosen.turns, TURNS)


def test_there_are_weights_for_each_family_of_embedders():
    assert FITTED.families.keys() == {"static", "none", "dense"}


def test_every_weight_is_a_number_for_a_column_that_is_weighed():
    for chosen in FITTED.families.values():
        for fitted, names in sorts(chosen):
            assert fitted.columns.keys() == set(names)
            assert all(map(math.isfinite, [fitted.intercept, *fitted.columns.values()]))


def test_every_part_of_an_explanation_has_a_feature_and_no_two_features_have_one_name():
    every = (*FEATURES, *RERANK_FEATURES)
    assert {each.part for each in every} == set(PARTS)
    assert len({each.name for each in every}) == len(every)
    assert all(each.fitted or each.by_hand for each in every)


def test_every_column_that_is_made_is_weighed_and_every_one_that_is_weighed_is_made(seen):
    assert seen.columns.keys() <= {"alone", *NOTES, *TURNS, *HAND_SET}
    assert seen.columns.keys() >= HAND_SET.keys() | set(NOTES if seen.sheet.alone.all() else TURNS)


def test_without_vectors_their_columns_weigh_nothing():
    for fitted, _ in sorts(FITTED.families["none"]):
        assert all(weight == 0 for name, weight in fitted.columns.items() if "meaning" in name)


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


def columns(**given: list[float]) -> dict[str, np.ndarray]:
    return {name: np.zeros(2) for name in HAND_SET} | {name: np.array(values) for name, values in given.items()}


def test_the_score_is_the_logistic_of_the_weighed_sum():
    made = columns(alone=[1.0, 1.0], x=[2.0, -1.0])
    chosen = Family(Weights(-1.0, {"x": 0.5}), NOTHING)
    assert probability(log_odds(made, chosen)) == pytest.approx([0.5, 1 / (1 + math.exp(1.5))])
    made["importance"] += 0.4
    assert probability(log_odds(made, chosen)) == pytest.approx([1 / (1 + math.exp(-0.6)), 1 / (1 + math.exp(0.9))])


def test_notes_and_turns_are_weighed_by_weights_of_their_own():
    made = columns(alone=[1.0, 0.0], x=[2.0, 2.0])
    chosen = Family(Weights(-1.0, {"x": 0.5}), Weights(3.0, {"x": -2.0}))
    assert log_odds(made, chosen) == pytest.approx([0.0, -1.0])


def test_extreme_sums_stay_between_nothing_and_certainty():
    made = columns(alone=[0.0, 0.0], x=[1e9, -1e9])
    scores = probability(log_odds(made, Family(NOTHING, Weights(0.0, {"x": 1.0}))))
    assert 0 < scores[1] < 1e-9 < 1 - 1e-9 < scores[0] <= 1


@pytest.mark.parametrize("name", FITTED.families)
def test_parts_sum_to_what_sets_a_memory_apart_from_the_average_candidate(name, seen):
    chosen = FITTED.families[name]
    odds = log_odds(seen.columns, chosen)
    for place in range(seen.sheet.size):
        parts = shares(seen.columns, place, chosen)
        assert sum(parts.values()) == pytest.approx(odds[place] - odds.mean(), abs=0.0005 * len(parts))
