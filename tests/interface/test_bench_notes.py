"""`python -m bench.notes` and `bench.figures` on synthetic projects whose measures were computed by hand."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from bench import figures, notes

import satchel

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]

NOW = "2026-10-15T10:00:00"
KEYS = "Ota keeps the spare keys."
ANCHOR = "Buy a new anchor."
BLUE = "From now on the hull is blue."


def note(name: str, at: str, text: str, **fields: Any) -> dict[str, Any]:
    return {"id": name, "at": at, "kind": "fact", "title": None, "text": text, "tags": []} | fields


def question(text: str, category: str, *evidence: str, **fields: Any) -> dict[str, Any]:
    return {"question": text, "category": category, "evidence": evidence} | fields


BOAT = {
    "id": "a boat",
    "now": NOW,
    "memories": [
        note("m1", "2026-01-05T09:00:00", "We paint the hull red. It dries in two days.", title="Hull"),
        note("m2", "2026-06-01T09:00:00", BLUE, kind="decision", tags=["paint"]),
        note("m3", "2026-06-02T09:00:00", ANCHOR, kind="todo"),
        note("m4", "2026-06-03T09:00:00", KEYS),
        note("m5", "2026-06-04T09:00:00", "The pump failed. A clogged filter was the cause.", kind="fix"),
        note("m6", "2026-12-01T09:00:00", "The anchor and the spare keys sank."),
    ],
    "questions": [
        question("Who keeps the spare keys?", "who", "m4"),
        # m1 says hull twice and comes first.
        question("Which colour is the hull?", "current", "m2", stale=["m1"]),
        # m5 shares no word with it; m6 and m9 are not there.
        question("What anchor should we buy?", "multi", "m3", "m5", "m6", "m9", stale=[]),
        question("When did the anchor sink?", "single", "m6"),
        question("What does the sail cost?", "none"),
        question("Who painted the hull?", "none"),
    ],
}
GARDEN = {
    "id": "a garden",
    "now": NOW,
    "memories": [note("m1", "2026-05-01T09:00:00", "The plum tree was grafted by Mirja.")],
    "questions": [
        question("Who grafted the plum tree?", "who", "m1"),
        # The boat has a note with this word, which is no answer.
        question("Which plum keeps?", "single", "m1"),
        question("Which tree is it?", "current", "m1"),
    ],
}


def put(folder: Path, name: str, content: object) -> Path:
    file = folder / f"{name}.json"
    file.write_text(json.dumps(content))
    return file


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    return [put(tmp_path, "boat", BOAT), put(tmp_path, "garden", GARDEN)]


def bench(module: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", module, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=ROOT)


def test_what_is_not_there_now_is_neither_a_memory_nor_evidence(files: list[Path]):
    boat = notes.read_project(files[0])
    assert boat.id == "boat"
    assert [each.id for each in boat.memories] == ["m1", "m2", "m3", "m4", "m5"]
    assert [each.evidence for each in boat.questions] == [("m4",), ("m2",), ("m3", "m5"), (), ()]
    assert [each.stale for each in boat.questions] == [(), ("m1",), (), (), ()]


def test_the_measures_of_fts5_are_those_worked_out_by_hand(files: list[Path]):
    boat, garden = map(notes.read_project, files)
    asked = [*boat.questions, *notes.away([boat, garden], 0)]
    records = notes.measure_plain(boat, asked, budget=500)
    lines = {KEYS: f"[2026-06-03] {KEYS}\n", ANCHOR: f"[2026-06-02] {ANCHOR}\n"}
    hull = f"[2026-01-05] Hull: We paint the hull red. It dries in two days.\n[2026-06-01] {BLUE}\n"
    assert [each.text for each in records[:3]] == [lines[KEYS], hull, lines[ANCHOR]]
    assert [each.text for each in records[3:]] == ["", hull, "", lines[KEYS]]
    assert [[name for name, _ in each.hits] for each in records[:3]] == [["m4"], ["m1", "m2"], ["m3"]]
    used = [len(KEYS) / len(lines[KEYS]), len(BLUE) / len(hull), len(ANCHOR) / len(lines[ANCHOR])]
    tokens = [satchel.count_tokens(text) for text in (lines[KEYS], hull, lines[ANCHOR])]
    assert notes.summary(records) == pytest.approx(
        {
            "recall": (1 + 1 + 1 / 2) / 3,
            "use": sum(used) / 3,
            "hit1": 2 / 3,
            "mrr": (1 + 1 / 2 + 1) / 3,
            "in ten": (1 + 1 + 1 / 2) / 3,
            "current": 0,
            "quiet": 1 / 2,
            "away": 1 / 2,
            # "hull" alone scores less than "painted … hull".
            "auc": 5 / 6,
            # "keeps" alone scores less than "keeps … spare keys" and "anchor … buy", more than "hull".
            "auc away": 5 / 6,
            "tokens": sum(tokens) / 3,
            # Two of the three questions have one piece of evidence.
            "median one": sum(tokens[:2]) / 2,
            "tokens none": tokens[1] / 2,
            "tokens away": tokens[0] / 2,
        }
    )


class Stub:
    """Answers every question with the same text and hits."""

    def __init__(self, text: str, *hits: tuple[str, float]) -> None:
        self._store = SimpleNamespace(touch=None)
        self.text = text
        self.hits = [SimpleNamespace(memory=SimpleNamespace(ref=ref), score=score) for ref, score in hits]

    def context(self, query: str, *, token_budget: int, as_of: str, min_relevance: float | None) -> SimpleNamespace:
        assert (token_budget, as_of, min_relevance) == (500, NOW, None)
        return SimpleNamespace(text=self.text)

    def search(self, query: str, *, limit: int, as_of: str, min_relevance: float | None) -> list[SimpleNamespace]:
        assert (limit, as_of, min_relevance) == (10, NOW, None)
        return self.hits


def measured(files: list[Path], view: Any) -> dict[str, float | None]:
    return notes.summary(notes.measure(view, notes.read_project(files[0])))


def test_evidence_is_current_if_it_stands_above_what_is_stale_or_alone(files: list[Path]):
    assert measured(files, Stub("", ("m2", 0.9), ("m1", 0.8)))["current"] == 1
    assert measured(files, Stub("", ("m2", 0.9)))["current"] == 1
    assert measured(files, Stub("", ("m1", 0.9), ("m2", 0.8)))["current"] == 0
    assert measured(files, Stub("", ("m4", 0.9)))["current"] == 0
    assert measured(files, Stub(""))["current"] == 0


def test_what_no_question_tells_is_none_and_the_same_score_everywhere_tells_nothing(files: list[Path]):
    found = measured(files, Stub("It dries in two days.", ("m5", 0.3)))
    assert (found["recall"], found["use"], found["quiet"], found["auc"]) == (0, 0, 0, 0.5)
    assert (found["away"], found["auc away"], found["tokens away"]) == (None, None, None)
    # Half of one of two pieces of evidence, of one of three questions.
    found = measured(files, Stub("The pump failed."))
    assert (found["recall"], found["use"]) == pytest.approx((1 / 2 / 2 / 3, 1 / 3))
    assert found["in ten"] == 0


def test_measuring_leaves_no_trace_in_the_store_and_gives_the_same_again(files: list[Path]):
    project = notes.read_project(files[0])
    with satchel.open(":memory:") as bag:
        notes.fill(bag, project)
        first = notes.measure(bag, project)
        assert notes.measure(bag, project) == first
        assert sorted(notes.measure(bag, project, project.questions[::-1])) == sorted(first)
        assert [memory.access_count for memory in bag.recent()] == [0] * 5
        bag.search("spare keys")
        assert any(memory.access_count for memory in bag.recent())


def test_fifteen_questions_of_each_other_project_are_asked_away(files: list[Path], tmp_path: Path):
    boat, garden = map(notes.read_project, files)
    assert [each.question for each in notes.away([boat, garden], 0)] == [
        "Who grafted the plum tree?",
        "Which plum keeps?",
    ]
    many = [question(f"Which is number {number}?", "why", "m1") for number in range(20)]
    farm = notes.read_project(put(tmp_path, "farm", GARDEN | {"questions": many}))
    away = notes.away([farm, boat, farm], 1)
    assert len(away) == 30
    assert {(each.category, each.evidence) for each in away} == {("away", ())}


def test_it_prints_every_table_and_dumps_every_question(files: list[Path], tmp_path: Path):
    dump = tmp_path / "out.jsonl"
    done = bench("bench.notes", "--data", *files, "--dump", dump)
    assert done.returncode == 0, done.stderr
    assert "notes: 2 projects, 6 notes, 8 questions" in done.stdout
    for title in (
        "boat: 5 notes",
        "garden: 1 notes",
        "satchel by category",
        "satchel, min_relevance 0: calibration",
    ):
        assert f"\n{title}\n" in done.stdout
    boat = done.stdout.partition("\nboat: 5 notes\n")[2].splitlines()
    assert [line.split("  ")[1] for line in boat[2:4]] == ["satchel", "satchel, min_relevance 0"]
    assert " ".join(boat[4].split()).startswith("FTS5, skip 83.3 48.7 66.7 83.3 83.3 0.0 50.0 50.0 83.3 83.3 ")
    told = [json.loads(line) for line in dump.read_text().splitlines()]
    # For each of three systems 5 + 2 of the boat, 3 + 1 of the garden.
    assert len(told) == 3 * (7 + 4)
    assert not any("sank" in each["text"] for each in told)
    for each in told:
        assert each["tokens"] == satchel.count_tokens(each["text"]) <= 500


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("[1]", "Expected `object`, got `array`"),
        ("no JSON", "JSON is malformed"),
        ('{"id": "x", "now": "2026-01-01"}', "missing required field `memories`"),
        (json.dumps(BOAT | {"now": "some day"}), "now"),
        (json.dumps(BOAT | {"memories": [note("m1", "2026-01-01", "x", kind="dream")]}), "dream"),
        (json.dumps(BOAT | {"memories": [note("m1", "2026-01-01", "x")] * 2}), "two memories have the same id"),
    ],
)
def test_a_file_of_another_form_gives_one_line(
    content: str, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    file = tmp_path / "other.json"
    file.write_text(content)
    assert notes.main(["--data", str(file)]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith(f"bench.notes: {file}: not a project of notes: ")
    assert complaint in told.err
    assert len(told.err.splitlines()) == 1


def test_a_file_that_is_not_there_gives_one_line(tmp_path: Path):
    done = bench("bench.notes", "--data", tmp_path / "nowhere.json")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"bench.notes: {tmp_path / 'nowhere.json'}: No such file or directory\n"


def test_figures_run_on_what_is_there_and_name_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "notes").mkdir()
    put(tmp_path / "notes", "boat", BOAT)
    assert figures.main(["--data", str(tmp_path), "--only", "notes,beam"]) == 0
    told = capsys.readouterr()
    assert "notes: 1 projects" in told.out
    assert told.err == f"bench.figures: {tmp_path / 'beam100k_dev.jsonl'}: missing, left out\n"
    assert figures.main(["--data", str(tmp_path), "--only", "locomo"]) == 2
    with pytest.raises(SystemExit):
        figures.main(["--data", str(tmp_path), "--only", "notes,poems"])
    assert "unknown 'poems'; known: notes, left-out, locomo, beam, realmem" in capsys.readouterr().err
