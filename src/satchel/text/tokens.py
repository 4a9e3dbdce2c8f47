"""Counting tokens: exact vocabularies, a bounded estimate for Claude, two rules of thumb, model names."""

import re
import threading
from abc import ABC, abstractmethod
from collections import Counter as Tally
from collections.abc import Callable, Iterable
from enum import Enum
from functools import cache, lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING

from satchel.errors import InputError
from satchel.model.checks import repair_surrogates

if TYPE_CHECKING:
    from splintr import AnyTokenizer

__all__ = [
    "CLAUDE",
    "COUNTER_OF_MODEL",
    "DEFAULT_COUNTER",
    "GENERATIONS",
    "HEURISTICS",
    "MOST_BYTES",
    "VOCABULARIES",
    "CharacterRule",
    "ClaudeEstimate",
    "Counter",
    "PieceClass",
    "Rate",
    "Rates",
    "Vocabulary",
    "begins_with",
    "classify",
    "count_tokens",
    "counter",
    "encoder",
    "estimate_tokens",
    "known_counters",
    "spelling",
    "split_pieces",
    "without_provider",
]


class Counter(ABC):
    """Turns text into a number of tokens.

    `satchel.counter` finds one by its name or by that of a model. `exact` says whether it counts by the model's own
    vocabulary; where it does not, `binds` says whether `count` is at least an upper bound. Counters are cheap to
    make, load what they need when first used, and are safe to share between threads.
    """

    __slots__ = ("name",)

    exact = False
    """Whether `count` is the model's own number rather than a bound or a guess."""

    binds = True
    """Whether the real number stays within `count`, so that a budget held against it means something."""

    def __init__(self, name: str) -> None:
        self.name = name

    @abstractmethod
    def count(self, text: str) -> int:
        """The number a budget is held against: exact, or an upper bound."""

    def estimate(self, text: str) -> int:
        """The best guess; the same as `count` unless a counter knows better."""
        return self.count(text)

    def count_many(self, texts: Iterable[str]) -> list[int]:
        """One count for each text, in order."""
        return [self.count(text) for text in texts]

    def __repr__(self) -> str:
        return f"<satchel counter {self.name}>"


# The seeds' rules of thumb: characters divided by a constant, whatever the characters are.


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


# Exact counters: the vocabularies that come with splintr, loaded when first counted with.


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


# Text cut into short pieces of one class each, close to where tokenizers cut before they merge.
#
# What follows a piece never reshapes it: text appended to a text can only lengthen its last piece
# or add new ones. The bound for Claude rests on this.


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


def split_pieces(text: str) -> list[str]:
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


# What Claude charges for a piece of text, compared with o200k_base.
#
# docs/explanation/counting.md says where each number comes from. A piece costs so much for each o200k_base
# token in it and so much for each character of it, in hundredths of a Claude token.


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


# Counters for Claude, whose vocabulary is not public: an estimate and an upper bound.


_ONE_TOKEN = 100


class ClaudeEstimate(Counter):
    """Works from o200k_base, piece by piece; `count` is the upper bound."""

    __slots__ = ()

    def count(self, text: str) -> int:
        """An upper bound; never more than the text has bytes, never lowered by appending text."""
        pieces = split_pieces(repair_surrogates(text))
        total = sum(times * self._bound(piece) for piece, times in Tally(pieces).items())
        return _round_up(self._highest_on_the_way(pieces, total))

    def estimate(self, text: str) -> int:
        """The best guess; never above `count`."""
        pieces = Tally(split_pieces(repair_surrogates(text)))
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


# Which counter counts for which model: a table, matched by the longest beginning of the name.
#
# Names are compared in lower case with `.`, `_` and spaces as `-`. A model is listed only where its
# vocabulary is known; `None` marks a family whose vocabulary is known to be another one.


