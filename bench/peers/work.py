"""The work that every system gets: memories, questions, and vectors for all texts that may be embedded."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import satchel
from bench import notes
from bench.corpus import Asked, Corpus
from bench.evidence import Conversation
from bench.floors import Entry, turn_entry
from bench.peers.system import Memory
from bench.peers.systems.satchel import draft_of
from bench.peers.vectors import DIMENSIONS, VectorCache

__all__ = ["Collection", "Synthetic", "conversation_work", "notes_work", "synthetic_work", "table_for"]

WARM_UPS = 3


class Collection(NamedTuple):
    """Memories for a store of their own, and the line that each has in a text that is packed for a system."""

    memories: Sequence[Memory]
    lines: dict[str, str]


class Synthetic(NamedTuple):
    """Memories to build a store with, more to add one by one, and questions to warm up and to ask."""

    built: Sequence[Memory]
    added: Sequence[Memory]
    warming: Sequence[Asked]
    asked: Sequence[Asked]


def synthetic_work(corpus: Corpus, size: int, *, queries: int, adds: int) -> Synthetic:
    """Return the first days of the synthetic corpus of bench.scale."""
    # The first one that is added alone only warms up.
    memories = [_of_a_day(each) for each in corpus.days(size + 1 + adds)]
    warming = corpus.questions(size, queries + WARM_UPS)[:WARM_UPS]
    return Synthetic(memories[:size], memories[size:], warming, corpus.questions(size, queries))


def conversation_work(conversation: Conversation) -> Collection:
    """Return the turns of a conversation, except those without text."""
    turns = [(turn, turn_entry(turn)) for turn in conversation.turns if turn.text.strip()]
    memories = [
        Memory(turn.id, turn.text, entry.searched, at=turn.at, session=turn.session, speaker=turn.speaker)
        for turn, entry in turns
    ]
    return Collection(memories, {turn.id: entry.line for turn, entry in turns})


def notes_work(project: notes.Project) -> Collection:
    entries: dict[str, Entry] = {note.id: notes.note_entry(note) for note in project.memories}
    memories = [
        Memory(
            note.id,
            note.text,
            entries[note.id].searched,
            at=note.at,
            title=note.title,
            kind=note.kind,
            tags=note.tags,
        )
        for note in project.memories
    ]
    return Collection(memories, {name: entry.line for name, entry in entries.items()})


def table_for(cache: VectorCache, folder: Path, memories: Sequence[Memory], questions: Sequence[str]) -> Path:
    """Write the vectors of everything that a system may embed: whole memories, questions, Satchel's passages."""
    whole = (memory.searched for memory in memories)
    return cache.table(folder, [*whole, *questions, *_embedded_by_satchel(memories, questions)])


def _of_a_day(fields: dict[str, Any]) -> Memory:
    head = fields.get("speaker") or fields.get("title")
    return Memory(
        id=fields["ref"],
        searched=f"{head}: {fields['text']}",
        **{name: fields[name] for name in Memory._fields if name in fields},
    )


class _Recorder:
    """An embedder that only notes what it is asked to embed."""

    name = "recorder"
    dimensions = DIMENSIONS

    def __init__(self) -> None:
        self.texts: dict[str, None] = {}

    def embed(self, texts: Sequence[str]) -> Any:
        self.texts.update(dict.fromkeys(texts))
        return np.ones((len(texts), DIMENSIONS), np.float32) / DIMENSIONS**0.5


def _embedded_by_satchel(memories: Iterable[Memory], questions: Sequence[str]) -> list[str]:
    recorder = _Recorder()
    with satchel.open(":memory:", embedder=recorder) as bag:
        bag.add("something", ref="something")
        for question in questions:
            bag.search(question)
        bag.add_many(map(draft_of, memories))
        bag.catch_up()
    return list(recorder.texts)
