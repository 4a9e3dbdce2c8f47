"""The seeds' rules of thumb: characters divided by a constant, whatever the characters are."""

from satchel.text.tokens.counter import Counter

__all__ = ["HEURISTICS", "CharacterRule"]


class CharacterRule(Counter):
    """Characters over tokens, rounded up, in constant time; a guess and no bound at all."""

    __slots__ = ("_characters", "_tokens")

    binds = False

    def __init__(self, name: str, *, characters: int, tokens: int) -> None:
        super().__init__(name)
        self._characters = characters
        self._tokens = tokens

    def count(self, text: str) -> int:
        """The guess. Nothing keeps the real number below it."""
        return -(-len(text) * self._tokens // self._characters)


HEURISTICS = {
    rule.name: rule
    for rule in (
        CharacterRule("chars/4", characters=4, tokens=1),
        CharacterRule("chars/3.5", characters=7, tokens=2),
    )
}
