"""Which counter counts for which model: a table, matched by the longest beginning of the name.

Names are compared in lower case with `.`, `_` and spaces as `-`. A model is listed only where its
vocabulary is known; `None` marks a family whose vocabulary is known to be another one.
"""

import re

__all__ = ["COUNTER_OF_MODEL", "spelling", "without_provider"]

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
