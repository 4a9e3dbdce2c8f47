"""For any text, budget and counter, a cut is within the budget, a prefix, and of whole characters."""

from hypothesis import example, given, settings
from hypothesis import strategies as st

from satchel.fitting.cutting import ELLIPSIS, first_character, shortened, truncate
from satchel.text.passages import continues
from satchel.text.tokens import count_tokens

texts = st.lists(
    st.sampled_from(
        ["word", "Größe", "記憶", "e\u0301", "👩🏽\u200d🚀", "\ud83d\ude00", ". ", "! ", "。", " ", "\n", "\n\n"]
    )
    | st.sampled_from(["\r\n", "\u200d", "\u2028", "\xa0", "a" * 40, " " * 40, "morning", "\ufe0f"])
    | st.text(max_size=10),
    max_size=40,
).map("".join)

prose = st.lists(
    st.sampled_from(
        [
            "The meeting was moved to Friday, because nobody had time before that.",
            "Yes.",
            "We decided that the budget of the second project is enough for now!",
            "Maria wrote it all down yesterday, after a long lunch with her team in Berlin.",
            "Who is going to tell the others?",
            '"Not me," he said, and left.',
            "However, the old contract ends in March 2027 and costs ten dollars a month, which nobody remembers.",
            "- Call the landlord about the heating (again)\n",
            "So it goes.\n\n",
        ]
    ),
    min_size=8,
    max_size=16,
).map(" ".join)

COUNTERS = ["o200k_base", "claude-4.7", "chars/4", "llama2"]


def kept_of(text, found):
    return text[: len(text) - found.omitted_characters]


@settings(max_examples=300)
@given(text=texts, budget=st.integers(0, 60), counter=st.sampled_from(COUNTERS))
@example(text="e" + "\u0301" * 100, budget=8, counter="o200k_base")
@example(text=" " * 300 + "word", budget=2, counter="o200k_base")
def test_a_cut_is_a_beginning_within_the_budget(text, budget, counter):
    found = truncate(text, token_budget=budget, counter=counter)
    assert found.token_count == count_tokens(found.text, counter) <= budget
    assert found.whole == (count_tokens(text, counter) <= budget)
    if found.whole:
        assert found.text == text
    else:
        kept = kept_of(text, found)
        assert found.text in (kept, kept + ELLIPSIS)
        assert kept == kept.rstrip()
        assert found.omitted_tokens == max(0, count_tokens(text, counter) - count_tokens(kept, counter))


@settings(max_examples=300)
@given(text=texts, budget=st.integers(0, 60), counter=st.sampled_from(COUNTERS))
@example(text="words\u200d and more of them", budget=3, counter="o200k_base")
@example(text="\u200d\r\n", budget=1, counter="o200k_base")
def test_a_cut_never_falls_within_a_character(text, budget, counter):
    end = len(kept_of(text, truncate(text, token_budget=budget, counter=counter)))
    assert not 0 < end < len(text) or not continues(text, end)


@settings(max_examples=300)
@given(text=texts, room=st.integers(0, 80), lines=st.integers(0, 5), share=st.floats(0, 1))
def test_any_price_is_held_and_nothing_is_kept_only_where_no_character_fits(text, room, lines, share):
    def price(piece):
        return len(piece) + lines * (1 + piece.count("\n"))

    kept = shortened(text, room=room, price=price, enough=share)
    assert text.startswith(kept)
    first = first_character(text)
    assert bool(kept) == bool(first and price(first + ELLIPSIS) <= room)
    assert not kept or price(kept + ELLIPSIS) <= room


@settings(max_examples=300)
@given(text=prose, budget=st.integers(20, 120))
def test_prose_is_cut_between_words_and_uses_nine_tenths_of_the_budget(text, budget):
    found = truncate(text, token_budget=budget)
    if not found.whole:
        assert found.token_count >= 0.9 * budget
        assert text[len(kept_of(text, found))].isspace()
