"""Values that the state machine draws: memories with odd words, times and scopes, filters, and vectors."""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from hypothesis import strategies as st

from satchel.model.memory import KINDS, STATUSES, TIERS, Memory
from satchel.model.metadata import check_metadata, metadata_lines
from satchel.recall.indexer import packed
from satchel.store.contract import Embedded
from satchel.text.passages import parts_of

Fields = Mapping[str, Any]

START = datetime(2026, 1, 1, tzinfo=UTC)
ALL = 10_000
DIMENSIONS = 20

ODD = (
    "apple", "Apples", "running", "Größe", "nai\u0308ve", "naïve", "İstanbul", "記憶", "データ", "한국어",
    "👩🏽\u200d🚀", "don't", '"quoted"', "a\x00b", "x" * 70, "%_\\", "' OR 1=1 --", "null", "\ufeff",
    "e\u0301" * 30, "{curly}",
)  # fmt: skip
ASKED = (
    "apple", "appl", "run", "größe", "große", "naive", "記憶", "記 憶", "憶", "データ", "한국", "don't", "quot",
    "quoted", "a", "b", "x" * 70, "or", "1=1", "curly", "null", "!!!", "", "absent", "nai\u0308ve", "two",
)  # fmt: skip
# Which of the rarer characters are letters, databases and Python know from different years of Unicode.
words = st.sampled_from(ODD) | st.text(st.characters(max_codepoint=0x24F, exclude_characters="Ǡǡ"), max_size=8)
texts = st.lists(words, min_size=1, max_size=6).map(" ".join).filter(str.strip)
long_texts = texts.map(lambda text: "\n\n".join(f"{text} paragraph {place} {'lorem ' * 60}" for place in range(5)))
names = st.none() | st.sampled_from(["one", "two"]) | st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
tags = st.lists(st.sampled_from(["Auth", "auth", "GRÖSSE", "größe", 'a"b', "データ", "two words"]), max_size=3)
pairs = st.fixed_dictionaries(
    {},
    optional={
        "pr": st.sampled_from([1, 1.5, True, "1", None, [1], {"pr": 1}, '\n"pr":1\n']),
        'größe "\x00\ufdd0%': st.sampled_from(["\x00", "\ufdd0", "{curly}", "%s", ""]),
    },
).map(check_metadata)
some_times = st.sampled_from(
    [
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        datetime(1970, 1, 1, tzinfo=UTC),
        START - timedelta(microseconds=1),
        START,
        START + timedelta(seconds=20),
        datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    ]
)
times = some_times | st.datetimes(timezones=st.just(UTC))
weights = st.sampled_from([0.0, 0.7, 0.7000000000000001, 1.0]) | st.floats(0, 1)
limits = st.sampled_from([0, 1, 2, 5, ALL])
refs = st.none() | st.sampled_from(["r1", "r2", "R1"])
topics = st.none() | st.sampled_from(["t1", "t2"])
places = st.fixed_dictionaries(
    {},
    optional={
        "project": st.sampled_from(["p", "q"]),
        "user": st.just("u"),
        "agent": st.just("a"),
        "session": st.sampled_from(["s", "t"]),
    },
)
# Of a scope that is asked for, little is set, so that much is found.
views = st.just({}) | places
some_fields = {
    "title": st.none() | texts,
    "kind": st.sampled_from(KINDS[:3]),
    "tier": st.sampled_from(TIERS),
    "status": st.sampled_from(STATUSES),
    "tags": tags.map(lambda found: tuple(dict.fromkeys(found))),
    "importance": weights,
    "confidence": weights,
    "pinned": st.booleans(),
    "at": times,
    "valid_from": st.none() | times,
    "invalid_at": st.none() | times,
    "speaker": names,
    "source": names,
    "ref": refs,
    "topic_key": topics,
    "metadata": pairs,
}
fields = st.fixed_dictionaries({"text": texts | texts | long_texts}, optional=some_fields)
changed_fields = st.fixed_dictionaries({}, optional={"text": texts | long_texts} | some_fields)
filters = st.fixed_dictionaries(
    {},
    optional={
        "kinds": st.lists(st.sampled_from(KINDS[:3]), max_size=2).map(tuple),
        "tiers": st.lists(st.sampled_from(TIERS), max_size=2).map(tuple),
        "tags": tags.map(tuple),
        "metadata": pairs.map(metadata_lines),
        "statuses": st.just(()) | st.lists(st.sampled_from(STATUSES), max_size=2).map(tuple),
        "valid_at": st.none() | times,
        "since": st.none() | times,
        "until": st.none() | times,
        "pinned": st.booleans(),
        "important": st.booleans(),
        "unchanged_since": st.none() | times,
    },
)
orgs = st.integers(0, 1)
numbers = st.integers(0, 40)


def embedded(memories: Sequence[Memory]) -> Embedded:
    parts = {memory.id: parts_of(memory) for memory in memories}
    made = {part.text: vector(part.text) for memory in memories for part in parts_of(memory)}
    twice = len(parts) < len(memories)
    # Of an id that comes twice nobody knows beforehand which version is stored.
    return Embedded("digests", DIMENSIONS, {} if twice else parts, made)


def vector(text: str) -> tuple[bytes, bytes]:
    digest = hashlib.sha256(text.encode()).digest()[:DIMENSIONS]
    row = np.frombuffer(digest, np.uint8).astype(np.float32) - 127.5
    return packed((row / np.linalg.norm(row)).reshape(1, -1))[0]
