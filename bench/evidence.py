"""Conversations with questions, and the share of the evidence for an answer that a text contains."""

import contextlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import satchel

__all__ = [
    "Conversation",
    "Question",
    "Turn",
    "drafts",
    "evidence_recall",
    "in_order",
    "read_conversations",
    "sentences",
    "uses_uncounted",
]

SKIPPED = "adversarial"

_SENTENCE_END = re.compile(r"[\r\n]+|(?<=[.!?])\s+")


class Turn(NamedTuple):
    id: str
    session: str
    at: str | None
    speaker: str
    text: str


class Question(NamedTuple):
    """A question and the turns that contain its answer.

    Evidence that is not among the turns is ignored. If `before` names a turn, the question is asked just before
    that turn: neither it nor any later turn may be searched.
    """

    text: str
    category: str
    evidence: tuple[str, ...]
    before: str | None = None


class Conversation(NamedTuple):
    id: str
    turns: tuple[Turn, ...]
    questions: tuple[Question, ...]


def read_conversations(path: Path) -> list[Conversation]:
    """Read one conversation per line, without questions that it does not answer."""
    with open(path, encoding="utf-8") as lines:
        return [_conversation(json.loads(line)) for line in lines if line.strip()]


def _conversation(fields: dict[str, list[dict[str, str | None]]]) -> Conversation:
    turns = tuple(Turn(**{name: turn[name] for name in Turn._fields}) for turn in fields["turns"])  # type: ignore[arg-type]
    place = {turn.id: number for number, turn in enumerate(turns)}
    questions = []
    for asked in fields["questions"]:
        before = asked.get("before")
        before = before if before in place else None
        end = place[before] if before is not None else len(turns)
        evidence = tuple(dict.fromkeys(each for each in asked["evidence"] or () if place.get(each, end) < end))
        if evidence and asked["category"] != SKIPPED:
            questions.append(Question(str(asked["question"]), str(asked["category"]), evidence, before))
    return Conversation(str(fields["id"]), turns, tuple(questions))


def in_order(conversation: Conversation) -> Iterator[Conversation]:
    """Split the conversation into pieces: add the turns of a piece, ask its questions, then take the next piece.

    Questions without `before` come last, after all turns. A conversation without any `before` is one piece; turns
    after the last question are dropped.
    """
    place = {turn.id: number for number, turn in enumerate(conversation.turns)}
    asked: dict[int, list[Question]] = {}
    for question in conversation.questions:
        end = len(place) if question.before is None else place[question.before]
        asked.setdefault(end, []).append(question)
    start = 0
    for end, questions in sorted(asked.items(), key=lambda each: each[0]):
        yield conversation._replace(turns=conversation.turns[start:end], questions=tuple(questions))
        start = end


def drafts(conversation: Conversation) -> Iterator[satchel.Draft]:
    """Yield its turns as drafts, except those without text."""
    for turn in conversation.turns:
        if not turn.text.strip():
            continue
        yield satchel.Draft(
            turn.text,
            tier="conversation",
            session=turn.session,
            speaker=turn.speaker,
            at=turn.at,
            ref=turn.id,
        )


def sentences(text: str) -> list[str]:
    """Split at line ends and at whitespace after a full stop, exclamation mark or question mark."""
    return [sentence for part in _SENTENCE_END.split(text) if (sentence := part.strip())]


def evidence_recall(evidence: Iterable[Sequence[str]], text: str) -> float:
    """Return the mean over the pieces of evidence of the share of their sentences found in the text."""
    shares = [sum(sentence in text for sentence in each) / len(each) if each else 0.0 for each in evidence]
    return sum(shares) / len(shares)


@contextlib.contextmanager
def uses_uncounted(view: satchel.Satchel) -> Iterator[None]:
    """Do not count reads inside this block as uses.

    Uses affect ranking, and a store writes them with the next write or after some seconds. If they counted, the
    order and speed of the questions would change the answers.
    """
    with patch.object(view._store, "touch", lambda ids, moment: None):
        yield
