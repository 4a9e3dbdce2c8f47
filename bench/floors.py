"""What plain SQLite FTS5 reaches: porter stems, any of the question's words, three ways to pack."""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

import apsw

from bench.evidence import Conversation, Turn

__all__ = ["PACKINGS", "Floor"]

# A question's words without those that every question has: with them the floor is some points lower.
_COMMON = """
i me my myself we our ours ourselves you your yours yourself yourselves he him his himself she her hers herself
it its itself they them their theirs themselves what which who whom this that these those am is are was were be
been being have has had having do does did doing a an the and but if or because as until while of at by for with
about against between into through during before after above below to from up down in out on off over under
again further then once here there when where why how all any both each few more most other some such no nor not
only own same so than too very s t can will just don should now
"""
STOP_WORDS = frozenset(_COMMON.split())
DEPTH = 10_000


class Found(NamedTuple):
    place: int
    score: float
    cost: int


def stop_at_first(found: Sequence[Found], budget: int) -> list[int]:
    """In order of rank, until one does not fit."""
    taken = []
    for each in found:
        if each.cost > budget:
            break
        taken.append(each.place)
        budget -= each.cost
    return taken


def skip_and_go_on(found: Sequence[Found], budget: int) -> list[int]:
    """In order of rank, without those that do not fit."""
    taken = []
    for each in found:
        if each.cost <= budget:
            taken.append(each.place)
            budget -= each.cost
    return taken


def per_token(found: Sequence[Found], budget: int) -> list[int]:
    """The same, in order of score per token."""
    return skip_and_go_on(sorted(found, key=lambda each: -each.score / each.cost), budget)


PACKINGS: dict[str, Callable[[Sequence[Found], int], list[int]]] = {
    "FTS5, stop": stop_at_first,
    "FTS5, skip": skip_and_go_on,
    "FTS5, per token": per_token,
}


class Floor:
    """One conversation in an index of its own. A line is `[2023-05-08] Speaker: text`; its cost is its count,
    and `Speaker: text` is what is searched."""

    def __init__(self, conversation: Conversation, count: Callable[[str], int]) -> None:
        self.lines = [_line(turn) for turn in conversation.turns]
        self.costs = [count(line) for line in self.lines]
        self.db = apsw.Connection(":memory:")
        self.db.execute("CREATE VIRTUAL TABLE turn USING fts5(text, tokenize = 'porter unicode61')")
        rows = ((place, f"{turn.speaker}: {turn.text}") for place, turn in enumerate(conversation.turns))
        self.db.executemany("INSERT INTO turn(rowid, text) VALUES (?, ?)", rows)

    def find(self, question: str) -> list[Found]:
        words = re.findall(r"\w+", question.lower())
        wanted = dict.fromkeys([word for word in words if word not in STOP_WORDS] or words)
        if not wanted:
            return []
        rows = self.db.execute(
            "SELECT rowid, -bm25(turn) AS score FROM turn WHERE turn MATCH ? ORDER BY score DESC, rowid LIMIT ?",
            (" OR ".join(f'"{word}"' for word in wanted), DEPTH),
        )
        return [Found(place, score, self.costs[place]) for place, score in rows]

    def close(self) -> None:
        self.db.close()


def _line(turn: Turn) -> str:
    day = f"[{turn.at[:10]}] " if turn.at else ""
    return f"{day}{turn.speaker}: {turn.text}\n"
