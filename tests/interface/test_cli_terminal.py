"""What a person sees: tables that fit, nothing broken at 60 columns, no escape sequence where none is wanted."""

import re
from pathlib import Path

import pytest
from rich.cells import cell_len
from sample import fill
from terminal import on_a_terminal, plain

import satchel
from conftest import Cli
from satchel.cli.app import COMMANDS

pytestmark = pytest.mark.slow


@pytest.fixture
def wide(path: Path) -> Path:
    with satchel.open(path) as bag:
        for number, words in enumerate(("plain words ", "記憶という言葉 ", "👨‍👩‍👧 e\u0301 🎒 ", "line\nline\t")):
            bag.scoped(project="港湾管理システム" if number % 2 else "a-long-project-name").add(
                f"{number} {words * 20}", at="2026-02-10", kind="observation", tags=[f"tag-{number}" * 5]
            )
    return path


@pytest.mark.parametrize("columns", [40, 60, 80, 200])
def test_a_list_fits_the_terminal_and_its_columns_are_aligned(wide: Path, tmp_path: Path, columns: int):
    shown = on_a_terminal("list", folder=tmp_path, COLUMNS=str(columns))
    heading, *lines = plain(shown.screen).splitlines()
    assert len(lines) == 4
    assert heading.split() == ["id", "date", "kind", "project", "memory"]
    assert all(cell_len(line) <= columns for line in [heading, *lines])
    # Ids are never cut, and dates only where nothing else is left to cut.
    assert len({len(line.split()[0]) for line in lines}) == 1
    assert all(re.fullmatch("[a-z2-7]{4,6}", line.split()[0]) for line in lines)
    if columns >= 60:
        starts = [cell_len(line[: line.index("observation") + 13]) for line in lines]
        assert len(set(starts)) == 1
        assert all("2026-02-10" in line for line in lines)


def test_a_pipe_gets_whole_lines_whatever_the_terminal_is(wide: Path, tmp_path: Path):
    narrow, broad = (
        on_a_terminal("list", folder=tmp_path, stdout_is_a_pipe=True, COLUMNS=columns).piped
        for columns in ("40", "200")
    )
    assert narrow == broad
    assert max(map(cell_len, narrow.splitlines())) > 100
    assert not narrow.startswith("id")


@pytest.mark.parametrize("setting", [{"NO_COLOR": "1"}, {"NO_COLOR": "yes"}, {"TERM": "dumb"}], ids=str)
def test_no_escape_sequence_where_none_is_wanted(path: Path, tmp_path: Path, setting: dict[str, str]):
    memory = fill(path)[0]
    lines = tmp_path / "lines.jsonl"
    lines.write_text("".join(f'{{"text":"memory {number}"}}\n' for number in range(200)))
    for command in (
        ("list",),
        ("list", "--detail", "full"),
        ("get", memory.id),
        ("search", "rotation", "--explain"),
        ("context", "rotation", "--explain"),
        ("timeline", memory.id),
        ("history", memory.id),
        ("stats",),
        ("projects",),
        ("doctor",),
        ("import", lines),
        ("reembed",),
        ("--help",),
        ("list", "--nonsense"),
    ):
        shown = on_a_terminal(*command, folder=tmp_path, **setting)
        assert shown.screen.strip(), command
        assert "\x1b" not in shown.screen, command
    asked = on_a_terminal("forget", "--tag", "cron", folder=tmp_path, typed="n\n", **setting)
    assert "\x1b" not in asked.screen


def test_an_empty_no_color_means_nothing(path: Path, tmp_path: Path):
    fill(path)
    assert "\x1b" in on_a_terminal("list", folder=tmp_path, NO_COLOR="").screen


def test_no_help_line_is_wider_than_60_columns(cli: Cli):
    for name in ("", *COMMANDS):
        done = cli(*name.split(), "--help", COLUMNS="60")
        assert done.returncode == 0
        too_wide = [line for line in done.stdout.splitlines() if cell_len(line) > 60]
        assert too_wide == [], name


@pytest.mark.parametrize("command", ["stats", "doctor", "projects", "tags", "list", "context words --explain"])
def test_tables_fit_60_columns(wide: Path, tmp_path: Path, command: str):
    shown = on_a_terminal(
        *command.split(), folder=tmp_path, stdout_is_a_pipe=command.startswith("context"), COLUMNS="60"
    )
    table = [line for line in plain(shown.screen).splitlines() if "  " in line.strip()]
    assert table
    # The path of the store is not a table's, and a word that is longer than its column is not broken.
    assert [line for line in table if cell_len(line) > 60 and max(map(len, line.split())) < 30] == []
