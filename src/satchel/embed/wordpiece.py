"""BERT's uncased WordPiece tokenizer: from a text to the numbers of its pieces.

It gives what the `tokenizers` library gives for `bert-base-uncased`, one word at a time and with a cache,
so that the encoder needs neither that library nor its loading time.
"""

import re
import unicodedata
from collections.abc import Iterable

__all__ = ["WordPiece"]

_LONGEST_WORD = 100
_WORDS_KEPT = 1 << 16
_LONGEST_KEPT = 32

# Written like this in a text they are the special tokens themselves, as they are for the original.
_SPECIAL = re.compile(r"(\[(?:PAD|UNK|CLS|SEP|MASK)\])")

_IDEOGRAPHS = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B920, 0x2CEAF),  # so in the original, 0x100 later than the block begins
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


class WordPiece:
    """Cuts texts into pieces of a vocabulary, longest first; a word that cannot be cut is `[UNK]`.

    `pieces` gives the numbers of a text without `[CLS]` and `[SEP]`. Threads may share one: they
    race only for what the caches hold, and write the same.
    """

    def __init__(self, vocabulary: Iterable[str]) -> None:
        self._numbers = {piece: number for number, piece in enumerate(vocabulary)}
        self._longest = max(map(len, self._numbers))
        self._unknown = self._numbers["[UNK]"]
        self._characters = _Characters()
        self._words: dict[str, list[int]] = {}
        self.start, self.end = self._numbers["[CLS]"], self._numbers["[SEP]"]

    def pieces(self, text: str, *, limit: int) -> list[int]:
        """The numbers of the first pieces of a text, at most `limit` of them."""
        numbers: list[int] = []
        parts = _SPECIAL.split(text) if "[" in text else (text,)
        for place, part in enumerate(parts):
            if place % 2:
                numbers.append(self._numbers[part])
            else:
                self._cut(part, numbers, limit)
            if len(numbers) >= limit:
                break
        return numbers[:limit]

    def _cut(self, text: str, numbers: list[int], limit: int) -> None:
        known = self._words
        for word in text.translate(self._characters).split():
            found = known.get(word)
            numbers += self._pieces_of(word) if found is None else found
            if len(numbers) >= limit:
                return

    def _pieces_of(self, word: str) -> list[int]:
        numbers = self._greedy(word)
        if len(word) <= _LONGEST_KEPT:
            if len(self._words) >= _WORDS_KEPT:
                self._words.clear()
            self._words[word] = numbers
        return numbers

    def _greedy(self, word: str) -> list[int]:
        if len(word) > _LONGEST_WORD:
            return [self._unknown]
        numbers: list[int] = []
        start = 0
        while start < len(word):
            mark = "##" if start else ""
            for end in range(min(len(word), start + self._longest), start, -1):
                number = self._numbers.get(mark + word[start:end])
                if number is not None:
                    break
            else:
                return [self._unknown]
            numbers.append(number)
            start = end
        return numbers


class _Characters(dict[int, str]):
    """What each character becomes: itself in lower case without accents, a space, or nothing.

    Punctuation and ideographs are words of their own and get a space on either side. Filled as
    characters are met; `str.translate` reads it.
    """

    def __missing__(self, code: int) -> str:
        self[code] = became = _became(chr(code))
        return became


def _became(character: str) -> str:
    if character in "\t\n\r":
        return " "
    if character == "\ufffd" or unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co"):
        return ""
    if character.isspace():
        return " "
    plain = "".join(
        part.lower() for part in unicodedata.normalize("NFD", character) if unicodedata.category(part) != "Mn"
    )
    spaced = "".join(f" {part} " if _is_punctuation(part) else part for part in plain)
    return f" {spaced} " if any(first <= ord(character) <= last for first, last in _IDEOGRAPHS) else spaced


def _is_punctuation(character: str) -> bool:
    # In ASCII also what Unicode calls a symbol, such as $ and +.
    if character.isascii():
        return character.isprintable() and not character.isalnum() and character != " "
    return unicodedata.category(character)[0] == "P"
