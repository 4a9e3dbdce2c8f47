"""Long texts are split at natural places."""

import pytest

from satchel.text.passages import passages, sentences
from tables import each_row

SENTENCE = "The migration ran for nine minutes and locked the table. "


def cut(text, **options):
    return [text[start:end] for start, end in passages(text, **options)]


@pytest.mark.parametrize("text", ["", "  \n\t "])
def test_text_without_words_has_no_passages(text):
    assert passages(text) == []
    assert sentences(text) == []


def test_a_text_of_one_and_a_half_sizes_stays_whole():
    assert passages("x" * 900) == [(0, 900)]
    assert cut(" \n" + "x" * 900 + "\n") == ["x" * 900]
    assert len(passages("x" * 901)) == 2


def test_paragraphs_are_not_cut_where_they_fit():
    paragraphs = [SENTENCE * count for count in (5, 6, 7, 12, 3, 2, 8)]
    found = cut("\n\n".join(paragraphs))
    assert "".join(found).replace("\n", "").replace(" ", "") == "".join(paragraphs).replace(" ", "")
    assert all(any(paragraph.strip() in passage for passage in found) for paragraph in paragraphs)


def test_small_paragraphs_share_a_passage():
    assert cut("one\n\ntwo\n\nthree\n\nfour", size=10) == ["one\n\ntwo", "three", "four"]


def test_a_long_paragraph_is_cut_at_lines():
    lines = [f"line {number} of a log that goes on" for number in range(40)]
    found = cut("\n".join(lines), size=200)
    assert [line for passage in found for line in passage.split("\n")] == lines
    assert all(len(passage) <= 300 for passage in found)


def test_a_long_line_is_cut_at_sentences():
    found = cut(SENTENCE * 40, size=200)
    assert all(passage.endswith("table.") and passage.startswith("The") for passage in found)


def test_sentences_in_unspaced_scripts_are_cut_at_their_full_stops():
    found = cut("これは長い記憶です。" * 60, size=100)
    assert all(passage.endswith("。") for passage in found)


def test_a_long_sentence_is_cut_at_spaces():
    words = [f"word{number}" for number in range(300)]
    found = cut(" ".join(words), size=100)
    assert [word for passage in found for word in passage.split()] == words


def test_a_long_word_is_cut_between_characters():
    text = "e\u0301" * 501 + "👩🏽\u200d🚀" * 100
    found = cut(text, size=101)
    assert "".join(found) == text
    assert all(passage[0] in "e👩" for passage in found)


def test_a_character_without_end_is_cut_all_the_same():
    text = "e" + "\u0301" * 1_000
    assert "".join(cut(text, size=100)) == text


def test_code_in_fences_is_kept_together_where_it_fits():
    code = "```python\nfirst = 1\n\n\nsecond = 2\n\n\nthird = 3\n```"
    found = cut(f"{SENTENCE * 3}\n{code}\n{SENTENCE * 3}", size=200)
    assert found == [(SENTENCE * 3).strip(), code, (SENTENCE * 3).strip()]


def test_a_fence_that_is_never_closed_is_cut_like_other_text():
    found = cut("```\n" + "\n\n".join([SENTENCE * 3] * 5), size=200)
    assert len(found) == 5


def test_a_list_with_blank_lines_is_kept_together_where_it_fits():
    items = "\n\n".join(f"{number}. step {number}\n   of the way" for number in range(1, 5))
    found = cut(f"{SENTENCE * 3}\n\n{items}\n\n{SENTENCE * 3}", size=200)
    assert found[1] == items


def test_a_heading_stays_with_what_it_heads():
    found = cut(f"{SENTENCE * 3}\n\n## Cause\n\n{SENTENCE * 3}\n\nWhat to do:\n\n- {SENTENCE}", size=200)
    assert [passage.split()[0] for passage in found] == ["The", "##", "What"]


def test_a_heading_is_let_go_before_a_fence_is_cut():
    code = "```\n" + "a\n\n" * 60 + "b\n```"
    found = cut(f"# Heading of some length that stands before the code\n\n{code}\n\n{SENTENCE * 5}", size=150)
    assert code in found


@pytest.mark.slow
@each_row("unit", ["word ", "x", "a\n\n", "Yes. ", "```\n", "- a\n\n", "\n", "é 。"])
def test_a_huge_text_has_a_bounded_number_of_passages(unit):
    text = unit * (1_000_000 // len(unit)) + "end"
    found = passages(text)
    assert len(found) <= 2_000
    assert all(end - start <= 1_500 for start, end in found)


def test_sentences_end_at_stops_before_space_and_at_lines():
    text = 'Version 3.11 is out! Is it? "Yes." He said\nso…  そうです。はい'
    assert [text[start:end] for start, end in sentences(text)] == [
        "Version 3.11 is out!",
        "Is it?",
        '"Yes."',
        "He said",
        "so…",
        "そうです。",
        "はい",
    ]
