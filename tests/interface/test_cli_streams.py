"""Pipes, encodings and terminals: the same text everywhere, colours only on a terminal."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from sample import contents, fill
from terminal import ESCAPE, on_a_terminal, plain

import satchel
from conftest import Cli, clean_environment
from satchel import Draft

pytestmark = pytest.mark.slow

ASCII = {"LC_ALL": "C", "PYTHONIOENCODING": "ascii"}


@pytest.mark.parametrize("command", ["list --detail full --limit 500", "list --json --limit 500", "export"])
def test_a_reader_that_goes_away_ends_the_command_quietly(path: Path, tmp_path: Path, command: str):
    with satchel.open(path) as bag:
        bag.add_many(Draft(f"memory {number} " + "words " * 300) for number in range(300))
    with subprocess.Popen(
        [str(Path(sys.executable).with_name("satchel")), *command.split()],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=clean_environment(tmp_path),
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=60) in (0, 1)


def test_output_that_cannot_be_written_is_one_line_and_a_failure(path: Path, tmp_path: Path):
    fill(path)
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [str(Path(sys.executable).with_name("satchel")), "list"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            env=clean_environment(tmp_path),
        )
    assert done.returncode == 1
    assert done.stderr == "satchel: output: No space left on device\n"


@pytest.mark.parametrize("command", ["add - <&-", "tokens <&-", "list >&-"])
def test_a_stream_that_is_closed_from_the_start_is_foreseen(path: Path, tmp_path: Path, command: str):
    fill(path)
    done = subprocess.run(
        ["sh", "-c", f"{Path(sys.executable).with_name('satchel')} {command}"],
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        env=clean_environment(tmp_path),
    )
    assert "unexpected" not in done.stderr
    assert done.stderr.count("\n") <= 1


def test_output_is_utf8_whatever_the_locale_says(cold_cli: Cli, path: Path):
    memory = fill(path)[4]
    for command in (("search", "記憶"), ("timeline", memory.id), ("get", memory.id, "--json"), ("export",)):
        done = cold_cli(*command, **ASCII)
        assert done.returncode == 0, done.stderr
        assert memory.text in done.stdout
    assert "0…1" in cold_cli("add", "--help", **ASCII).stdout


def test_input_is_utf8_whatever_the_locale_says(cold_cli: Cli, path: Path):
    text = "Größe 記憶 🎒"
    for arguments, stdin in ((("add", text), ""), (("add", "-"), text)):
        done = cold_cli(*arguments, stdin=stdin, **ASCII)
        assert done.returncode == 0, done.stderr
        with satchel.open(path) as bag:
            assert bag.get(done.stdout.strip()).text == text


def test_a_terminal_shows_the_same_text_in_colour(cold_cli: Cli, path: Path, tmp_path: Path):
    with satchel.open(path) as bag:
        bag.add("needle with\ttabs, [brackets], :smile: and 記憶\n\n" + "long line " * 40, title="[bold]A[/bold]")
    piped = cold_cli("search", "needle", "--detail", "full")
    assert ESCAPE not in piped.stdout
    shown = on_a_terminal("search", "needle", "--detail", "full", folder=tmp_path)
    assert shown.returncode == 0
    assert ESCAPE in shown.screen
    # How sure a hit is moves a little when it is used.
    texts = [re.sub(r" \d+% ", " ", text) for text in (plain(shown.screen), piped.stdout)]
    on_screen, in_pipe = ([line.expandtabs() for line in text.splitlines()] for text in texts)
    assert on_screen == in_pipe


def test_a_terminal_without_colours_gets_none(path: Path, tmp_path: Path):
    fill(path)
    assert "36m" in on_a_terminal("list", folder=tmp_path).screen
    shown = on_a_terminal("list", folder=tmp_path, NO_COLOR="1")
    assert "36m" not in shown.screen
    assert "Key rotation" in plain(shown.screen)


def test_stored_escapes_do_not_reach_a_terminal(path: Path, tmp_path: Path):
    with satchel.open(path) as bag:
        memory = bag.add("needle \x1b]0;owned\x07", title="T \x1b[8m hidden")
        bag.update(memory.id, text="needle \x1b]0;owned\x07 again")
    for command in (("search", "needle"), ("history", memory.id)):
        shown = on_a_terminal(*command, folder=tmp_path)
        assert "\x1b]0;" not in shown.screen
        assert "\x1b[8m" not in shown.screen
        assert "\x07" not in shown.screen


def test_an_import_shows_its_progress_on_a_terminal_and_only_there(cold_cli: Cli, path: Path, tmp_path: Path):
    lines = tmp_path / "lines.jsonl"
    lines.write_text("".join(f'{{"text":"memory {number}"}}\n' for number in range(1500)))
    shown = on_a_terminal("import", lines, folder=tmp_path, stdout_is_a_pipe=True)
    assert shown.returncode == 0, shown.screen
    assert "importing" in shown.screen
    assert ESCAPE in shown.screen
    assert shown.piped == "added 1,500, updated 0, unchanged 0, relations 0, bad lines 0\n"
    again = cold_cli("import", lines)
    assert (again.returncode, again.stderr) == (0, "")
    assert ESCAPE not in again.stdout


def test_purging_many_asks_on_a_terminal_and_no_means_no(path: Path, tmp_path: Path):
    fill(path)
    before = contents(path)
    refused = on_a_terminal("forget", "--purge", "--tag", "cron", folder=tmp_path, typed="n\n")
    assert refused.returncode != 0
    assert "Traceback" not in refused.screen
    assert contents(path) == before
    agreed = on_a_terminal("forget", "--purge", "--tag", "cron", folder=tmp_path, typed="y\n")
    assert agreed.returncode == 0
    assert "purged 2 memories" in agreed.screen
