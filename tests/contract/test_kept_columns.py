"""What a process keeps in memory is never stale: every write by any process is seen by the next call."""

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import other_process
import satchel
from satchel import Satchel
from satchel.recall import columns, ranking
from satchel.store.migrate import migrate

FUZZ = int(os.environ.get("SATCHEL_FUZZ", "1"))
STEPS = 20
WORDS = (
    "pump", "winch", "sail", "hull", "keel", "mast", "rope", "anchor", "oar", "tiller", "gaff", "boom", "spar",
    "deck", "hold", "bilge",
)  # fmt: skip
QUESTIONS = ("Where is the pump?", "winch and mast", "bilge keel deck")


class OtherProcess:
    """The writer in its process, told through a pipe."""

    def __init__(self, location: Path | str) -> None:
        command = [sys.executable, other_process.__file__, str(location)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def perform(self, name: str, given: dict[str, Any]) -> Any:
        self.process.stdin.write(json.dumps([name, given]) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.close()

    def close(self) -> None:
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


@contextmanager
def running(location: Path | str) -> Iterator[OtherProcess]:
    other = OtherProcess(location)
    try:
        yield other
    finally:
        if other.process.poll() is None:
            other.close()


class Story:
    """Random writes, and the ids that they are about."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.ids: list[str] = []
        self.forgotten: list[str] = []

    def draft(self) -> dict[str, Any]:
        text = " ".join(self.random.choices(WORDS, k=self.random.choice((3, 6, 12))))
        placed = self.random.choice(
            ({}, {"project": "boat"}, {"session": "s1", "tier": "conversation"}, {"kind": "decision"})
        )
        return {"text": f"{self.random.randrange(10**6)} {text}", "tags": [self.random.choice(WORDS)]} | placed

    def write(self) -> tuple[str, dict[str, Any]]:
        names = ["add", "add", "add_many"]
        if len(self.ids) > 3:
            names += ["update", "forget", "purge", "relate", "use"]
        if self.forgotten:
            names.append("unforget")
        name = self.random.choice(names)
        if name == "add":
            return name, self.draft()
        if name == "add_many":
            return name, {"drafts": [self.draft() for _ in range(self.random.randint(2, 8))]}
        if name == "update":
            changes = self.random.choice(
                (
                    {"text": self.draft()["text"]},
                    {"importance": 0.9},
                    {"pinned": True},
                    {"move_to": "boat"},
                    {"kind": "fact"},
                )
            )
            return name, {"id": self.random.choice(self.ids)} | changes
        if name in ("forget", "purge"):
            gone = self.random.choice(self.ids)
            self.ids.remove(gone)
            if name == "forget":
                self.forgotten.append(gone)
            return "forget", {"ids": [gone], "purge": name == "purge"}
        if name == "unforget":
            back = self.forgotten.pop()
            self.ids.append(back)
            return name, {"ids": [back]}
        if name == "relate":
            source, target = self.random.sample(self.ids, 2)
            self.ids.remove(target)
            return name, {"source": source, "target": target}
        return name, {"ids": self.random.sample(self.ids, 3)}

    def note(self, name: str, answer: Any) -> None:
        if name == "add":
            self.ids.append(answer)
        elif name == "add_many":
            self.ids += answer


def answers(bag: Satchel) -> list[Any]:
    """What a caller sees, for questions in several scopes."""
    found: list[Any] = []
    for view in (bag, bag.scoped(project="boat"), bag.scoped(session="s1")):
        for question in QUESTIONS:
            hits = view.search(question, limit=20, min_relevance=0)
            found.append([(hit.id, round(hit.score, 6)) for hit in hits])
            found.append(view.context(question, token_budget=300, min_relevance=0.01).text)
        found.append([hit.id for hit in view.search("anchor", tags=["anchor"], min_relevance=0)])
        found.append([hit.id for hit in view.search("anchor", ended=True, min_relevance=0)])
    return found


@pytest.mark.slow
@pytest.mark.parametrize("small", [1000, 0], ids=["whole", "by index"])
@pytest.mark.parametrize("seed", range(2 * FUZZ))
def test_every_write_of_two_processes_is_seen_by_the_next_call(
    location: Path | str, monkeypatch: pytest.MonkeyPatch, seed: int, small: int
):
    monkeypatch.setattr(ranking, "SMALL", small)
    # Often more changes than are applied one by one.
    monkeypatch.setattr(columns, "MOST_CHANGED", 12)
    story = Story(seed)
    with (
        satchel.open(location, embedder="static") as keeping,
        satchel.open(location, cache_mb=0) as fresh,
        running(location) as other,
    ):
        # Counting uses would make the answers of one reader depend on those of the other.
        fresh._store._readonly = keeping._store._readonly = True
        for _ in range(STEPS):
            for _ in range(story.random.choice((1, 1, 3))):
                name, given = story.write()
                writes = story.random.choice((other.perform, lambda *told: other_process.perform(keeping, *told)))
                story.note(name, writes(name, given))
            assert answers(keeping) == answers(fresh)
        assert keeping.stats().cache_bytes > 0


def test_a_writer_killed_in_a_transaction_leaves_nothing_behind_in_memory(location: Path | str):
    story = Story(7)
    with satchel.open(location, embedder="static") as keeping, satchel.open(location, cache_mb=0) as fresh:
        fresh._store._readonly = keeping._store._readonly = True
        keeping.add_many([satchel.Draft(**story.draft()) for _ in range(20)])
        for _ in range(3):
            before = answers(keeping)
            with running(location) as other:
                other.perform("begin", {"drafts": [story.draft() for _ in range(5)]})
                assert answers(keeping) == before
                other.kill()
            assert answers(keeping) == before
            # This change has the number of the one that was never committed.
            keeping.add(**story.draft())
            assert answers(keeping) == answers(fresh) != before


def test_restoring_an_older_backup_is_seen(tmp_path: Path):
    path, backup = tmp_path / "notes.db", tmp_path / "backup.db"
    story = Story(11)
    with satchel.open(path, embedder="static") as bag:
        bag.add_many([satchel.Draft(**story.draft()) for _ in range(10)])
        bag.backup(backup)
        later = bag.add("The capstan is new.")
        assert bag.search("capstan", min_relevance=0)[0].id == later.id
    satchel.restore(backup, path, replace=True)
    with satchel.open(path) as keeping, satchel.open(path, cache_mb=0) as fresh:
        fresh._store._readonly = keeping._store._readonly = True
        assert answers(keeping) == answers(fresh)
        # As many changes as the store had before, but others.
        with running(path) as other:
            other.perform("add", {"text": "The windlass is old."})
        assert answers(keeping) == answers(fresh)
        assert not [hit for hit in keeping.search("capstan", min_relevance=0) if "capstan" in hit.text]


def test_an_erased_org_is_gone_from_memory_too(location: Path | str):
    with satchel.open(location, embedder="static") as bag, satchel.open(location) as other:
        mine, theirs = bag.scoped(org="acme"), other.scoped(org="acme")
        mine.add("The acme pump is loud.")
        assert len(mine.search("pump", min_relevance=0)) == 1
        theirs.erase()
        assert len(mine.search("pump", min_relevance=0)) == 0
        theirs.add("The other acme pump is quiet.")
        assert [hit.text for hit in mine.search("pump", min_relevance=0)] == ["The other acme pump is quiet."]


def test_another_embedder_is_seen(location: Path | str):
    story = Story(3)
    with satchel.open(location, embedder="static") as keeping:
        keeping.add_many([satchel.Draft(**story.draft()) for _ in range(12)])
        answers(keeping)
        with satchel.open(location) as other:
            other.reembed("minilm")
        with satchel.open(location, cache_mb=0) as fresh:
            fresh._store._readonly = keeping._store._readonly = True
            assert answers(keeping) == answers(fresh)


def test_an_org_that_is_migrated_into_an_open_store_is_seen(location: Path | str, tmp_path: Path):
    story = Story(5)
    with satchel.open(tmp_path / "source.db", embedder="static") as source:
        source.add_many([satchel.Draft(**story.draft()) for _ in range(12)])
    with satchel.open(location, embedder="static") as keeping:
        assert not any(answers(keeping))
        migrate(tmp_path / "source.db", location)
        with satchel.open(location, cache_mb=0) as fresh:
            fresh._store._readonly = keeping._store._readonly = True
            assert answers(keeping) == answers(fresh)
            assert len(keeping.search("pump winch sail hull keel mast", min_relevance=0, limit=20)) > 3


def test_a_clock_that_jumps_shows_what_is_valid_at_its_time(bag: Satchel, clock: list[datetime]):
    """Back before a memory was valid, forward after it expired, and to the present again."""
    bag.add("The pump is red.", valid_from=clock[0] - timedelta(days=9), invalid_at=clock[0] - timedelta(days=3))
    bag.add("The pump is blue.", valid_from=clock[0] - timedelta(days=3), invalid_at=clock[0] + timedelta(days=3))
    present = clock[0]
    for days, expected in ((0, "blue"), (-5, "red"), (5, None), (-30, None), (-4, "red"), (1, "blue")):
        clock[0] = present + timedelta(days=days)
        found = [hit.text.split()[-1] for hit in bag.search("What colour is the pump?", min_relevance=0)]
        assert found == ([f"{expected}."] if expected else []), days