COUNTER_OF_MODEL: dict[str, str | None] = {
    # OpenAI
    "gpt-5": "o200k_base",
    "gpt-4.5": "o200k_base",
    "gpt-4.1": "o200k_base",
    "gpt-4o": "o200k_base",
    "chatgpt-4o": "o200k_base",
    "codex-mini": "o200k_base",
    "o1": "o200k_base",
    "o3": "o200k_base",
    "o4": "o200k_base",
    "gpt-4": "cl100k_base",
    "gpt-3.5": "cl100k_base",
    "gpt-35": "cl100k_base",
    "text-embedding-3": "cl100k_base",
    "text-embedding-ada-002": "cl100k_base",
    "gpt-oss": "gpt_oss",
    # Anthropic: a Claude not listed is taken for the newest, which is the safe side.
    "claude": "claude-4.7",
    "fable": "claude-4.7",
    "haiku": "claude-4.7",
    "mythos": "claude-4.7",
    "opus": "claude-4.7",
    "sonnet": "claude-4.7",
    "claude-instant": "claude-3",
    "claude-v2": "claude-3",
    "claude-2": "claude-3",
    "claude-3": "claude-3",
    "claude-4": "claude-3",
    "claude-4.7": "claude-4.7",
    "claude-4.8": "claude-4.7",
    "claude-4.9": "claude-4.7",
    "claude-haiku-3": "claude-3",
    "claude-haiku-4": "claude-3",
    "claude-sonnet-3": "claude-3",
    "claude-sonnet-4": "claude-3",
    "claude-opus-3": "claude-3",
    "claude-opus-4": "claude-3",
    "claude-opus-4.7": "claude-4.7",
    "claude-opus-4.8": "claude-4.7",
    "claude-opus-4.9": "claude-4.7",
    # Google: its own SDK counts Gemini 2.0 to 3 Pro with Gemma 3's vocabulary, 1.5 with Gemma 2's.
    "gemini-3-pro": "gemma3",
    "gemini-2.5": "gemma3",
    "gemini-2.0": "gemma3",
    "gemini-1.5": "gemma2",
    "gemma": "gemma2",
    "gemma-2": "gemma2",
    "gemma2": "gemma2",
    "gemma-3": "gemma3",
    "gemma3": "gemma3",
    "gemma-3n": "gemma3",
    "gemma3n": "gemma3",
    "gemma-4": "gemma4",
    "gemma4": "gemma4",
    "embeddinggemma": "gemma3",
    # Meta
    "llama-2": "llama2",
    "llama2": "llama2",
    "tinyllama": "llama2",
    "vicuna": "llama2",
    "codellama": "codellama",
    "llama-3": "llama3",
    "llama3": "llama3",
    "meta-llama-3": "llama3",
    "llama-4": None,
    "llama4": None,
    # Alibaba
    "qwen2": "qwen3",
    "qwen-2": "qwen3",
    "qwen3": "qwen3",
    "qwen-3": "qwen3",
    "qwq": "qwen3",
    "qwen3.5": None,
    "qwen-3.5": None,
    "qwen3.6": None,
    # DeepSeek: the distilled models keep the vocabulary of what they were made from.
    "deepseek-v3": "deepseek_v3",
    "deepseek-r1": "deepseek_v3",
    "deepseek-r1-distill-llama": "llama3",
    "deepseek-r1-distill-qwen": "qwen3",
    "deepseek-r1:1.5b": "qwen3",
    "deepseek-r1:7b": "qwen3",
    "deepseek-r1:8b": "qwen3",
    "deepseek-r1:14b": "qwen3",
    "deepseek-r1:32b": "qwen3",
    "deepseek-r1:70b": "llama3",
    # Mistral
    "mistral": "mistral_v2",
    "mistral-7b-v0.1": "mistral_v1",
    "mistral-7b-v0.2": "mistral_v1",
    "mistral-7b-instruct-v0.1": "mistral_v1",
    "mistral-7b-instruct-v0.2": "mistral_v1",
    "mistral-7b-instruct-v0:2": "mistral_v1",
    "mixtral": "mistral_v1",
    "mixtral-8x7b": "mistral_v1",
    "mixtral-8x22b": "mistral_v2",
    "mixtral:8x22b": "mistral_v2",
    "open-mixtral-8x22b": "mistral_v2",
    "codestral": "mistral_v2",
    "mistral-nemo": "mistral_v3",
    "open-mistral-nemo": "mistral_v3",
    "mistral-small": "mistral_v3",
    "ministral": "mistral_v3",
    "magistral": "mistral_v3",
    "devstral": "mistral_v3",
    "pixtral-12b": "mistral_v3",
    "codestral-2501": None,
    "codestral-2508": None,
    "codestral-latest": None,
    "mistral-small-2402": None,
    "mistral-small-2409": None,
    "mistral-large": None,
    "mistral-medium": None,
    # Others
    "glm-4": "glm4",
    "glm4": "glm4",
    "glm-5": None,
    "kimi-k2": "kimi_k2",
    "kimi-linear": "kimi_k2",
    "kimi-k3": "kimi_k3",
    "phi-4": "phi4",
    "phi4": "phi4",
    "phi-4-mini": None,
    "phi4-mini": None,
    "phi-4-multimodal": None,
    "olmo-2": "olmo2",
    "olmo2": "olmo2",
}

