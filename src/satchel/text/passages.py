"""Split long texts into passages at paragraphs and sentences, and compute what the index stores for each."""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import NamedTuple

from satchel.model.memory import Memory
from satchel.model.patterns import lazy_pattern
from satchel.text.terms import packed_codes, term_codes, term_numbers

__all__ = [
    "ASKS",
    "NUMBERS",
    "TIMES",
    "Part",
    "best_sentence_start",
    "codes_of",
    "continues",
    "parts_of",
    "passages",
    "sentences",
]


_Span = tuple[int, int]

# Passages grow with the text so that there are at most about twice this many.
_MOST_PASSAGES = 1_000

# Each pattern ends where the text may be split. None can backtrack over a long run, so all take linear time.
_PARAGRAPH = lazy_pattern(r"\n[^\S\n]*\n")
_LINE = lazy_pattern(r"\n")
_SENTENCE = lazy_pattern(r"[.!?…]['\")\]»”’]*+(?=\s)|[。！？][」』）”’]*+")
_WORD = lazy_pattern(r"\s+")
_SENTENCE_OR_LINE = lazy_pattern(f"{_LINE.pattern}|{_SENTENCE.pattern}")

_ITEM = lazy_pattern(r"\s{0,12}(?:[-*+•]|\d{1,3}[.)])\s")
_HEADING = lazy_pattern(r"\s{0,3}#{1,6}\s")
_FENCE = lazy_pattern(r"\s{0,12}(`{3,}|~{3,})")

_ZERO_WIDTH_JOINER = "\u200d"
_SKIN_TONES = range(0x1F3FB, 0x1F400)
_LOW_SURROGATES = range(0xDC00, 0xE000)
_LONGEST_CHARACTER = 32


