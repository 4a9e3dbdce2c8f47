"""A text is cut at a natural place, within its budget, and says how much is missing."""

import pytest

from satchel.errors import BudgetError, InputError
from satchel.fitting.cutting import ELLIPSIS, first_character, shortened, truncate
from satchel.text.tokens import count_tokens
from tables import each_row

LONG = " ".join(f"Sentence number {number} says a little about memory." for number in range(5_000))


def test_a_text_that_fits_is_returned_unchanged():
    text = "  Two words.\n"
    found = truncate(text, token_budget=count_tokens(text))
    assert (found.text, found.whole, found.omitted_tokens, found.omitted_characters) == (text, True, 0, 0)
    assert found.token_count == count_tokens(text)


def test_one_token_less_than_the_text_needs_cuts_it():
    text = "The meeting is on Friday at noon."
    found = truncate(text, token_budget=count_tokens(text) - 1)
    assert not found.whole
    assert found.token_count == count_tokens(found.text) < count_tokens(text)


def test_without_a_budget_nothing_is_cut():
    assert truncate(LONG, token_budget=None).text == LONG


def test_an_empty_text_is_whole_within_a_budget_of_nothing():
    found = truncate("", token_budget=0)
    assert (found.text, found.whole) == ("", True)


def test_a_budget_of_nothing_leaves_nothing():
    found = truncate("Hello there.", token_budget=0)
    assert (found.text, found.token_count, found.whole) == ("", 0, False)
    assert (found.omitted_tokens, found.omitted_characters) == (count_tokens("Hello there."), 12)


def test_a_budget_without_room_for_the_ellipsis_gives_the_first_characters_alone():
    assert truncate("Hello there, you two.", token_budget=1).text == "Hello"


def test_a_character_that_does_not_fit_leaves_nothing():
    assert truncate("👩🏽\u200d🚀" * 3, token_budget=2).text == ""


def test_what_was_left_out_is_counted_without_the_ellipsis():
    text = "One two three four five six seven eight nine ten eleven twelve."
    found = truncate(text, token_budget=6)
    kept = found.text.removesuffix(ELLIPSIS)
    assert found.text == "One two three four five …"
    assert found.omitted_tokens == count_tokens(text) - count_tokens(kept)
    assert found.omitted_characters == len(text) - len(kept)


@pytest.mark.parametrize("counter", ["o200k_base", "claude-4.7", "chars/4", "llama2"])
def test_every_counter_holds_its_own_budget(counter):
    found = truncate(LONG, token_budget=50, counter=counter)
    assert 45 <= count_tokens(found.text, counter) <= 50
    assert found.token_count == count_tokens(found.text, counter)


@pytest.mark.parametrize("budget", [-1, 1.5, "many", True])
def test_a_bad_budget_is_refused(budget):
    with pytest.raises(BudgetError):
        truncate("text", token_budget=budget)


def test_a_text_that_is_no_string_is_refused():
    with pytest.raises(InputError, match="text must be a string, not bytes"):
        truncate(b"text", token_budget=5)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("One is here.\n\nTwo follows after it.", "One is here."),
        ("- one is here\n- two follows after it", "- one is here"),
        ("Is one here? Two follows after it.", "Is one here?"),
        ("一つはここ。二つ目はその後に続く。", "一つはここ。"),
    ],
    ids=["paragraph", "line", "sentence", "sentence without spaces"],
)
def test_a_sentence_that_uses_enough_of_the_room_ends_the_text(text, kept):
    room = len(kept + ELLIPSIS) * 5 // 4
    assert shortened(text, room=room, price=len) == kept


def test_a_word_ends_the_text_where_the_sentence_is_too_short():
    assert shortened("Yes. The meeting is on Friday at noon.", room=24, price=len) == "Yes. The meeting is on"


def test_a_number_is_left_out_rather_than_cut_into():
    text = "The old contract ends in March 2027 and costs 1,250,000 dollars a month, which is a lot."
    for budget in range(11, 17):
        assert truncate(text, token_budget=budget).text.endswith((" 2027 …", " and …", " costs …", ",000 …"))


def test_how_much_is_enough_can_be_said():
    text = "It is late. The meeting is on Friday at noon."
    assert shortened(text, room=20, price=len) == "It is late. The"
    assert shortened(text, room=20, price=len, enough=0.5) == "It is late."


def test_where_anything_is_enough_a_word_still_ends_the_text_if_no_sentence_fits():
    assert shortened("The meeting is on Friday at noon.", room=15, price=len, enough=0) == "The meeting"
    assert shortened("Counterrevolutionary", room=10, price=len, enough=0) == "Counterr"


