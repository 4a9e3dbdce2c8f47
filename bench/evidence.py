"""Conversations with questions, and how much of the evidence for an answer a text holds."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import satchel

__all__ = ["Conversation", "Question", "Turn", "drafts", "evidence_recall", "read_conversations", "sentences"]

SKIPPED = "adversarial"

_SENTENCE_END = re.compile(r"[\r\n]+|(?<=[.!?])\s+")


class Turn(NamedTuple):
    id: str
    session: str
    at: str | None
    speaker: str
    text: str


class Question(NamedTuple):
    """A question and the turns that hold its answer, those that are not among the turns left out."""

    text: str
    category: str
    evidence: tuple[str, ...]


class Conversation(NamedTuple):
    id: str
    turns: tuple[Turn, ...]
    questions: tuple[Question, ...]


def read_conversations(path: Path) -> list[Conversation]:
    """One conversation per line; without the questions that have no answer in it."""
    with open(path, encoding="utf-8") as lines:
        return [_conversation(json.loads(line)) for line in lines if line.strip()]


def _conversation(fields: dict[str, list[dict[str, str | None]]]) -> Conversation:
    turns = tuple(Turn(**{name: turn[name] for name in Turn._fields}) for turn in fields["turns"])  # type: ignore[arg-type]
    known = {turn.id for turn in turns}
    asked = (
        Question(
            str(question["question"]),
            str(question["category"]),
            tuple(dict.fromkeys(each for each in question["evidence"] or () if each in known)),
        )
        for question in fields["questions"]
        if question["category"] != SKIPPED
    )
    return Conversation(str(fields["id"]), turns, tuple(question for question in asked if question.evidence))


def drafts(conversation: Conversation) -> Iterator[satchel.Draft]:
    """Its turns, as they are remembered."""
    for turn in conversation.turns:
        yield satchel.Draft(
            turn.text,
            tier="conversation",
            session=turn.session,
            speaker=turn.speaker,
            at=turn.at,
            ref=turn.id,
        )


def sentences(text: str) -> list[str]:
    """Cut at line ends and at whitespace after a full stop, an exclamation or a question mark."""
    return [sentence for part in _SENTENCE_END.split(text) if (sentence := part.strip())]


def evidence_recall(evidence: Iterable[Sequence[str]], text: str) -> float:
    """The mean over the pieces of evidence, each by the share of its sentences that stand in the text."""
    shares = [sum(sentence in text for sentence in each) / len(each) if each else 0.0 for each in evidence]
    return sum(shares) / len(shares)
