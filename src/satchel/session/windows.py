"""How many tokens a model's context window holds: a table, matched by the longest beginning of the name.

Names are matched as counters match them. Where versions or providers of one name differ, the smaller window
stands here: a budget that is too small costs pages, one that is too large costs the session.

Collected in November 2026. The comments name where a maker states it; Claude, GPT, Gemini 2, Mistral Large, Qwen 3
and DeepSeek were looked up, mostly in tables that repeat it, the other rows were not.
"""

from reprlib import repr as shortened

from satchel.errors import InputError
from satchel.text.tokens.models import spelling, without_provider
from satchel.text.tokens.registry import begins_with

__all__ = ["WINDOW_OF_MODEL", "context_window"]

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

_WINDOWS = {spelling(model): window for model, window in WINDOW_OF_MODEL.items()}
_LONGEST_FIRST = sorted(_WINDOWS, key=len, reverse=True)
_MILLION = "[1m]"  # how Claude Code names a model that is asked for its long window


def context_window(name: str) -> int:
    """The tokens that the context window of the model of this name holds, prompt and answer together."""
    if not isinstance(name, str):
        raise InputError(f"model {shortened(name)} is not a name")
    model = spelling(without_provider(name))
    row = next((row for row in _LONGEST_FIRST if begins_with(row, model)), None)
    if row is None:
        raise InputError(_unknown(name, model))
    return 1_000_000 if model.endswith(_MILLION) else _WINDOWS[row]


def _unknown(name: str, model: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(model, sorted(WINDOW_OF_MODEL), n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}? If not, give" if near else "give"
    return f"no context window is known for model {shortened(name)}; {hint} the total of the budget yourself"
