"""Tables by their width on a screen, and terminals that must not get escape sequences."""

import pytest
from rich.cells import cell_len

from satchel.cli.output import aligned

ROWS = [
    ("k3f9", "2026-02-10", "decision", "harbor", "We rotate signing keys every hour, at night, by hand."),
    ("ab2c", "2026-02-11", "fact", "港湾管理システム", "長い文章の中に記憶という言葉があります。"),
    ("zz77", "2026-02-12", "todo", "👨‍👩‍👧 family", "e\u0301te\u0301 🎒 ❤️ done"),
]


def column_starts(line: str, words: tuple[str, ...]) -> list[int]:
    return [cell_len(line[: line.index(word)]) for word in words]


def test_columns_are_aligned_by_cells_not_by_characters():
    lines = aligned(ROWS).splitlines()
    starts = [column_starts(line, row) for line, row in zip(lines, ROWS, strict=True)]
    assert starts[0] == starts[1] == starts[2]


@pytest.mark.parametrize("width", [20, 40, 60, 61, 100])
def test_no_line_is_wider_than_asked_and_the_first_column_is_never_cut(width: int):
    lines = aligned(ROWS, width=width, cut=(3, 4)).splitlines()
    assert len(lines) == len(ROWS)
    for line, row in zip(lines, ROWS, strict=True):
        assert cell_len(line) <= width
        assert line.startswith(row[0])
        if width >= 60:
            assert row[1] in line
            assert row[2] in line


def test_what_is_cut_ends_with_an_ellipsis_and_what_fits_does_not():
    assert aligned([("id", "one two three")], width=12) == "id  one two…\n"
    assert aligned([("id", "one two")], width=12) == "id  one two\n"
    assert aligned([("id", "記憶記憶記憶")], width=10) == "id  記憶…\n"


def test_the_last_column_is_wrapped_under_itself():
    text = aligned([("ok", "a name", "some words that are too long for a line")], wrap=34)
    assert text == "ok  a name  some words that are\n            too long for a line\n"


def test_nothing_is_no_table():
    assert aligned([]) == ""


def test_a_line_end_in_a_cell_does_not_begin_a_row():
    assert aligned([("a\nb", "c\r\n\td")]) == "a b  c d\n"
