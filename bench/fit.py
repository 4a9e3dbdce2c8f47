"""Fit the weights with which recall combines its features, on data with known evidence.

python -m bench.fit --data FILE… [--embedder NAME] [--folds 5] [--budgets 500,1000] [--fit NAME…] [--sets] [--write]

A `.json` file is a project of notes (see bench.notes), a `.jsonl` file a set of conversations (see bench.recall).
Logistic regression over the columns that `satchel.recall` itself computes, so that the fit matches what runs: one
set of weights for notes, one for turns. Each file has the same weight, each question in it, and all evidence of a
question together. Prints cross-validation results: each project of notes left out, each conversation left out
(`--folds` times a part of each file), and with `--sets` each whole data set left out (for notes this means weights
fitted on turns). `--fit` names the files to fit on; the others are only measured. `--write` then fits on all
allowed files and writes `src/satchel/recall/weights.json`.
"""

import argparse
import contextlib
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence, Set
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import msgspec
import numpy as np
from numpy.typing import NDArray

import satchel
from bench import notes
from bench.evidence import (
    Conversation,
    drafts,
    evidence_recall,
    in_order,
    read_conversations,
    sentences,
    uses_uncounted,
)
from bench.table import print_table
from satchel.embed.embedder import Embedder, resolve_embedder
from satchel.model.filters import Filter
from satchel.model.memory import as_time, utc_now
from satchel.recall import ranking
from satchel.recall.question import read_question
from satchel.recall.scoring import HAND_SET, NOTES, TURNS, WEIGHTS_FILE, Family, FittedWeights, Weights, family

PENALTY = {"notes": 3.0, "turns": 10.0}
ABOUT = (
    "Log-odds that a memory is needed: for notes and for turns an intercept and a weight for each column of "
    "recall/features.py. Fitted by `python -m bench.fit --write`; what is weighed by hand is there too."
)
DIGITS = 5
MOST_TURNS = 10_000

Array = NDArray[Any]


class Example(NamedTuple):
    """One question, with a row of columns for each memory, and which memories contain its answer."""

    file: str
    group: int
    """The project or conversation that it is asked about."""
    rows: dict[str, Array]
    by_hand: Array
    needed: Array


class Source(NamedTuple):
    """One file: a project of notes, or a set of conversations."""

    name: str
    project: notes.Project | None
    conversations: Sequence[Conversation]

    @property
    def sort(self) -> str:
        return "turns" if self.project is None else "notes"