def passages(text: str, *, size: int = 600) -> list[_Span]:
    """Return the spans of the passages of a text. Only white space between passages is left out.

    `size` is the target length in characters. A text of up to one and a half times that stays whole, and so does a
    paragraph, list or fenced block inside a longer text. A text of more than 1,000 times `size` is split into
    longer passages.
    """
    size = max(1, size, -(-len(text) // _MOST_PASSAGES))
    most = size * 3 // 2
    whole = _stripped(text, 0, len(text))
    if whole is None:
        return []
    if whole[1] - whole[0] <= most:
        return [whole]
    return list(_packed(_pieces(text, whole, size, most, 0), size))


def sentences(text: str) -> list[_Span]:
    """Return the spans of the sentences of a text; the end of a line also ends a sentence."""
    return list(_units(text, 0, len(text), (match.end() for match in _SENTENCE_OR_LINE.finditer(text))))


def best_sentence_start(text: str, span: _Span, words: Sequence[str]) -> int:
    """Return the start of the sentence inside a span that contains the most of these words.

    If no sentence contains any, it is the start of the span. Of equal sentences the first counts.
    """
    start, end = span
    most, found = 0, start
    for first, last in sentences(text[start:end]):
        sentence = text[start + first : start + last].casefold()
        number = sum(word in sentence for word in words)
        if number > most:
            most, found = number, start + first
    return found


def _pieces(text: str, span: _Span, size: int, most: int, level: int) -> Iterator[_Span]:
    """Yield runs of neighbouring units of this level; a unit that is too long is split at the next level."""
    start, end = span
    fitting: list[_Span] = []
    for unit in _units(text, start, end, _CUTS[level](text, start, end, size)):
        if unit[1] - unit[0] <= most:
            fitting.append(unit)
        else:
            yield from _packed(fitting, size)
            fitting.clear()
            yield from _pieces(text, unit, size, most, level + 1)
    yield from _packed(fitting, size)


def _packed(units: Iterable[_Span], size: int) -> Iterator[_Span]:
    packed: _Span | None = None
    for unit in units:
        if packed is None:
            packed = unit
        elif unit[1] - packed[0] <= size:
            packed = packed[0], unit[1]
        else:
            yield packed
            packed = unit
    if packed is not None:
        yield packed


def _units(text: str, start: int, end: int, cuts: Iterable[int]) -> Iterator[_Span]:
    for cut in cuts:
        if unit := _stripped(text, start, cut):
            yield unit
        start = cut
    if unit := _stripped(text, start, end):
        yield unit


def _stripped(text: str, start: int, end: int) -> _Span | None:
    piece = text[start:end]
    inner = piece.lstrip()
    first = end - len(inner)
    return (first, first + len(inner.rstrip())) if inner else None


def _blocks(introduces: Callable[[str], bool]) -> "_Cuts":
    """Return a splitter at fenced blocks and blank lines, but not inside lists or after introductions.

    `introduces` decides whether a line, such as a heading, belongs to the block that follows it.
    """

    def cuts(text: str, start: int, end: int, size: int) -> Iterator[int]:
        fence = ""
        blank = in_list = introduced = False
        for line, begin in _lines(text, start, end):
            if fence:
                # A closing fence is at least as long as the opening one.
                if line.strip().startswith(fence):
                    fence, blank, in_list, introduced = "", True, False, False
                continue
            if not line.strip():
                blank = True
                continue
            opening = _FENCE.match(line)
            item = _ITEM.match(line) is not None
            joined = introduced or (in_list and (item or line[0] in " \t"))
            if begin > start and (opening or blank) and not joined:
                yield begin
            if blank or item:
                in_list = item or (in_list and joined)
            fence = opening[1] if opening else ""
            blank, introduced = False, introduces(line)

    return cuts


def _introduces_more(line: str) -> bool:
    return _HEADING.match(line) is not None or line.rstrip().endswith(":")


def _never_introduces(line: str) -> bool:
    return False


def _lines(text: str, start: int, end: int) -> Iterator[tuple[str, int]]:
    while start < end:
        finish = text.find("\n", start, end) + 1 or end
        yield text[start:finish], start
        start = finish


def _at(pattern: re.Pattern[str]) -> "_Cuts":
    def cuts(text: str, start: int, end: int, size: int) -> Iterator[int]:
        return (match.end() for match in pattern.finditer(text, start, end))

    return cuts


def _anywhere(text: str, start: int, end: int, size: int) -> Iterator[int]:
    while end - start > size:
        cut = start + size
        earliest = max(start, cut - _LONGEST_CHARACTER)
        while cut > earliest and continues(text, cut):
            cut -= 1
        start = cut if cut > earliest else start + size
        yield start


def continues(text: str, position: int) -> bool:
    """Return whether the code point at a position belongs to the character before it, as combining marks do."""
    char = text[position]
    return (
        char == _ZERO_WIDTH_JOINER
        or text[position - 1] == _ZERO_WIDTH_JOINER
        or unicodedata.category(char).startswith("M")
        or ord(char) in _SKIN_TONES
        or ord(char) in _LOW_SURROGATES
    )


_Cuts = Callable[[str, int, int, int], Iterator[int]]
_CUTS: tuple[_Cuts, ...] = (
    _blocks(_introduces_more),
    _blocks(_never_introduces),
    _at(_PARAGRAPH),
    _at(_LINE),
    _at(_SENTENCE),
    _at(_WORD),
    _anywhere,
)


# What the index stores for each passage of a memory.


# Flags of a passage: it ends with a question, it mentions a time, it has a number in it.
ASKS = 1
TIMES = 2
NUMBERS = 4

CODE_BYTES = 4

_QUESTION_MARKS = ("?", "？")
_DIGIT = lazy_pattern(r"\d")

_TIME_WORDS = (
    "yesterday today tomorrow tonight week weekend month year day ago last next morning evening since "
    "recently soon monday tuesday wednesday thursday friday saturday sunday january february march april "
    "june july august september october november december"
)
_NUMBER_WORDS = (
    "one two three four five six seven eight nine ten eleven twelve dozen hundred thousand once twice first "
    "second third half couple several"
)
_TELLING_WORDS = f"{_TIME_WORDS} {_NUMBER_WORDS}"


class Part(NamedTuple):
    """One passage of a memory: its position, the text to embed, and the term codes to match."""

    start: int
    end: int
    text: str
    """The text to embed: the title, if there is one, the passage, and the tags on a line below it."""
    codes: bytes
    """The codes of the terms of the title (twice), the tags and the passage, in this order."""
    flags: int


def parts_of(memory: Memory) -> list[Part]:
    """Return the passages of a memory, in order; a short memory has one."""
    text = memory.text
    head = codes_of(memory)
    title = f"{memory.title}\n" if memory.title else ""
    tags = f"\n{', '.join(memory.tags)}" if memory.tags else ""
    parts = []
    for start, end in passages(text):
        passage = text[start:end]
        codes = term_numbers(passage)
        packed = head + packed_codes(codes)
        parts.append(Part(start, end, title + passage + tags, packed, _flags(passage, codes)))
    return parts


def codes_of(memory: Memory) -> bytes:
    """Return the term codes that all passages of a memory have: those of its title, twice, and its tags."""
    if not memory.title and not memory.tags:
        return b""
    return 2 * term_codes(memory.title or "") + term_codes(" ".join(memory.tags))


def _flags(passage: str, codes: Sequence[int]) -> int:
    # A passage ends without white space.
    flags = ASKS if passage.endswith(_QUESTION_MARKS) else 0
    if not _codes(_TELLING_WORDS).isdisjoint(codes):
        flags |= 0 if _codes(_TIME_WORDS).isdisjoint(codes) else TIMES
        flags |= 0 if _codes(_NUMBER_WORDS).isdisjoint(codes) else NUMBERS
    return flags if flags & NUMBERS or not _DIGIT.search(passage) else flags | NUMBERS


@cache
def _codes(words: str) -> frozenset[int]:
    return frozenset(term_numbers(words))
