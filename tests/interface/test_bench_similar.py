"""`python -m bench.similar` on synthetic notes whose measures were computed by hand."""

import json
from pathlib import Path

import pytest
from bench import similar
from bench.notes import read_project

pytestmark = pytest.mark.slow

BOAT = {
    "id": "a boat",
    "now": "2026-10-15T10:00:00",
    "memories": [
        # Out of order on purpose.
        {"id": "m2", "at": "2026-06-01T09:00:00", "text": "The hull is painted blue now, no longer red."},
        {"id": "m1", "at": "2026-01-05T09:00:00", "text": "The hull is painted red."},
        {"id": "m3", "at": "2026-06-02T09:00:00", "text": "Buy a new anchor.", "kind": "todo"},
        {"id": "m4", "at": "2026-06-03T09:00:00", "text": "Ota keeps the spare keys."},
    ],
    "questions": [
        {"question": "Colour?", "category": "current", "evidence": ["m2"], "stale": ["m1"]},
        {"question": "Colour then?", "category": "past", "evidence": ["m1"], "stale": ["m2"]},
        {"question": "Keys?", "category": "who", "evidence": ["m4"], "stale": ["m3"]},
        {"question": "Open todos?", "category": "kind", "evidence": ["m3"], "stale": ["m1"]},
    ],
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "boat.json"
    path.write_text(json.dumps(BOAT))
    return path


def test_a_pair_is_a_newer_note_and_one_it_overtakes(file: Path):
    assert similar.pairs(read_project(file)) == {("m2", "m1"), ("m4", "m3")}


def test_notes_are_added_in_the_order_of_their_times_and_what_is_shown_is_counted(file: Path):
    measured = similar.measure(read_project(file), embedder="none")
    assert measured == similar.Shown("boat", pairs=2, found=1, shown=(0, 1, 0, 0))


def test_the_table_says_how_many_pairs_were_found(file: Path, capsys: pytest.CaptureFixture[str]):
    assert similar.main(["--data", str(file), "--embedder", "none"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split() == ["boat", "2", "50", "0.25", "75", "100"]


def test_a_file_that_is_not_there_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert similar.main(["--data", str(tmp_path / "gone.json")]) == 2
    assert capsys.readouterr().err == f"bench.similar: {tmp_path / 'gone.json'}: No such file or directory\n"


def test_the_cost_is_a_row_for_each_size(capsys: pytest.CaptureFixture[str]):
    assert similar.main(["--cost", "5", "--embedder", "none"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split()[0] == "5"
