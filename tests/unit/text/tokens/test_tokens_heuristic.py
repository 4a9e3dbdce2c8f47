import math

from hypothesis import given
from hypothesis import strategies as st

from satchel.text.tokens import counter, estimate_tokens
from tables import each_row


@each_row(
    ("name", "length", "tokens"),
    [
        ("chars/4", 0, 0),
        ("chars/4", 1, 1),
        ("chars/4", 4, 1),
        ("chars/4", 5, 2),
        ("chars/3.5", 0, 0),
        ("chars/3.5", 1, 1),
        ("chars/3.5", 3, 1),
        ("chars/3.5", 4, 2),
        ("chars/3.5", 7, 2),
        ("chars/3.5", 8, 3),
    ],
)
def test_characters_are_divided_and_rounded_up(name, length, tokens):
    assert counter(name).count("é" * length) == tokens


@given(st.text())
def test_a_rule_of_thumb_estimates_what_it_counts_and_says_it_is_not_exact(text):
    for name, divisor in (("chars/4", 4), ("chars/3.5", 3.5)):
        rule = counter(name)
        assert not rule.exact
        assert rule.estimate(text) == rule.count(text) == math.ceil(len(text) / divisor)
    assert estimate_tokens(text) == counter("chars/4").count(text)
