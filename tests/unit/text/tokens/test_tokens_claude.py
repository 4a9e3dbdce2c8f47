import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from satchel.model.checks import repair_surrogates
from satchel.text.tokens import GENERATIONS, PieceClass, counter

generations = pytest.mark.parametrize("name", GENERATIONS)

PROSE = (
    "We rotate the signing keys every hour and keep the previous one for ten minutes, so that a "
    "request that was signed just before the change is still accepted. Ana asked whether the "
    "mobile clients cope with that; they do, because they fetch the key set again on a failure. "
)
CODE = (
    "class Ledger:\n"
    "    def record(self, entry: Entry, *, at: float | None = None) -> int:\n"
    "        self._entries.append((at or self._clock(), entry))\n"
    "        return sum(tokens for _, tokens in self._entries if tokens > 0)\n\n"
)
JSON = '{"id": 4821, "kind": "decision", "tags": ["auth", "keys"], "importance": 0.8, "ok": true},\n'

# Published measurements, as times o200k_base; docs/explanation/counting.md names them.
MEASURED = [
    pytest.param("claude-3", PROSE, 1.16, id="Claude 3.5, English"),
    pytest.param("claude-3", CODE, 1.30, id="Claude 3.5, Python"),
    pytest.param("claude-4.7", PROSE, 1.82, id="Opus 5.5, English"),
    pytest.param("claude-4.7", CODE, 1.51, id="Opus 5.5, code"),
    pytest.param("claude-4.7", JSON, 1.38, id="Opus 5.5, JSON"),
    pytest.param("claude-3", "我们每小时轮换一次令牌，并保留旧密钥。", 1.49, id="Chinese"),
    pytest.param("claude-3", "Мы меняем токены каждый час и храним ключ.", 1.56, id="Russian"),
    pytest.param("claude-3", "نقوم بتدوير الرموز كل ساعة ونحتفظ بالمفتاح", 2.18, id="Arabic"),
    pytest.param("claude-3", "हम हर घंटे टोकन बदलते हैं और कुंजी को रखते हैं", 2.36, id="Hindi"),
]


@pytest.mark.parametrize(("name", "text", "ratio"), MEASURED)
def test_the_bound_is_above_what_was_measured_and_the_estimate_near_it(name, text, ratio):
    text *= 20
    claude, o200k = counter(name), counter("o200k_base").count(text)
    assert claude.count(text) > ratio * o200k
    assert claude.estimate(text) == pytest.approx(ratio * o200k, rel=0.2)


@pytest.mark.parametrize(("name", "real"), [("claude-3", 14), ("claude-4.7", 25)])
def test_a_sentence_whose_real_counts_were_published_stays_below_the_bound(name, real):
    sentence = "The quick brown fox jumps over the lazy dog every morning at sunrise"
    claude = counter(name)
    assert claude.estimate(sentence) == pytest.approx(real, abs=2)
    assert real < claude.count(sentence) < 2 * real


def test_the_newer_tokenizer_costs_more_for_english_and_nothing_more_for_chinese():
    older, newer = counter("claude-3"), counter("claude")
    assert newer.estimate(PROSE) > 1.3 * older.estimate(PROSE)
    assert newer.estimate("我们每小时轮换一次令牌") == older.estimate("我们每小时轮换一次令牌")


def test_long_numbers_cost_a_token_for_three_digits():
    assert counter("claude").estimate("1234567890" * 9) == 30


def test_a_letter_between_digits_costs_a_whole_token():
    assert counter("claude").estimate("a1" * 50) == 100


@generations
def test_dense_runs_cost_nearly_their_bytes(name):
    numbers = random.Random(7)
    encoded = "".join(numbers.choices("ABCDEFGHabcdefgh0123456789+/", k=4000))
    claude = counter(name)
    assert 0.5 * len(encoded) < claude.estimate(encoded) < claude.count(encoded) <= len(encoded)


@generations
def test_every_class_of_piece_has_rates_and_no_bound_is_below_its_estimate(name):
    rates = GENERATIONS[name]
    assert set(rates) == set(PieceClass)
    for (guess, guess_each), (bound, bound_each) in rates.values():
        assert bound >= guess
        assert bound_each >= guess_each
        assert bound >= 100


@generations
def test_claude_is_never_exact_and_empty_text_is_free(name):
    claude = counter(name)
    assert not claude.exact
    assert claude.name == name
    assert claude.count("") == claude.estimate("") == 0
    assert claude.count_many(["", PROSE]) == [0, claude.count(PROSE)]


@generations
@given(st.text())
@example("\ud83d lone \ude00")
def test_the_bound_lies_between_the_estimate_and_the_bytes(name, text):
    claude = counter(name)
    size = len(repair_surrogates(text).encode())
    assert claude.estimate(text) <= claude.count(text) <= size
    assert (claude.estimate(text) > 0) == bool(text)


WORDS = st.sampled_from(
    ["morn", "ing", "Half", "A", "WORD", " ", "\n  ", ".", "_", "12", "é", "Ж", "字", "👍", "\u0301"]
)


@generations
@given(st.one_of(st.text(), st.lists(WORDS).map("".join)), st.text(max_size=3))
@example("morni", "ng")
@example("every morni", "ng")
def test_appending_text_never_lowers_the_bound(name, text, more):
    claude = counter(name)
    assert claude.count(text) <= claude.count(text + more)


@generations
@given(st.one_of(st.text(), st.lists(WORDS).map("".join)))
def test_the_bound_is_never_below_the_o200k_count(name, text):
    assert counter(name).count(text) >= counter("o200k_base").count(text)


@generations
@given(st.lists(st.text(max_size=40), max_size=6))
def test_lines_that_are_not_indented_never_sum_to_less_than_the_whole(name, chunks):
    claude = counter(name)
    lines = [chunk.lstrip() + "\n" for chunk in chunks]
    assert sum(claude.count_many(lines)) >= claude.count("".join(lines))


@pytest.mark.slow
@pytest.mark.parametrize("character", ["a", " ", "\x00", "字"])
def test_ten_megabytes_of_one_character_have_a_bound(character):
    text = character * (10_000_000 // len(character.encode()))
    assert len(text) / 20 < counter("claude").count(text) <= 10_000_000


def test_a_megabyte_of_prose_is_bounded_in_proportion():
    text = PROSE * (1_000_000 // len(PROSE))
    claude = counter("claude")
    assert claude.count(text) == pytest.approx(len(text) / len(PROSE) * claude.count(PROSE), rel=0.01)