class Remembering:
    """An embedder that caches each text, because the same store is filled several times."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._known: dict[str, Array] = {}
        self.name, self.dimensions = embedder.name, embedder.dimensions

    def embed(self, texts: Sequence[str]) -> Array:
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        if new:
            self._known.update(zip(new, self._embedder.embed(new), strict=True))
        return np.stack([self._known[text] for text in texts]) if texts else self._embedder.embed(texts)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, nargs="+", required=True, metavar="FILE")
    parser.add_argument("--embedder", default="minilm", metavar="NAME")
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--budgets", type=_budgets, default=[500, 1000, 2000, 4000], metavar="N,N…")
    parser.add_argument("--fit", nargs="+", metavar="NAME", help="names of the files to fit on; all if not given")
    parser.add_argument("--sets", action="store_true", help="also leave out each data set whole")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args(arguments)
    try:
        sources = [read_source(path) for path in options.data]
    except OSError as error:
        print(f"bench.fit: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    except (ValueError, KeyError, TypeError) as error:
        print(f"bench.fit: {error}", file=sys.stderr)
        return 2
    embedder = Remembering(resolve_embedder(options.embedder))
    examples = [each for source in sources for each in examples_of(source, sources, embedder)]
    fitted_on = options.fit or [source.name for source in sources]
    inside = [each for each in examples if each.file in fitted_on]
    if options.folds > 1:
        report(sources, examples, fitted_on, embedder, options.budgets, folds=options.folds)
    if options.sets:
        report_sets(sources, inside, embedder, options.budgets)
    if options.write:
        _write(fit(sources, inside), family(options.embedder), {source.sort for source in sources})
    return 0


def read_source(path: Path) -> Source:
    if path.suffix == ".json":
        return Source(path.stem, notes.read_project(path), ())
    return Source(path.stem, None, read_conversations(path))


def examples_of(source: Source, sources: Sequence[Source], embedder: Embedder) -> Iterator[Example]:
    """Yield each question of a file as rows of columns, asked at its moment and about its memories."""
    if source.project is not None:
        projects = [each.project for each in sources if each.project is not None]
        questions = [*source.project.questions, *notes.away(projects, projects.index(source.project))]
        with temporary_store(embedder) as bag:
            notes.fill(bag, source.project)
            refs = _refs(bag)
            now = as_time(source.project.now, name="now")
            for asked in questions:
                yield _example(
                    source, projects.index(source.project), bag, asked.question, asked.evidence, refs, now
                )
        return
    for number, conversation in enumerate(source.conversations):
        with temporary_store(embedder) as bag:
            for piece in in_order(conversation):
                bag.add_many(drafts(piece))
                bag.catch_up()
                refs = _refs(bag)
                for question in piece.questions:
                    yield _example(source, number, bag, question.text, question.evidence, refs, utc_now())


@contextlib.contextmanager
def temporary_store(embedder: Embedder) -> Iterator[satchel.Satchel]:
    with tempfile.TemporaryDirectory() as folder, satchel.open(Path(folder, "fit.db"), embedder=embedder) as bag:
        yield bag


def _refs(bag: satchel.Satchel) -> dict[str, str | None]:
    return {memory.id: memory.ref for memory in bag.recent(limit=MOST_TURNS)}


def _example(
    source: Source,
    group: int,
    bag: satchel.Satchel,
    text: str,
    evidence: Sequence[str],
    refs: dict[str, str | None],
    now: Any,
) -> Example:
    question = read_question(text, now=now, vector=bag._indexer.query_vector(text))
    seen = ranking.examine(bag._store, question, Filter(scope=bag.scope), wanted=100)
    # Chats are queried at an unrelated moment, so age means nothing for them.
    aged = (
        HAND_SET
        if source.sort == "notes"
        else {name: value for name, value in HAND_SET.items() if name != "recent"}
    )
    by_hand = sum((weight * seen.columns[name] for name, weight in aged.items()), np.zeros(seen.sheet.size))
    needed = np.array([refs[each] in evidence for each in seen.sheet.ids], np.float64)
    rows = {name: seen.columns[name].astype(np.float32) for name in (*NOTES, *TURNS) if name in seen.columns}
    return Example(source.name, group, rows, by_hand, needed)


def fit(sources: Sequence[Source], examples: Sequence[Example]) -> Family:
    """Fit weights for notes on projects of notes and for turns on conversations; on all if one is missing."""
    sorts = {source.name: source.sort for source in sources}
    chosen = {sort: [each for each in examples if sorts[each.file] == sort] or list(examples) for sort in PENALTY}
    return Family(
        fit_weights(NOTES, chosen["notes"], penalty=PENALTY["notes"]),
        fit_weights(TURNS, chosen["turns"], penalty=PENALTY["turns"]),
    )


def fit_weights(names: Sequence[str], examples: Sequence[Example], *, penalty: float) -> Weights:
    """Newton's method on the penalised log-likelihood, with columns scaled to unit variance for the fit."""
    asked = {each.file: sum(other.file == each.file for other in examples) for each in examples}
    rows = np.concatenate([_stacked(each, names) for each in examples]).astype(np.float64)
    needed = np.concatenate([each.needed for each in examples])
    by_hand = np.concatenate([each.by_hand for each in examples])
    share = np.concatenate(
        [np.where(each.needed > 0, 1 / max(each.needed.sum(), 1), 1) / asked[each.file] for each in examples]
    )
    share *= len(share) / share.sum()
    mean, spread = rows.mean(axis=0), rows.std(axis=0)
    varied = spread > 1e-9
    scaled = np.where(varied, (rows - mean) / np.where(varied, spread, 1), 0)
    design = np.concatenate([np.ones((len(rows), 1)), scaled], axis=1)
    penalties = np.full(design.shape[1], penalty)
    penalties[0] = 0

    def loss(weights: Array) -> float:
        odds = design @ weights + by_hand
        return float((share * (np.logaddexp(0, odds) - needed * odds)).sum() + (penalties * weights**2).sum() / 2)

    weights = np.zeros(design.shape[1])
    now = loss(weights)
    for _ in range(50):
        chance = 1 / (1 + np.exp(-np.clip(design @ weights + by_hand, -30, 30)))
        slope = design.T @ (share * (needed - chance)) - penalties * weights
        bend = (design * (share * chance * (1 - chance))[:, None]).T @ design + np.diag(penalties + 1e-9)
        step = np.linalg.solve(bend, slope)
        while (then := loss(weights + step)) > now and np.abs(step).max() > 1e-9:
            step = step / 2
        weights, gained, now = weights + step, now - then, then
        if gained < 1e-7 * now:
            break
    found = np.where(varied, weights[1:] / np.where(varied, spread, 1), 0)
    intercept = float(weights[0] - found @ mean)
    chosen = {name: round(float(weight), DIGITS) for name, weight in zip(names, found, strict=True)}
    return Weights(round(intercept, DIGITS), chosen)


def _stacked(example: Example, names: Sequence[str]) -> Array:
    """Return the columns of an example, with zeros for columns that its memories do not have."""
    missing = np.zeros(len(example.needed), np.float32)
    return np.stack([example.rows.get(name, missing) for name in names], axis=1)


