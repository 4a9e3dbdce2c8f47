"""`satchel edit` with editors that change, fail and meddle; nothing that was typed is lost."""

import json
import re
import stat
import sys
from pathlib import Path

import pytest
from complaint import complaint
from sample import fill

import satchel
from conftest import Cli


@pytest.fixture
def editor(tmp_path: Path) -> str:
    """The command of an editor that runs `edit.py` on its file."""
    script = tmp_path / "my editor.sh"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{tmp_path}/edit.py" "$@"\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return f"'{script}' --wait"


def acts(tmp_path: Path, code: str) -> None:
    """Say what the editor does with `document`, and what it exits with, by `code`."""
    (tmp_path / "edit.py").write_text(
        "import pathlib, subprocess, sys\n"
        "file = pathlib.Path(sys.argv[-1])\n"
        "document = file.read_text()\n"
        f"code = 0\n{code}\n"
        "file.write_text(document)\n"
        "sys.exit(code)\n"
    )


def drafts(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "drafts").iterdir())


@pytest.fixture(autouse=True)
def _drafts(tmp_path: Path) -> None:
    (tmp_path / "drafts").mkdir()


def test_edit_stores_what_the_editor_wrote(cli: Cli, path: Path, tmp_path: Path, editor: str):
    memory = fill(path)[0]
    acts(tmp_path, "document = document.replace('signing', 'all').replace('auth', 'auth, ops')")
    done = cli("edit", memory.id, VISUAL=editor, EDITOR="false", TMPDIR=str(tmp_path / "drafts"))
    assert done.returncode == 0, done.stderr
    assert "updated to revision 2" in done.stderr
    with satchel.open(path) as bag:
        after = bag.get(memory.id)
    assert (after.text, after.tags, after.title) == ("We rotate all keys.", ("auth", "ops"), memory.title)
    assert drafts(tmp_path) == []


def test_edit_prints_json_like_update(cli: Cli, path: Path, tmp_path: Path, editor: str):
    memory = fill(path)[0]
    acts(tmp_path, "document = document.replace('decision', 'fact', 1)")
    done = cli("edit", memory.id, "--json", EDITOR=editor, TMPDIR=str(tmp_path / "drafts"))
    assert json.loads(done.stdout)["kind"] == "fact"


def test_an_edit_without_a_change_changes_nothing(cli: Cli, path: Path, tmp_path: Path, editor: str):
    memory = fill(path)[0]
    acts(tmp_path, "")
    done = cli("edit", memory.id, EDITOR=editor, TMPDIR=str(tmp_path / "drafts"))
    assert (done.returncode, done.stdout) == (0, "")
    assert "is unchanged" in done.stderr
    with satchel.open(path) as bag:
        assert (bag.get(memory.id).revision, len(bag.history(memory.id))) == (1, 1)
    assert drafts(tmp_path) == []


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("document = document.replace('signing', 'all'); code = 3", "failed with code 3"),
        ("document = document.replace('---', '==')", "the line ---"),
        ("document = document.replace('decision', 'rumour', 1)", "unknown kind 'rumour'"),
        ("document = document.partition('\\n---\\n')[0] + '\\n---\\n'", "text is empty"),
        (
            "document = document.replace('signing', 'all')\n"
            "subprocess.run([SATCHEL, 'update', ID, '--title', 'meanwhile'], check=True, stdout=-3, stderr=-3)",
            "was changed by someone else",
        ),
    ],
)
def test_a_draft_that_cannot_be_stored_is_kept(
    cli: Cli, path: Path, tmp_path: Path, editor: str, code: str, why: str
):
    memory = fill(path)[0]
    command = Path(sys.executable).with_name("satchel")
    acts(tmp_path, code.replace("SATCHEL", repr(str(command))).replace("ID", repr(memory.id)))
    said = complaint(cli("edit", memory.id, EDITOR=editor, TMPDIR=str(tmp_path / "drafts")))
    assert why in said
    (draft,) = drafts(tmp_path)
    assert said.endswith(f"nothing was changed; your draft is in {draft}")
    assert "We rotate" in draft.read_text() or why == "text is empty"
    assert draft.stat().st_mode & 0o077 == 0
    with satchel.open(path) as bag:
        assert bag.get(memory.id).text == memory.text


def test_an_editor_that_cannot_be_started_leaves_no_draft(cli: Cli, path: Path, tmp_path: Path):
    memory = fill(path)[0]
    for command, why in (
        ("no-such-editor", "cannot start the editor"),
        ("'", "cannot be read"),
        ("false", "code 1"),
    ):
        said = complaint(cli("edit", memory.id, EDITOR=command, TMPDIR=str(tmp_path / "drafts")))
        assert why in said
        assert not re.search("draft", said)
    assert drafts(tmp_path) == []
