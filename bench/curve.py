"""Recall by tokens actually spent, for rising `min_relevance`.

python -m bench.curve --data FILE… [--limit-questions N] [--plot OUT.svg]

A `.json` file is a project of notes (see bench.notes), a `.jsonl` file a set of conversations (see bench.recall).
Notes are queried with a budget of 500 tokens, each project with ranking weights fitted on the other projects;
conversations with 1,000 tokens and the shipped weights. For each `min_relevance`:

  tokens, recall   tokens spent on a question with an answer, and the share of its evidence in the context
  use              the share of that text that is evidence
  away, quiet      notes only: questions of other projects, and near misses, that get nothing
"""

import argparse
import statistics
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from bench import notes
from bench.evidence import Conversation, drafts, evidence_recall, in_order, sentences, uses_uncounted
from bench.fit import Remembering, Source, examples_of, fit, read_source, temporary_store, using_weights
from bench.plot import Series, line_chart
from bench.table import print_table
from satchel.embed.embedder import Embedder, resolve_embedder
from satchel.recall.finder import MIN_RELEVANCE

STEPS = (0.0, 0.02, 0.05, 0.08, MIN_RELEVANCE, 0.16, 0.2, 0.3, 0.5, 0.8)
BUDGET = 1000


class Point(NamedTuple):
    """The results for one `min_relevance`."""

    least: float
    tokens: float
    recall: float
    use: float
    away: float | None = None
    quiet: float | None = None


class Spent(NamedTuple):
    """One question with one `min_relevance`."""

    least: float
    tokens: int
    recall: float
    use: float


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, nargs="+", required=True, metavar="FILE")
    parser.add_argument("--embedder", default="minilm", metavar="NAME")
    parser.add_argument("--limit-questions", type=int, metavar="N", help="only the first N of a conversation")
    parser.add_argument("--plot", type=Path, metavar="OUT", help="write the curves as SVG")
    options = parser.parse_args(arguments)
    try:
        sources = [read_source(path) for path in options.data]
    except OSError as error:
        print(f"bench.curve: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    except (ValueError, KeyError, TypeError) as error:
        print(f"bench.curve: {error}", file=sys.stderr)
        return 2
    embedder = Remembering(resolve_embedder(options.embedder))
    curves = {}
    if projects := [each for each in sources if each.project is not None]:
        curves[f"notes, {notes.BUDGET} tokens"] = of_notes(projects, embedder)
    for source in sources:
        if source.project is None:
            name = f"{source.name.removesuffix('_dev')}, {BUDGET:,} tokens"
            curves[name] = of_conversations(source, embedder, options.limit_questions)
    for name, points in curves.items():
        report(name, points)
    if options.plot is not None:
        series = [
            Series(name, [(each.tokens, 100 * each.recall) for each in points]) for name, points in curves.items()
        ]
        chart = line_chart("Evidence over tokens spent", "tokens spent on a question", "evidence recall, %", series)
        options.plot.write_text(chart, encoding="utf-8")
    return 0


def of_notes(sources: Sequence[Source], embedder: Embedder) -> list[Point]:
    projects = [source.project for source in sources if source.project is not None]
    examples = [each for source in sources for each in examples_of(source, sources, embedder)]
    records: dict[float, list[notes.Record]] = {}
    for place, project in enumerate(projects):
        others = [each for each in examples if each.group != place] or examples
        questions = [*project.questions, *notes.away(projects, place)]
        with using_weights(fit(sources, others)), temporary_store(embedder) as bag:
            notes.fill(bag, project)
            for least in STEPS:
                records.setdefault(least, []).extend(notes.measure(bag, project, questions, min_relevance=least))
    return [_of_records(least, found) for least, found in records.items()]


def _of_records(least: float, records: Sequence[notes.Record]) -> Point:
    found = notes.summary(records)
    tokens, recall, use = (found[name] or 0.0 for name in ("tokens", "recall", "use"))
    return Point(least, tokens, recall, use, found["away"], found["quiet"])


def of_conversations(source: Source, embedder: Embedder, limit: int | None) -> list[Point]:
    asked = [each for one in source.conversations for each in _asked(one, embedder, limit)]
    points = []
    for least in STEPS:
        here = [each for each in asked if each.least == least]
        means = (
            statistics.fmean(values) for values in zip(*((s.tokens, s.recall, s.use) for s in here), strict=True)
        )
        points.append(Point(least, *means))
    return points


def _asked(conversation: Conversation, embedder: Embedder, limit: int | None) -> Iterator[Spent]:
    pieces = {turn.id: sentences(turn.text) for turn in conversation.turns}
    chosen = conversation._replace(questions=conversation.questions[:limit])
    with temporary_store(embedder) as bag, uses_uncounted(bag):
        for piece in in_order(chosen):
            bag.add_many(drafts(piece))
            bag.catch_up()
            for question in piece.questions:
                evidence = [pieces[each] for each in question.evidence]
                for least in STEPS:
                    block = bag.context(question.text, token_budget=BUDGET, min_relevance=least)
                    there = {each for one in evidence for each in one if each in block.text}
                    use = sum(map(len, there)) / max(1, len(block.text))
                    yield Spent(least, block.token_count, evidence_recall(evidence, block.text), use)


def report(name: str, points: Sequence[Point]) -> None:
    rows: list[Sequence[str]] = [("min_relevance", "tokens", "recall", "use", "away", "quiet")]
    for each in points:
        shares = ("–" if value is None else f"{100 * value:.1f}" for value in each[2:])
        default = " (default)" if each.least == MIN_RELEVANCE else ""
        rows.append((f"{each.least:g}{default}", f"{each.tokens:,.0f}", *shares))
    print_table(f"{name}; %", rows)


if __name__ == "__main__":
    sys.exit(main())
