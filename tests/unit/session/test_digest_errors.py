"""Which lines report an error."""

from satchel.session.digests.base import Source
from satchel.session.digests.digest import digest
from satchel.session.digests.errors import _CHUNK, error_lines, is_error, tool_errors
from tables import each_row

FILLER = "the keeper asks each service\n" * 40

ERRORS = [
    "error: no such key",
    "ERROR rotating key 7",
    "TypeError: key is None",
    "java.lang.NullPointerException: key",
    "E       assert 401 == 200",
    "FAILED tests/test_key.py::test_rotate - assert 0",
    "fatal: not a repository",
    "panic: runtime trouble",
    "thread 'main' panicked at src/main.rs:3",
    "npm ERR! code ELIFECYCLE",
    "Process exited with code 3",
    "exit status: 127",
    "rotation failed after 3 tries",
    "bash: ./rotate: Permission denied",
    "make: *** [rotate] Error 2",
    "Segmentation fault (core dumped)",
]
HARMLESS = [
    "0 errors, 0 failed",
    "no errors were found",
    "sanitized without errors",
    '"error": null, "errors": []',
    "errors: 0",
    "exited with code 0",
    "the terror of mirrors",
    "a fair exchange",
    "modified: src/errors.py",
    "satchel.errors, on_error, error_lines, errors/key.py",
]


@each_row("line", ERRORS)
def test_an_error_line_is_known_at_the_end_of_a_text(line):
    assert error_lines(Source(FILLER + line + "\n")) == [line]
    assert f"! {' '.join(line.split())}" in digest(FILLER + line)


@each_row("line", [line for line in ERRORS if not line.startswith(("E  ", "npm", "Proc", "exit", "bash", "Seg"))])
def test_an_error_line_is_known_anywhere_in_a_long_text(line):
    assert error_lines(Source(FILLER * 400 + line + "\n" + FILLER * 300)) == [line]


@each_row("line", HARMLESS)
def test_what_did_not_go_wrong_is_no_error(line):
    assert not is_error(line)
    assert error_lines(Source(FILLER + line + "\n" + FILLER)) == []


def test_the_last_line_of_a_traceback_is_kept_whatever_the_exception_is_called():
    trace = 'Traceback (most recent call last):\n  File "a.py", line 3, in <module>\n    ask()\nnet.Timeout: 30 s\n'
    assert error_lines(Source(FILLER + trace + FILLER)) == ["net.Timeout: 30 s"]
    assert error_lines(Source(FILLER + "Traceback (most recent call last):")) == []


def test_plain_errors_come_before_mentions():
    text = FILLER + "we talked of failure\n" + FILLER + "error: disk full\n" + FILLER
    assert error_lines(Source(text)) == ["error: disk full", "we talked of failure"]


def test_of_one_endless_line_whole_words_around_the_error_are_shown():
    text = "words " * 50_000 + "then error: disk full on node-7, " + "more words " * 50_000
    (found,) = error_lines(Source(text))
    assert "then error: disk full on node-7" in found
    assert len(found) < 300
    assert set(found.split()) <= set(text.split()) | {"node-7"}


def test_only_a_line_that_begins_as_a_complaint_is_one():
    text = FILLER + "error: cannot read docs\ngrep: build: Is a directory\nsrc/key.py:3: raise KeyError: lost\n"
    assert tool_errors(Source(text)) == ["error: cannot read docs", "grep: build: Is a directory"]


def test_an_error_is_found_where_the_search_goes_from_one_chunk_to_the_next():
    for length in range(_CHUNK - 6, _CHUNK + 2):
        before = (FILLER * 200)[: length - 1] + "\n"
        assert error_lines(Source(before + "error: disk full\n" + FILLER * 200)) == ["error: disk full"]


def test_line_ends_and_colours_are_not_part_of_a_line():
    assert error_lines(Source(FILLER + "\x1b[31merror: disk full\x1b[0m\r\n" + FILLER)) == ["error: disk full"]


@each_row(
    "text", ["", "e", "er", "err", "error", "xc", "fa", "fat", "\n", "erro", "ERROR:", "İ" * 3_000 + "exit 1"]
)
def test_the_ends_of_a_text_are_safe(text):
    assert error_lines(Source(text)) in ([], [text], [text[-300:]]) or text.startswith("İ")
