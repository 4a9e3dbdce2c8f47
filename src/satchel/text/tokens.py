"""Token counters: exact vocabularies, an upper bound for Claude, two heuristics, and lookup by model name."""

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

    from satchel.text.token_table import TokenTable

__all__ = [
    "CLAUDE",
    "COUNTER_OF_MODEL",
    "DEFAULT_COUNTER",
    "GENERATIONS",
    "HEURISTICS",
    "LONGEST_PIECE",
    "VOCABULARIES",
    "CharacterRule",
    "ClaudeEstimate",
    "Counter",
    "PieceClass",
    "Rate",
    "Rates",
    "Vocabulary",
    "classify",
    "count_tokens",
    "counter",
    "encoder",
    "estimate_tokens",
    "is_name_prefix",
    "known_counters",
    "normalized_name",
    "split_pieces",
    "without_provider",
]


class Counter(ABC):
    """Counts the tokens of a text.

    `satchel.counter` finds one by its name or by the name of a model. `exact` says whether it uses the model's own
    vocabulary. If not, `binds` says whether `count` is an upper bound. Counters are cheap to create, load their
    data when first used, and are safe to share between threads.
    """

    __slots__ = ("name",)

    exact = False
    """Whether `count` is the model's own number, not a bound or a guess."""

    binds = True
    """Whether the real number is never above `count`, so that a budget checked with `count` holds."""

    def __init__(self, name: str) -> None:
        self.name = name

    @abstractmethod
    def count(self, text: str) -> int:
        """Return the number that budgets are checked with: the exact number of tokens, or an upper bound."""

    def estimate(self, text: str) -> int:
        """Return the best guess; the same as `count` unless the counter has a better one."""
        return self.count(text)

    def load(self) -> None:
        """Load all that the counter may need: a process that runs for long counts faster then."""
        self.count("")

    def count_many(self, texts: Iterable[str]) -> list[int]:
        """Return the count of each text, in order."""
        return [self.count(text) for text in texts]

    def __repr__(self) -> str:
        return f"<satchel counter {self.name}>"


# Heuristics: the number of characters divided by a constant.


