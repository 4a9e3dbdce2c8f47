"""Text cut into short pieces of one class each, close to where tokenizers cut before they merge.

What follows a piece never reshapes it: text appended to a text can only lengthen its last piece
or add new ones. The bound for Claude rests on this.
"""

import re
from enum import Enum
from functools import cache

__all__ = ["MOST_BYTES", "PieceClass", "classify", "cut"]

_PUNCTUATION = r"!-/:-@\[-`{-~"
_ACCENTED = "\u00aa\u00b5\u00ba\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u0300-\u036f\u1e00-\u1eff"
_CYRILLIC = "\u0400-\u052f\u1c80-\u1c8f\u2de0-\u2dff\ua640-\ua69f"
_CJK = "\u1100-\u11ff\u2e80-\ua4cf\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff"
_SCRIPT = (
    "\u0250-\u02ff\u0370-\u03ff\u0530-\u10ff\u1200-\u1c7f\u1c90-\u1dff\u1f00-\u1fff\u2c00-\u2ddf"
    "\ua4d0-\ua63f\ua6a0-\ua95f\ua980-\uabff\ufb00-\ufdff\ufe70-\ufefc"
    "\U00010000-\U0001bfff\U0001e000-\U0001eeff"
)
_SYMBOL = rf"^\s!-~{_ACCENTED}{_CYRILLIC}{_SCRIPT}{_CJK}"

_PIECE = (
    rf"[ {_PUNCTUATION}]?[A-Z]?[a-z{_ACCENTED}]{{1,16}}"
    rf"|[ {_PUNCTUATION}]?[A-Z]{{1,16}}"
    r"|[0-9]{1,18}"
    rf"| ?[{_PUNCTUATION}]{{1,16}}"
    rf"| ?[{_CYRILLIC}]{{1,16}}"
    rf"| ?[{_SCRIPT}]{{1,16}}"
    rf"| ?[{_CJK}]{{1,16}}"
    r"|\s{1,16}"
    rf"|[{_SYMBOL}]{{1,16}}"
)

# A lead, a capital and sixteen letters, or eighteen digits; four bytes is the most for one.
MOST_BYTES = 18 * 4


class PieceClass(Enum):
    """What a piece is made of, which decides what it costs."""

    WORD = "word"
    JOINED = "joined"
    CAPITALS = "capitals"
    ACCENTED = "accented"
    DIGITS = "digits"
    PUNCTUATION = "punctuation"
    BLANK = "blank"
    CYRILLIC = "cyrillic"
    SCRIPT = "script"
    CJK = "cjk"
    SYMBOL = "symbol"


_BY_LAST_CHARACTER = (
    ("[a-z]", PieceClass.WORD),
    ("[A-Z]", PieceClass.CAPITALS),
    ("[0-9]", PieceClass.DIGITS),
    (f"[{_PUNCTUATION}]", PieceClass.PUNCTUATION),
    (r"\s", PieceClass.BLANK),
    (f"[{_ACCENTED}]", PieceClass.ACCENTED),
    (f"[{_CYRILLIC}]", PieceClass.CYRILLIC),
    (f"[{_SCRIPT}]", PieceClass.SCRIPT),
    (f"[{_CJK}]", PieceClass.CJK),
)


# Compiling takes some 20 ms, which `import satchel` should not cost.
@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def cut(text: str) -> list[str]:
    """The pieces of a text, in order and without loss."""
    return _compiled(_PIECE).findall(text)


def classify(piece: str) -> PieceClass:
    """The class of one piece that `cut` gave."""
    last = piece[-1]
    found = next((c for p, c in _BY_LAST_CHARACTER if _compiled(p).match(last)), None)
    if found is None:
        return PieceClass.SYMBOL
    if found is PieceClass.WORD and not piece.isascii():
        return PieceClass.ACCENTED
    if found is PieceClass.WORD and not (piece[0].isalpha() or piece[0] == " "):
        return PieceClass.JOINED
    return found
