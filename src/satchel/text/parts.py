"""What recall keeps of a memory beside its text: its passages, their terms, and what they look like."""

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from satchel.model.memory import Memory
from satchel.text.passages import passages
from satchel.text.terms import term_codes

__all__ = ["ASKS", "NUMBERS", "TIMES", "Part", "codes_of", "parts_of"]

# Flags of a passage: it ends with a question, it speaks of a time, it has a number in it.
ASKS = 1
TIMES = 2
NUMBERS = 4

CODE_BYTES = 4

_ASKING = frozenset("?？")
_DIGIT = re.compile(r"\d")

_TIME_WORDS = (
    "yesterday today tomorrow tonight week weekend month year day ago last next morning evening since "
    "recently soon monday tuesday wednesday thursday friday saturday sunday january february march april "
    "june july august september october november december"
)
_NUMBER_WORDS = (
    "one two three four five six seven eight nine ten eleven twelve dozen hundred thousand once twice first "
    "second third half couple several"
)


class Part(NamedTuple):
    """One passage of a memory: where it stands, what is embedded, and what is matched."""

    start: int
    end: int
    text: str
    """What is embedded: the title, if there is one, the passage, and the tags in a line below it."""
    codes: bytes
    """The codes of the title's terms, twice, the tags' and the passage's, in this order."""
    flags: int


def parts_of(memory: Memory) -> list[Part]:
    """The passages of a memory, in order; a short one has a single part."""
    return list(_parts(memory))


def _parts(memory: Memory) -> Iterator[Part]:
    head = codes_of(memory)
    title = f"{memory.title}\n" if memory.title else ""
    tags = f"\n{', '.join(memory.tags)}" if memory.tags else ""
    for start, end in passages(memory.text):
        passage = memory.text[start:end]
        codes = term_codes(passage)
        yield Part(start, end, title + passage + tags, head + codes, _flags(passage, codes))


def codes_of(memory: Memory) -> bytes:
    """The codes of what stands above each passage: the title, which counts double, and the tags."""
    if not memory.title and not memory.tags:
        return b""
    return 2 * term_codes(memory.title or "") + term_codes(" ".join(memory.tags))


def _flags(passage: str, codes: bytes) -> int:
    found = memoryview(codes).cast("I")
    flags = ASKS if passage.rstrip()[-1:] in _ASKING else 0
    flags |= 0 if _codes(_TIME_WORDS).isdisjoint(found) else TIMES
    flags |= NUMBERS if _DIGIT.search(passage) or not _codes(_NUMBER_WORDS).isdisjoint(found) else 0
    return flags


@cache
def _codes(words: str) -> frozenset[int]:
    return frozenset(memoryview(term_codes(words)).cast("I"))
