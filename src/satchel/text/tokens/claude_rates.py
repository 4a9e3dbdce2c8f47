"""What Claude charges for a piece of text, compared with o200k_base.

docs/counting.md says where each number comes from. A piece costs so much for each o200k_base
token in it and so much for each character of it, in hundredths of a Claude token.
"""

from satchel.text.tokens.pieces import PieceClass

__all__ = ["GENERATIONS", "Rate", "Rates"]

Rate = tuple[int, int]
Rates = dict[PieceClass, tuple[Rate, Rate]]

# fmt: off
GENERATIONS: dict[str, Rates] = {
    # Claude 3 to Sonnet 4.6, Opus 4.6 and Haiku 4.5; Claude 2 stays below the bounds too.
    #                       estimate     bound
    "claude-3": {
        PieceClass.WORD:        ((107, 0),   (115, 10)),
        PieceClass.JOINED:      ((130, 0),   (170, 10)),
        PieceClass.CAPITALS:    ((100, 10),  (120, 20)),
        PieceClass.ACCENTED:    ((130, 15),  (200, 30)),
        PieceClass.DIGITS:      ((100, 0),   (135, 0)),
        PieceClass.PUNCTUATION: ((115, 0),   (150, 10)),
        PieceClass.BLANK:       ((125, 0),   (140, 5)),
        PieceClass.CYRILLIC:    ((160, 0),   (220, 10)),
        PieceClass.SCRIPT:      ((210, 0),   (260, 65)),
        PieceClass.CJK:         ((150, 0),   (170, 40)),
        PieceClass.SYMBOL:      ((140, 10),  (200, 40)),
    },
    # Opus 4.7 and everything since: Fable, Mythos, Sonnet 5, Haiku 5.5.
    "claude-4.7": {
        PieceClass.WORD:        ((62, 21),   (110, 25)),
        PieceClass.JOINED:      ((90, 20),   (150, 25)),
        PieceClass.CAPITALS:    ((70, 50),   (110, 65)),
        PieceClass.ACCENTED:    ((120, 22),  (200, 35)),
        PieceClass.DIGITS:      ((100, 0),   (135, 0)),
        PieceClass.PUNCTUATION: ((110, 5),   (150, 20)),
        PieceClass.BLANK:       ((125, 0),   (140, 5)),
        PieceClass.CYRILLIC:    ((160, 0),   (220, 10)),
        PieceClass.SCRIPT:      ((210, 0),   (260, 65)),
        PieceClass.CJK:         ((150, 0),   (170, 40)),
        PieceClass.SYMBOL:      ((160, 10),  (230, 50)),
    },
}
# fmt: on