class CharacterRule(Counter):
    """Divides the number of characters by a constant and rounds up, in constant time. A guess, not a bound."""

    __slots__ = ("_characters", "_tokens")

    binds = False

    def __init__(self, name: str, *, characters: int, tokens: int) -> None:
        super().__init__(name)
        self._characters = characters
        self._tokens = tokens

    def count(self, text: str) -> int:
        """Return the guess. The real number may be higher."""
        return -(-len(text) * self._tokens // self._characters)


HEURISTICS = {
    rule.name: rule
    for rule in (
        CharacterRule("chars/4", characters=4, tokens=1),
        CharacterRule("chars/3.5", characters=7, tokens=2),
    )
}


# Exact counters: the vocabularies of splintr, loaded when first used.


# splintr also has modernbert, which adds [CLS] and [SEP], and whisper; these are not for prompts.
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

# splintr caches every distinct piece that it encodes, even a megabyte of base64, so the cache is cleared now and
# then.
_CHARACTERS_PER_CACHE_CLEAR = 8_000_000


class Vocabulary(Counter):
    """Counts with the vocabulary of a model family."""

    __slots__ = ()

    exact = True

    def count(self, text: str) -> int:
        """Return the exact number. Special tokens in the text, such as "<|endoftext|>", count as ordinary text."""
        return encoder(self.name)(text)

    def load(self) -> None:
        _load(self.name)


VOCABULARIES = {name: Vocabulary(name) for name in _NAMES}


class _Encoder:
    """A loaded vocabulary, shared by all counters of the process."""

    __slots__ = ("_characters", "_has_cache", "_tokenizer")

    def __init__(self, tokenizer: "AnyTokenizer") -> None:
        self._tokenizer = tokenizer
        self._has_cache = tokenizer.family == "BPE"  # the other families have no cache
        self._characters = 0

    def __call__(self, text: str) -> int:
        try:
            tokens = len(self._tokenizer.encode_ordinary(text))
        except UnicodeEncodeError:
            tokens = len(self._tokenizer.encode_ordinary(repair_surrogates(text)))
        self._characters += len(text)
        if self._has_cache and self._characters > _CHARACTERS_PER_CACHE_CLEAR:
            self._characters = 0
            self._tokenizer.clear_cache()
        return tokens


class _FirstTexts:
    """Counts with the mapped table of o200k_base until there is much to count; then splintr takes over.

    Both give the same numbers. splintr is faster by far, but takes longer to load than a short command takes.
    """

    __slots__ = ("_table",)

    def __init__(self, table: "TokenTable") -> None:
        self._table = table

    def __call__(self, text: str) -> int:
        try:
            tokens = self._table.count(text)
        except UnicodeEncodeError:
            tokens = self._table.count(repair_surrogates(text))
        return _load(_MAPPED)(text) if tokens is None else tokens


_MAPPED = "o200k_base"
_loaded: dict[str, Callable[[str], int]] = {}
_loading = threading.Lock()


def encoder(name: str) -> Callable[[str], int]:
    """Return the counting function of a vocabulary, loaded once per process."""
    found = _loaded.get(name)
    if found is not None:
        return found
    return _first_texts() if name == _MAPPED else _load(name)


def _load(name: str) -> _Encoder:
    """Load a vocabulary of splintr, and use it from now on."""
    with _loading:
        found = _loaded.get(name)
        if not isinstance(found, _Encoder):
            from splintr import Tokenizer

            found = _loaded[name] = _Encoder(Tokenizer.from_pretrained(name))
        return found


def _first_texts() -> Callable[[str], int]:
    from satchel.text.token_table import TokenTable, table_path

    try:
        table = TokenTable(table_path())
    except (OSError, ValueError):
        # Without the file, everything is the same and only slower to start.
        return _load(_MAPPED)
    with _loading:
        return _loaded.setdefault(_MAPPED, _FirstTexts(table))


# Splitting of text into short pieces of one class each, close to the pre-tokenization of BPE tokenizers.
#
# Text that follows a piece never changes it: appending to a text can only lengthen its last piece or add new ones.
# The upper bound for Claude depends on this.


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

# The most bytes of a piece: one leading character, one capital and 16 letters, or 18 digits, at four bytes each.
LONGEST_PIECE = 18 * 4


class PieceClass(Enum):
    """The class of characters in a piece, which decides its price."""

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


# Compiled when first used: compiling takes some 20 ms, which `import satchel` should not take.
@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def split_pieces(text: str) -> list[str]:
    """Split a text into pieces, in order; joined, they are the text again."""
    return _compiled(_PIECE).findall(text)


def classify(piece: str) -> PieceClass:
    """Return the class of a piece from `split_pieces`."""
    last = piece[-1]
    found = next((c for p, c in _BY_LAST_CHARACTER if _compiled(p).match(last)), None)
    if found is None:
        return PieceClass.SYMBOL
    if found is PieceClass.WORD and not piece.isascii():
        return PieceClass.ACCENTED
    if found is PieceClass.WORD and not (piece[0].isalpha() or piece[0] == " "):
        return PieceClass.JOINED
    return found


# The price of a piece of text in Claude tokens, computed from its o200k_base tokens.
#
# A rate is a pair: the price of each o200k_base token of a piece and of each character, in hundredths of a Claude
# token. docs/explanation/counting.md says where each number comes from.


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


# Counters for Claude, whose vocabulary is not public.


_ONE_TOKEN = 100


class ClaudeEstimate(Counter):
    """Estimates Claude's tokens from those of o200k_base, piece by piece. `count` is an upper bound."""

    __slots__ = ()

    def count(self, text: str) -> int:
        """Return an upper bound. It is never more than the number of bytes, and never falls as the text grows."""
        pieces = split_pieces(repair_surrogates(text))
        total = sum(times * self._bound(piece) for piece, times in Tally(pieces).items())
        return _round_up(self._highest_prefix_total(pieces, total))

    def estimate(self, text: str) -> int:
        """Return the best guess; never above `count`."""
        pieces = Tally(split_pieces(repair_surrogates(text)))
        total = sum(times * _price(self.name, piece)[0] for piece, times in pieces.items())
        return _round_up(total)

    def _bound(self, piece: str) -> int:
        return _price(self.name, piece)[1]

    def _highest_prefix_total(self, pieces: list[str], total: int) -> int:
        """Return the highest total of the text and all its beginnings.

        Half a word can cost more than the whole ("morni" is two tokens, "morning" one), so without this a text
        could become cheaper by growing. Only the last few pieces can matter.
        """
        highest, before = total, total
        for piece in reversed(pieces):
            before -= self._bound(piece)
            if before + _ONE_TOKEN * LONGEST_PIECE <= highest:
                break
            if before + _ONE_TOKEN * len(piece.encode()) > highest:
                highest = max(highest, before + max(map(self._bound, accumulate(piece))))
        return highest


@lru_cache(maxsize=1 << 16)
def _price(generation: str, piece: str) -> tuple[int, int]:
    """Return the estimated and the highest possible price of a piece, in hundredths of a token."""
    guess, bound = GENERATIONS[generation][classify(piece)]
    tokens = encoder("o200k_base")(piece)
    # A byte-level tokenizer never makes more tokens than there are bytes.
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


# The counter of each model: the longest entry that is a prefix of the model's name applies.
#
# Names are compared in lower case, with `.`, `_` and spaces as `-`. Only models with a known vocabulary are listed.
# `None` marks a family whose vocabulary is known to be a different one.


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
    # Anthropic: an unlisted Claude counts as the newest, which has the higher bound.
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
    # DeepSeek: a distilled model has the vocabulary of the model it was made from.
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


def normalized_name(name: str) -> str:
    """Return a name in the form used for comparison: `Qwen2.5_Coder` becomes `qwen2-5-coder`."""
    return name.strip().lower().translate(str.maketrans("._ ", "---"))


def without_provider(name: str) -> str:
    """Return a model's name without the provider and region before it."""
    return re.sub(_PROVIDER, "", name.strip().lower(), count=1, flags=re.VERBOSE)


# Lookup of counters by name.


DEFAULT_COUNTER = "o200k_base"

_COUNTERS: dict[str, Counter] = {**VOCABULARIES, **CLAUDE, **HEURISTICS}
_BY_NORMALIZED_NAME = {normalized_name(name): found for name, found in _COUNTERS.items()}
_MODELS = {normalized_name(model): name for model, name in COUNTER_OF_MODEL.items()}
_LONGEST_FIRST = sorted(_MODELS, key=len, reverse=True)


def counter(name: str | Counter) -> Counter:
    """Return the counter with this name, or the one for this model, such as "gpt-4o" or "openai/gpt-4o-mini".

    A `Counter` is returned as it is. Raises `InputError` for an unknown name, with similar names in the message,
    and for a model whose vocabulary is not part of the package.
    """
    if isinstance(name, Counter):
        return name
    if not isinstance(name, str):
        raise InputError(f"counter {name!r} is neither a name nor a Counter")
    found = _BY_NORMALIZED_NAME.get(normalized_name(name))
    if found is not None:
        return found
    model = normalized_name(without_provider(name))
    row = next((row for row in _LONGEST_FIRST if is_name_prefix(row, model)), None)
    if row is None:
        raise InputError(_unknown(name, model))
    target = _MODELS[row]
    if target is None:
        raise InputError(
            f"no counter for {name!r}: Satchel does not include its vocabulary; "
            f"choose another counter, `satchel tokens --all` lists them"
        )
    return _COUNTERS[target]


def known_counters() -> list[str]:
    """Return the names of all counters, sorted."""
    return sorted(_COUNTERS)


def is_name_prefix(row: str, model: str) -> bool:
    """Return whether a table entry is a prefix of a model's name that ends at the end of a word or number."""
    if not model.startswith(row):
        return False
    rest = model[len(row) :]
    # "o1" is not a prefix of "o100" in this sense, nor "opus" of "opuscule".
    return not (rest and rest[0].isalnum() and rest[0].isdigit() == row[-1].isdigit())


def _unknown(name: str, model: str) -> str:
    from difflib import get_close_matches

    names = {*_COUNTERS, *(known for known, target in COUNTER_OF_MODEL.items() if target)}
    near = get_close_matches(model, sorted(names), n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    return f"unknown counter {name!r}; {hint}`satchel tokens --all` lists all counters"


# Counting in one call.
_find_counter = counter  # the parameter below has its public name


def count_tokens(text: str, counter: str | Counter = DEFAULT_COUNTER) -> int:
    """Count the tokens of a text: the number that budgets are checked with.

    The number is exact for a public vocabulary, and an upper bound for models without one, such as Claude.
    """
    return _find_counter(counter).count(text)


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text in constant time: a quarter of the characters, rounded up.

    This undercounts Chinese, Japanese, Korean and base64 by about half. Use `count_tokens` if a budget must hold.
    """
    return HEURISTICS["chars/4"].count(text)
