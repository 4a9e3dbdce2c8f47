"""The sample of a long text: whole lines from its beginning, middle and end."""

from satchel.session.digests.base import LONGEST_LINE, sample, split_lines


def test_a_short_text_is_its_own_sample():
    found = sample("a\nb\r\nc", whole=100, head=10, windows=2, window=10)
    assert found == (["a", "b", "c"], True)


def test_a_long_text_gives_whole_lines_in_order_from_all_over():
    lines = [f"line {number:05d}" for number in range(10_000)]
    found = sample("\n".join(lines), whole=1_000, head=200, windows=4, window=100)
    assert not found.whole
    assert set(found.lines) <= set(lines)
    assert list(found.lines) == sorted(set(found.lines))
    assert (found.lines[0], found.lines[-1]) == (lines[0], lines[-1])
    places = [lines.index(line) // 2_500 for line in found.lines]
    assert set(places) == {0, 1, 2, 3}
    assert 30 < len(found.lines) < 60


def test_one_endless_line_gives_pieces_of_it():
    found = sample("ab" * 50_000, whole=1_000, head=2_000, windows=3, window=500)
    assert 1 < len(found.lines) < 6
    assert max(map(len, found.lines)) <= LONGEST_LINE


def test_colours_and_line_ends_go():
    assert split_lines("\x1b[31mred\x1b[0m\r\nplain\rlast\n") == ["red", "plain", "last"]
    assert split_lines("") == []