_PROVIDER = r"""
        ^(?:.*/)?                                         # openai/…, models/…, accounts/x/models/…
        (?:ft:)?                                          # OpenAI's fine-tuned models
        (?:(?:openai|anthropic|azure|bedrock|google|google-gla|google-vertex|groq):)?
        (?:(?:us|eu|apac|au|jp|ca|global|us-gov)\.)?      # Bedrock's regions
        (?:(?:anthropic|meta|mistral|deepseek|qwen|openai|google|moonshotai|moonshot|zai)\.)?
    """


def spelling(name: str) -> str:
    """The name as names are compared: `Qwen2.5_Coder` and `qwen2-5-coder` are one."""
    return name.strip().lower().translate(str.maketrans("._ ", "---"))


def without_provider(name: str) -> str:
    """The model's own name: no provider and no region before it."""
    return re.sub(_PROVIDER, "", name.strip().lower(), count=1, flags=re.VERBOSE)


# From a name to a counter: vocabularies, Claude's generations, rules of thumb and model names.


DEFAULT_COUNTER = "o200k_base"

_COUNTERS: dict[str, Counter] = {**VOCABULARIES, **CLAUDE, **HEURISTICS}
_BY_SPELLING = {spelling(name): found for name, found in _COUNTERS.items()}
_MODELS = {spelling(model): name for model, name in COUNTER_OF_MODEL.items()}
_LONGEST_FIRST = sorted(_MODELS, key=len, reverse=True)


def counter(name: str | Counter) -> Counter:
    """Return the counter of this name, or of the model of this name, such as "gpt-4o" or "openai/gpt-4o-mini".

    A counter is given back as it is. A name that is not known is an error which names similar ones, and so is a
    model whose vocabulary does not come with the package.
    """
    if isinstance(name, Counter):
        return name
    if not isinstance(name, str):
        raise InputError(f"counter {name!r} is neither a name nor a Counter")
    found = _BY_SPELLING.get(spelling(name))
    if found is not None:
        return found
    model = spelling(without_provider(name))
    row = next((row for row in _LONGEST_FIRST if begins_with(row, model)), None)
    if row is None:
        raise InputError(_unknown(name, model))
    target = _MODELS[row]
    if target is None:
        raise InputError(
            f"no counter for {name!r}: its vocabulary is none of those Satchel carries; "
            f"choose one yourself, `satchel tokens --all` shows them"
        )
    return _COUNTERS[target]


def known_counters() -> list[str]:
    """The canonical names of all counters, sorted."""
    return sorted(_COUNTERS)


def begins_with(row: str, model: str) -> bool:
    if not model.startswith(row):
        return False
    rest = model[len(row) :]
    # A number or a word goes on to its end: "o1" does not begin "o100", nor "opus" "opuscule".
    return not (rest and rest[0].isalnum() and rest[0].isdigit() == row[-1].isdigit())


def _unknown(name: str, model: str) -> str:
    from difflib import get_close_matches

    names = {*_COUNTERS, *(known for known, target in COUNTER_OF_MODEL.items() if target)}
    near = get_close_matches(model, sorted(names), n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    return f"unknown counter {name!r}; {hint}`satchel tokens --all` shows them"


# Counting in one call.
_find_counter = counter  # the parameter below has its public name


def count_tokens(text: str, counter: str | Counter = DEFAULT_COUNTER) -> int:
    """Count the tokens of a text: the number that a budget is held against.

    It is exact for a vocabulary and an upper bound for models without a public one, such as Claude.
    """
    return _find_counter(counter).count(text)


def estimate_tokens(text: str) -> int:
    """Guess the tokens of a text in constant time: a quarter of the characters, rounded up.

    It undercounts Chinese, Japanese, Korean and base64 by about half; use `count_tokens` where a budget must hold.
    """
    return HEURISTICS["chars/4"].count(text)
