"""The digest of a list of files."""

from satchel.session.digests.digest import digest

PROJECT = "\n".join(
    [f"src/app/core/part{n}.py" for n in range(12)]
    + [f"src/app/ui/view{n}.ts" for n in range(5)]
    + [f"docs/page{n}.md" for n in range(3)]
)


def test_a_list_of_files_becomes_its_count_types_and_folders():
    lines = digest(PROJECT, tool="project_files").split("\n")
    assert lines[0] == "20 files"
    assert lines[1] == "Types: .py 12, .ts 5, .md 3"
    assert lines[2] == "Folders: src/app/ 17, docs/ 3"
    assert lines[3].startswith("First: src/app/core/part0.py, src/app/core/part1.py")


def test_the_folder_that_was_listed_is_named():
    assert digest(PROJECT, tool="list", arguments={"path": "work/kiln"}).startswith("20 files in work/kiln\n")


def test_folders_are_counted_below_what_all_have_in_common():
    text = "\n".join(f"/srv/kiln/app/{'core' if n % 3 else 'ui'}/part{n}.py" for n in range(30))
    assert "Folders: /srv/kiln/app/core/ 20, /srv/kiln/app/ui/ 10" in digest(text)


def test_a_long_listing_tells_files_and_folders_apart():
    entries = [f"-rw-r--r-- 1 ana staff  120 Nov 16 10:00 key {n}.py" for n in range(9)]
    entries += [
        "drwxr-xr-x 2 ana staff   64 Nov 16  2025 docs",
        "lrwxr-xr-x 1 ana staff 4 2026-11-16 10:00 now -> key.py",
    ]
    found = digest("total 88\n" + "\n".join(entries))
    assert found.startswith("10 files, 1 folder\nTypes: .py 9\nFolders: docs/ 1\n")
    assert "First: key 0.py, key 1.py" in found
    assert found.endswith("docs/, now")


def test_folders_that_hold_each_other_are_told_apart():
    text = "".join(f"src/kiln/part{n}.py\n" for n in range(5)) + "".join(
        f"src/kiln/store/sql/{n}.sql\n" for n in range(7)
    )
    assert "Folders: src/kiln/store/sql/ 7, src/kiln/ 5" in digest(text)


def test_sizes_before_names_are_not_part_of_them():
    assert "First: docs/0.md, docs/1.md" in digest("".join(f"{8 * (n % 3)}\tdocs/{n}.md\n" for n in range(12)))


def test_a_tree_is_counted_without_its_root_and_summary():
    text = ".\n" + "├── src\n" + "│   ├── key.py\n" * 9 + "└── README.md\n\n1 directory, 10 files\n"
    found = digest(text)
    assert found.startswith("11 files\nTypes: .py 9, .md 1\n")


def test_marked_entries_and_sizes_are_not_part_of_a_name():
    text = "".join(f"[FILE] key{n}.py\n" for n in range(9)) + "[DIR] docs\n"
    assert digest(text).startswith("9 files, 1 folder\nTypes: .py 9\n")
    assert "First: key0.py, key1.py," in digest("".join(f"key{n}.py (1.2 KB)\n" for n in range(9)), tool="ls")


def test_the_count_of_a_long_list_is_exact_and_the_rest_an_estimate():
    text = "".join(f"src/part{n % 7}/file{n:05d}.{'py' if n % 4 else 'md'}\n" for n in range(20_000))
    lines = digest(text).split("\n")
    assert lines[0] == "20,000 files"
    assert lines[1].startswith("Types: .py ~15,000, .md ~5,")
    assert "~" in lines[2]


def test_empty_lines_are_not_files():
    assert digest("src/a.py\r\n\r\nsrc/b.py\r\n\r\n" * 9).startswith("18 files\n")
    assert digest("\n\nsrc/a.py\nsrc/b.py\n\n" * 9_000).startswith("18,000 files\n")


def test_what_the_tool_complains_of_is_kept():
    text = PROJECT + "\nfind: './private': Permission denied\n" + PROJECT
    found = digest(text, tool="find")
    assert "! find: './private': Permission denied" in found
    assert found.startswith("40 files")


def test_a_file_that_is_named_after_errors_is_no_error():
    text = PROJECT + "\nsrc/errors.py\nsrc/failed/exception.py\n"
    assert "!" not in digest(text)