def report(
    sources: Sequence[Source],
    examples: Sequence[Example],
    fitted_on: Sequence[str],
    embedder: Embedder,
    budgets: Sequence[int],
    *,
    folds: int,
) -> None:
    """Report results with weights that were not fitted on the project or conversation."""
    records: list[notes.Record] = []
    reached: dict[tuple[str, int], list[float]] = {}
    everything = [each for each in examples if each.file in fitted_on]
    cache: dict[tuple[str, int], Family] = {}
    for source in sources:
        groups = [_group(sources, source)] if source.project else range(len(source.conversations))
        for group in groups:
            # The weights of notes do not depend on conversations, nor those of turns on notes.
            fold = group if source.project else _fold(group, len(source.conversations), folds)
            if (source.sort, fold) not in cache:
                left = [each for each in everything if not _left_out(each, sources, source.sort, fold, folds)]
                cache[source.sort, fold] = fit(sources, left)
            with using_weights(cache[source.sort, fold]):
                if source.project is not None:
                    records += _ask_notes(source, sources, embedder)
                else:
                    for budget, recall in _ask_turns(source.conversations[group], embedder, budgets):
                        reached.setdefault((source.name, budget), []).append(recall)
    _print(
        f"left out: each project, {folds} parts of the conversations; {embedder.name}", records, reached, budgets
    )


def report_sets(
    sources: Sequence[Source], examples: Sequence[Example], embedder: Embedder, budgets: Sequence[int]
) -> None:
    """Report results with weights that were not fitted on the data set; all projects of notes are one set."""
    records: list[notes.Record] = []
    reached: dict[tuple[str, int], list[float]] = {}
    sorts = {source.name: source.sort for source in sources}
    for source in sources:
        if source.project is not None:
            others = [each for each in examples if sorts[each.file] != "notes"]
        else:
            others = [each for each in examples if each.file != source.name and sorts[each.file] != "notes"]
        if not others:
            continue
        with using_weights(fit(sources, others)):
            if source.project is not None:
                records += _ask_notes(source, sources, embedder)
            for conversation in source.conversations:
                for budget, recall in _ask_turns(conversation, embedder, budgets):
                    reached.setdefault((source.name, budget), []).append(recall)
    _print(f"left out: each data set whole; {embedder.name}", records, reached, budgets)


def using_weights(weights: Family) -> Any:
    return patch.object(ranking, "weights", lambda family: weights)


def _group(sources: Sequence[Source], source: Source) -> int:
    return [each for each in sources if each.project is not None].index(source)


def _fold(number: int, conversations: int, folds: int) -> int:
    return number * folds // conversations


def _left_out(example: Example, sources: Sequence[Source], sort: str, fold: int, folds: int) -> bool:
    source = next(each for each in sources if each.name == example.file)
    if source.sort != sort:
        return False
    if sort == "notes":
        return example.group == fold
    return _fold(example.group, len(source.conversations), folds) == fold


def _ask_notes(source: Source, sources: Sequence[Source], embedder: Embedder) -> list[notes.Record]:
    assert source.project is not None
    projects = [each.project for each in sources if each.project is not None]
    questions = [*source.project.questions, *notes.away(projects, projects.index(source.project))]
    with temporary_store(embedder) as bag:
        notes.fill(bag, source.project)
        return [
            *notes.measure(bag, source.project, questions),
            *notes.measure(bag, source.project, questions, system=notes.FILLED, min_relevance=0),
        ]


def _ask_turns(
    conversation: Conversation, embedder: Embedder, budgets: Sequence[int]
) -> Iterator[tuple[int, float]]:
    pieces = {turn.id: sentences(turn.text) for turn in conversation.turns}
    with temporary_store(embedder) as bag:
        for piece in in_order(conversation):
            bag.add_many(drafts(piece))
            bag.catch_up()
            with uses_uncounted(bag):
                for question in piece.questions:
                    evidence = [pieces[each] for each in question.evidence]
                    for budget in budgets:
                        block = bag.context(question.text, token_budget=budget)
                        yield budget, evidence_recall(evidence, block.text)


def _print(
    title: str,
    records: Sequence[notes.Record],
    reached: dict[tuple[str, int], list[float]],
    budgets: Sequence[int],
) -> None:
    if records:
        notes.print_summary(f"notes, {title}", records)
    if reached:
        rows: list[Sequence[str]] = [("evidence recall, %", *map(str, budgets))]
        rows += [
            (name, *(f"{100 * statistics.fmean(reached[name, budget]):.1f}" for budget in budgets))
            for name in dict.fromkeys(name for name, _ in reached)
        ]
        print_table(f"conversations, {title}", rows)


def _write(fitted: Family, name: str, sorts: Set[str]) -> None:
    """Write the weights of a family; without data for notes or turns, those weights stay as they are."""
    known: dict[str, Family] = {}
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        known = msgspec.json.decode(WEIGHTS_FILE.read_bytes(), type=FittedWeights).families
    if (held := known.get(name)) is not None:
        fitted = Family(*(getattr(fitted if sort in sorts else held, sort) for sort in ("notes", "turns")))
    families = dict(sorted((known | {name: fitted}).items()))
    WEIGHTS_FILE.write_bytes(
        msgspec.json.format(msgspec.json.encode(FittedWeights(ABOUT, families)), indent=1) + b"\n"
    )
    sizes = f"{len(fitted.notes.columns)} and {len(fitted.turns.columns)}"
    print(f"\nwrote {sizes} weights for {name} to {WEIGHTS_FILE.name}")


def _budgets(text: str) -> list[int]:
    return sorted({int(each) for each in text.split(",")})


if __name__ == "__main__":
    sys.exit(main())
