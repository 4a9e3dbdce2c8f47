"""Counters for Claude, whose vocabulary is not public: an estimate and an upper bound."""

from collections import Counter as Tally
from functools import lru_cache
from itertools import accumulate

from satchel.model.surrogates import repair_surrogates
from satchel.text.tokens.claude_rates import GENERATIONS, Rate
from satchel.text.tokens.counter import Counter
from satchel.text.tokens.pieces import MOST_BYTES, classify, cut
from satchel.text.tokens.vocabulary import encoder

__all__ = ["CLAUDE", "ClaudeEstimate"]

_ONE_TOKEN = 100


class ClaudeEstimate(Counter):
    """Works from o200k_base, piece by piece; `count` is the upper bound."""

    __slots__ = ()

    def count(self, text: str) -> int:
        """An upper bound; never more than the text has bytes, never lowered by appending text."""
        pieces = cut(repair_surrogates(text))
        total = sum(times * self._bound(piece) for piece, times in Tally(pieces).items())
        return _round_up(self._highest_on_the_way(pieces, total))

    def estimate(self, text: str) -> int:
        """The best guess; never above `count`."""
        pieces = Tally(cut(repair_surrogates(text)))
        total = sum(times * _price(self.name, piece)[0] for piece, times in pieces.items())
        return _round_up(total)

    def _bound(self, piece: str) -> int:
        return _price(self.name, piece)[1]

    def _highest_on_the_way(self, pieces: list[str], total: int) -> int:
        """The largest total that the text or any beginning of it has.

        Half a word can cost more than the whole ("morni" is two tokens, "morning" one), so without
        this a text could become cheaper by growing. Only the last few pieces can matter.
        """
        highest, before = total, total
        for piece in reversed(pieces):
            before -= self._bound(piece)
            if before + _ONE_TOKEN * MOST_BYTES <= highest:
                break
            if before + _ONE_TOKEN * len(piece.encode()) > highest:
                highest = max(highest, before + max(map(self._bound, accumulate(piece))))
        return highest


@lru_cache(maxsize=1 << 16)
def _price(generation: str, piece: str) -> tuple[int, int]:
    """What a piece is estimated to cost and what it costs at most, in hundredths of a token."""
    guess, bound = GENERATIONS[generation][classify(piece)]
    tokens = encoder("o200k_base")(piece)
    # No tokenizer that starts from bytes makes more tokens than there are bytes.
    most = _ONE_TOKEN * len(piece.encode())
    return (
        min(most, max(_ONE_TOKEN, _cost(guess, tokens, len(piece)))),
        min(most, _cost(bound, tokens, len(piece))),
    )


def _cost(rate: Rate, tokens: int, characters: int) -> int:
    for_each_token, for_each_character = rate
    return for_each_token * tokens + for_each_character * characters


def _round_up(hundredths: int) -> int:
    return -(-hundredths // _ONE_TOKEN)


CLAUDE = {name: ClaudeEstimate(name) for name in GENERATIONS}
