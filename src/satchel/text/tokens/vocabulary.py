"""Exact counters: the vocabularies that come with splintr, loaded when first counted with."""

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from satchel.model.surrogates import repair_surrogates
from satchel.text.tokens.counter import Counter

if TYPE_CHECKING:
    from splintr import AnyTokenizer

__all__ = ["VOCABULARIES", "Vocabulary", "encoder"]

# Of what splintr has, modernbert (it adds [CLS] and [SEP]) and whisper are not for prompts.
_NAMES = (
    "cl100k_base",
    "codellama",
    "deepseek_v3",
    "gemma2",
    "gemma3",
    "gemma4",
    "glm4",
    "gpt_oss",
    "kimi_k2",
    "kimi_k3",
    "llama2",
    "llama3",
    "mistral_v1",
    "mistral_v2",
    "mistral_v3",
    "o200k_base",
    "olmo2",
    "phi4",
    "qwen3",
)

# splintr keeps every distinct piece it has encoded, a megabyte of base64 as much as a word.
_CHARACTERS_BETWEEN_CLEARINGS = 8_000_000


class Vocabulary(Counter):
    """Counts with the vocabulary of a model family."""

    __slots__ = ()

    exact = True

    def count(self, text: str) -> int:
        """The exact number; a special token spelled out in the text counts as ordinary text."""
        return encoder(self.name)(text)


VOCABULARIES = {name: Vocabulary(name) for name in _NAMES}


class _Encoder:
    """One loaded vocabulary, shared by everything in the process that counts with it."""

    __slots__ = ("_characters", "_remembers", "_tokenizer")

    def __init__(self, tokenizer: "AnyTokenizer") -> None:
        self._tokenizer = tokenizer
        self._remembers = tokenizer.family == "BPE"  # the others have nothing to clear
        self._characters = 0

    def __call__(self, text: str) -> int:
        try:
            tokens = len(self._tokenizer.encode_ordinary(text))
        except UnicodeEncodeError:
            tokens = len(self._tokenizer.encode_ordinary(repair_surrogates(text)))
        self._characters += len(text)
        if self._remembers and self._characters > _CHARACTERS_BETWEEN_CLEARINGS:
            self._characters = 0
            self._tokenizer.clear_cache()
        return tokens


_loaded: dict[str, _Encoder] = {}
_loading = threading.Lock()


def encoder(name: str) -> Callable[[str], int]:
    """The counting function of a vocabulary, loaded once for each process."""
    found = _loaded.get(name)
    if found is not None:
        return found
    with _loading:
        if name not in _loaded:
            from splintr import Tokenizer

            _loaded[name] = _Encoder(Tokenizer.from_pretrained(name))
        return _loaded[name]
