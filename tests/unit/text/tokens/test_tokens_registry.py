import pytest

from satchel.errors import InputError
from satchel.text.tokens import (
    COUNTER_OF_MODEL,
    DEFAULT_COUNTER,
    Counter,
    count_tokens,
    counter,
    estimate_tokens,
    known_counters,
)
from tables import each_row


@each_row(
    ("name", "canonical"),
    [
        ("o200k_base", "o200k_base"),
        ("O200K-Base", "o200k_base"),
        (" cl100k_base ", "cl100k_base"),
        ("gpt-4o", "o200k_base"),
        ("GPT-4o-mini", "o200k_base"),
        ("openai/gpt-4o", "o200k_base"),
        ("openai:gpt-4o", "o200k_base"),
        ("gpt-4o-2024-08-06", "o200k_base"),
        ("ft:gpt-4o-2024-08-06:acme::abc123", "o200k_base"),
        ("chatgpt-4o-latest", "o200k_base"),
        ("gpt-4.1-nano", "o200k_base"),
        ("gpt-5", "o200k_base"),
        ("openrouter/openai/gpt-5.4-mini", "o200k_base"),
        ("o1", "o200k_base"),
        ("o3-mini", "o200k_base"),
        ("o4-mini-2025-04-16", "o200k_base"),
        ("gpt-4", "cl100k_base"),
        ("gpt-4-turbo", "cl100k_base"),
        ("gpt-4-1106-preview", "cl100k_base"),
        ("gpt-3.5-turbo-0125", "cl100k_base"),
        ("azure/gpt-35-turbo", "cl100k_base"),
        ("gpt-oss-120b", "gpt_oss"),
        ("gpt-oss:20b", "gpt_oss"),
        ("openai.gpt-oss-120b-1:0", "gpt_oss"),
        ("claude", "claude-4.7"),
        ("sonnet", "claude-4.7"),
        ("claude-3", "claude-3"),
        ("claude-2.1", "claude-3"),
        ("claude-3-5-sonnet-20241022", "claude-3"),
        ("claude-3-5-sonnet-v2@20241022", "claude-3"),
        ("claude-3.7-sonnet:thinking", "claude-3"),
        ("anthropic/claude-sonnet-4-5", "claude-3"),
        ("anthropic/claude-sonnet-4.5", "claude-3"),
        ("claude-opus-4-20250514", "claude-3"),
        ("claude-opus-4-6", "claude-3"),
        ("claude-haiku-4-5-20251001", "claude-3"),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-3"),
        ("bedrock/global.anthropic.claude-opus-4-7-v1:0", "claude-4.7"),
        ("claude-opus-4-7", "claude-4.7"),
        ("claude-opus-4.8", "claude-4.7"),
        ("claude-opus-4-7[1m]", "claude-4.7"),
        ("claude-sonnet-5", "claude-4.7"),
        ("claude-haiku-5-5", "claude-4.7"),
        ("claude-fable-5-1", "claude-4.7"),
        ("claude-mythos-preview", "claude-4.7"),
        ("claude-not-yet-released-9", "claude-4.7"),
        ("models/gemini-2.5-pro", "gemma3"),
        ("gemini-2.0-flash-001", "gemma3"),
        ("gemini-1.5-flash", "gemma2"),
        ("google/gemma-2-9b-it", "gemma2"),
        ("gemma3:27b", "gemma3"),
        ("gemma-3n-e4b-it", "gemma3"),
        ("gemma-4-31b-it", "gemma4"),
        ("meta-llama/Llama-2-7b-chat-hf", "llama2"),
        ("codellama:13b", "codellama"),
        ("llama3.1:8b", "llama3"),
        ("meta-llama/Llama-3.3-70B-Instruct", "llama3"),
        ("meta-llama/Meta-Llama-3-8B", "llama3"),
        ("meta.llama3-1-70b-instruct-v1:0", "llama3"),
        ("Qwen/Qwen3-8B", "qwen3"),
        ("Qwen/Qwen2.5-Coder-32B-Instruct", "qwen3"),
        ("qwen3-coder:30b", "qwen3"),
        ("qwq:32b", "qwen3"),
        ("deepseek-ai/DeepSeek-V3.2", "deepseek_v3"),
        ("deepseek-r1", "deepseek_v3"),
        ("deepseek-r1:14b", "qwen3"),
        ("deepseek-r1:70b", "llama3"),
        ("deepseek-ai/DeepSeek-R1-Distill-Llama-70B", "llama3"),
        ("deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", "qwen3"),
        ("mistral:7b", "mistral_v2"),
        ("mistralai/Mistral-7B-Instruct-v0.2", "mistral_v1"),
        ("mistralai/Mistral-7B-Instruct-v0.3", "mistral_v2"),
        ("mistral.mistral-7b-instruct-v0:2", "mistral_v1"),
        ("mistralai/Mixtral-8x7B-Instruct-v0.1", "mistral_v1"),
        ("mixtral:8x22b", "mistral_v2"),
        ("codestral:22b", "mistral_v2"),
        ("mistral-nemo", "mistral_v3"),
        ("mistral-small-3.2", "mistral_v3"),
        ("zai-org/GLM-4.5-Air", "glm4"),
        ("moonshotai/Kimi-K2-Instruct", "kimi_k2"),
        ("kimi-k3", "kimi_k3"),
        ("microsoft/phi-4", "phi4"),
        ("phi4:14b", "phi4"),
        ("allenai/OLMo-2-1124-7B", "olmo2"),
        ("chars/4", "chars/4"),
        ("chars/3.5", "chars/3.5"),
    ],
)
def test_a_name_finds_its_counter(name, canonical):
    assert counter(name).name == canonical


