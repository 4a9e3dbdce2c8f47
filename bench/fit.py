"""Fits the weights by which recall joins what speaks for a memory, on conversations whose evidence is known.

python -m bench.fit --data FILE… [--embedder NAME] [--folds 5] [--write]

Logistic regression over the columns that `satchel.recall` itself computes, so that what is fitted is what
runs. Each file weighs the same, each question in it, and all the evidence of a question together. Prints
the recall of contexts for conversations that were left out of the fit, `--folds` times; two folds are the
halves of each file. `--write` then fits on everything, into `src/satchel/recall/weights.json`.
"""

import argparse
import itertools
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import msgspec
import numpy as np
from numpy.typing import NDArray

import satchel
from bench.evidence import Conversation, drafts, evidence_recall, read_conversations, sentences
from bench.table import print_table
from satchel.fields import utc_now
from satchel.recall import ranking
from satchel.recall.fusion import FILE, HAND_SET, Fitted, Weights, family, fuse
from satchel.recall.question import read_question
from satchel.store import Filter

PENALTY = 10.0
BUDGETS = (500, 1000, 2000, 4000)
ABOUT = (
    "Log-odds that a memory is needed: an intercept, and a weight for each column of recall/features.py. "
    "Fitted by `python -m bench.fit --write`; what is weighed by hand is in recall/fusion.py."
)
DIGITS = 5

Array = NDArray[Any]


class Example(NamedTuple):
    """One question, with a row of columns for each memory, and which of them hold its answer."""

    file: int
    conversation: int
    rows: Array
    needed: Array


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, nargs="+", required=True, metavar="FILE")
    parser.add_argument("--embedder", default="static", metavar="NAME")
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    try:
        files = [read_conversations(path) for path in options.data]
    except OSError as error:
        print(f"bench.fit: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    with (
        tempfile.TemporaryDirectory() as folder,
        satchel.open(Path(folder, "fit.db"), embedder=options.embedder) as bag,
    ):
        for place, conversations in enumerate(files):
            for conversation in conversations:
                bag.scoped(project=f"{place} {conversation.id}").add_many(drafts(conversation))
        names, examples = columns_of(bag, files)
        if options.folds > 1:
            report(bag, files, options, names, examples)
    if options.write:
        fitted = fit(names, examples)
        known = msgspec.json.decode(FILE.read_bytes(), type=Fitted).families if FILE.exists() else {}
        families = dict(sorted((known | {family(options.embedder): fitted}).items()))
        FILE.write_bytes(msgspec.json.format(msgspec.json.encode(Fitted(ABOUT, families)), indent=1) + b"\n")
        print(f"\nwrote {len(fitted.columns)} weights for {family(options.embedder)} embedders to {FILE.name}")
    return 0


def columns_of(bag: satchel.Satchel, files: Sequence[Sequence[Conversation]]) -> tuple[list[str], list[Example]]:
    names: list[str] = []
    examples = []
    for file, conversations in enumerate(files):
        for number, conversation in enumerate(conversations):
            view = bag.scoped(project=f"{file} {conversation.id}")
            where = Filter(scope=view.scope)
            refs = {memory.id: memory.ref for memory in view.recent(limit=len(conversation.turns))}
            for asked in conversation.questions:
                question = read_question(asked.text, now=utc_now(), vector=view._indexer.query_vector)
                seen = ranking.examine(view._store, question, where, wanted=100, now=utc_now())
                names = [name for name in seen.columns if name not in HAND_SET]
                needed = np.array([refs[trace.id] in asked.evidence for trace in seen.sheet.traces], np.float64)
                rows = np.stack([seen.columns[name] for name in names], axis=1).astype(np.float32)
                examples.append(Example(file, number, rows, needed))
    return names, examples


