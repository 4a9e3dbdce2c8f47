"""A text that states its own token count states it correctly."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from satchel import counter
from satchel.fitting.engine import self_counted


def stated_in(text: str) -> int:
    return int(re.search(r"\d+", text)[0])


@pytest.mark.parametrize("name", ["o200k_base", "llama2", "claude-4.7", "chars/4", "gemma3"])
@given(words=st.integers(0, 1200))
def test_the_number_is_true_for_texts_of_any_length(name: str, words: int):
    count = counter(name).count
    text, tokens = self_counted(lambda number: f"~{number} tokens\n" + "word " * words, count)
    assert count(text) == tokens == stated_in(text)


def test_where_no_number_is_true_a_blank_line_makes_one():
    def even_numbers_cost_two(text: str) -> int:
        return len(re.sub(r"\d", "", text)) + (1 if stated_in(text) % 2 else 2)

    assert not any(even_numbers_cost_two(f"~{number}") == number for number in range(100))
    text, tokens = self_counted(lambda number: f"~{number}", even_numbers_cost_two)
    assert even_numbers_cost_two(text) == tokens == stated_in(text)
    assert text == f"~{tokens}\n"


def test_a_counter_that_defies_all_still_gets_its_true_number_and_a_statement_that_is_not_below_it():
    def always_another(text: str) -> int:
        return min(stated_in(text) + 1, 59) if stated_in(text) != 59 else 60

    text, tokens = self_counted(lambda number: f"~{number}", always_another)
    assert tokens == always_another(text) <= stated_in(text)
