"""The vocabulary o200k_base as a mapped file, for counting the first texts of a process.

splintr needs some 150 ms before it counts its first text, which is as long as all the rest of a search from the
command line. This table needs none: a lookup touches a few bytes of the file. It gives the same tokens as splintr
or none at all, and is slow for long texts, so `text.tokens` changes to splintr when there is much to count.
"""

import re
import unicodedata
from functools import cache
from pathlib import Path

from satchel.text.mapped_vocabulary import MappedVocabulary

__all__ = ["TokenTable", "table_path"]

# Merging takes time in proportion to the square of the length.
_LONGEST_MERGED = 200
# splintr loads in the time in which the table encodes some 400,000 characters of prose. A lookup takes as long as
# four characters that are known.
_MOST_WORK = 150_000
_WORK_OF_LOOKUP = 4
_NEVER = 1 << 31


def table_path() -> Path:
    """Return the path of the table, which `python -m bench.token_table` writes."""
    return Path(__file__).with_name("token_data") / "o200k_base.bin"


class TokenTable:
    """Encodes texts with the mapped vocabulary, as long as that is faster than loading splintr.

    Threads may share a table: they may look up the same piece at the same time, and write the same value.
    """

    def __init__(self, path: Path) -> None:
        """Map the file. Raises `OSError` or `ValueError` if it cannot be used."""
        self._vocabulary = MappedVocabulary(path)
        self._work = 0
        self._ranks: dict[bytes, int] = {}
        self._tokens: dict[str, list[int]] = {}

    def count(self, text: str) -> int | None:
        """Return the number of tokens, or None where `encode` returns None."""
        tokens = self.encode(text)
        return None if tokens is None else len(tokens)

    def encode(self, text: str) -> list[int] | None:
        """Return the tokens of a text: exactly those of splintr's `encode_ordinary`.

        None means that splintr has to do it: there is much to encode, the text has a character whose class is not
        the same in all versions of Unicode, or a long piece that is not one token. Raises `UnicodeEncodeError` for
        a lone surrogate, as splintr does.
        """
        self._work += len(text)
        if self._work > _MOST_WORK:
            return None
        pieces = split(text)
        if pieces is None:
            return None
        known, tokens = self._tokens, []
        for piece in pieces:
            found = known.get(piece)
            if found is None:
                found = self._encode_piece(piece.encode())
                if found is None:
                    return None
                known[piece] = found
            tokens += found
        return tokens

    def _encode_piece(self, piece: bytes) -> list[int] | None:
        whole = self._rank(piece)
        if whole != _NEVER:
            return [whole]
        return self._merge(piece) if len(piece) <= _LONGEST_MERGED else None

    def _merge(self, piece: bytes) -> list[int]:
        """Merge the pair of neighbours with the lowest rank, the first of several, until no pair is a token."""
        rank = self._rank
        parts = [piece[place : place + 1] for place in range(len(piece))]
        pairs = [rank(piece[place : place + 2]) for place in range(len(piece) - 1)]
        while pairs and (lowest := min(pairs)) != _NEVER:
            place = pairs.index(lowest)
            parts[place : place + 2] = [parts[place] + parts[place + 1]]
            del pairs[place]
            if place:
                pairs[place - 1] = rank(parts[place - 1] + parts[place])
            if place < len(pairs):
                pairs[place] = rank(parts[place] + parts[place + 1])
        return [rank(part) for part in parts]

    def _rank(self, token: bytes) -> int:
        found = self._ranks.get(token)
        if found is None:
            self._work += _WORK_OF_LOOKUP
            number = self._vocabulary.number(token)
            found = self._ranks[token] = _NEVER if number is None else number
        return found


# Splitting of a text into the pieces that are encoded one by one: the pattern of o200k_base.
#
# The standard library has no classes of letters such as \p{Lu}, and the package `regex` takes long to compile them.
# So every character above ASCII is replaced by one that stands for its class, and the places of the pieces in the
# result are those in the text.


_UPPER, _LOWER, _CASELESS, _MARK = "\u00c0", "\u00e0", "\u00aa", "\u00b4"
_NUMBER, _SPACE, _OTHER = "\u00b2", "\u00a0", "\u00a1"
_CLASS_OF_CATEGORY = {"Lu": _UPPER, "Lt": _UPPER, "Ll": _LOWER, "Lm": _CASELESS, "Lo": _CASELESS}
_CLASS_OF_GROUP = {"M": _MARK, "N": _NUMBER, "Z": _SPACE}
_LONG_S = "\u017f"  # a form of s, and part of a contraction in some versions of the pattern's engine
# Blocks in which a version of Unicode adds symbols only.
_SYMBOLS = (range(0x2600, 0x27C0), range(0x2B00, 0x2C00), range(0x1F000, 0x1FB00))


@cache
def _pattern() -> re.Pattern[str]:
    # A mark is part of a word like a letter, but is not a letter where the pattern excludes those.
    upper, lower = f"A-Z{_UPPER}{_CASELESS}{_MARK}", f"a-z{_LOWER}{_CASELESS}{_MARK}"
    letter, number, space = f"A-Za-z{_UPPER}{_LOWER}{_CASELESS}", f"0-9{_NUMBER}", f"\t-\r {_SPACE}"
    before = rf"[^\r\n{letter}{number}]?"
    contraction = "(?:'(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL]))?"
    return re.compile(
        rf"{before}[{upper}]*[{lower}]+{contraction}"
        rf"|{before}[{upper}]+[{lower}]*{contraction}"
        rf"|[{number}]{{1,3}}"
        rf"| ?[^{space}{letter}{number}]+[\r\n/]*"
        rf"|[{space}]*[\r\n]+"
        rf"|[{space}]+(?![^{space}])"
        rf"|[{space}]+"
    )


def split(text: str) -> list[str] | None:
    """Return the pieces of a text; None if it has a character whose class is uncertain."""
    if text.isascii():
        return _pattern().findall(text)
    try:
        classes = text.translate(_classes)
    except _UncertainError:
        return None
    return [text[found.start() : found.end()] for found in _pattern().finditer(classes)]


class _UncertainError(Exception):
    """A character may be of another class in another version of Unicode. `translate` hides a `LookupError`."""


class _Classes(dict[int, str]):
    """A table for `str.translate`, filled when a character is first seen."""

    def __missing__(self, code: int) -> str:
        self[code] = found = _class_of(chr(code))
        return found


def _class_of(character: str) -> str:
    if character.isascii():
        return character
    if character == "\u0085":
        return _SPACE
    category = unicodedata.category(character)
    found = _class_of_category(category)
    if found == _OTHER and any(ord(character) in block for block in _SYMBOLS):
        return found
    # A character that Unicode has had for long, and in the same class, has it in all versions.
    before = unicodedata.ucd_3_2_0.category(character)
    if character == _LONG_S or "Cn" in (category, before) or _class_of_category(before) != found:
        raise _UncertainError
    return found


def _class_of_category(category: str) -> str:
    return _CLASS_OF_CATEGORY.get(category) or _CLASS_OF_GROUP.get(category[0], _OTHER)


_classes = _Classes()
