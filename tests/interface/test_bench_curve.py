"""The relevance benchmarks accept a project of notes, print their table, and report missing files."""

import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from satchel.recall.scoring import RELEVANCE_FILE, SIGNS, FittedRelevance

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
NOW = "2026-10-01T09:00:00"


def project(folder: Path, name: str, things: list[str]) -> Path:
    memories = [
        {"id": f"m{number}", "at": "2026-05-01", "kind": "fact", "text": f"The {thing} is kept in room {number}."}
        for number, thing in enumerate(things)
    ]
    questions = [
        {"question": f"Where is the {thing} kept?", "category": "single", "evidence": [f"m{number}"]}
        for number, thing in enumerate(things)
    ]
    questions.append({"question": f"Who bought the {things[0]}?", "category": "none"})
    file = folder / f"{name}.json"
    file.write_text(json.dumps({"id": name, "now": NOW, "memories": memories, "questions": questions}))
    return file


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    shed = ["ladder", "hammer", "rake", "anvil", "kayak"]
    house = ["piano", "kettle", "carpet", "mirror", "violin"]
    more = ["ledger", "stapler", "beamer", "globe", "abacus"]
    return [project(tmp_path, name, [*things, *(f"{thing} box" for thing in things)]) for name, things in
            (("shed", shed), ("house", house), ("office", more))]  # fmt: skip


def bench(module: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", module, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, cwd=ROOT)


def test_the_curve_prints_recall_over_tokens_for_every_min_relevance_and_draws_it(
    files: list[Path], tmp_path: Path
):
    picture = tmp_path / "curve.svg"
    done = bench("bench.curve", "--data", *files, "--embedder", "none", "--plot", picture)
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines()]
    found = {
        row[0]: [float(cell) for cell in row if cell[0].isdigit()][1:]
        for row in rows
        if row[:1] and row[0][0] == "0"
    }
    assert {"0", "0.12", "0.8"} <= found.keys()
    tokens = [values[0] for values in found.values()]
    assert tokens == sorted(tokens, reverse=True)
    assert found["0"][1] == 100
    assert "notes, 500 tokens" in picture.read_text()


def test_the_model_is_fitted_on_projects_and_reported_for_those_left_out(files: list[Path]):
    before = RELEVANCE_FILE.read_bytes()
    done = bench("bench.relevance", "--data", *files, "--embedder", "none")
    assert done.returncode == 0, done.stderr
    assert "notes: is there an answer? each project or conversation left out" in done.stdout
    assert RELEVANCE_FILE.read_bytes() == before


@pytest.mark.parametrize("module", ["bench.curve", "bench.relevance"])
def test_a_missing_file_gives_one_line(module: str, tmp_path: Path):
    done = bench(module, "--data", tmp_path / "nowhere.json")
    assert done.returncode == 2
    assert done.stderr == f"{module}: {tmp_path / 'nowhere.json'}: No such file or directory\n"


def test_every_family_has_a_model_of_known_signs():
    fitted = msgspec.json.decode(RELEVANCE_FILE.read_bytes(), type=FittedRelevance)
    assert set(fitted.families) == {"dense", "none", "static"}
    for models in fitted.families.values():
        for model in (models.notes, models.turns):
            assert model.weights.keys() <= set(SIGNS)
            assert 0 < model.sharpness <= 1
