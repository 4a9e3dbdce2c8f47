"""`satchel context-pack --copy` in a real process, with a real command in place of a clipboard tool."""

import shutil
from pathlib import Path

import pytest
from complaint import complaint

import satchel
from conftest import Cli
from satchel import Draft, count_tokens


@pytest.fixture
def thesis(path: Path) -> Path:
    with satchel.open(path) as bag:
        bag.add_many(Draft(f"rotation {number} " + "and words " * number * 5) for number in range(10))
    return path


@pytest.fixture
def clipboard(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """Where what is copied goes to, and an environment in which a tool puts it there."""
    tools = tmp_path / "tools"
    tools.mkdir()
    copied = tmp_path / "copied"
    (tools / "xclip").write_text(f'#!/bin/sh\nexec {shutil.which("cat")} > "{copied}"\n')
    (tools / "xclip").chmod(0o755)
    return copied, {"PATH": str(tools), "DISPLAY": ":0", "WAYLAND_DISPLAY": ""}


def test_a_copy_is_told_of_and_not_printed(cli: Cli, thesis: Path, clipboard: tuple[Path, dict[str, str]]):
    copied, environment = clipboard
    printed = cli("context-pack", "rotation").stdout
    done = cli("context-pack", "rotation", "--copy", **environment)
    assert (done.returncode, done.stdout) == (0, "")
    assert copied.read_text() == printed
    assert done.stderr == f"copied 10 memories by xclip: {count_tokens(printed)} of 2,000 tokens\n"


def test_a_copy_may_be_written_or_printed_too(
    cli: Cli, thesis: Path, clipboard: tuple[Path, dict[str, str]], tmp_path: Path
):
    copied, environment = clipboard
    done = cli("context-pack", "--copy", "-o", "-", **environment)
    assert done.stdout == copied.read_text() != ""
    assert done.stderr.endswith("\ncopied 10 memories by xclip\n")
    done = cli("context-pack", "--copy", "-o", "pack.md", "--tokens", "300", **environment)
    assert done.stdout == ""
    assert (tmp_path / "pack.md").read_text() == copied.read_text()
    assert done.stderr.startswith("wrote ")


def test_without_a_clipboard_it_is_a_failure_of_one_line(cli: Cli, thesis: Path, tmp_path: Path):
    said = complaint(cli("context-pack", "--copy", PATH=str(tmp_path)), code=1)
    assert "cannot copy to a clipboard" in said
    assert "use -o FILE" in said


def test_what_is_on_the_clipboard_stays_where_there_is_nothing_to_copy(
    cli: Cli, thesis: Path, clipboard: tuple[Path, dict[str, str]]
):
    copied, environment = clipboard
    done = cli("context-pack", "--project", "none", "--copy", **environment)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.startswith("no memories here; the clipboard is as it was\n")
    assert not copied.exists()
