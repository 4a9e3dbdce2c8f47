from hypothesis import example, given
from hypothesis import strategies as st

from satchel.text.tokens import LONGEST_PIECE, PieceClass, classify, split_pieces
from tables import each_row


@each_row(
    ("text", "pieces"),
    [
        ("The keys rotate.", ["The", " keys", " rotate", "."]),
        ("self.getUserName(x)", ["self", ".get", "User", "Name", "(x", ")"]),
        ("MAX_RETRIES = 12345", ["MAX", "_RETRIES", " =", " ", "12345"]),
        ("a\n    b", ["a", "\n    ", "b"]),
        ("Schlüssel", ["Schlüssel"]),
        ("Мы меняем", ["Мы", " меняем"]),
        ("我们 每", ["我们", " 每"]),
        ("3f2a9c", ["3", "f", "2", "a", "9", "c"]),
        ("a" * 20, ["a" * 16, "a" * 4]),
    ],
)
def test_text_is_cut_where_tokenizers_cut(text, pieces):
    assert split_pieces(text) == pieces


@each_row(
    ("piece", "found"),
    [
        (" word", PieceClass.WORD),
        ("Word", PieceClass.WORD),
        (".join", PieceClass.JOINED),
        ("_RETRIES", PieceClass.CAPITALS),
        ("Schlüssel", PieceClass.ACCENTED),
        ("é", PieceClass.ACCENTED),
        ("123", PieceClass.DIGITS),
        (' ="', PieceClass.PUNCTUATION),
        ("\n   ", PieceClass.BLANK),
        (" меняем", PieceClass.CYRILLIC),
        ("नमस्ते", PieceClass.SCRIPT),
        ("안녕", PieceClass.CJK),
        ("。", PieceClass.CJK),
        ("👍", PieceClass.SYMBOL),
        ("\x00", PieceClass.SYMBOL),
    ],
)
def test_a_piece_has_one_class(piece, found):
    assert split_pieces(piece) == [piece]
    assert classify(piece) is found


@given(st.text())
def test_nothing_is_lost_in_cutting(text):
    assert "".join(split_pieces(text)) == text


@given(st.text())
@example(" " + "𠀀" * 40)
@example("🏴" * 40)
def test_no_piece_is_larger_than_the_walk_back_over_the_last_pieces_allows_for(text):
    assert all(len(piece.encode()) <= LONGEST_PIECE for piece in split_pieces(text))


@given(st.text(min_size=1), st.text())
def test_appending_only_lengthens_the_last_piece_or_adds_new_ones(text, more):
    *settled, last = split_pieces(text)
    longer = split_pieces(text + more)
    assert longer[: len(settled)] == settled
    assert longer[len(settled)].startswith(last)
