"""`satchel context --plot` in a real process: an SVG plot of the token use."""

from pathlib import Path
from xml.etree import ElementTree

import pytest
from complaint import complaint
from sample import fill

import satchel
from conftest import Cli
from satchel import Draft


def words(file: Path) -> list[str]:
    """All the texts of a picture, which has to be valid XML."""
    root = ElementTree.fromstring(file.read_bytes())
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    return [text for element in root.iter() if (text := (element.text or "").strip())]


def test_the_picture_names_the_question_and_shows_what_was_kept_and_left_out(cli: Cli, path: Path, tmp_path: Path):
    with satchel.open(path) as bag:
        bag.add_many(Draft(f"rotation of part {number} " * 12, title=f"Part {number}") for number in range(9))
    command = ("context", "rotation", "--tokens", "200")
    done = cli(*command, "--plot", "context.svg")
    assert done.returncode == 0
    assert done.stdout == cli(*command).stdout
    first, remark = done.stderr.splitlines()
    assert first == "drew context.svg"
    assert " of 200 tokens; " in remark
    shown = words(tmp_path / "context.svg")
    assert "Context for “rotation”" in shown
    assert {f"Part {number}" for number in range(9)} <= set(shown)


def test_an_old_picture_is_replaced_and_nothing_else_is_left_behind(cli: Cli, path: Path, tmp_path: Path):
    fill(path)
    (tmp_path / "p.svg").write_text("old")
    cli("context", "--plot", "p.svg", "--project", "thesis")
    assert "Context of thesis" in words(tmp_path / "p.svg")
    assert not list(tmp_path.glob(".satchel*"))


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ('<script>&amp; "quotes" \']]>', 'Context for “<script>&amp; "quotes" \']]>”'),
        ("two\nlines \x1b[2J", "Context for “two lines \ufffd[2J”"),
        ("🎒 سلام", "Context for “🎒 سلام”"),
    ],
)
def test_an_odd_question_makes_a_valid_picture(cli: Cli, path: Path, tmp_path: Path, query: str, said: str):
    fill(path)
    done = cli("context", query, "--plot", "p.svg")
    assert done.returncode == 0, done.stderr
    assert said in words(tmp_path / "p.svg")


def test_a_picture_tells_that_nothing_was_found_or_fitted(cli: Cli, path: Path, tmp_path: Path):
    fill(path)
    cli("context", "rotation", "--project", "none", "--plot", "p.svg")
    assert "Nothing was found." in words(tmp_path / "p.svg")
    done = cli("context", "rotation", "--tokens", "2", "--plot", "p.svg")
    assert done.stderr.startswith("drew p.svg\nnothing fitted into 2 tokens")
    assert any(line.startswith("Nothing fits; ") for line in words(tmp_path / "p.svg"))


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("p.png", "--plot draws an SVG, not a .png file; name it p.svg"),
        ("-", "--plot needs a file"),
        ("nowhere/p.svg", "nowhere does not exist; make it first"),
        (".", "is a folder, not a file"),
    ],
)
def test_a_picture_that_cannot_be_drawn_there_is_one_clear_line_and_no_text(
    cli: Cli, path: Path, target: str, said: str
):
    fill(path)
    assert said in complaint(cli("context", "rotation", "--plot", target))
