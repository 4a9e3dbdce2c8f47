"""Recall over the notes of a project (decisions, fixes, preferences, procedures), next to plain FTS5 in one run.

python -m bench.notes --data FILE… [--embedder NAME] [--budget 500] [--dump OUT.jsonl]

Each file is one project in its own store, queried as of its `now`: with the default `min_relevance`, and with 0,
which fills the budget. From `context` within the budget:

  recall       share of the evidence's sentences that are verbatim in the text, as in bench.recall
  use          characters of those sentences / characters of the text, mean over questions with an answer
  quiet        share of the questions without an answer (category none) with empty text
  away         the same for 15 questions (single, why, howto, who) of each other file, asked here
  tokens       mean count of the text, with o200k_base; also for the questions of quiet and away
  median one   median count of the text for questions with one piece of evidence

and from `search` with 10 hits:

  hit1, mrr    the first hit is evidence; 1 / rank of the first evidence, 0 without any
  in ten       share of the evidence among the hits
  current      for questions with stale memories: evidence ranks above every stale one
  auc          area under the ROC curve of the first hit's score (0 without a hit): questions with an answer
               against those without; `auc away` against the questions of other files
"""

import argparse
import contextlib
import itertools
import json
import statistics
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

import satchel
from bench.evidence import evidence_recall, sentences, uses_uncounted
from bench.floors import Entry, Floor, skip_and_go_on
from bench.table import print_table
from satchel.model.memory import as_time

__all__ = [
    "Answer",
    "Note",
    "Project",
    "Question",
    "Record",
    "away",
    "draft_of",
    "fill",
    "judged",
    "measure",
    "note_entry",
    "print_summary",
    "read_project",
    "summary",
]

OURS = "satchel"
FILLED = "satchel, min_relevance 0"
PLAIN = "FTS5, skip"
BUDGET = 500
HITS = 10
NONE = "none"
AWAY = "away"
AWAY_CATEGORIES = ("single", "why", "howto", "who")
AWAY_QUESTIONS = 15
BINS = (0, 0.01, 0.03, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0001)
count = satchel.counter("o200k_base").count


class Note(msgspec.Struct, frozen=True):
    """One memory of a project."""

    id: str
    at: str
    text: str
    kind: str | None = None
    title: str | None = None
    tags: tuple[str, ...] = ()


class Question(msgspec.Struct, frozen=True):
    """A question; `stale` are memories that the evidence supersedes."""

    question: str
    category: str
    evidence: tuple[str, ...] = ()
    stale: tuple[str, ...] = ()


class Project(msgspec.Struct, frozen=True):
    """The notes of one project up to `now`, and the questions asked then."""

    id: str
    now: str
    memories: tuple[Note, ...]
    questions: tuple[Question, ...]


class Answer(NamedTuple):
    """What a system returned for a question: the text of a context, and the ids and scores of its hits."""

    text: str
    hits: Sequence[tuple[str, float]]


class Record(NamedTuple):
    """The measures of one question to one system; None where an unanswerable question has no value."""

    system: str
    project: str
    category: str
    question: str
    text: str
    tokens: int
    hits: Sequence[tuple[str, float]]
    recall: float | None
    use: float | None
    rank: int | None
    """The rank of the first evidence among the hits, from 1; 0 without any."""
    in_ten: float | None
    current: bool | None
    pieces: int = 0
    """The number of notes that are evidence."""

    @property
    def score(self) -> float:
        """The score of the first hit."""
        return self.hits[0][1] if self.hits else 0.0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, nargs="+", required=True, metavar="FILE")
    parser.add_argument("--embedder", metavar="NAME", help="for satchel.open; its default if not given")
    parser.add_argument("--budget", type=int, default=BUDGET, metavar="N")
    parser.add_argument("--dump", type=Path, metavar="OUT", help="write every question as a JSON line")
    options = parser.parse_args(arguments)
    with contextlib.ExitStack() as stack:
        try:
            projects = [read_project(path) for path in options.data]
            dump = stack.enter_context(open(options.dump, "w", encoding="utf-8")) if options.dump else None
        except OSError as error:
            print(f"bench.notes: {error.filename}: {error.strerror}", file=sys.stderr)
            return 2
        except ValueError as error:
            print(f"bench.notes: {error}", file=sys.stderr)
            return 2
        records = run(projects, budget=options.budget, embedder=options.embedder)
        report(projects, records)
        if dump is not None:
            dump.writelines(json.dumps(record._asdict(), ensure_ascii=False) + "\n" for record in records)
    overrun = max(record.tokens for record in records) - options.budget if records else 0
    print(f"\n  tokens over the budget of {options.budget:,}: {max(overrun, 0)}")
    return 1 if overrun > 0 else 0


