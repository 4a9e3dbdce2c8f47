"""The same store and the same call give the same bytes, in any process and in any order of writes."""

import json
import os
import random
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import satchel
from satchel import Draft
from satchel.model.filters import Filter
from satchel.recall import ranking
from satchel.recall.finder import find

QUERIES = ["Where was the crane painted?", "blue harbur", "Ana and Bo in March 2021", "What did they sell?"]

SCRIPT = """
import json, sys
import satchel
from satchel.recall import ranking
path, small, *queries = sys.argv[1:]
ranking.SMALL = int(small)
with satchel.open(path) as bag:
    for query in queries:
        hits = bag.search(query, limit=20, explain=True, format="json")
        print(hits.text, json.dumps([hit.parts for hit in hits]), bag.context(query).text)
"""


def fill(bag: satchel.Satchel) -> None:
    rng = random.Random(7)
    words = "crane harbour blue painted sold repaired Ana Bo museum violin storm river they where"
    start = datetime(2021, 1, 1, tzinfo=UTC)
    added = bag.add_many(
        Draft(
            " ".join(rng.choices(words.split(), k=rng.randint(3, 12))),
            title=rng.choice([None, "Crane", "River"]),
            # Few moments and few texts, so that there are ties.
            at=start + timedelta(days=rng.randint(0, 90)),
            session=rng.choice([None, "s1", "s2", "s3"]),
            importance=rng.choice([0.2, 0.5, 0.8]),
        )
        for _ in range(120)
    )
    for _ in range(60):
        one, other = rng.sample(added, 2)
        bag.relate(one.id, other.id, rng.choice(["related", "contradicts", "caused_by"]), strength=rng.random())


@pytest.fixture(params=[1000, 0], ids=["whole", "by index"])
def small(request, monkeypatch) -> int:
    monkeypatch.setattr(ranking, "SMALL", request.param)
    return request.param


def answers(bag: satchel.Satchel) -> list[str]:
    found = []
    for query in QUERIES:
        hits = bag.search(query, limit=20, explain=True, format="json")
        found.append(hits.text + json.dumps([hit.parts for hit in hits]) + bag.context(query).text)
    return found


def test_twice_in_one_process(bag: satchel.Satchel, small):
    fill(bag)
    first = answers(bag)
    assert answers(bag) == first
    assert len(set(first)) == len(QUERIES)


@pytest.mark.slow
def test_in_processes_that_hash_differently(path: Path, small):
    with satchel.open(path) as bag:
        fill(bag)
    outputs = []
    for seed in ("0", "1", "4711"):
        # Each search counts as a use, which is written when the store is closed.
        copy = path.with_name(f"{seed}.db")
        shutil.copyfile(path, copy)
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, str(copy), str(small), *QUERIES],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            timeout=60,
            check=True,
        )
        outputs.append(done.stdout)
    assert outputs[0].strip()
    assert outputs[1:] == outputs[:1] * 2


def test_whatever_the_order_in_which_it_was_stored(location: Path | str, small):
    # The index of vectors breaks its ties by the order of arrival, so that one is left out.
    embedder = "static" if small else "none"
    with satchel.open(location, embedder=embedder) as bag:
        fill(bag)
        opening, *lines = bag.export()
        expected = answers(bag)
    memories = [line for line in lines if b'"memory":{' in line[:12]]
    relations = [line for line in lines if line not in memories]
    assert (len(memories), len(relations) > 50) == (120, True)
    for seed in (1, 2):
        random.Random(seed).shuffle(memories)
        random.Random(seed).shuffle(relations)
        with satchel.open(":memory:", embedder=embedder) as other:
            done = other.import_([opening, *memories, *relations])
            assert (done.added, done.problems) == (120, ())
            assert answers(other) == expected


def test_scores_do_not_drift_from_one_minute_to_the_next(words: satchel.Satchel):
    """An age counts in whole hours: as long as none has passed, it is the same call."""
    hour = datetime(2026, 5, 4, 10, tzinfo=UTC)
    words.add_many([Draft("The crane is blue", at=hour - timedelta(days=days)) for days in (1, 2, 30)])

    def scores(minutes: int) -> list[float]:
        now = hour + timedelta(minutes=minutes)
        found = find(words._store, words._indexer, "crane", Filter(), limit=9, now=now)
        return [hit.score for hit in found.hits]

    assert scores(0) == scores(25) == scores(59)
    assert scores(0) != scores(60)


def test_equal_scores_come_newer_first_and_then_by_id(words: satchel.Satchel):
    # Of different speakers, so that they are not the same memory.
    old = words.add_many([Draft("apple", at="1990-01-01", speaker=f"speaker {number}") for number in range(3)])
    new = words.add_many([Draft("apple", at="1990-01-02", speaker=f"speaker {number}") for number in range(3, 6)])
    hits = words.search("apple")
    assert len({hit.score for hit in hits}) == 1
    expected = sorted(memory.id for memory in new) + sorted(memory.id for memory in old)
    assert [hit.memory.id for hit in hits] == expected
