"""The command line with which a client starts the server."""

import sys
from pathlib import Path

import pytest

from satchel.cli.clients.entry import check_name, satchel_entry
from satchel.errors import InputError


@pytest.fixture
def program(tmp_path: Path, monkeypatch) -> Path:
    """A Python with nothing beside it and nothing on the PATH."""
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    return python


def executable(path: Path) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_the_command_beside_python_comes_first_then_that_on_the_path_then_the_module(program: Path, tmp_path: Path):
    entry = satchel_entry("satchel", ["--project", "x"])
    assert (entry.command, entry.args) == (str(program), ("-m", "satchel", "mcp", "--project", "x"))
    on_path = executable(tmp_path / "path" / "satchel")
    assert satchel_entry("satchel") == ("satchel", str(on_path), ("mcp",))
    beside = executable(program.with_name("satchel"))
    assert satchel_entry("satchel") == ("satchel", str(beside), ("mcp",))
    beside.chmod(0o644)
    assert satchel_entry("satchel").command == str(on_path)


def test_the_command_is_absolute_even_if_the_path_is_not(program: Path, tmp_path: Path, monkeypatch):
    executable(tmp_path / "here" / "satchel")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "here")
    assert satchel_entry("satchel").command == str(tmp_path / "here" / "satchel")


@pytest.mark.parametrize("name", ["", "a b", "a.b", "é", "a\n", "x" * 65, '"'])
def test_a_name_that_some_client_would_refuse_is_refused(name: str):
    with pytest.raises(InputError, match="is not a valid server name"):
        check_name(name)


def test_what_cannot_be_written_as_utf_8_is_refused():
    with pytest.raises(InputError, match="is not UTF-8"):
        satchel_entry("satchel", ["--db", "/tmp/\udcff.db"])