def read_project(path: Path) -> Project:
    """Read a project from a file, with what is known at its `now`.

    Unknown evidence and stale memories are dropped, and then questions without evidence, except those of category
    none. A file in another format raises a ValueError that names it.
    """
    content = path.read_bytes()
    try:
        project = msgspec.json.decode(content, type=Project)
        now = as_time(project.now, name="now")
        memories = tuple(note for note in project.memories if as_time(note.at, name="at") <= now)
        for note in memories:
            draft_of(note)
    except (msgspec.MsgspecError, satchel.InputError) as error:
        raise ValueError(f"{path}: not a project of notes: {error}") from error
    known = {note.id for note in memories}
    if len(known) < len(memories):
        raise ValueError(f"{path}: not a project of notes: two memories have the same id")
    questions = [
        msgspec.structs.replace(
            each,
            evidence=tuple(dict.fromkeys(note for note in each.evidence if note in known)),
            stale=tuple(dict.fromkeys(note for note in each.stale if note in known)),
        )
        for each in project.questions
    ]
    asked = tuple(each for each in questions if bool(each.evidence) != (each.category == NONE))
    return msgspec.structs.replace(project, id=path.stem, memories=memories, questions=asked)


def away(projects: Sequence[Project], place: int) -> list[Question]:
    """Return questions of the other projects, which this one does not answer."""
    asked: list[Question] = []
    for project in (*projects[:place], *projects[place + 1 :]):
        fitting = (each for each in project.questions if each.category in AWAY_CATEGORIES)
        chosen = itertools.islice(fitting, AWAY_QUESTIONS)
        asked += (Question(each.question, AWAY) for each in chosen)
    return asked


def fill(view: satchel.Satchel, project: Project) -> None:
    """Add all notes of a project, each with its id as `ref`."""
    view.add_many(map(draft_of, project.memories))
    view.catch_up()


def measure(
    view: satchel.Satchel,
    project: Project,
    questions: Sequence[Question] | None = None,
    *,
    budget: int = BUDGET,
    system: str = OURS,
    min_relevance: float | None = None,
) -> list[Record]:
    """Query a view that was filled by `fill`; by default with the project's own questions.

    The view stays unchanged, so the order of the questions does not matter and it can be queried again.
    """

    def answer(question: str) -> Answer:
        asked: dict[str, Any] = {"as_of": project.now, "min_relevance": min_relevance}
        block = view.context(question, token_budget=budget, **asked)
        hits = view.search(question, limit=HITS, **asked)
        return Answer(block.text, [(hit.memory.ref or "", hit.score) for hit in hits])

    with uses_uncounted(view):
        return judged(system, project, questions, answer)


def measure_plain(project: Project, questions: Sequence[Question], *, budget: int) -> list[Record]:
    """Measure FTS5 in the same way: the best notes first, skipping those that do not fit."""
    floor = Floor(count)
    floor.add(map(note_entry, project.memories))

    def answer(question: str) -> Answer:
        found = floor.find(question)
        text = "".join(floor.lines[place] for place in skip_and_go_on(found, budget))
        return Answer(text, [(project.memories[each.place].id, each.score) for each in found[:HITS]])

    try:
        return judged(PLAIN, project, questions, answer)
    finally:
        floor.close()


def run(projects: Sequence[Project], *, budget: int, embedder: str | None) -> list[Record]:
    """Query every project in its own store, with its own questions and those of the others."""
    given: dict[str, Any] = {"embedder": embedder} if embedder else {}
    records = []
    for place, project in enumerate(projects):
        questions = [*project.questions, *away(projects, place)]
        with satchel.open(":memory:", **given) as bag:
            fill(bag, project)
            records += measure(bag, project, questions, budget=budget)
            records += measure(bag, project, questions, budget=budget, system=FILLED, min_relevance=0)
        records += measure_plain(project, questions, budget=budget)
    return records


def judged(
    system: str, project: Project, questions: Sequence[Question] | None, answer: Callable[[str], Answer]
) -> list[Record]:
    """Ask a system, and measure each of its answers; without questions, those of the project."""
    asked = project.questions if questions is None else questions
    texts = {note.id: note.text for note in project.memories}
    return [_record(system, project, texts, each, answer(each.question)) for each in asked]


def _record(system: str, project: Project, texts: dict[str, str], question: Question, given: Answer) -> Record:
    evidence = [sentences(texts[each]) for each in question.evidence]
    found = [identifier for identifier, _ in given.hits]
    rank = next((place for place, each in enumerate(found, start=1) if each in question.evidence), 0)
    stale = next((place for place, each in enumerate(found, start=1) if each in question.stale), len(found) + 1)
    there = {sentence for each in evidence for sentence in each if sentence in given.text}
    return Record(
        system=system,
        project=project.id,
        category=question.category,
        question=question.question,
        text=given.text,
        tokens=count(given.text),
        hits=given.hits,
        recall=evidence_recall(evidence, given.text) if evidence else None,
        use=sum(map(len, there)) / max(len(given.text), 1) if evidence else None,
        rank=rank if evidence else None,
        in_ten=sum(each in found for each in question.evidence) / len(evidence) if evidence else None,
        current=0 < rank < stale if evidence and question.stale else None,
        pieces=len(evidence),
    )


