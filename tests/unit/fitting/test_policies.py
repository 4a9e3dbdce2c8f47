"""A packing policy is one object: its name, its order, and how it treats what does not fit."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import get_args

import pytest

import satchel
from satchel.fitting.choice import Candidates, Step
from satchel.fitting.policies import POLICIES, Policy
from satchel.model.packing import PolicyName

NOTES = [
    {"text": f"Note number {day} about the release.", "score": 1 - day / 100, "date": f"2024-01-{day:02}"}
    for day in range(1, 29)
]


class Newest(Policy):
    """What a contributor would write."""

    name = "newest"

    def order(self, candidates: Candidates) -> Sequence[Step]:
        def age(step: Step) -> float:
            return -(candidates.items[step.item].at or datetime.min.replace(tzinfo=UTC)).timestamp()

        return sorted(candidates.by_rank, key=age)


def test_every_policy_has_its_name_in_the_type():
    assert get_args(PolicyName) == tuple(POLICIES)
    assert all(policy.name == name for name, policy in POLICIES.items())


def test_a_policy_that_is_put_into_the_table_is_offered(monkeypatch):
    with pytest.raises(satchel.InputError, match="newest"):
        satchel.fit(NOTES, token_budget=100, policy="newest")
    monkeypatch.setitem(POLICIES, "newest", Newest())
    block = satchel.fit(NOTES, token_budget=100, policy="newest")
    kept = [entry.headline for entry in block.receipt.kept]
    assert kept == [f"Note number {day} about the release." for day in range(29 - len(kept), 29)]
    assert 2 < len(kept) < 28
    assert block.receipt.policy == "newest"


def test_the_budget_that_admits_an_item_follows_from_the_order(monkeypatch):
    monkeypatch.setitem(POLICIES, "newest", Newest())
    missed = satchel.fit(NOTES, token_budget=100, policy="newest").receipt.left_out
    for entry in missed[-3:]:
        again = satchel.fit(NOTES, token_budget=entry.admitted_at, policy="newest")
        assert entry.id in {each.id for each in again.receipt.kept}
