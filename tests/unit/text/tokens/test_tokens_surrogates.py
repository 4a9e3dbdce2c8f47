import pytest
from hypothesis import given
from hypothesis import strategies as st

from satchel.model.checks import repair_surrogates


@pytest.mark.parametrize(
    ("broken", "whole"),
    [
        ("\ud83d\ude00", "😀"),
        ("a\ud83d", "a\ufffd"),
        ("\ude00b", "\ufffdb"),
        ("\ude00\ud83d", "\ufffd\ufffd"),
        ("\ud83d\ud83d\ude00", "\ufffd😀"),
        ("\udcff in a file name", "\ufffd in a file name"),
        ("x\x00y\ud800", "x\x00y\ufffd"),
    ],
)
def test_pairs_are_joined_and_lone_halves_replaced(broken, whole):
    assert repair_surrogates(broken) == whole


@given(st.text())
def test_text_without_surrogates_is_given_back_as_it_is(text):
    assert repair_surrogates(text) is text


@given(st.text(st.characters(codec=None, categories=["Cs", "Lu"])))
def test_repaired_text_can_be_encoded_and_needs_no_second_repair(text):
    repaired = repair_surrogates(text)
    assert repaired.encode("utf-8").decode("utf-8") == repaired
    assert repair_surrogates(repaired) == repaired
