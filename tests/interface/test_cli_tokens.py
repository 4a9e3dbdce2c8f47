"""`satchel tokens` in a real process."""

import json
import os
from pathlib import Path

import pytest
from complaint import complaint

from conftest import Cli
from satchel import count_tokens
from satchel.text.tokens import known_counters

TEXT = "def rotate(keys): 記憶 <|endoftext|>\n" * 5


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    one, two = tmp_path / "one.txt", tmp_path / "two.txt"
    one.write_text(TEXT)
    two.write_text("hello world\n")
    return one, two


def test_tokens_counts_files_and_their_total(cli: Cli, files: tuple[Path, Path]):
    done = cli("tokens", *files)
    assert (done.returncode, done.stderr) == (0, "")
    counts = [count_tokens(file.read_text()) for file in files]
    rows = [line.split() for line in done.stdout.splitlines()]
    assert rows == [
        [str(counts[0]), "o200k_base", str(files[0])],
        [str(counts[1]), "o200k_base", str(files[1])],
        [str(sum(counts)), "o200k_base", "total"],
    ]


def test_tokens_counts_standard_input_with_any_counter_or_model(cli: Cli):
    for arguments, name in ((("tokens",), "o200k_base"), (("tokens", "-", "--counter", "gpt-4"), "cl100k_base")):
        done = cli(*arguments, stdin=TEXT)
        assert done.stdout.split() == [str(count_tokens(TEXT, name)), name, "-"]


@pytest.mark.slow
def test_tokens_with_all_counters_as_text_and_json(cli: Cli):
    rows = [line.split() for line in cli("tokens", "--all", stdin="hello").stdout.splitlines()]
    assert [row[1] for row in rows] == known_counters()
    found = json.loads(cli("tokens", "--all", "--json", stdin="hello").stdout)
    assert [row["counter"] for row in found] == known_counters()
    assert [str(row["tokens"]) for row in found] == [row[0].replace(",", "") for row in rows]
    exact = {row["counter"]: row["exact"] for row in found}
    assert exact["o200k_base"] is True
    assert exact["chars/4"] is False


def test_tokens_counts_nul_bytes_and_megabytes(cli: Cli):
    content = b"\x00 NUL and words\n" * 150_000
    done = cli("tokens", "--counter", "chars/4", stdin=content)
    assert done.stdout.split()[0] == f"{len(content) // 4:,}"


def test_a_file_named_twice_is_counted_twice(cli: Cli, files: tuple[Path, Path]):
    lines = cli("tokens", files[1], files[1]).stdout.splitlines()
    assert len(lines) == 3
    assert int(lines[2].split()[0]) == 2 * int(lines[0].split()[0])


def test_a_file_whose_name_is_not_utf8_is_counted(cli: Cli, tmp_path: Path):
    file = tmp_path / os.fsdecode(b"\xff.txt")
    file.write_text("hello")
    done = cli("tokens", "--counter", "chars/4", file)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("2  chars/4")


def test_tokens_complains_about_counters_and_files_it_does_not_know(cli: Cli, tmp_path: Path):
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    for arguments in (
        ("--counter", "gpt-oops-9", "binary"),
        ("--counter", "gpt-4", "--all"),
        ("missing.txt",),
        (tmp_path,),
        ("binary",),
    ):
        complaint(cli("tokens", *arguments))
    complaint(cli("tokens", stdin=b"caf\xe9"))
