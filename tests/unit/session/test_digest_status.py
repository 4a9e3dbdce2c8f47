"""The digest of a status."""

from satchel.session.digests.digest import digest

LONG = """On branch rotate
Your branch is ahead of 'origin/rotate' by 2 commits.
  (use "git push" to publish your local commits)

Changes to be committed:
  (use "git restore --staged <file>..." to unstage)
\tnew file:   src/key.py
\trenamed:    old.py -> new.py

Changes not staged for commit:
  (use "git add <file>..." to update what will be committed)
\tmodified:   src/log.py

Untracked files:
  (use "git add <file>..." to include in what will be committed)
\tnotes.md
\tnotes 2.md
\tnotes 3.md
"""


def test_a_status_becomes_branch_counts_and_paths():
    assert digest(LONG, tool="git_status").split("\n") == [
        "Status of rotate: ahead of 'origin/rotate' by 2 commits, 2 staged, 1 not staged, 3 untracked",
        "Not staged: src/log.py",
        "Staged: src/key.py (new file), old.py -> new.py (renamed)",
        "Untracked: notes.md, notes 2.md, notes 3.md",
    ]


def test_the_short_form_says_the_same():
    text = "## rotate...origin/rotate [ahead 2, behind 1]\nUU both.py\nA  src/key.py\n M src/log.py\nMM twice.py\n"
    text += "".join(f"?? notes{n}.md\n" for n in range(9))
    assert digest(text).split("\n") == [
        "Status of rotate: ahead 2, 1 conflicts, 2 staged, 1 not staged, 9 untracked",
        "Conflicts: both.py",
        "Not staged: src/log.py",
        "Staged: src/key.py, twice.py",
        "Untracked: " + ", ".join(f"notes{n}.md" for n in range(9)),
    ]


def test_a_changed_file_named_after_errors_is_no_error():
    text = "".join(f" M src/errors{n}.py\n" for n in range(9)) + " M src/error.py\n"
    assert "!" not in digest(text)
    assert "! fatal: the index is locked" in digest(text + "fatal: the index is locked\n", shape="status")


def test_few_conflicts_come_before_many_new_files():
    found = digest("".join(f"?? notes/{n:04d}.md\n" for n in range(2_000)) + "UU both.py\n")
    assert found.startswith("Status: 2,000 untracked, 1 conflicts\nConflicts: both.py\nUntracked: notes/0000.md")
    assert found.endswith("more")


def test_a_status_of_something_else_keeps_its_facts_before_its_prose():
    text = "State: running\nPID: 4711\nAll is well and nobody needs to look at this line at all today.\n" * 4
    found = digest(text + "Keys: 3\nerror: no answer from node-7\n", tool="service_status", most=120)
    assert "! error: no answer from node-7" in found
    assert "PID: 4711" in found
    assert "All is well" not in found
