"""Baseline: plain SQLite FTS5 with Porter stems, any word of the question, and three ways to pack."""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import apsw

from bench.evidence import Turn
from bench.stop_words import STOP_WORDS

__all__ = ["PACKINGS", "Entry", "Floor", "Found", "skip_and_go_on", "turn_entry"]

DEPTH = 10_000


class Found(NamedTuple):
    place: int
    score: float
    cost: int


def stop_at_first(found: Sequence[Found], budget: int) -> list[int]:
    """Take entries in rank order until one does not fit."""
    taken = []
    for each in found:
        if each.cost > budget:
            break
        taken.append(each.place)
        budget -= each.cost
    return taken


def skip_and_go_on(found: Sequence[Found], budget: int) -> list[int]:
    """Take entries in rank order, skipping those that do not fit."""
    taken = []
    for each in found:
        if each.cost <= budget:
            taken.append(each.place)
            budget -= each.cost
    return taken


def per_token(found: Sequence[Found], budget: int) -> list[int]:
    """Take entries in order of score per token, skipping those that do not fit."""
    return skip_and_go_on(sorted(found, key=lambda each: -each.score / each.cost), budget)


PACKINGS: dict[str, Callable[[Sequence[Found], int], list[int]]] = {
    "FTS5, stop": stop_at_first,
    "FTS5, skip": skip_and_go_on,
    "FTS5, per token": per_token,
}


class Entry(NamedTuple):
    """One row of the index: the line that is returned, and the text that is searched."""

    line: str
    searched: str


class Floor:
    """An in-memory FTS5 index. The cost of an entry is the token count of its line.

    Entries can be added between questions; BM25 uses only the entries present.
    """

    def __init__(self, count: Callable[[str], int]) -> None:
        self.lines: list[str] = []
        self._count = count
        self._costs: list[int] = []
        self._db = apsw.Connection(":memory:")
        self._db.execute("CREATE VIRTUAL TABLE entry USING fts5(text, tokenize = 'porter unicode61')")

    def add(self, entries: Iterable[Entry]) -> None:
        rows = []
        for entry in entries:
            rows.append((len(self.lines), entry.searched))
            self.lines.append(entry.line)
            self._costs.append(self._count(entry.line))
        with self._db:
            self._db.executemany("INSERT INTO entry(rowid, text) VALUES (?, ?)", rows)

    def find(self, question: str) -> list[Found]:
        """Return every entry with a word of the question, best first."""
        words = re.findall(r"\w+", question.lower())
        wanted = dict.fromkeys([word for word in words if word not in STOP_WORDS] or words)
        if not wanted:
            return []
        rows = self._db.execute(
            "SELECT rowid, -bm25(entry) AS score FROM entry WHERE entry MATCH ? ORDER BY score DESC, rowid LIMIT ?",
            (" OR ".join(f'"{word}"' for word in wanted), DEPTH),
        )
        return [Found(place, score, self._costs[place]) for place, score in rows]

    def close(self) -> None:
        self._db.close()


def turn_entry(turn: Turn) -> Entry:
    """Format a turn as the line `[2023-05-08] Speaker: text`; `Speaker: text` is searched."""
    day = f"[{turn.at[:10]}] " if turn.at else ""
    said = f"{turn.speaker}: {turn.text}"
    return Entry(f"{day}{said}\n", said)
