"""The shape of a tool's output, detected from its text and, if that is unclear, from the tool's name."""

import json

import pytest

from satchel.session.digests.base import Evidence, split_lines
from satchel.session.digests.digest import SHAPES, shape_of
from tables import each_row

NUMBERED = (
    '     1\t"""Keys."""\n     2\t\n     3\timport re\n     4\t\n     5\tdef rotate(key):\n     6\t    return key\n'
)
PYTHON = 'import re\n\n\nclass Key:\n    """A key."""\n\n    def rotate(self):\n        return self.next\n'
RUST = "use std::fmt;\n\npub struct Key {\n    id: u32,\n}\n\nimpl Key {\n    fn turn() {\n    }\n}\n"
MARKDOWN = "# Rotation\n\nKeys turn over at midnight.\n\n## Steps\n\n- ask each service\n- write the log\n"
PROSE = "Keys turn over at midnight, because nobody works then.\nIt took us a week to agree on that.\n"
DIFF = (
    "diff --git a/src/key.py b/src/key.py\nindex 12ab34c..45de67f 100644\n--- a/src/key.py\n+++ b/src/key.py\n"
    "@@ -1,3 +1,3 @@ class Key:\n import re\n-OLD = 1\n+NEW = 2\n"
)
GIT_LOG = (
    "commit 4b825dc642cb6eb9a060e54bf8d69288fbee4904\nAuthor: Ana <ana@example.org>\n\n    Rotate at midnight\n\n"
)
RECORD = {"ts": "2026-11-16T10:00:00Z", "level": "info", "msg": "rotated"}

BY_CONTENT = {
    "paths": ("files", "src/key.py\nsrc/log.py\ntests/test_key.py\nREADME.md\n"),
    "paths with blanks": ("files", "./notes/first draft.md\n./notes/second draft.md\n./img/a b.png\n"),
    "ls -l": (
        "files",
        "total 8\n-rw-r--r-- 1 ana staff 120 Nov 16 10:00 key.py\ndrwxr-xr-x 2 ana staff 64 Nov 16 10:01 docs\n",
    ),
    "tree": ("files", ".\n├── src\n│   ├── key.py\n│   └── log.py\n└── README.md\n\n1 directory, 3 files\n"),
    "tree in ASCII": ("files", ".\n|-- src\n|   |-- key.py\n|   `-- log.py\n`-- README.md\n"),
    "marked": ("files", "[DIR] docs\n[FILE] key.py\n[FILE] log.py\n"),
    "matches": ("matches", "src/key.py:12: rotate the key\nsrc/log.py:3:# rotated\n"),
    "matches with columns": ("matches", "src/key.py:12:5:rotate the key\nsrc/log.py:3:1:# rotated\n"),
    "matches with context": ("matches", "key.py-11-before\nkey.py:12:rotate\nkey.py-13-after\n--\na.py:1:rotate\n"),
    "matches on Windows": ("matches", "C:\\work\\key.py:12: rotate\nC:\\work\\log.py:3: rotated\n"),
    "matches under headings": ("matches", "src/key.py\n12:rotate the key\n40:again\n\nsrc/log.py\n3:# rotated\n"),
    "git diff": ("diff", DIFF),
    "git show": ("diff", GIT_LOG + DIFF),
    "unified diff": ("diff", "--- old/key.py\t2026-01-01\n+++ new/key.py\t2026-01-02\n@@ -1 +1 @@\n-a\n+b\n"),
    "git log": ("log", GIT_LOG * 3),
    "git log in short": ("log", "4b825dc Rotate at midnight\n9e6f05f (tag: v2) Ask each service\n"),
    "ISO times": ("log", "2026-11-16T10:00:00Z INFO rotated 3 keys\n2026-11-16T10:00:01Z WARN slow\n"),
    "bracketed times": ("log", "[2026-11-16 10:00:00] rotated 3 keys\n[2026-11-16 10:00:01] slow\n"),
    "syslog": ("log", "Nov 16 10:00:00 host cron[12]: rotated\nNov 16 10:00:01 host cron[12]: slow\n"),
    "access log": ("log", '10.0.0.1 - - [16/Nov/2026:10:00:00 +0000] "GET / HTTP/1.1" 200 5\n' * 2),
    "levels": ("log", "[INFO] rotated 3 keys\n[WARN] slow\nDEBUG: done\n"),
    "logfmt": ("log", "time=2026-11-16T10:00:00Z level=info msg=rotated\nlevel=warn msg=slow\n"),
    "log with a stack trace": (
        "log",
        "2026-11-16 10:00:00 ERROR boom\n  at a.b.C(C.java:1)\n  at a.b.D(D.java:2)\n2026-11-16 10:00:01 INFO on\n",
    ),
    "JSON lines of a log": ("log", f"{json.dumps(RECORD)}\n" * 3),
    "compiler": ("log", "src/key.c:12:5: error: no type\nsrc/key.c:14:1: warning: unused\n"),
    "git status": ("status", "On branch main\nYour branch is up to date.\n\nnothing to commit, clean\n"),
    "porcelain": ("status", " M src/key.py\n?? notes.md\nA  src/log.py\n"),
    "porcelain with branch": ("status", "## main...origin/main [ahead 2]\n M src/key.py\n"),
    "object": ("json", '{"keys": 3, "next": null}'),
    "array": ("json", "[1, 2, 3]"),
    "JSON on lines": ("json", json.dumps([RECORD, RECORD], indent=2)),
    "truncated object": ("json", '{"items": [{"id": 1, "na'),
    "truncated array": ("json", '[\n  {\n    "id": 1,\n    "na'),
    "lines of objects": ("json", '{"id": 1}\n{"id": 2}\n'),
    "nested without end": ("json", "[" * 100_000),
    "numbered": ("file", NUMBERED),
    "numbered with arrows": ("file", NUMBERED.replace("\t", "→")),
    "Python": ("file", PYTHON),
    "Rust": ("file", RUST),
    "markdown": ("file", MARKDOWN),
    "configuration": ("file", '[project]\nname = "kiln"\n\n[tool.keys]\nmost = 5\n'),
    "script": ("file", "#!/bin/sh\necho rotated\n"),
    "prose": ("text", PROSE),
    "notes in brackets": ("text", "[1] the first note\n[2] the second note\n"),
    "a time in a sentence": ("text", "We meet at 10:30: nobody is late then.\nAfter 11:15: coffee, and the log.\n"),
    "nothing": ("text", ""),
    "blank lines": ("text", " \n\n\t\n"),
}  # fmt: skip


