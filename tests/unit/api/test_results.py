"""Every result has one shape: the same names in Python, in JSON and in HTTP answers, and a repr of one line."""

import inspect
import json
import re
import typing
from collections.abc import Iterator
from typing import Any

import pytest

import satchel
from satchel.model.result import Result

NOT_RESULTS = {"AsyncSatchel", "AsyncSession", "Counter", "Prepared", "Satchel", "Session"}
"""What public methods return to be called again, not to be read."""


@pytest.fixture
def bag() -> Iterator[satchel.Satchel]:
    with satchel.open(":memory:", embedder="none") as opened:
        for number in range(12):
            opened.add(f"Note {number}: tokens rotate every hour, {'word ' * 20}", title=f"Rotation {number}")
        yield opened


def results_of(bag: satchel.Satchel) -> Iterator[Any]:
    """One result of each kind that a method returns."""
    hits = bag.search("rotate tokens", token_budget=300)
    block = bag.context("rotate tokens", token_budget=300)
    first, second = hits[0].memory, bag.recent()[1]
    yield from (hits, hits[0], first, block, block.receipt, block.receipt.entries[0])
    yield from (bag.context_pack(token_budget=500), bag.relate(first.id, second.id), bag.timeline(first.id))
    yield from (bag.history(first.id)[0], bag.stats(), bag.checks()[0], satchel.truncate("a b c", token_budget=2))
    yield bag.forget(second)
    imported = bag.import_([b"{}"])
    yield from (imported, imported.problems[0])
    session = bag.session("work")
    session.record("user", "Fix the login.")
    shown = session.result("search", "one\ntwo\n" * 3_000)
    yield from (shown, session.find(shown.handle, "one"), session.history(), session.messages("openai"))
    yield from (session.entries()[0], session.results()[0], session.state(), session.budget, bag.sessions()[0])
    session.next_turn()
    yield from (session.turns()[0], session.feedback({"input_tokens": 500}), bag.forget(second.id))


def test_to_dict_is_plain_and_says_what_json_says(bag: satchel.Satchel):
    for result in results_of(bag):
        plain = result.to_dict()
        assert json.loads(result.json()) == json.loads(json.dumps(plain)) == plain, type(result)
        assert "\n" not in result.json()
        assert json.loads(result.json(indent=2)) == plain


def test_a_repr_is_one_short_line_that_names_the_class(bag: satchel.Satchel):
    for result in results_of(bag):
        assert re.fullmatch(rf"<{type(result).__name__} .{{5,180}}>", repr(result)), repr(result)
    memory = bag.recent(limit=1)[0]
    shown = re.fullmatch(r"<Memory (\w{6}) observation 'Rotation 11'>", repr(memory))
    assert bag.get(shown[1]).id == memory.id
    assert repr(bag.scoped(project="one")) == "<Satchel :memory: project='one'>"


def test_every_public_method_returns_results_that_have_a_json_form(bag: satchel.Satchel):
    seen = {type(result).__name__ for result in results_of(bag)}
    returned = {
        name
        for owner in (satchel.Satchel, satchel.Session)
        for _, method in inspect.getmembers(owner, inspect.isfunction)
        if not method.__name__.startswith("_")
        for name in _names(method.__annotations__.get("return"))
    } - NOT_RESULTS
    assert {"Hits", "ContextBlock", "Memory", "SessionState"} <= returned
    for name in returned:
        assert issubclass(getattr(satchel, name), Result), name
    assert returned <= seen


def _names(annotation: object) -> Iterator[str]:
    if isinstance(annotation, str):
        yield from (name for name in re.findall(r"[A-Z]\w+", annotation) if name in satchel.__all__)
    elif getattr(annotation, "__module__", "").startswith("satchel.") and inspect.isclass(annotation):
        yield annotation.__name__
    for inner in typing.get_args(annotation):
        yield from _names(inner)


def test_fitted_results_have_one_set_of_names(bag: satchel.Satchel):
    shared = {
        "text", "token_count", "token_budget", "included", "omitted", "tokens_omitted", "irrelevant", "complete",
        "matched", "smallest_budget",
    }  # fmt: skip
    hits = bag.search("rotate tokens", token_budget=300)
    block = bag.context("rotate tokens", token_budget=300)
    pack = bag.context_pack("rotate tokens", token_budget=300)
    for result, more in (
        (hits, {"hits"}),
        (block, {"hits", "short_ids", "tier_breakdown", "receipt"}),
        (pack, {"memories", "tier_breakdown", "receipt", "format", "project"}),
    ):
        told = result.to_dict()
        assert told.keys() == shared | more
        for name in (shared | more) - {"hits", "memories", "receipt", "short_ids"}:
            assert told[name] == getattr(result, name), name
        assert 0 < told["token_count"] <= told["token_budget"] == 300
        assert told["omitted"] > 0
        assert told["tokens_omitted"] > 0
        assert not told["complete"]
    assert [hit["memory"]["id"] for hit in hits.to_dict()["hits"]] == [hit.id for hit in hits]
    assert hits[0].text == hits[0].memory.text
    assert pack.to_dict()["memories"] == [memory.to_dict() for memory in pack.memories]


def test_omitted_and_irrelevant_are_told_apart(bag: satchel.Satchel):
    block = bag.context("rotate tokens", token_budget=150)
    reasons = [entry.reason for entry in block.receipt.left_out]
    assert block.omitted == reasons.count("over budget") > 0
    assert block.irrelevant == reasons.count("not relevant")
    assert block.facts_omitted == len(reasons)
    assert block.facts_included == block.included == len(block.hits)
    assert block.result(receipt=True).receipt == block.receipt
    assert block.to_dict()["receipt"] is None


def test_a_result_with_a_lone_surrogate_is_still_json(bag: satchel.Satchel):
    shown = bag.session("work").result("read", "odd \ud800 text")
    assert json.loads(shown.json())["content"] == shown.to_dict()["content"] == "odd \ud800 text"


def test_a_listing_as_json_stays_within_its_budget_and_has_the_same_names(bag: satchel.Satchel):
    whole = bag.search("rotate tokens").to_dict()
    for budget in (0, 30, 60, 150, 400, 2_000):
        hits = bag.search("rotate tokens", format="json", token_budget=budget)
        assert satchel.count_tokens(hits.text) == hits.token_count <= budget
        told = json.loads(hits.text) if hits.text else {}
        assert told.keys() <= whole.keys()
        for hit in told.get("hits", []):
            assert hit.keys() <= whole["hits"][0].keys()
            assert hit["memory"].keys() <= whole["hits"][0]["memory"].keys()
    assert "smallest_budget" in json.loads(bag.search("rotate tokens", format="json", token_budget=60).text)