def fit(names: Sequence[str], examples: Sequence[Example]) -> Weights:
    """Newton's method on the penalised log-likelihood, columns brought to the same scale meanwhile."""
    asked = [sum(each.file == file for each in examples) for file in range(1 + max(e.file for e in examples))]
    rows = np.concatenate([each.rows for each in examples]).astype(np.float64)
    needed = np.concatenate([each.needed for each in examples])
    share = np.concatenate(
        [np.where(each.needed > 0, 1 / max(each.needed.sum(), 1), 1) / asked[each.file] for each in examples]
    )
    share *= len(share) / share.sum()
    mean, spread = rows.mean(axis=0), rows.std(axis=0)
    varied = spread > 1e-9
    scaled = np.where(varied, (rows - mean) / np.where(varied, spread, 1), 0)
    design = np.concatenate([np.ones((len(rows), 1)), scaled], axis=1)
    penalty = np.full(design.shape[1], PENALTY)
    penalty[0] = 0

    def loss(weights: Array) -> float:
        odds = design @ weights
        return float((share * (np.logaddexp(0, odds) - needed * odds)).sum() + (penalty * weights**2).sum() / 2)

    weights = np.zeros(design.shape[1])
    now = loss(weights)
    for _ in range(50):
        chance = 1 / (1 + np.exp(-np.clip(design @ weights, -30, 30)))
        slope = design.T @ (share * (needed - chance)) - penalty * weights
        bend = (design * (share * chance * (1 - chance))[:, None]).T @ design + np.diag(penalty + 1e-9)
        step = np.linalg.solve(bend, slope)
        while (then := loss(weights + step)) > now:
            step = step / 2
        weights, gained, now = weights + step, now - then, then
        if gained < 1e-7 * now:
            break
    found = np.where(varied, weights[1:] / np.where(varied, spread, 1), 0)
    intercept = float(weights[0] - found @ mean)
    chosen = {name: round(float(weight), DIGITS) for name, weight in zip(names, found, strict=True)}
    return Weights(round(intercept, DIGITS), chosen)


def report(
    bag: satchel.Satchel,
    files: Sequence[Sequence[Conversation]],
    options: argparse.Namespace,
    names: Sequence[str],
    examples: Sequence[Example],
) -> None:
    reached: dict[tuple[int, int], list[float]] = {}
    guesses: list[tuple[float, float]] = []
    for fold in range(options.folds):
        inside = [each for each in examples if _fold(each.conversation, files[each.file], options.folds) != fold]
        outside = [each for each in examples if _fold(each.conversation, files[each.file], options.folds) == fold]
        weights = fit(names, inside)
        guesses += _guesses(names, outside, weights)
        with patch.object(ranking, "weights", lambda _, weights=weights: weights):
            for file, conversations in enumerate(files):
                for number, conversation in enumerate(conversations):
                    if _fold(number, conversations, options.folds) == fold:
                        view = bag.scoped(project=f"{file} {conversation.id}")
                        for budget, recall in _recalls(view, conversation):
                            reached.setdefault((file, budget), []).append(recall)
    rows: list[Sequence[str]] = [("evidence recall, %", *map(str, BUDGETS))]
    for file, path in enumerate(options.data):
        cells = [f"{100 * statistics.fmean(reached[file, budget]):.1f}" for budget in BUDGETS]
        rows.append((path.stem, *cells))
    print_table(f"conversations left out of the fit, {options.folds} folds, embedder {options.embedder}", rows)
    _print_calibration(guesses)


def _fold(number: int, conversations: Sequence[Conversation], folds: int) -> int:
    return number * folds // len(conversations)


def _recalls(view: satchel.Satchel, conversation: Conversation) -> Iterator[tuple[int, float]]:
    pieces = {turn.id: sentences(turn.text) for turn in conversation.turns}
    for question in conversation.questions:
        evidence = [pieces[each] for each in question.evidence]
        for budget in BUDGETS:
            block = view.context(question.text, token_budget=budget)
            yield budget, evidence_recall(evidence, block.text)


def _guesses(names: Sequence[str], examples: Sequence[Example], weights: Weights) -> Iterator[tuple[float, float]]:
    for each in examples:
        columns: dict[str, Array] = dict(zip(names, each.rows.T.astype(np.float64), strict=True))
        columns |= dict.fromkeys(HAND_SET, np.zeros(len(each.rows)))
        worth = each.needed / max(each.needed.sum(), 1)
        yield from zip(fuse(columns, weights).tolist(), worth.tolist(), strict=True)


def _print_calibration(guesses: Sequence[tuple[float, float]]) -> None:
    edges = [0, 0.01, 0.03, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0001]
    rows: list[Sequence[str]] = [("score", "memories", "mean score", "share of the evidence")]
    for low, high in itertools.pairwise(edges):
        inside = [guess for guess in guesses if low <= guess[0] < high]
        if inside:
            means = [statistics.fmean(column) for column in zip(*inside, strict=True)]
            rows.append((f"{low:g}–{min(high, 1):g}", f"{len(inside):,}", *(f"{mean:.3f}" for mean in means)))
    print_table("calibration on what was left out", rows)


if __name__ == "__main__":
    sys.exit(main())
