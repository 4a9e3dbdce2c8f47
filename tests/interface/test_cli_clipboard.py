"""Copying uses the first clipboard tool that works; real commands stand in for the tools."""

import contextlib
import os
import pty
import shutil
import signal
import subprocess
import sys
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import clean_environment
from satchel import SatchelError
from satchel.cli import clipboard
from satchel.cli.clipboard import copy

TEXT = "# Notes\n<b>東京</b> 🚀\n"
SLEEP = shutil.which("sleep")
KEEP_INPUT = f'{shutil.which("cat")} > "$0.copied"'

MakeTool = Callable[..., Path]
Remarks = Callable[[], str]


@pytest.fixture(autouse=True)
def remarks(monkeypatch, capsys, tmp_path: Path) -> Remarks:
    """No tool but those a test makes, a display of each sort, and no terminal; what was said on stderr."""
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.setenv(name, ":0")
    return lambda: capsys.readouterr().err


@pytest.fixture
def make_tool(tmp_path: Path) -> MakeTool:
    """Puts a shell script on the PATH; where the text it is given goes to."""

    def make(name: str, script: str = KEEP_INPUT) -> Path:
        file = tmp_path / name
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)
        return tmp_path / f"{name}.copied"

    return make


@pytest.mark.parametrize("name", ["pbcopy", "wl-copy", "xclip", "xsel", "termux-clipboard-set"])
def test_a_tool_gets_the_text_byte_for_byte(make_tool: MakeTool, name: str, remarks: Remarks):
    copied = make_tool(name)
    assert copy(TEXT) == name
    assert copied.read_bytes() == TEXT.encode()
    assert remarks() == ""


def test_windows_gets_its_own_encoding(make_tool: MakeTool):
    copied = make_tool("clip.exe")
    assert copy(TEXT) == "clip.exe"
    assert copied.read_bytes().decode("utf-16-le") == TEXT


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("xclip", "-selection clipboard"),
        ("xsel", "--clipboard --input"),
        ("wl-copy", "--type text/plain"),
        ("pbcopy", "en_US.UTF-8"),
    ],
)
def test_a_tool_is_told_which_clipboard_and_what_sort_of_text(
    make_tool: MakeTool, tmp_path: Path, monkeypatch, name: str, said: str
):
    monkeypatch.delenv("LC_ALL", raising=False)
    make_tool(name, f'{KEEP_INPUT}; echo "${{*:-$LC_ALL}}" > "$0.told"')
    copy(TEXT)
    assert (tmp_path / f"{name}.told").read_text() == f"{said}\n"


def test_of_several_tools_the_first_in_order_is_used(make_tool: MakeTool):
    copied = {name: make_tool(name) for name in ("xsel", "xclip", "wl-copy", "termux-clipboard-set")}
    assert copy(TEXT) == "wl-copy"
    assert [name for name, file in copied.items() if file.exists()] == ["wl-copy"]


def test_a_tool_without_its_display_is_passed_over(make_tool: MakeTool, monkeypatch):
    for name in ("wl-copy", "xclip", "xsel", "termux-clipboard-set"):
        make_tool(name)
    monkeypatch.delenv("WAYLAND_DISPLAY")
    assert copy(TEXT) == "xclip"
    monkeypatch.setenv("DISPLAY", "")
    assert copy(TEXT) == "termux-clipboard-set"


def test_a_tool_that_fails_is_noted_and_the_next_one_is_tried(make_tool: MakeTool, remarks: Remarks):
    make_tool("xclip", 'echo starting >&2; printf "Error: Can\'t open display: \\033[1m:0\\n\\n" >&2; exit 3')
    copied = make_tool("xsel")
    assert copy(TEXT) == "xsel"
    assert copied.read_bytes() == TEXT.encode()
    said = remarks()
    assert said == "xclip failed with 3 (Error: Can't open display: \ufffd[1m:0); copied by xsel instead\n"


def test_a_tool_that_cannot_be_run_is_like_one_that_fails(make_tool: MakeTool, tmp_path: Path, remarks: Remarks):
    make_tool("xclip")
    (tmp_path / "xclip").write_text("#!/nowhere/at/all\n")
    make_tool("xsel")
    assert copy(TEXT) == "xsel"
    assert remarks().startswith("xclip could not be run (No such file or directory); ")


