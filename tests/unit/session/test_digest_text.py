"""The digest of any text."""

from satchel.session.digests.digest import digest, headline

PROSE = [f"The keeper of key {word} asks each service before midnight." for word in "abcdefghijklmnopqrstuvwxyz"]


def test_a_short_text_is_its_own_digest():
    assert digest("rotated 3 keys\nand slept\n\n  ") == "rotated 3 keys\nand slept"
    assert digest("a\nb\nc\nd\ne\nf\ng\nh\n") == "a\nb\nc\nd\ne\nf\ng\nh"
    assert digest("a\nb\nc\nd\ne\nf\ng\nh\ni\n").startswith("Text: 9 lines")


def test_nothing_is_said_to_be_nothing():
    for text in ("", " \n\t\n", "\n" * 5_000_000):
        assert digest(text) == "(empty)"
        assert headline(text) == "(empty)"
        assert digest(text, error=True, most=3) == "(e…"


def test_a_text_becomes_its_beginning_and_end_and_what_is_between_is_counted():
    lines = digest("\n".join(PROSE)).split("\n")
    assert lines[0] == "Text: 26 lines, 1.4 KB"
    assert lines[1:5] == PROSE[:4]
    assert lines[5] == "… 19 lines left out …"
    assert lines[6:] == PROSE[-3:]


def test_what_is_left_out_is_counted_after_the_rest_was_fitted():
    lines = digest("\n".join(PROSE), most=250).split("\n")
    shown = [line for line in lines if line.removesuffix("…") and line[:20] in "\n".join(PROSE)]
    assert f"… {26 - len(shown)} lines left out …" in lines
    assert lines[-1] == PROSE[-1]


def test_lines_with_paths_and_numbers_survive_before_prose():
    text = "\n".join([*PROSE[:2], "wrote src/key.py", "took 31 seconds", *PROSE[2:]])
    found = digest(text, most=140)
    assert "wrote src/key.py" in found
    assert "took 31 seconds" in found
    assert PROSE[0] not in found


def test_errors_survive_before_anything_else():
    text = "\n".join([*PROSE, "fatal: no answer from node-7", *PROSE])
    for most in (60, 120, 500):
        assert "! fatal: no answer from node-7" in digest(text, most=most)


def test_one_endless_line_shows_both_its_ends():
    found = digest("begin " + "words and more " * 300_000 + "end")
    assert found.split("\n")[0] == "Text: 1 line, 4,500.0 KB"
    assert found.split("\n")[1].startswith("begin words and")
    assert found.split("\n")[2] == "… ~4,500,000 characters left out …"
    assert found.endswith("and more end")


def test_base64_is_only_begun():
    blob = "".join(f"QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVowMTIzNDU2Nzg5YWJjZGVmZ2hpamts{n:04d}\n" for n in range(900))
    found = digest(blob)
    assert "QUJDREVGR0hJSktM…" in found
    assert len(found) < 250


def test_a_failed_call_says_so_and_keeps_what_it_said():
    found = digest("\n".join(["the keeper is not in", *PROSE]), error=True)
    assert found.startswith("Failed. Text: 27 lines, 1.4 KB\n! the keeper is not in\n")
    assert digest("no", error=True) == "no"
