"""Card numbers, told by their check digit, and seed phrases of wallets, told by their words."""

import re
import struct
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from zlib import crc32

from satchel.model.patterns import lazy_pattern
from satchel.text.secrets.searched import HintIndex, Run, Searched

__all__ = ["find_cards", "find_seed_phrases"]

# In one run, in groups of four, or as American Express prints them.
_CARD = re.compile(
    r"[2-6](?<![\w.,/+-].)(?:[0-9]{12,18}+|[0-9]{3}([ -])[0-9]{4}\1[0-9]{4}\1[0-9]{1,7}"
    r"|[0-9]{3}([ -])[0-9]{6}\2[0-9]{5})(?![\w-]|[.,][0-9]| [0-9])",
    re.ASCII,
)
_LONG_RUN = Run("0-9 -", 13)
_ISSUERS = lazy_pattern(
    r"4[0-9]{12}(?:[0-9]{3}){0,2}|5[1-5][0-9]{14}|2(?:22[1-9]|2[3-9][0-9]|[3-6][0-9]{2}|7[01][0-9]|720)[0-9]{12}"
    r"|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|6(?:011|5[0-9]{2}|4[4-9][0-9])[0-9]{12}"
    r"|35[0-9]{14}|62[0-9]{14,17}"
)
# Other numbers with a check digit or a great many digits.
_OTHER_NUMBER = lazy_pattern(
    r"(?:order|invoice|tracking|imei|isbn|iban|serial|ref(?:erence)?|id|nr|no|number|bestell\w*"
    r"|rechnung\w*|commande"
    r"|pedido|ticket|account|konto\w*|timestamp|phone|tel)[\s.:#=\"']{1,4}\Z",
    re.IGNORECASE,
)
_CARD_WORD = lazy_pattern(r"card|karte|carte|tarjeta|carta|visa|master|amex|カード|pan\b", re.IGNORECASE)


def find_cards(part: Searched) -> Iterator[tuple[int, int, str]]:
    """Yield the spans of card numbers: those of a known issuer whose check digit is right."""
    if not _LONG_RUN.within(part):
        return
    text = part.text
    for match in _CARD.finditer(text):
        digits = match[0].replace(" ", "").replace("-", "")
        if _ISSUERS.fullmatch(digits) and _luhn(digits):
            before = text[max(0, match.start() - 40) : match.start()]
            if _CARD_WORD.search(before) or not _OTHER_NUMBER.search(before):
                yield *match.span(), "card-number"


def _luhn(digits: str) -> bool:
    doubled = sum(sum(divmod(2 * int(digit), 10)) for digit in digits[-2::-2])
    return (doubled + sum(map(int, digits[-1::-2]))) % 10 == 0


# Phrases of BIP-39: 12, 15, 18, 21 or 24 words of a list of 2,048. No words may come between them.
_LEAST = 12
_IN_A_ROW = bytes([True] * _LEAST)
# One word many times is no phrase.
_LEAST_DIFFERENT = 6
_RUN = lazy_pattern(r"[^a-z](?:[a-z]{3,8}+(?:[ \n\r\t,]{1,4}+|(?![a-z]))){12,}+", re.ASCII)
_NUMBERED_RUN = lazy_pattern(r"(?:[0-9]{1,2}[.):]?[ \t]{0,2}[a-z]{3,8}[\s,|]{0,8}){12,24}+", re.ASCII)
_WORD = lazy_pattern(r"[a-z]+")
# After one of these words, most of the words are enough: people also invent phrases.
_ANNOUNCED = lazy_pattern(
    r"(?:seed|mnemonic|phrase|wallet|semilla)(?:[ _-][a-z]{1,12}){0,3}[\"']?[ \t]{0,2}"
    r"(?:[:=]|(?<=[ ])(?:is|are|lautet|ist|est|es)\b)[\s\"'`]{0,4}"
    r"((?:[a-z]{3,10}[ \n,]{1,2}){11,23}+[a-z]{3,10})(?![a-z])",
    re.ASCII | re.IGNORECASE,
)
_ANNOUNCING = ("seed", "mnemonic", "phrase", "wallet", "semilla")
_ANNOUNCING_WORD = lazy_pattern("|".join((*_ANNOUNCING, "recovery", "backup")))
_HINTS = HintIndex([_ANNOUNCING])
_LENGTHS = (12, 15, 18, 21, 24)
_WORDS_CACHED = 1 << 16
_LONGEST_CACHED = 32


def find_seed_phrases(part: Searched) -> Iterator[tuple[int, int, str]]:
    """Yield the spans of seed phrases: 12 words of the list in a row, or as many words after an announcement."""
    text = part.text
    # Of so many words in a row, one has such a place.
    some = part.words[_LEAST - 1 :: _LEAST]
    if True in map(_known_words.__getitem__, some) and _IN_A_ROW in _are_seed_words(part.words):
        # A phrase may start with the very first word, and each must have a character before it.
        for run in _RUN.finditer(f" {text}"):
            yield from _phrases(text, run.start(), run.end() - 1)
        for run in _NUMBERED_RUN.finditer(text):
            yield from _phrases(text, *run.span())
    if _HINTS.present(part):
        for match in _ANNOUNCED.finditer(text):
            phrase = _WORD.findall(match[1])
            if len(phrase) in _LENGTHS and 2 * sum(_are_seed_words(word.encode() for word in phrase)) > len(phrase):
                yield *match.span(1), "seed-phrase"


def _phrases(text: str, start: int, end: int) -> Iterator[tuple[int, int, str]]:
    known = _are_seed_words(word.encode() for word in _WORD.findall(text, start, end))
    if _IN_A_ROW not in known:
        return
    found_words = list(_WORD.finditer(text, start, end))
    for found in re.finditer(rb"\x01{%d,}" % _LEAST, known):
        phrase = found_words[found.start() : found.end()]
        first, last = phrase[0].start(), phrase[-1].end()
        # A list of ordinary words has commas.
        listed = "," in text[first:last] and not _ANNOUNCING_WORD.search(text[max(0, first - 80) : first].lower())
        if not listed and len({word[0] for word in phrase}) >= _LEAST_DIFFERENT:
            yield first, last, "seed-phrase"


def _are_seed_words(words: Iterable[bytes]) -> bytes:
    """Return a 1 for each word of the list, and a 0 for each other word."""
    return bytes(map(_known_words.__getitem__, words))


class _KnownWords(dict[bytes, bool]):
    """Cache of which words are in the list."""

    def __missing__(self, word: bytes) -> bool:
        found = crc32(word) in _seed_words()
        if len(word) <= _LONGEST_CACHED:
            if len(self) >= _WORDS_CACHED:
                self.clear()
            self[word] = found
        return found


_known_words = _KnownWords()


@cache
def _seed_words() -> frozenset[int]:
    """Return the CRC-32 of each word of the list (see NOTICE)."""
    numbers = Path(__file__).with_name("seed_words.bin").read_bytes()
    return frozenset(struct.unpack(f"<{len(numbers) // 4}I", numbers))