def test_a_tool_that_takes_nothing_and_hangs_is_given_up(make_tool: MakeTool, monkeypatch, remarks: Remarks):
    monkeypatch.setattr(clipboard, "TIMEOUT", 0.2)
    make_tool("xclip", f"exec {SLEEP} 60")
    make_tool("xsel")
    assert copy("x" * 1_000_000) == "xsel"
    assert remarks() == "xclip did not finish within 0.2 seconds; copied by xsel instead\n"


def test_a_tool_that_reads_only_a_part_and_succeeds_is_believed(make_tool: MakeTool):
    make_tool("xclip", "exit 0")
    assert copy("x" * 1_000_000) == "xclip"


def test_a_tool_that_stays_behind_to_serve_the_clipboard_is_not_waited_for(
    make_tool: MakeTool, tmp_path: Path, monkeypatch
):
    monkeypatch.setattr(clipboard, "TIMEOUT", 10)
    copied = make_tool("xclip", f'{KEEP_INPUT}; {SLEEP} 60 & echo $! > "$0.pid"')
    try:
        assert copy(TEXT) == "xclip"
        assert copied.read_bytes() == TEXT.encode()
    finally:
        os.kill(int((tmp_path / "xclip.pid").read_text()), signal.SIGKILL)


def test_without_any_tool_one_line_says_what_was_looked_for_and_what_works():
    with pytest.raises(SatchelError) as caught:
        copy(TEXT)
    assert str(caught.value) == (
        "cannot copy to a clipboard; tried pbcopy, wl-copy (WAYLAND_DISPLAY), xclip (DISPLAY), xsel (DISPLAY), "
        "clip.exe, termux-clipboard-set and the terminal: there is no terminal; use -o FILE or a pipe"
    )


def test_where_all_tools_fail_one_line_says_why(make_tool: MakeTool, remarks: Remarks):
    make_tool("xclip", "echo 'no display' >&2; exit 1")
    make_tool("xsel", "exit 2")
    with pytest.raises(SatchelError) as caught:
        copy(TEXT)
    said = str(caught.value)
    assert "xclip failed with 1 (no display); xsel failed with 2; there is no terminal; use -o FILE" in said
    assert "\n" not in said
    assert remarks() == ""


def test_halves_of_surrogate_pairs_do_not_stop_it(make_tool: MakeTool):
    copied = make_tool("xclip")
    copy("a \ud83d\ude80 b \ud800")
    assert copied.read_text(encoding="utf-8") == "a 🚀 b \ufffd"


def test_a_terminal_is_asked_by_its_escape_sequence(tmp_path: Path):
    screen, said = on_its_own_terminal(repr(TEXT), tmp_path)
    assert b"\x1b]52;c;" + b64encode(TEXT.encode()) + b"\x07" in screen
    assert said == "the terminal (OSC 52)\n"


@pytest.mark.parametrize(
    ("text", "term", "complaint"),
    [
        ("'x' * 80_000", "xterm", "a terminal accepts at most 74,994 bytes, not 80,000; use -o FILE or a pipe"),
        ("'x'", "dumb", "the terminal is dumb (TERM=dumb); use -o FILE or a pipe"),
    ],
)
def test_a_terminal_is_not_asked_for_what_it_cannot_do(tmp_path: Path, text: str, term: str, complaint: str):
    screen, said = on_its_own_terminal(text, tmp_path, TERM=term)
    assert b"]52;" not in screen
    assert complaint in said


def on_its_own_terminal(text: str, folder: Path, **environment: str) -> tuple[bytes, str]:
    """What a process that copies a text shows on its controlling terminal, and what `copy` answered."""
    script = (
        "import os, pathlib; os.close(os.open(os.ttyname(2), os.O_RDWR))\n"
        "from satchel.cli.clipboard import copy\n"
        f"try: said = copy({text})\n"
        "except Exception as error: said = repr(error)\n"
        "pathlib.Path('said').write_text(said + '\\n')\n"
    )
    master, slave = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=slave,
        stdout=subprocess.DEVNULL,
        stderr=slave,
        cwd=folder,
        env=clean_environment(folder) | {"PATH": str(folder), "TERM": "xterm"} | environment,
        start_new_session=True,
    ) as process:
        os.close(slave)
        screen = b""
        # The end of a terminal whose last writer has gone reads as an error.
        with contextlib.suppress(OSError):
            while part := os.read(master, 65536):
                screen += part
        os.close(master)
        process.wait(timeout=60)
    return screen, (folder / "said").read_text()