def summary(records: Iterable[Record]) -> dict[str, float | None]:
    """Return every measure over these records, shares from 0 to 1; None where no question applies."""
    asked = list(records)
    answered = [each for each in asked if each.recall is not None]
    without = [each for each in asked if each.category == NONE]
    elsewhere = [each for each in asked if each.category == AWAY]
    scores = [each.score for each in answered]
    return {
        "recall": _mean(each.recall for each in answered),
        "use": _mean(each.use for each in answered),
        "hit1": _mean(each.rank == 1 for each in answered),
        "mrr": _mean(1 / each.rank if each.rank else 0.0 for each in answered),
        "in ten": _mean(each.in_ten for each in answered),
        "current": _mean(each.current for each in answered),
        "quiet": _mean(not each.text for each in without),
        "away": _mean(not each.text for each in elsewhere),
        "auc": auc(scores, [each.score for each in without]),
        "auc away": auc(scores, [each.score for each in elsewhere]),
        "tokens": _mean(each.tokens for each in answered),
        "median one": _median(each.tokens for each in answered if each.pieces == 1),
        "tokens none": _mean(each.tokens for each in without),
        "tokens away": _mean(each.tokens for each in elsewhere),
    }


def auc(above: Sequence[float], below: Sequence[float]) -> float | None:
    """Return the probability that one of the first is greater than one of the second; a tie counts half."""
    pairs = [(high > low) + (high == low) / 2 for high in above for low in below]
    return _mean(pairs)


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def _median(values: Iterable[float]) -> float | None:
    known = list(values)
    return statistics.median(known) if known else None


def draft_of(note: Note) -> satchel.Draft:
    return satchel.Draft(note.text, title=note.title, kind=note.kind, tags=note.tags, at=note.at, ref=note.id)  # type: ignore[arg-type]


def note_entry(note: Note) -> Entry:
    """Format a note as the line `[2026-05-08] Title: text`; `Title: text` is searched."""
    searched = f"{note.title}: {note.text}" if note.title else note.text
    return Entry(f"[{note.at[:10]}] {searched}\n", searched)


def report(projects: Sequence[Project], records: Sequence[Record]) -> None:
    """Print tables over all files, for each file, by category, and of calibration."""
    notes, asked = (sum(len(getattr(each, name)) for each in projects) for name in ("memories", "questions"))
    systems = (OURS, FILLED, PLAIN)
    rows = [(system, [each for each in records if each.system == system]) for system in systems]
    _print_measures(f"notes: {len(projects)} projects, {notes:,} notes, {asked:,} questions; %, and tokens", rows)
    for project in projects:
        inside = [each for each in records if each.project == project.id]
        rows = [(system, [each for each in inside if each.system == system]) for system in systems]
        _print_measures(f"{project.id}: {len(project.memories):,} notes", rows)
    for system in systems:
        _print_categories(system, [each for each in records if each.system == system])
    _print_calibration([each for each in records if each.system == FILLED])


def print_summary(title: str, records: Sequence[Record]) -> None:
    """Print the measures over all records, by category, and calibration."""
    systems = dict.fromkeys(each.system for each in records)
    rows = [(system, [each for each in records if each.system == system]) for system in systems]
    _print_measures(title, rows)
    for system, asked in rows:
        _print_categories(system, asked)
    _print_calibration(rows[-1][1])


def _print_measures(title: str, groups: Sequence[tuple[str, Sequence[Record]]]) -> None:
    measured = [(label, summary(records)) for label, records in groups]
    rows: list[Sequence[str]] = [("", *measured[0][1])]
    rows += [(label, *(_cell(name, value) for name, value in values.items())) for label, values in measured]
    print_table(title, rows)


def _print_categories(system: str, records: Sequence[Record]) -> None:
    names = ("recall", "use", "hit1", "mrr", "in ten", "current", "tokens")
    rows: list[Sequence[str]] = [("category", *names, "questions")]
    for category in dict.fromkeys(each.category for each in records if each.recall is not None):
        inside = [each for each in records if each.category == category]
        values = summary(inside)
        rows.append((category, *(_cell(name, values[name]) for name in names), str(len(inside))))
    print_table(f"{system} by category", rows)


def _print_calibration(records: Sequence[Record]) -> None:
    """Print how often the first hit is evidence, by its score, including questions without an answer."""
    rows: list[Sequence[str]] = [("score of the first hit", "questions", "mean score", "is evidence", "away")]
    for low, high in itertools.pairwise(BINS):
        inside = [each for each in records if each.hits and low <= each.score < high]
        own = [each for each in inside if each.category != AWAY]
        if inside:
            means = (_mean(each.score for each in own), _mean(each.rank == 1 for each in own))
            cells = ("–" if mean is None else f"{mean:.3f}" for mean in means)
            rows.append((f"{low:g}–{min(high, 1):g}", str(len(own)), *cells, str(len(inside) - len(own))))
    print_table(f"{FILLED}: calibration", rows)


def _cell(name: str, value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.0f}" if name.startswith(("tokens", "median")) else f"{100 * value:.1f}"


if __name__ == "__main__":
    sys.exit(main())
