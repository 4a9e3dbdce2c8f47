"""`python -m bench.fit` on synthetic data: it fits both sets of weights and writes those it has data for."""

import json
from pathlib import Path

import msgspec
import pytest
from bench import fit

from satchel.recall.scoring import NOTES, TURNS, FittedWeights

pytestmark = pytest.mark.slow

THINGS = ("anchor", "sail", "rudder", "pump", "hull", "winch")


def project(name: str) -> dict[str, object]:
    notes = [
        {
            "id": f"m{n}",
            "at": f"2026-0{n + 1}-05T09:00:00",
            "kind": "fact",
            "text": f"The {thing} of {name} is new.",
        }
        for n, thing in enumerate(THINGS)
    ]
    asked = [
        {"question": f"What is said of the {thing}?", "category": "single", "evidence": [f"m{n}"]}
        for n, thing in enumerate(THINGS)
    ]
    return {"id": name, "now": "2026-10-15T10:00:00", "memories": notes, "questions": asked}


def conversation(name: str) -> dict[str, object]:
    turns = [
        {"id": f"t{n}", "session": "s", "at": f"2026-01-0{n + 1}", "speaker": "Ana", "text": f"I sold the {thing}."}
        for n, thing in enumerate(THINGS)
    ]
    # Asked before the third turn, which must not be found.
    asked = [
        {"question": "Who sold the anchor?", "category": "x", "evidence": ["t0"], "before": "t2"},
        {"question": "Who sold the winch?", "category": "x", "evidence": ["t5"]},
    ]
    return {"id": name, "turns": turns, "questions": asked}


@pytest.fixture
def data(tmp_path: Path) -> list[str]:
    paths = [tmp_path / "boat.json", tmp_path / "barge.json", tmp_path / "chats.jsonl"]
    for path in paths[:2]:
        path.write_text(json.dumps(project(path.stem)))
    paths[2].write_text("".join(json.dumps(conversation(name)) + "\n" for name in ("one", "two")))
    return [str(path) for path in paths]


def test_what_was_left_out_is_measured_and_the_weights_are_written(data, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(fit, "WEIGHTS_FILE", tmp_path / "weights.json")
    options = ["--embedder", "none", "--folds", "2", "--budgets", "200", "--sets", "--write"]
    assert fit.main(["--data", *data, *options]) == 0
    printed = capsys.readouterr().out
    for told in ("notes, left out: each project", "notes, left out: each data set whole", "chats", "hit1", "wrote"):
        assert told in printed
    fitted = msgspec.json.decode((tmp_path / "weights.json").read_bytes(), type=FittedWeights).families["none"]
    assert (fitted.notes.columns.keys(), fitted.turns.columns.keys()) == (set(NOTES), set(TURNS))
    assert fitted.notes.columns["text/top"] > 0


def test_weights_that_there_are_no_data_for_stay_as_they_are(data, tmp_path, monkeypatch):
    monkeypatch.setattr(fit, "WEIGHTS_FILE", tmp_path / "weights.json")
    options = ["--embedder", "none", "--folds", "1", "--write"]
    assert fit.main(["--data", *data, *options]) == 0
    before = msgspec.json.decode((tmp_path / "weights.json").read_bytes(), type=FittedWeights).families["none"]
    assert fit.main(["--data", data[0], *options]) == 0
    after = msgspec.json.decode((tmp_path / "weights.json").read_bytes(), type=FittedWeights).families["none"]
    assert after.turns == before.turns
    assert after.notes != before.notes


def test_a_file_that_is_missing_or_of_another_form_is_named_in_one_line(tmp_path, capsys):
    (tmp_path / "list.json").write_text("[]")
    for name in ("absent.jsonl", "list.json"):
        assert fit.main(["--data", str(tmp_path / name)]) == 2
        said = capsys.readouterr().err
        assert name in said
        assert said.count("\n") == 1
