"""`python -m bench.peers`: its parts, and a run with the two systems that need no environment of their own."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from bench.corpus import Corpus
from bench.evidence import Conversation, Turn
from bench.peers import environments
from bench.peers.__main__ import command_of, main, parsed_options
from bench.peers.client import Peer, Worker, WorkerError
from bench.peers.measure import FILLED, OURS, packed_by_skip
from bench.peers.report import Table, evidence_table, markdown
from bench.peers.vectors import DIMENSIONS, VectorCache, VectorTable
from bench.peers.work import conversation_work, synthetic_work

import satchel

ROOT = Path(__file__).parents[2]
count = satchel.counter("o200k_base").count


def embed(texts: Sequence[str]) -> np.ndarray:
    return np.stack([np.full(DIMENSIONS, len(text), np.float32) for text in texts])


def test_the_options_name_systems_sizes_and_themes():
    options = parsed_options(["--systems", "fts5, satchel,fts5", "--memories", "10k,500", "--themes", "notes"])
    assert options.systems == ["fts5", "satchel"]
    assert options.memories == [500, 10_000]
    assert options.themes == ["notes"]
    assert parsed_options([]).systems == ["satchel", "fts5", "mem0", "txtai", "chromadb", "llamaindex"]


def test_the_command_that_is_written_down_names_no_path(tmp_path: Path):
    given = ["--systems", "satchel,fts5", "--memories", "1k", "--data", str(tmp_path), "--json", "out.json"]
    command = "python -m bench.peers --systems satchel,fts5 --memories 1000 --data DIR"
    assert command_of(parsed_options(given)) == command
    assert command_of(parsed_options([])) == "python -m bench.peers"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--systems", "fts5,zep"], "--systems fts5,zep: unknown 'zep'; known: satchel, fts5, mem0, txtai, "),
        (["--themes", "beauty"], "--themes beauty: unknown 'beauty'; known: speed, recall, notes"),
        (["--memories", "lots"], "--memories lots: 'lots' is not a number of memories"),
        (["--queries", "0"], "--queries 0: at least 1 is needed"),
        (["--data", "no/such/folder"], "--data no/such/folder: not a folder"),
        (["--json", "no/such/folder/out.json"], "no/such/folder/out.json: No such file or directory"),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]):
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"bench.peers: {said}")
    assert printed.err.count("\n") == 1


def test_the_hash_of_requirements_ignores_comments_and_order(tmp_path: Path):
    def digest(content: str) -> str:
        path = tmp_path / "some.txt"
        path.write_text(content, encoding="utf-8")
        return environments.requirements_hash(path)

    assert digest("# pinned\na==1\nb==2 # why\n") == digest("b==2\n\na==1")
    assert digest("a==1\nb==2\n") != digest("a==1\nb==3\n")


def test_every_pinned_requirement_has_a_version_and_no_address():
    files = sorted(environments.REQUIREMENTS.glob("*.txt"))
    assert [path.stem for path in files] == ["chromadb", "llamaindex", "mem0", "txtai"]
    for path in files:
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
        assert [line for line in lines if line.count("==") != 1 or "/" in line or " " in line] == []


@pytest.mark.slow
def test_an_environment_is_kept_until_its_requirements_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    requirements, envs = tmp_path / "odd.txt", tmp_path / "envs"
    monkeypatch.setattr(environments, "REQUIREMENTS", tmp_path)
    assert environments.interpreter("fts5", envs) == Path(sys.executable)
    # Nothing to download.
    requirements.write_text("# nothing\n", encoding="utf-8")
    python = environments.interpreter("odd", envs)
    subprocess.run([python, "-c", "pass"], check=True)
    ours = python.parent / "ours"
    ours.touch()
    assert environments.interpreter("odd", envs) == python
    assert ours.exists()
    requirements.write_text("pip\n", encoding="utf-8")
    assert environments.interpreter("odd", envs) == python
    assert not ours.exists()
    requirements.write_text("not a requirement\n", encoding="utf-8")
    for _ in range(2):
        with pytest.raises(environments.NotInstalledError, match=r"^Invalid requirement: 'not a requirement'"):
            environments.interpreter("odd", envs)


def test_hits_are_packed_best_first_skipping_those_that_do_not_fit():
    lines = {"long": "[2026-05-01] a longer line about the hull of the boat\n", "short": "red\n", "other": "blue\n"}
    hits = [("short", 0.9), ("long", 0.8), ("other", 0.1)]
    assert packed_by_skip(hits, lines, count("red\n") + count("blue\n")) == "red\nblue\n"
    assert packed_by_skip(hits, lines, 100) == "".join([lines["short"], lines["long"], lines["other"]])
    assert packed_by_skip(hits, lines, 0) == ""


def test_vectors_are_computed_once_and_a_cut_file_is_repaired(tmp_path: Path):
    asked: list[str] = []

    def counted(texts: Sequence[str]) -> np.ndarray:
        asked.extend(texts)
        return embed(texts)

    VectorCache(tmp_path, counted).embed(["a", "bcd", "a"])
    again = VectorCache(tmp_path, counted)
    again.embed(["a", "ef"])
    assert sorted(asked) == ["a", "bcd", "ef"]
    # As if the last run had ended between the two files.
    (tmp_path / "keys").write_bytes((tmp_path / "keys").read_bytes()[:-1])
    table = VectorTable(VectorCache(tmp_path, counted).table(tmp_path / "some", ["ghij", "bcd"]))
    assert asked[3:] == ["ghij"]
    assert (table.floats(" bcd\n")[0], table.floats("ghij")[0], table.find("a")) == (3, 4, None)
    with pytest.raises(KeyError, match="no vector was made for 'a'"):
        table.packed("a")
    table.close()


def test_a_turn_is_searched_with_its_speaker_and_shown_with_its_day():
    turns = (Turn("t1", "s1", "2026-05-08T09:00:00", "Ana", "The hull is red."), Turn("t2", "s1", None, "Bo", " "))
    collection = conversation_work(Conversation("c", turns, ()))
    assert [each.searched for each in collection.memories] == ["Ana: The hull is red."]
    assert collection.lines == {"t1": "[2026-05-08] Ana: The hull is red.\n"}


def test_synthetic_work_adds_other_memories_than_it_builds_with():
    work = synthetic_work(Corpus(words=500), 70, queries=4, adds=3)
    names = [each.id for each in (*work.built, *work.added)]
    # One more, which is added first and not timed.
    assert (len(work.built), len(work.added), len(set(names))) == (70, 4, 74)
    assert {each.ref for each in work.asked} <= {each.id for each in work.built}


def test_a_system_that_was_not_measured_keeps_its_row():
    table = evidence_table("recall", {}, ["satchel", "mem0"])
    assert [row[0] for row in table.rows] == ["", OURS, "mem0"]
    assert set(table.rows[2][1:]) == {"–"}
    assert FILLED != OURS


def test_markdown_has_the_remarks_and_every_table():
    text = markdown([Table("one | two", [("", "p50 ms"), ("a|b", "1.0")])], ["Measured today."])
    assert text == "Measured today.\n\n**One | two**\n\n|  | p50 ms |\n|---|---|\n| a\\|b | 1.0 |\n"


def test_a_worker_reports_an_error_of_its_system_and_its_own_end_in_one_line(tmp_path: Path):
    table = VectorCache(tmp_path / "cache", embed).table(tmp_path / "table", ["known"])
    with Worker(Peer("fts5", Path(sys.executable)), tmp_path / "store", table) as worker:
        worker.call("open")
        with pytest.raises(WorkerError, match=r"^search: KeyError: .*no vector was made for 'unknown'"):
            worker.call("search", query="unknown", limit=3)
        assert worker.call("search", query="known", limit=3).result == []
    with Worker(Peer("zep", Path(sys.executable)), tmp_path / "other", table) as worker:
        with pytest.raises(WorkerError, match=r"No module named 'bench\.peers\.systems\.zep'"):
            worker.call("open")
        with pytest.raises(WorkerError, match=r"^search: it ended: KeyError: 'search'$"):
            worker.call("search", query="known", limit=3)


@pytest.mark.slow
def test_it_measures_satchel_and_fts5_in_this_environment(tmp_path: Path):
    turns = [{"id": f"t{number}", "session": "s", "at": None, "speaker": "Ana"} for number in range(2)]
    texts = ["The spare keys are with Ota.", "It rained all day."]
    turns = [turn | {"text": text} for turn, text in zip(turns, texts, strict=True)]
    asked = {"question": "Who has the spare keys?", "category": "single", "evidence": ["t0"]}
    data = tmp_path / "data"
    data.mkdir()
    line = json.dumps({"id": "c", "turns": turns, "questions": [asked]})
    (data / "locomo_dev.jsonl").write_text(line + "\n", encoding="utf-8")
    figures, tables = tmp_path / "out.json", tmp_path / "out.md"
    command = [sys.executable, "-m", "bench.peers", "--systems", "fts5,satchel", "--themes", "speed,recall"]
    command += ["--memories", "50", "--queries", "3", "--adds", "2", "--starts", "1", "--envs", str(tmp_path / "e")]
    command += ["--data", str(data), "--json", str(figures), "--markdown", str(tables)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert "building a store of 50 memories" in done.stdout
    assert "No evidence recall on BEAM-100K: beam100k_dev.jsonl is not in the folder of --data." in done.stdout
    measured = json.loads(figures.read_text(encoding="utf-8"))
    names = {"fts5", "satchel", "satchel, context of 2,000 tokens"}
    assert set(measured["speed 50"]) == names
    assert all(each["start"] > each["bare"] > 0 for each in measured["speed 50"].values())
    assert [measured["recall LoCoMo"][name]["500"][0][0] for name in ("fts5", "satchel")] == [1, 1]
    written = tables.read_text(encoding="utf-8")
    assert "`python -m bench.peers --systems fts5,satchel --themes" in written
    assert written.count("| satchel |") == 4
    assert not list((tmp_path / "e").glob("tmp*"))
