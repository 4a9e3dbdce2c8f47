"""The digest of a log."""

import json

from satchel.session.digests.digest import digest

LEVELS = ("INFO", "INFO", "DEBUG", "WARN")


def line(number, level=None, said="rotated a key"):
    return (
        f"2026-11-16T10:{number // 60 % 60:02d}:{number % 60:02d}Z {level or LEVELS[number % 4]} {said} {number}\n"
    )


def test_a_log_becomes_its_lines_levels_errors_and_newest_line():
    text = (
        "".join(line(n) for n in range(20))
        + line(20, "ERROR", "disk is full")
        + "".join(line(n) for n in range(21, 40))
    )
    assert digest(text).split("\n") == [
        "Log: 40 lines, 1 error, 2026-11-16T10:00:00 to 2026-11-16T10:00:39",
        "Levels: ERROR 1, WARN 10, INFO 19, DEBUG 10",
        "! 2026-11-16T10:00:20Z ERROR disk is full 20",
        "Newest: 2026-11-16T10:00:39Z WARN rotated a key 39",
    ]


def test_the_newest_line_comes_first_where_times_go_down():
    text = "".join(line(n) for n in reversed(range(30)))
    assert digest(text).endswith("Newest: 2026-11-16T10:00:29Z INFO rotated a key 29")


def test_levels_are_known_in_every_form():
    record = {"ts": "2026-11-16T10:00:00Z", "level": "error", "msg": "disk is full"}
    assert "Levels: ERROR 9" in digest((json.dumps(record) + "\n") * 9)
    assert "Levels: WARN 9" in digest("time=2026-11-16T10:00:00Z level=warning msg=slow\n" * 9)
    assert "Levels: INFO 9" in digest("[info] rotated\n" * 9)


def test_one_error_in_the_middle_of_megabytes_is_kept():
    lines = [line(n) for n in range(60_000)]
    lines[31_234] = line(31_234, "ERROR", "disk is full on node-7")
    found = digest("".join(lines))
    assert "! 2026-11-16T10:40:34Z ERROR disk is full on node-7 31234" in found
    assert found.startswith("Log: 60,000 lines")
    assert "INFO ~" in found


def test_mentions_of_no_errors_do_not_hide_the_one():
    lines = [line(n, "INFO", "pass done, 0 errors, failed=0") for n in range(5_000)]
    lines[2_500] = line(2_500, "INFO", "pass failed: node-7 is gone")
    found = digest("".join(lines))
    assert "failed: node-7 is gone 2500" in found
    assert "0 errors" not in found.split("Newest:")[0]


def test_of_many_errors_the_first_and_the_last_are_shown():
    found = digest("".join(line(n, "ERROR", "no answer from") for n in range(500)))
    shown = [row for row in found.split("\n") if row.startswith("! ")]
    assert [row.split()[-1] for row in shown] == ["0", "1", "2", "499"]


def test_a_history_of_commits_becomes_their_number_and_the_newest():
    text = "".join(
        f"commit {n:040x}\nAuthor: Ana <ana@example.org>\nDate:   Mon Nov 16 2026\n\n    Step {n}\n\n    why\n\n"
        for n in range(0x1000000001, 0x1000000031)
    )
    lines = digest(text, tool="vcs_log").split("\n")
    assert lines[0] == "Log: 48 commits, newest 0000000000 Step 68719476737"
    assert lines[1] == "0000000000 Step 68719476738"


def test_a_short_history_keeps_ids_and_subjects():
    found = digest("".join(f"{n:07x} Step {n}\n" for n in range(0x4B825D0, 0x4B825E0)))
    assert found.startswith(f"Log: 16 commits, newest 4b825d0 Step {0x4B825D0}\n4b825d1 Step")
