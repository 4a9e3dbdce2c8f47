"""Spreading activation over links: range, strength, and contradictions."""

import numpy as np
import pytest

import satchel
from satchel import Draft
from satchel.model.filters import Filter
from satchel.recall.features import names_of, shared_names, spread
from satchel.recall.sheet import Sheet
from satchel.store.contract import Link


class Links:
    """Just enough of a store: relations between numbers, seen from both of their ends."""

    def __init__(self, *relations: tuple[int, int, str, float]) -> None:
        self.relations = relations
        self.asked: list[Filter] = []

    def links(self, keys, where, *, limit):
        self.asked.append(where)
        for source, target, kind, strength in self.relations:
            if source in keys:
                yield Link(source, target, kind, strength, True)
            if target in keys:
                yield Link(target, source, kind, strength, False)


def names_at(bag: satchel.Satchel, sheet: Sheet, places: list[int]) -> dict:
    return {place: names_of(memory) for place, memory in sheet.memories(bag._store, places).items()}


WHERE = Filter(kinds=("fact",))


def active(seeds: dict[int, float], *relations: tuple[int, int, str, float]) -> dict[int, float]:
    return spread(Links(*relations), WHERE, seeds)[0]


def test_each_link_passes_on_half_times_its_strength_for_two_links():
    found = active({1: 0.8}, (1, 2, "related", 1.0), (3, 2, "fixes", 0.5), (3, 4, "related", 1.0))
    assert found == pytest.approx({2: 0.4, 3: 0.1})


def test_what_is_too_faint_is_dropped():
    assert active({1: 0.1}, (1, 2, "related", 1.0)) == {}
    assert active({1: 0.5}, (1, 2, "related", 0.3), (2, 3, "related", 1.0)) == pytest.approx({2: 0.075})


def test_nothing_comes_back_to_where_it_came_from_but_seeds_activate_each_other():
    assert active({1: 1.0}, (1, 2, "related", 1.0)) == {2: 0.5}
    assert active({1: 1.0, 3: 0.6}, (1, 2, "related", 1.0), (2, 3, "related", 1.0)) == {1: 0.15, 2: 0.5, 3: 0.25}


def test_a_ring_is_gone_round_once():
    ring = [(1, 2, "related", 1.0), (2, 3, "related", 1.0), (3, 1, "related", 1.0)]
    assert active({1: 1.0}, *ring) == {2: 0.5, 3: 0.5}


def test_contradictions_are_told_by_their_strength_whichever_end_is_found():
    relation = (1, 2, "contradicts", 0.7)
    assert spread(Links(relation), WHERE, {1: 1.0}) == ({}, {2: 0.7})
    found, refuted = spread(Links(relation), WHERE, {2: 1.0})
    assert (found, refuted) == ({1: 0.35}, {2: 0.7})
    assert spread(Links(relation, (3, 2, "contradicts", 0.9)), WHERE, {2: 1.0})[1] == {2: 0.9}


def test_links_are_asked_for_inside_the_filter_and_not_at_all_without_seeds():
    store = Links((1, 2, "related", 1.0))
    spread(store, WHERE, {1: 1.0})
    assert store.asked == [WHERE, WHERE]
    idle = Links()
    assert spread(idle, WHERE, {}) == ({}, {})
    assert idle.asked == []


def named(*lines: str, seeds: list[int]) -> list[float]:
    """How much each of these memories shares of what the seeds name."""
    with satchel.open(":memory:", embedder="none") as bag:
        bag.add_many(Draft(line, at=f"2024-01-0{place + 1}") for place, line in enumerate(lines))
        sheet = Sheet.of(bag._store.traces(Filter()))
        return shared_names(sheet, names_at(bag, sheet, seeds), np.ones(sheet.size)).tolist()


def test_what_a_seed_names_counts_for_others_and_not_for_itself():
    lines = ("I met Melanie Brandt.", "We saw Melanie Brandt again.", "He saw Gustav Ortega.")
    assert named(*lines, seeds=[0]) == [0.0, 1.0, 0.0]


def test_what_several_seeds_name_counts_for_each_of_them():
    lines = ("I met Melanie Brandt.", "We saw Melanie Brandt again.", "He saw Gustav Ortega.")
    assert named(*lines, seeds=[0, 1]) == [1.0, 1.0, 0.0]


def test_what_everyone_names_connects_no_one():
    lines = [f"Today I met Melanie Brandt, number {place}." for place in range(9)]
    assert named(*lines, seeds=[0]) == [0.0] * 9


def test_what_only_a_seed_names_connects_no_one():
    assert named("I met Melanie Brandt.", "It rains.", seeds=[0]) == [0.0, 0.0]


def test_a_tag_of_a_seed_connects_it_with_others_that_have_it():
    with satchel.open(":memory:") as bag:
        bag.add("it rains", tags=["weather"], at="2024-01-01")
        bag.add("the sun is out", tags=["weather"], at="2024-01-02")
        bag.add("we had soup", tags=["food"], at="2024-01-03")
        sheet = Sheet.of(bag._store.traces(Filter()))
        assert shared_names(sheet, names_at(bag, sheet, [0]), np.ones(3)).tolist() == [0.0, 1.0, 0.0]
