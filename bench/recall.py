"""The share of the evidence for a question that is in its context, compared with plain FTS5 in the same run.

python -m bench.recall --data FILE… [--budgets 500,1000,2000,4000] [--embedder NAME] [--dump OUT.jsonl] [--db postgresql://…]

Satchel is queried with its default `min_relevance`, and with 0, which fills the budget; the last table of a file
shows what each spends.

A question that names a turn is asked when exactly the turns before it are present. With --db, a store on that
server is queried too, in an org that is created for the run and erased after it.
"""

import argparse
import contextlib
import itertools
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import satchel
from bench.evidence import (
    Conversation,
    Question,
    drafts,
    evidence_recall,
    in_order,
    read_conversations,
    sentences,
    uses_uncounted,
)
from bench.floors import PACKINGS, Floor, turn_entry
from bench.table import print_table

OURS = "satchel"
FILLED = "satchel, min_relevance 0"
ON_SERVER = "satchel on the server"
# The same candidates and the same counting, taken in rank order, skipping those that do not fit.
SKIPPING = "satchel, min_relevance 0, skip by rank"
WHOLE = ", whole turns only"
count = satchel.counter("o200k_base").count


class Score(NamedTuple):
    """The result of one system for one question within one budget."""

    system: str
    budget: int
    half: str
    category: str
    recall: float
    tokens: int


class Reached(NamedTuple):
    """The share of the evidence in a system's text, and the cost of the text."""

    recall: float
    tokens: int


class Run:
    """The measurements on one file."""

    def __init__(self) -> None:
        self.scores: list[Score] = []
        self.milliseconds: list[float] = []
        self.identical = 0
        """How many contexts of the server were identical, byte for byte."""

    @property
    def overrun(self) -> int:
        """By how many tokens the worst context of Satchel exceeded its budget."""
        ours = (
            max(score.tokens - score.budget, 0)
            for score in self.scores
            if score.system in (OURS, FILLED, SKIPPING, ON_SERVER)
        )
        return max(ours, default=0)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, nargs="+", required=True, metavar="FILE")
    parser.add_argument("--budgets", type=_budgets, default=[500, 1000, 2000, 4000], metavar="N,N…")
    parser.add_argument("--embedder", metavar="NAME", help="for satchel.open; its default if not given")
    parser.add_argument("--dump", type=Path, metavar="OUT", help="write every context as a JSON line")
    parser.add_argument("--limit-questions", type=int, metavar="N", help="only the first N of a conversation")
    parser.add_argument("--db", metavar="URL", help="also ask a store on a PostgreSQL server")
    options = parser.parse_args(arguments)
    overrun = 0
    with contextlib.ExitStack() as stack:
        try:
            files = {path: read_conversations(path) for path in options.data}
            dump = stack.enter_context(open(options.dump, "w", encoding="utf-8")) if options.dump else None
        except OSError as error:
            print(f"bench.recall: {error.filename}: {error.strerror}", file=sys.stderr)
            return 2
        except (ValueError, KeyError, TypeError) as error:
            print(f"bench.recall: not a file of conversations: {error!r}", file=sys.stderr)
            return 2
        for path, conversations in files.items():
            asked = [each._replace(questions=each.questions[: options.limit_questions]) for each in conversations]
            run = measure(asked, options.budgets, embedder=options.embedder, dump=dump, url=options.db)
            report(path.stem, asked, run, options.budgets)
            overrun = max(overrun, run.overrun)
    return 1 if overrun > 0 else 0


def measure(
    conversations: Sequence[Conversation],
    budgets: Sequence[int],
    *,
    embedder: str | None,
    dump: TextIO | None,
    url: str | None = None,
) -> Run:
    """Put every conversation into its own scope of one store, and ask every question with every budget."""
    run = Run()
    given: dict[str, Any] = {"embedder": embedder} if embedder else {}
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        bag = stack.enter_context(satchel.open(Path(folder, "recall.db"), **given))
        served = stack.enter_context(_on_server(url, given))
        bags = [bag] if served is None else [bag, served]
        for each in bags:
            stack.enter_context(uses_uncounted(each))
        pieces = [list(in_order(conversation)) for conversation in conversations]
        # Add the first piece of all conversations before any question, because they share one index.
        for first in itertools.chain.from_iterable(each[:1] for each in pieces):
            _enter(bags, first)
        for place, conversation in enumerate(conversations):
            half = "first half" if 2 * place < len(conversations) else "second half"
            asker = Asker(conversation, bags, run, half=half, dump=dump)
            for number, piece in enumerate(pieces[place]):
                if number:
                    _enter(bags, piece)
                asker.hear(piece)
                for question, budget in itertools.product(piece.questions, budgets):
                    asker.ask(question, budget)
            asker.close()
    return run


def _enter(bags: Sequence[satchel.Satchel], piece: Conversation) -> None:
    for bag in bags:
        view = bag.scoped(project=piece.id)
        view.add_many(drafts(piece))
        view.catch_up()


