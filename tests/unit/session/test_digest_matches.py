"""The digest of a search."""

from satchel.session.digests.digest import digest

FOUND = "".join(f"src/{'key' if n % 3 else 'log'}.py:{n + 1}: rotate({n})\n" for n in range(30))


def test_matches_become_their_count_and_the_files_with_counts():
    lines = digest(FOUND, tool="search_content", arguments={"pattern": "rotate"}).split("\n")
    assert lines[0] == "30 matches for 'rotate' in 2 files"
    assert lines[1] == "src/key.py (20), src/log.py (10)"
    assert lines[2] == "src/log.py:1: rotate(0)"


def test_the_pattern_is_found_under_its_common_names():
    for name in ("query", "regex", "q", "searchTerm"):
        assert digest(FOUND, arguments={name: "rot.*"}).startswith("30 matches for 'rot.*' in 2 files")
    assert digest(FOUND, arguments={"query": 7, "pattern": None}).startswith("30 matches in 2 files")


def test_lines_of_context_are_not_matches():
    text = "".join(
        f"src/key.py-{n}-before\nsrc/key.py:{n + 1}:rotate\nsrc/key.py-{n + 2}-after\n--\n" for n in range(9)
    )
    assert digest(text).startswith("9 matches in 1 file\nsrc/key.py (9)")


def test_matches_under_headings_belong_to_the_file_above():
    text = "".join(f"src/part{n}.py\n12:rotate\n40-context\n41:rotate again\n\n" for n in range(6))
    lines = digest(text).split("\n")
    assert lines[0] == "12 matches in 6 files"
    assert lines[1].startswith("src/part0.py (2), src/part1.py (2)")
    assert lines[2] == "src/part0.py:12:rotate"


def test_files_beyond_those_shown_are_counted():
    text = "".join(f"src/part{n:02d}.py:1: rotate\n" for n in range(40))
    lines = digest(text).split("\n")
    assert lines[0] == "40 matches in 40 files"
    shown = lines[1].count("(1)")
    assert lines[1].endswith(f"+{40 - shown} more")


def test_counts_of_a_long_search_are_marked_as_estimates():
    text = "".join(
        f"src/{'key' if n % 4 else 'log'}.py:{n}: rotate the key of service {n}\n" for n in range(40_000)
    )
    lines = digest(text).split("\n")
    assert lines[0] == "~40,000 matches in at least 2 files"
    assert lines[1].startswith("src/key.py (~30,000), src/log.py (~9,900)")


def test_a_file_that_a_sample_shows_once_gets_no_number():
    text = "src/log.py:1: rotate once\n" + "src/key.py:7: rotate the key of a service\n" * 5_000
    assert digest(text).split("\n")[1] == "src/key.py (~5,000), src/log.py"


def test_an_error_among_matches_is_that_of_the_tool_not_of_a_file():
    text = FOUND + "src/key.py:50: raise KeyError: lost\nfatal: the index is locked\n" + FOUND
    found = digest(text)
    assert "! fatal: the index is locked" in found
    assert "! src" not in found