@each_row(("shape", "text"), BY_CONTENT.values())
def test_the_text_alone_shows_its_shape(shape, text):
    assert shape_of(text) == shape
    assert shape_of(text.replace("\n", "\r\n")) == shape


@pytest.mark.parametrize(("shape", "text"), BY_CONTENT.values(), ids=list(BY_CONTENT))
def test_no_shape_is_recognised_without_its_sign(shape, text):
    lines = [line for line in split_lines(text) if line.strip()]
    evidence = Evidence(text, lines, None)
    for each in SHAPES.values() if lines else ():
        if each.certain(evidence) or each.likely(evidence):
            assert each.prefilter is not None, each.name
            assert evidence.has_prefix(each.prefilter), each.name


def test_lines_between_groups_of_matches_alone_are_text():
    assert shape_of("--\n--\n") == shape_of("--", tool="grep") == "text"


def test_colours_do_not_hide_a_shape():
    assert shape_of("\x1b[35msrc/key.py\x1b[0m:\x1b[32m12\x1b[0m: rotate\n" * 3) == "matches"


@pytest.mark.parametrize(
    "tool", ["read_file", "cat", "fs__read_file", "readFile", "View", "mcp.files/get_file_contents"]
)
def test_what_a_tool_for_reading_gives_is_a_file(tool):
    assert shape_of(PROSE, tool=tool) == "file"
    assert shape_of("apsw/core\nmsgspec/json\n.venv/lib\n", tool=tool) == "file"


@pytest.mark.parametrize("tool", ["list_directory", "glob", "ls", "project_files", "listFiles", "find"])
def test_names_without_any_mark_are_files_to_a_tool_that_lists(tool):
    assert shape_of("README\nsrc\nMakefile\n", tool=tool) == "files"
    assert shape_of("README\nsrc\nMakefile\n") == "text"


@each_row(
    ("tool", "text", "shape"),
    [
        ("journal", "rotated 3 keys\nslept well\n", "log"),
        ("vcs_log", "rotated 3 keys\nslept well\n", "log"),
        ("service_status", "State: running\nKeys: 3\n", "status"),
        ("grep", "Binary file key.bin matches\nnotes\nsrc/key.py:12: rotate\n", "matches"),
        ("search", PROSE, "text"),
        ("vcs_diff", PROSE, "text"),
        ("list_users", PROSE, "text"),
        ("login", PROSE, "text"),
        ("catalogue", PROSE, "text"),
        (None, PROSE, "text"),
    ],
)
def test_the_name_of_a_tool_is_a_hint_that_the_text_may_refuse(tool, text, shape):
    assert shape_of(text, tool=tool) == shape


@pytest.mark.parametrize("tool", ["read_file", "search", "list_files", "git_log", "get_status"])
def test_what_a_text_plainly_shows_comes_before_the_name_of_the_tool(tool):
    assert shape_of('{"keys": 3}', tool=tool) == "json"
    assert shape_of(DIFF, tool=tool) == "diff"


def test_a_diff_within_markdown_is_markdown():
    assert shape_of(f"# Change\n\nWhat we did:\n\n- one\n\n```diff\n{DIFF}```\n") == "file"


def test_compiler_messages_that_were_searched_for_are_matches():
    text = "src/key.c:12:5: error: no type\nsrc/key.c:14:1: warning: unused\n"
    assert shape_of(text, tool="grep") == "matches"


def test_a_long_text_is_known_by_its_sample():
    assert shape_of("src/key.py:12: rotate the key\n" * 200_000) == "matches"
    assert shape_of("x" * 5_000_000) == "text"
    assert shape_of("[" + '{"id": 1},' * 100_000) == "json"


@pytest.mark.parametrize(
    "text", ["\ud800\n" * 3, "\x00\x01\n" * 3, "{\ud800", '{"\ud800": 1}', "[" * 10, "| " * 4_000]
)
def test_odd_characters_do_no_harm(text):
    assert shape_of(text) in ("text", "json")