class Asker:
    """Asks every system about one conversation, as far as it was added."""

    def __init__(
        self,
        conversation: Conversation,
        bags: Sequence[satchel.Satchel],
        run: Run,
        *,
        half: str,
        dump: TextIO | None,
    ) -> None:
        self._conversation = conversation
        self._view, *self._served = [bag.scoped(project=conversation.id) for bag in bags]
        self._run = run
        self._half = half
        self._dump = dump
        self._floor = Floor(count)
        self._sentences = {turn.id: sentences(turn.text) for turn in conversation.turns}

    def hear(self, piece: Conversation) -> None:
        """Index the next turns for FTS5."""
        self._floor.add(map(turn_entry, piece.turns))

    def ask(self, question: Question, budget: int) -> None:
        """Score every system on one question within one budget."""
        evidence = [self._sentences[each] for each in question.evidence]
        started = time.perf_counter()
        block = self._view.context(question.text, token_budget=budget)
        self._run.milliseconds.append(1000 * (time.perf_counter() - started))
        filled = self._view.context(question.text, token_budget=budget, min_relevance=0)
        # All turns are in one tier.
        skipping = self._view.context(question.text, token_budget=budget, policy="tier", min_relevance=0)
        texts = {OURS: block.text, FILLED: filled.text, SKIPPING: skipping.text}
        for served in self._served:
            texts[ON_SERVER] = served.context(question.text, token_budget=budget).text
            self._run.identical += texts[ON_SERVER] == block.text
        reached = {system: Reached(evidence_recall(evidence, text), count(text)) for system, text in texts.items()}
        reached |= self._plain(question, evidence, budget)
        self._run.scores.extend(
            Score(system, budget, self._half, question.category, *each) for system, each in reached.items()
        )
        if self._dump is not None:
            line = {
                "conversation": self._conversation.id,
                "question": question.text,
                "budget": budget,
                "tokens": reached[OURS].tokens,
                "text": block.text,
            }
            self._dump.write(json.dumps(line, ensure_ascii=False) + "\n")

    def _plain(self, question: Question, evidence: Sequence[Sequence[str]], budget: int) -> dict[str, Reached]:
        found = self._floor.find(question.text)
        reached = {}
        for name, pack in PACKINGS.items():
            taken = pack(found, budget)
            text = "".join(self._floor.lines[index] for index in taken)
            reached[name] = Reached(evidence_recall(evidence, text), count(text))
            ids = {self._conversation.turns[index].id for index in taken}
            whole = sum(each in ids for each in question.evidence) / len(evidence)
            reached[name + WHOLE] = reached[name]._replace(recall=whole)
        return reached

    def close(self) -> None:
        self._floor.close()


@contextlib.contextmanager
def _on_server(url: str | None, given: dict[str, Any]) -> Iterator[satchel.Satchel | None]:
    if url is None:
        yield None
        return
    with satchel.open(url, **given) as bag:
        view = bag.scoped(org=f"bench-recall-{os.getpid()}-{time.time_ns()}")
        try:
            yield view
        finally:
            view.erase() if hasattr(view, "erase") else None


def report(name: str, conversations: Sequence[Conversation], run: Run, budgets: Sequence[int]) -> None:
    asked = sum(len(each.questions) for each in conversations)
    turns = sum(len(each.turns) for each in conversations)
    if not asked:
        print(f"\n{name}: no question with known evidence")
        return
    heading = ("evidence recall, %", *map(str, budgets))
    systems = list(dict.fromkeys(score.system for score in run.scores))
    rows: list[Sequence[str]] = [heading]
    rows += [(system, *_means(run.scores, budgets, system=system)) for system in systems]
    print_table(f"{name}: {len(conversations)} conversations, {turns:,} turns, {asked:,} questions", rows)
    rows = [heading]
    for half in dict.fromkeys(score.half for score in run.scores):
        for system in (OURS, FILLED, *PACKINGS):
            rows.append((f"{half}, {system}", *_means(run.scores, budgets, system=system, half=half)))
    print_table(f"{name}: by half of the conversations", rows)
    whole = [score._replace(recall=float(score.recall == 1)) for score in run.scores]
    rows = [("questions with all their evidence, %", *map(str, budgets))]
    rows += [(system, *_means(whole, budgets, system=system)) for system in (OURS, FILLED, *PACKINGS)]
    print_table(f"{name}: all or nothing", rows)
    rows = [heading]
    for category in sorted({score.category for score in run.scores}):
        number = sum(question.category == category for each in conversations for question in each.questions)
        cells = _means(run.scores, budgets, system=OURS, category=category)
        rows.append((f"{category} ({number})", *cells))
    print_table(f"{name}: {OURS} by category", rows)
    rows = [("tokens spent, mean", *map(str, budgets))]
    rows += [(each, *_spent(run.scores, budgets, each)) for each in systems if not each.endswith(WHOLE)]
    print_table(f"{name}: what a context costs", rows)
    p50, p95 = statistics.median(run.milliseconds), _percentile(run.milliseconds, 95)
    print(f"  a context call: p50 {p50:.1f} ms, p95 {p95:.1f} ms; tokens over a budget: {run.overrun}")
    if any(score.system == ON_SERVER for score in run.scores):
        print(f"  identical on the server: {run.identical:,} of {len(run.milliseconds):,} contexts")


def _means(scores: Iterable[Score], budgets: Sequence[int], **chosen: str) -> list[str]:
    """Return the mean at each budget of the scores with the given field values."""
    reached: dict[int, list[float]] = {budget: [] for budget in budgets}
    for score in scores:
        if all(getattr(score, name) == value for name, value in chosen.items()):
            reached[score.budget].append(score.recall)
    return [f"{100 * statistics.fmean(each):.1f}" if each else "–" for each in reached.values()]


def _spent(scores: Iterable[Score], budgets: Sequence[int], system: str) -> list[str]:
    """Return the mean cost of a system's texts at each budget."""
    spent: dict[int, list[int]] = {budget: [] for budget in budgets}
    for score in scores:
        if score.system == system:
            spent[score.budget].append(score.tokens)
    return [f"{statistics.fmean(each):,.0f}" if each else "–" for each in spent.values()]


def _percentile(values: Sequence[float], percent: int) -> float:
    return sorted(values)[min(len(values) - 1, len(values) * percent // 100)]


def _budgets(text: str) -> list[int]:
    return sorted({int(each) for each in text.split(",")})


if __name__ == "__main__":
    sys.exit(main())
