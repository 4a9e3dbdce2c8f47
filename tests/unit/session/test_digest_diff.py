"""The digest of a diff."""

from satchel.session.digests.digest import digest


def part(name, added, removed, old=None):
    return (
        f"diff --git a/{old or name} b/{name}\nindex 12ab34c..45de67f 100644\n--- a/{old or name}\n+++ b/{name}\n"
        "@@ -1,3 +1,3 @@ class Key:\n context\n" + "+new\n" * added + "-old\n" * removed
    )


def test_a_diff_becomes_its_files_with_lines_added_and_removed():
    found = digest(part("src/key.py", 4, 2) + part("src/log.py", 1, 0) + part("docs/a.md", 10, 10))
    assert found.split("\n") == [
        "Diff: 3 files, +15 −12 lines",
        "docs/a.md (+10 −10), src/key.py (+4 −2), src/log.py (+1 −0)",
        "Within: class Key:",
    ]


def test_a_diff_without_git_and_with_lines_that_look_like_names():
    text = (
        "--- a/x.sql\t2026-01-01\n+++ b/x.sql\t2026-01-02\n@@ -1,3 +1,3 @@\n select 1\n--- an old comment\n"
        "+-- a new one\n+++ counter\n--- a/gone.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-all\n-of it\n"
    )
    found = digest(text, shape="diff")
    assert found.split("\n") == ["Diff: 2 files, +2 −3 lines", "x.sql (+2 −1), gone.py (+0 −2)"]


def test_renamed_and_binary_files_count():
    text = (
        part("new.py", 1, 1, old="old.py")
        + "diff --git a/img.png b/img.png\nindex 1..2 100644\nBinary files a/img.png and b/img.png differ\n"
        + 'diff --git "a/a b.py" "b/a b.py"\nold mode 100644\nnew mode 100755\n'
    )
    found = digest(text)
    assert found.startswith("Diff: 3 files, +1 −1 lines\n")
    for name in ("old.py → new.py (+1 −1)", "img.png (+0 −0)", "a b.py (+0 −0)"):
        assert name in found


def test_the_numbers_of_a_long_diff_are_exact():
    text = "".join(part(f"src/part{n}.py", n % 7, n % 3) for n in range(4_000))
    added, removed = sum(n % 7 for n in range(4_000)), sum(n % 3 for n in range(4_000))
    found = digest(text)
    assert found.startswith(f"Diff: 4,000 files, +{added:,} −{removed:,} lines\n")
    assert "(+6 −2)" in found
    assert "more\nWithin: class Key:" in found


def test_line_ends_of_windows_and_wide_characters_change_no_number():
    text = (part("src/key.py", 4, 2) + part("src/ĊĊ記憶.py", 3, 1)).replace("\n", "\r\n")
    found = digest(text)
    assert found.startswith("Diff: 2 files, +7 −3 lines\nsrc/key.py (+4 −2), src/ĊĊ記憶.py (+3 −1)\n")


def test_an_empty_diff_has_no_files():
    assert digest("words\n" * 20, shape="diff").startswith("Diff: 0 files, +0 −0 lines")
