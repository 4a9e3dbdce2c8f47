"""The token budget of a session: total and tiers, context windows of models, and settings from the environment."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from reprlib import repr as shortened
from typing import Any, NamedTuple

import msgspec

from satchel.errors import BudgetError, InputError
from satchel.model.checks import check_budget, expanded
from satchel.model.result import Result
from satchel.text.tokens import is_name_prefix, normalized_name, without_provider

__all__ = ["TIERS", "WINDOW_OF_MODEL", "Budget", "checked_tokens", "context_window", "resolve_budget"]


WINDOW_OF_MODEL: dict[str, int] = {
    # Anthropic: platform.claude.com/docs, "Models overview" and "Context windows"; the 1M of Sonnet 4 and 4.5
    # needs a beta header and is not assumed.
    "claude": 200_000,
    "haiku": 200_000,
    "sonnet": 200_000,
    "opus": 200_000,
    "claude-instant": 100_000,
    "claude-2": 100_000,
    "claude-v2": 100_000,
    "claude-2.1": 200_000,
    "claude-v2:1": 200_000,
    "claude-sonnet-4.6": 1_000_000,
    "claude-sonnet-5": 1_000_000,
    "claude-opus-4.6": 1_000_000,
    "claude-opus-4.7": 1_000_000,
    "claude-opus-4.8": 1_000_000,
    "claude-opus-5": 1_000_000,
    "fable": 1_000_000,
    "mythos": 1_000_000,
    "claude-fable": 1_000_000,
    "claude-mythos": 1_000_000,
    # OpenAI: developers.openai.com/api/docs/models, one page for each model
    "gpt-3.5": 16_385,
    "gpt-35": 16_385,
    "gpt-4": 8_192,
    "gpt-4-32k": 32_768,
    "gpt-4-turbo": 128_000,
    "gpt-4-1106": 128_000,
    "gpt-4-0125": 128_000,
    "gpt-4o": 128_000,
    "chatgpt-4o": 128_000,
    "gpt-4.1": 1_047_576,
    "gpt-4.5": 128_000,
    "gpt-5": 400_000,
    "gpt-5-chat": 128_000,
    "gpt-5.1-chat": 128_000,
    "gpt-5.2-chat": 128_000,
    "gpt-5.3-chat": 128_000,
    "gpt-5.3-codex-spark": 128_000,
    "gpt-5.4": 1_050_000,
    "gpt-5.4-mini": 400_000,
    "gpt-5.4-nano": 400_000,
    "gpt-5.5": 1_050_000,
    "gpt-5.6": 1_050_000,
    "gpt-6": 1_050_000,
    "gpt-oss": 131_072,
    "codex-mini": 200_000,
    "o1": 200_000,
    "o1-mini": 128_000,
    "o1-preview": 128_000,
    "o3": 200_000,
    "o4": 200_000,
    # Google: ai.google.dev/gemini-api/docs/models, "Input token limit"; Gemma: the model cards
    "gemini": 1_048_576,
    "gemini-1.0": 30_720,
    "gemini-pro": 30_720,
    "gemini-pro-latest": 1_048_576,
    "gemini-1.5-pro": 2_097_152,
    "gemma": 8_192,
    "gemma2": 8_192,
    "gemma-3": 131_072,
    "gemma3": 131_072,
    "gemma-3-1b": 32_768,
    "gemma3:1b": 32_768,
    "gemma-3n": 32_768,
    "gemma3n": 32_768,
    "gemma-4": 131_072,
    "gemma4": 131_072,
    # Meta: the model cards in github.com/meta-llama/llama-models
    "llama-2": 4_096,
    "llama2": 4_096,
    "llama-3": 8_192,
    "llama3": 8_192,
    "meta-llama-3": 8_192,
    **{f"{name}.{minor}": 131_072 for name in ("llama-3", "llama3", "meta-llama-3") for minor in (1, 2, 3)},
    "llama-4": 1_048_576,
    "llama4": 1_048_576,
    "codellama": 16_384,
    # Alibaba: the model cards in huggingface.co/Qwen, the native length without YaRN
    "qwen2": 32_768,
    "qwen-2": 32_768,
    "qwen3": 32_768,
    "qwen-3": 32_768,
    "qwen3-4b-instruct-2507": 262_144,
    "qwen3-4b-thinking-2507": 262_144,
    "qwen3-30b-a3b-instruct-2507": 262_144,
    "qwen3-30b-a3b-thinking-2507": 262_144,
    "qwen3-235b-a22b-instruct-2507": 262_144,
    "qwen3-235b-a22b-thinking-2507": 262_144,
    "qwen3-coder": 262_144,
    "qwen3-next": 262_144,
    "qwen3-max": 262_144,
    "qwen3.5": 262_144,
    "qwen3.6": 262_144,
    "qwq": 32_768,
    # Mistral: docs.mistral.ai, "Models overview", and the model cards in huggingface.co/mistralai
    "mistral": 32_768,
    "mistral-large": 131_072,
    "mistral-large-2402": 32_768,
    "mistral-large-2512": 262_144,
    "mistral-medium": 131_072,
    "mistral-small": 131_072,
    "mistral-small-2402": 32_768,
    "mistral-small-2409": 32_768,
    "mistral-small-2501": 32_768,
    "mistral-nemo": 131_072,
    "open-mistral-7b": 32_768,
    "open-mistral-nemo": 131_072,
    "mixtral": 32_768,
    "mixtral-8x22b": 65_536,
    "mixtral:8x22b": 65_536,
    "open-mixtral-8x7b": 32_768,
    "open-mixtral-8x22b": 65_536,
    "ministral": 131_072,
    "pixtral": 131_072,
    "magistral": 40_960,
    "devstral": 131_072,
    "codestral": 32_768,
    "codestral-2501": 262_144,
    "codestral-2508": 262_144,
    "codestral-latest": 262_144,
    # DeepSeek: api-docs.deepseek.com, "Models & Pricing", and the model cards in huggingface.co/deepseek-ai
    "deepseek": 65_536,
    "deepseek-chat": 128_000,
    "deepseek-reasoner": 128_000,
    "deepseek-v3": 128_000,
    "deepseek-r1": 128_000,
    "deepseek-v4": 1_000_000,
    "deepseek-coder": 16_384,
    "deepseek-coder-v2": 128_000,
    # Others: docs.x.ai, docs.cohere.com, docs.z.ai, the model cards of moonshotai and microsoft
    "grok-3": 131_072,
    "grok-4": 256_000,
    "command-r": 128_000,
    "command-a": 256_000,
    "glm-4": 128_000,
    "glm4": 128_000,
    "glm-4.6": 200_000,
    "kimi-k2": 131_072,
    "phi-4": 16_384,
    "phi4": 16_384,
    "phi-4-mini": 131_072,
    "phi4-mini": 131_072,
}

_WINDOWS = {normalized_name(model): window for model, window in WINDOW_OF_MODEL.items()}
_LONGEST_FIRST = sorted(_WINDOWS, key=len, reverse=True)
_MILLION = "[1m]"  # Claude Code's suffix for a model with its long context window


def context_window(name: str) -> int:
    """Return the size of a model's context window in tokens, prompt and response together.

    The name may have a provider prefix and a version or date suffix; the longest matching name in the table wins.
    An unknown name raises `InputError` with similar names as suggestions.
    """
    if not isinstance(name, str):
        raise InputError(f"model {shortened(name)} is not a string; give the name of a model")
    model = normalized_name(without_provider(name))
    row = next((row for row in _LONGEST_FIRST if is_name_prefix(row, model)), None)
    if row is None:
        raise InputError(_unknown(name, model))
    return 1_000_000 if model.endswith(_MILLION) else _WINDOWS[row]


def _unknown(name: str, model: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(model, sorted(WINDOW_OF_MODEL), n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}? If not, give" if near else "give"
    return f"no context window is known for model {shortened(name)}; {hint} the total of the budget yourself"


# The budget: total, tiers and warning thresholds


TIERS = ("system", "history", "tool_results", "user", "response")

_DEFAULT_TOTAL = 100_000
_SHARES = {"system": 8_000, "history": 12_000, "tool_results": 40_000, "user": 10_000, "response": 30_000}
_PER_CALL = 8_000
_WARN_BELOW = 20_000
_CRITICAL_BELOW = 10_000

# Marks a field to be computed in __post_init__; after that, every field is a number.
_IN_PROPORTION: Any = None


class Budget(Result, msgspec.Struct, frozen=True, kw_only=True):
    """The tokens that a session may use, in total and by tier.

    A tier that is not given gets its share of the total: system 8 %, history 12 %, tool results 40 %, user 10 %,
    response 30 %. If the given tiers leave less than that, the other tiers divide what is left in the same
    proportions. `per_call`, the maximum for one tool result, is 8 % of the total, but at most the tier of tool
    results. Warnings are given below 20,000 and 10,000 remaining tokens; in a small budget, below a fifth and a
    tenth of the total. When a tier exceeds its limit, eviction reduces it to `low` times the limit.

    `assumed` means that nobody knows the model's context window, so that the total is only a default. Then notes
    do not state what is left, and there are no warnings.
    """

    total: int = _DEFAULT_TOTAL
    system: int = _IN_PROPORTION
    history: int = _IN_PROPORTION
    tool_results: int = _IN_PROPORTION
    user: int = _IN_PROPORTION
    response: int = _IN_PROPORTION
    per_call: int = _IN_PROPORTION
    warn_below: int = _IN_PROPORTION
    critical_below: int = _IN_PROPORTION
    low: float = 0.7
    assumed: bool = False

    def __post_init__(self) -> None:
        total = _DEFAULT_TOTAL if (given := _tokens("total", self.total)) is None else given
        if total < 1:
            raise BudgetError("total is 0; a session needs at least 1 token")
        tiers = _tiers(total, {name: _tokens(name, getattr(self, name)) for name in TIERS})
        per_call = _per_call(total, tiers["tool_results"], _tokens("per_call", self.per_call))
        warn_below, critical_below = _thresholds(
            total, _tokens("warn_below", self.warn_below), _tokens("critical_below", self.critical_below)
        )
        whole = {
            "total": total,
            **tiers,
            "per_call": per_call,
            "warn_below": warn_below,
            "critical_below": critical_below,
            "low": checked_share("low ", self.low),
        }
        for name, value in whole.items():
            msgspec.structs.force_setattr(self, name, value)

    def _summary(self) -> str:
        return " ".join(f"{name}={getattr(self, name)}" for name in ("total", *TIERS, "per_call"))

    @classmethod
    def for_model(cls, name: str) -> "Budget":
        """Return a budget of half the model's context window; the other half is for what is not counted here."""
        return cls(total=context_window(name) // 2)

    def for_window(self, window: int) -> "Budget":
        """Return a budget of half this context window, with the same limit of a call if the window has room."""
        total = Budget(total=window // 2)
        return msgspec.structs.replace(total, per_call=min(self.per_call, total.tool_results))

    def tiers(self) -> dict[str, int]:
        """Return the limit of each category, by its name in the ledger."""
        return {
            "system": self.system,
            "history": self.history,
            "tool_results": self.tool_results,
            "user": self.user,
            "response_reserve": self.response,
        }


def checked_tokens(place: str, value: object) -> int | None:
    """Check a number of tokens and return it. The message of an error begins with `place`."""
    try:
        return check_budget(value)
    except BudgetError as error:
        raise BudgetError(place + str(error).removeprefix("token budget ")) from None


def checked_share(place: str, value: object) -> float:
    """Check a number between 0 and 1 (both excluded) and return it as a float."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
        raise BudgetError(f"{place}{shortened(value)} is not a number between 0 and 1, such as 0.7")
    return float(value)


def _tokens(name: str, value: object) -> int | None:
    return checked_tokens(f"{name} ", value)


def _tiers(total: int, given: dict[str, int | None]) -> dict[str, int]:
    fixed = {name: value for name, value in given.items() if value is not None}
    taken = sum(fixed.values())
    if taken > total:
        raise BudgetError(
            f"the tiers {', '.join(fixed)} take {taken:,} tokens together, more than the total of {total:,}; "
            f"raise the total or lower a tier"
        )
    shares = {name: share for name, share in _SHARES.items() if name not in fixed}
    wanted = sum(shares.values())
    # Every open tier gets its default share of the total, unless the given tiers leave too little for that.
    room, whole = min((total, _DEFAULT_TOTAL), (total - taken, wanted or 1), key=lambda pair: pair[0] / pair[1])
    return {name: fixed[name] if name in fixed else shares[name] * room // whole for name in TIERS}


def _per_call(total: int, tool_results: int, given: int | None) -> int:
    if given is None:
        return min(tool_results, _PER_CALL * total // _DEFAULT_TOTAL)
    if given > tool_results:
        raise BudgetError(
            f"per_call {given:,} is more than the {tool_results:,} tokens of tool_results; "
            f"lower per_call or raise tool_results"
        )
    return given


def _thresholds(total: int, warn: int | None, critical: int | None) -> tuple[int, int]:
    warn_below = max(min(_WARN_BELOW, total // 5), critical or 0) if warn is None else warn
    critical_below = min(_CRITICAL_BELOW, total // 10, warn_below) if critical is None else critical
    if critical_below > warn_below:
        raise BudgetError(
            f"critical_below {critical_below:,} is above warn_below {warn_below:,}; it is the later alert"
        )
    if warn_below > total:
        raise BudgetError(f"warn_below {warn_below:,} is above the total of {total:,}; every turn would be warned")
    return warn_below, critical_below


# Settings, in order of precedence: call, environment, `satchel.toml`, defaults
#
# Each setting is looked up separately. `total` and `model` both set the total: the first source that has either of
# them decides, and `total` wins over `model` in the same source.


CONFIG_NAME = "satchel.toml"
CONFIG_VARIABLE = "SATCHEL_CONFIG"
SETTINGS = (*(name for name in Budget.__struct_fields__ if name != "assumed"), "model")

_PREFIX = "SATCHEL_BUDGET_"
_VARIABLES = {_PREFIX + name.upper(): name for name in SETTINGS}


class _Setting(NamedTuple):
    value: Any
    place: str


_Settings = dict[str, _Setting]


def resolve_budget(
    given: Budget | None = None,
    *,
    model: str | None = None,
    environ: Mapping[str, str] | None = None,
    file: Path | None = None,
    total_is_real: bool = True,
    **overrides: Any,
) -> Budget:
    """Make a budget from the arguments, the environment, the configuration file and the defaults, in that order.

    If `given` is a whole budget, only the overrides are applied to it, and `model` is ignored because the budget
    has a total. An override of None counts as not given. `file` replaces `satchel.toml` in the user's configuration
    directory. With `total_is_real=False` a default total is marked as assumed.
    """
    called = _from_call({**overrides, "model": model})
    if given is not None:
        return _changed(given, called)
    environ = os.environ if environ is None else environ
    kept = _from_file_of(environ, _config_folder()) if file is None else _from_file(file, required=True)
    settings = _over(called, _over(_from_environment(environ), kept))
    assumed = not total_is_real and not settings.keys() & {"total", "model"}
    return msgspec.structs.replace(_budget(settings), assumed=assumed)


def _changed(budget: Budget, called: _Settings) -> Budget:
    numbers = _numbers({name: setting for name, setting in called.items() if name != "model"})
    if "total" in numbers:
        numbers["assumed"] = False
    return msgspec.structs.replace(budget, **numbers) if numbers else budget


def _budget(settings: _Settings) -> Budget:
    try:
        return Budget(**_numbers(settings))
    except BudgetError as error:
        # Each value is valid on its own. Conflicting values may come from several sources, so name them all.
        origins = "; ".join(f"{name} is from {setting.place}" for name, setting in sorted(settings.items()))
        raise BudgetError(f"{error} ({origins})") from None


def _numbers(settings: _Settings) -> dict[str, Any]:
    numbers = {name: setting.value for name, setting in settings.items() if name != "model"}
    model = settings.get("model")
    if model is not None and "total" not in numbers:
        try:
            numbers["total"] = context_window(model.value) // 2
        except InputError as error:
            raise InputError(f"{error} (model is from {model.place})") from None
    return numbers


def _over(near: _Settings, far: _Settings) -> _Settings:
    if "total" in near or "model" in near:
        far = {name: setting for name, setting in far.items() if name not in ("total", "model")}
    return {**far, **near}


def _from_call(given: Mapping[str, Any]) -> _Settings:
    return {
        name: _Setting(_checked(name, value, place=f"{name} "), "the call")
        for name, value in given.items()
        if value is not None and _known(name, SETTINGS, place="")
    }


def _from_environment(environ: Mapping[str, str]) -> _Settings:
    found: _Settings = {}
    for variable in sorted(name for name in environ if name.startswith(_PREFIX)):
        text = environ[variable].strip()
        if _known(variable, _VARIABLES, place="") and text:
            name = _VARIABLES[variable]
            value = _fraction(text) if name == "low" else text
            found[name] = _Setting(_checked(name, value, place=f"{variable}="), variable)
    return found


def _from_file_of(environ: Mapping[str, str], folder: Path | None) -> _Settings:
    named = environ.get(CONFIG_VARIABLE, "").strip()
    if named:
        return _from_file(expanded(named), required=True, named_by=f"{CONFIG_VARIABLE} names it; ")
    return {} if folder is None else _from_file(folder / CONFIG_NAME, required=False)


def _from_file(path: Path, *, required: bool, named_by: str = "") -> _Settings:
    table = _table(path, required=required, named_by=named_by)
    settings: _Settings = {}
    for name, value in table.items():
        _known(name, SETTINGS, place=f"{path}: [budget] ")
        settings[name] = _Setting(_checked(name, value, place=f"{path}: [budget] {name} = "), str(path))
    return settings


def _table(path: Path, *, required: bool, named_by: str) -> dict[str, Any]:
    import tomllib

    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if required:
            raise InputError(f"there is no file {path}; {named_by}make it or name another") from None
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not TOML: {error}") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
    table = document.get("budget", {})
    if not isinstance(table, dict):
        raise InputError(
            f"{path}: budget = {shortened(table)} is not a table; write [budget] and its settings below it"
        )
    return table


def _checked(name: str, value: Any, *, place: str) -> Any:
    return _CHECKS.get(name, checked_tokens)(place, value)


def _model(place: str, value: object) -> str:
    if not isinstance(value, str):
        raise InputError(f"{place}{shortened(value)} is not the name of a model")
    return value


def _fraction(text: str) -> object:
    try:
        return float(text)
    except ValueError:
        return text  # the check rejects it and quotes the text


_CHECKS: dict[str, Callable[[str, object], Any]] = {"low": checked_share, "model": _model}


def _known(name: str, names: Mapping[str, str] | tuple[str, ...], *, place: str) -> bool:
    if name in names:
        return True
    from difflib import get_close_matches

    near = get_close_matches(name, list(names), n=1, cutoff=0.6)
    hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(names)}"
    raise InputError(f"{place}{name} is not a setting; {hint}")


def _config_folder() -> Path:
    from platformdirs import user_config_path

    return user_config_path("satchel")
