"""A small scope that is read whole and a large one that uses the indexes give the same answers."""

import contextlib
from datetime import UTC, datetime, timedelta

import pytest

import satchel
from conftest import ON_A_SERVER
from pg_server import Server
from satchel import Draft
from satchel.recall import ranking

pytestmark = pytest.mark.usefixtures("all_matches")

PEOPLE = ["Ana", "Bo", "Chidi", "Dagny"]
DOINGS = ["painted", "repaired", "sold", "photographed", "insured", "borrowed", "cleaned"]
THINGS = ["the harbour crane", "a violin", "the old bakery", "two bicycles", "the greenhouse", "a sailing boat",
          "the printing press", "an orchard", "the lighthouse", "a telescope", "the library roof"]  # fmt: skip
PLACES = ["in Lyon", "near the river", "before the storm", "for the museum", "at the fair"]

QUERIES = [
    "Who repaired the telescope?",
    "What happened to the harbour crane before the storm?",
    "violin museum",
    "Did Chidi sell a sailing boat?",
    "lighthose photographs",
    "greenhouse",
    "When did Dagny insure the orchard near the river?",
    "bicycles borrowed at the fair in Lyon",
    "What did Ana do in March 2023?",
    "cleaning the printing press",
]


def memories() -> list[Draft]:
    start = datetime(2023, 1, 1, tzinfo=UTC)
    return [
        Draft(
            f"{PEOPLE[n % 4]} {DOINGS[n % 7]} {THINGS[n % 11]} {PLACES[n % 5]}.",
            at=start + timedelta(hours=13 * n),
            session=f"s{n // 10}" if n % 3 else None,
            tier="conversation" if n % 3 else "knowledge",
            speaker=PEOPLE[n % 4],
        )
        for n in range(200)
    ]


@pytest.fixture(scope="module", params=["static", "none", ON_A_SERVER])
def bag(request):
    with contextlib.ExitStack() as stack:
        location, embedder = ":memory:", request.param
        if embedder == "on a server":
            pg: Server = request.getfixturevalue("pg")
            location, embedder = pg.new_database(), None
            stack.callback(pg.drop, location)
        opened = stack.enter_context(satchel.open(location, embedder=embedder))
        opened.add_many(memories())
        yield opened


def found(bag, query: str) -> list[str]:
    return [hit.memory.text for hit in bag.search(query, limit=10)]


@pytest.mark.parametrize("query", QUERIES)
def test_both_ways_find_the_same_first(bag, query, monkeypatch):
    whole = found(bag, query)
    monkeypatch.setattr(ranking, "SMALL", 0)
    by_index = found(bag, query)
    assert by_index[0] in whole[:2]
    assert whole[0] in by_index[:2]
    assert len(set(by_index[:5]) & set(whole[:5])) >= 4
    assert len(set(by_index) & set(whole)) >= 8