def test_a_character_ends_the_text_where_the_words_before_are_too_short():
    assert shortened("A counterrevolutionary thought", room=12, price=len) == "A counterr"


@pytest.mark.parametrize("text", ["One. Two.", "One. Two. \n"])
def test_a_text_for_which_there_is_room_with_an_ellipsis_is_kept_whole(text):
    assert shortened(text, room=50, price=len) == "One. Two."


def test_white_space_before_the_cut_is_left_out():
    assert shortened("one\t\n  two three", room=8, price=len, enough=0) == "one"


def test_white_space_alone_is_not_worth_an_ellipsis():
    assert shortened(" " * 50, room=10, price=len) == ""
    assert shortened(" " * 50 + "word", room=10, price=len) == ""


def test_a_text_whose_white_space_alone_is_too_much_loses_only_that():
    text = "Hello. You too." + " " * 10_000
    assert truncate(text, token_budget=10).text == "Hello. You too. …"


@each_row("cluster", ["e\u0301\u0302", "👩🏽\u200d🚀", "\ud83d\ude00", "क\u093f"])
@each_row("room", range(3, 20))
def test_no_character_is_cut_into(cluster, room):
    kept = shortened(cluster * 20, room=room, price=len)
    assert kept == cluster * ((room - len(ELLIPSIS)) // len(cluster))


def test_a_sentence_or_word_that_ends_within_a_character_does_not_end_the_text():
    assert shortened("Yes。\ufe0f no more of it", room=7, price=len) == "Yes。\ufe0f"
    assert shortened("words\u200d and more", room=9, price=len) == "word"


def test_lines_around_the_text_are_part_of_the_price():
    def price(piece: str) -> int:
        return len(f"- (note) {piece}\n")

    kept = shortened("The meeting is on Friday at noon.", room=30, price=price)
    assert kept == "The meeting is on"
    assert price(kept + ELLIPSIS) <= 30


@pytest.mark.parametrize("room", [0, -3])
def test_a_room_of_nothing_keeps_nothing_and_asks_for_no_price(room):
    assert shortened("text", room=room, price=pytest.fail) == ""


def test_a_price_that_falls_while_the_text_grows_is_still_held():
    def price(piece: str) -> int:
        return len(piece) + 4 * (len(piece) % 3 == 0)

    text = "a" * 300
    for room in range(10, 200):
        kept = shortened(text, room=room, price=price)
        assert price(kept + ELLIPSIS) <= room
        assert len(kept) >= room - 9


def test_a_long_text_is_priced_only_near_what_fits():
    priced: list[int] = []

    def price(piece: str) -> int:
        priced.append(len(piece))
        return count_tokens(piece)

    assert count_tokens(shortened(LONG, room=100, price=price) + ELLIPSIS) > 66
    assert len(priced) <= 6
    assert max(priced) < 1_700 < len(LONG) / 100


def test_a_price_that_is_far_from_even_takes_few_tries():
    priced: list[int] = []

    def price(piece: str) -> int:
        priced.append(len(piece))
        return len(piece) ** 5

    assert len(shortened("a" * 50_000, room=300**5, price=price)) == 298
    assert len(priced) <= 60


def test_a_long_character_that_does_not_fit_is_priced_only_near_the_room():
    priced: list[int] = []

    def price(piece: str) -> int:
        priced.append(len(piece))
        return len(piece)

    assert shortened("e" + "\u0301" * 1_000, room=9, price=price) == ""
    assert max(priced) < 99


def test_long_white_space_does_not_hide_what_comes_after_it():
    text = "word" + " " * 20_000 + "end " * 20_000
    found = truncate(text, token_budget=1_000)
    assert found.token_count >= 990
    assert found.text.endswith("end end …")


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("word", "w"),
        (" \n👩🏽\u200d🚀 flies", " \n👩🏽\u200d🚀"),
        ("e\u0301", "e\u0301"),
        ("\u200d\nx", "\u200d\nx"),
        ("\u200d\n", ""),
        ("  ", ""),
        ("", ""),
    ],
)
def test_the_first_character_is_whole(text, first):
    assert first_character(text) == first


@pytest.mark.parametrize("text", ["👩🏽\u200d🚀👩🏽\u200d🚀", "word after word", "\u200d\n\nword", "e\u0301. And"])
def test_the_first_character_is_the_least_that_is_kept(text):
    first = first_character(text)
    assert shortened(text, room=len(first + ELLIPSIS), price=len) == first
    assert shortened(text, room=len(first + ELLIPSIS) - 1, price=len) == ""