@pytest.mark.parametrize(
    "name",
    ["llama-4-scout", "qwen3.5:9b", "phi-4-mini-instruct", "mistral-large-2411", "glm-5"],
)
def test_a_model_with_a_vocabulary_of_its_own_is_refused_rather_than_guessed(name):
    with pytest.raises(InputError, match="Satchel does not include its vocabulary") as refused:
        counter(name)
    assert repr(name) in str(refused.value)
    assert "`satchel tokens --all`" in str(refused.value)


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [("o200k_bass", "o200k_base"), ("gpt4o", "gpt-4o"), ("openai/gtp-4o", "gpt-4o")],
)
def test_an_unknown_name_is_refused_with_the_nearest_known_names(name, suggestion):
    with pytest.raises(InputError) as refused:
        counter(name)
    message = str(refused.value)
    assert repr(name) in message
    assert suggestion in message
    assert "`satchel tokens --all`" in message


@pytest.mark.parametrize("name", ["", "zzzzzz", "o100", "gemini-9", "/", "claudette", "gpt-55"])
def test_a_name_that_only_begins_like_a_known_one_is_refused(name):
    with pytest.raises(InputError, match="unknown counter"):
        counter(name)


@pytest.mark.parametrize("name", [None, 4, b"gpt-4o"])
def test_what_is_no_name_is_refused(name):
    with pytest.raises(InputError, match="neither a name nor a Counter"):
        counter(name)


def test_a_counter_is_given_back_as_it_is():
    class Bytes(Counter):
        exact = True

        def count(self, text):
            return len(text.encode())

    mine = Bytes("bytes")
    assert counter(mine) is mine
    assert count_tokens("é", mine) == 2
    assert mine.estimate("é") == 2
    assert mine.count_many(["é", "e"]) == [2, 1]


def test_the_known_counters_are_canonical_sorted_and_all_found():
    names = known_counters()
    assert names == sorted(names)
    assert {"o200k_base", "claude-3", "claude-4.7", "chars/4"} <= set(names)
    assert [counter(name).name for name in names] == names


def test_every_row_of_the_model_table_leads_to_a_known_counter_or_to_none():
    assert {target for target in COUNTER_OF_MODEL.values() if target} <= set(known_counters())


@each_row("model", [model for model, target in COUNTER_OF_MODEL.items() if target])
def test_a_model_of_the_table_finds_the_counter_of_its_own_row(model):
    assert counter(model).name == COUNTER_OF_MODEL[model]


def test_counting_without_a_name_uses_the_default():
    text = "We rotate JWTs every hour and keep the old key for ten minutes."
    assert DEFAULT_COUNTER == "o200k_base"
    assert count_tokens(text) == 15
    assert count_tokens(text, "chars/4") == 16
    assert estimate_tokens(text) == 16
