"""`python -m bench.recall` on a synthetic conversation."""

import json
import re
import subprocess
import sys
from pathlib import Path
from statistics import fmean

import pytest

from satchel import count_tokens

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def bench(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench.recall", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=ROOT)


def question(text: str, category: str, *evidence: str) -> dict[str, object]:
    return {"question": text, "answer": "?", "evidence": evidence, "category": category}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    said = {
        "1": "We bought a red kayak. It leaks!",
        "2": "Lovely weather.",
        "3": "Ota moved to Turku in May. " + "And then some more about it. " * 60,
        "4": "The kayak is mended now.",
    }
    turns = [
        {"id": each, "session": "s1", "at": "2026-02-10T09:00:00", "speaker": "Ana", "text": text}
        for each, text in said.items()
    ]
    asked = [
        question("What happened to the kayak?", "multi", "1", "4"),
        question("Where did Ota move to?", "single", "3", "not there"),
        question("Who sank the kayak?", "adversarial", "1"),
        question("What is nowhere?", "single", "not there"),
    ]
    file = tmp_path / "made_up.jsonl"
    lines = [{"id": name, "source": "here", "turns": turns, "questions": asked} for name in ("a", "b")]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def row(output: str, label: str) -> list[float]:
    """The numbers of the first line that starts with a label."""
    line = next(line for line in output.splitlines() if re.match(rf"  {re.escape(label)}  ", line))
    return [float(cell.replace(",", "")) for cell in line.removeprefix(f"  {label}").split()]


def test_it_measures_every_question_with_known_evidence_and_dumps_the_texts(data: Path, tmp_path: Path):
    dump = tmp_path / "out.jsonl"
    done = bench("--data", data, "--budgets", "100,2000", "--dump", dump)
    assert done.returncode == 0, done.stderr
    assert "made_up: 2 conversations, 8 turns, 4 questions" in done.stdout
    assert row(done.stdout, "satchel")[1] == 100
    assert row(done.stdout, "FTS5, skip") == [50, 100]
    assert row(done.stdout, "first half, satchel") == row(done.stdout, "second half, satchel")
    assert row(done.stdout, "multi (2)") == [100, 100]
    assert "tokens over a budget: 0" in done.stdout
    told = [json.loads(line) for line in dump.read_text().splitlines()]
    assert len(told) == 8
    assert {each["conversation"] for each in told} == {"a", "b"}
    for each in told:
        assert each["tokens"] == count_tokens(each["text"]) <= each["budget"]
    spent = [fmean(each["tokens"] for each in told if each["budget"] == budget) for budget in (100, 2000)]
    costs = done.stdout.partition("what a context costs")[2]
    assert row(costs, "satchel") == [float(f"{each:.0f}") for each in spent]
    assert all(tokens <= budget for tokens, budget in zip(row(costs, "FTS5, skip"), (100, 2000), strict=True))


def test_an_evidence_turn_counts_by_the_share_of_its_sentences(tmp_path: Path):
    script = (
        "from bench.evidence import evidence_recall, sentences\n"
        "turn = sentences('It leaks! Is it red?\\n\\nYes, v1.2 is. ')\n"
        "print(turn)\n"
        "print(evidence_recall([turn, ['x']], 'Is it red? x It leaks'))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert done.stdout.splitlines() == ["['It leaks!', 'Is it red?', 'Yes, v1.2 is.']", str((1 / 3 + 1) / 2)]


def test_a_file_that_is_not_there_or_no_conversation_gives_one_line(tmp_path: Path):
    done = bench("--data", tmp_path / "nowhere.jsonl")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"bench.recall: {tmp_path / 'nowhere.jsonl'}: No such file or directory\n"
    (tmp_path / "other.jsonl").write_text('{"id": 1}\n')
    done = bench("--data", tmp_path / "other.jsonl")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1


def test_only_the_first_questions_are_asked_if_so_wanted(data: Path):
    done = bench("--data", data, "--budgets", "500", "--limit-questions", "1")
    assert "8 turns, 2 questions" in done.stdout


def told_at_day(*texts: str) -> list[dict[str, str]]:
    """Turns of one session that all have the same time; a turn may be empty."""
    return [
        {"id": str(place), "session": "s1", "at": "2026-02-10", "speaker": "Ana", "text": text}
        for place, text in enumerate(texts, start=1)
    ]


def test_a_question_is_asked_before_its_turn_and_finds_none_that_comes_later(tmp_path: Path):
    turns = told_at_day("The kayak is red.", "", "The kayak is green.", "Ota likes it.", "The kayak is blue.")
    asked = [
        question("Which colour has the kayak at last?", "end", "1", "3", "5"),
        question("Which colour has the kayak by now?", "late", "1", "3", "5") | {"before": "5"},
        question("Which colour has the kayak?", "early", "1") | {"before": "3"},
        question("Which colour has the kayak of somebody?", "end", "5") | {"before": "unknown"},
        question("Which colour will the kayak have?", "early", "3") | {"before": "3"},
    ]
    file, dump = tmp_path / "made_up.jsonl", tmp_path / "out.jsonl"
    file.write_text(json.dumps({"id": "a", "source": "here", "turns": turns, "questions": asked}) + "\n")
    done = bench("--data", file, "--budgets", "500", "--dump", dump)
    assert done.returncode == 0, done.stderr
    # The last question has no evidence when it is asked; the others have all of it and room for it.
    assert "5 turns, 4 questions" in done.stdout
    for system in ("satchel, min_relevance 0", "satchel, min_relevance 0, skip by rank", "FTS5, skip"):
        assert row(done.stdout, system) == [100]
    told = {each["question"]: each["text"] for each in map(json.loads, dump.read_text().splitlines())}
    colours = {text: set(re.findall("red|green|blue", said)) for text, said in told.items()}
    assert colours == {
        "Which colour has the kayak?": {"red"},
        "Which colour has the kayak by now?": {"red", "green"},
        "Which colour has the kayak at last?": {"red", "green", "blue"},
        "Which colour has the kayak of somebody?": {"red", "green", "blue"},
    }
    # FTS5 has nothing but "The kayak is red." then.
    cost = count_tokens("[2026-02-10] Ana: The kayak is red.\n")
    file.write_text(json.dumps({"id": "a", "source": "here", "turns": turns, "questions": asked[2:3]}) + "\n")
    done = bench("--data", file, "--budgets", "500")
    assert row(done.stdout.partition("what a context costs")[2], "FTS5, skip") == [cost]
