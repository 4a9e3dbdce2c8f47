"""Fit the model that estimates whether a store contains the answer to a question, on data where that is known.

python -m bench.relevance [--data FILE…] [--embedder NAME] [--write]

A `.json` file is a project of notes (see bench.notes), a `.jsonl` file a set of conversations (see bench.recall);
without --data the projects in `bench/projects`, which nothing else is fitted on. Every project and conversation is
asked its own questions, and some of the others', which it does not answer. So are small parts of each project, with
and without the notes that answer, because most stores begin small. Prints cross-validation results, with each
project and each conversation left out in turn:

  answerable, near miss   the questions of a project, by whether one of its notes answers
  away                    questions of another project or conversation
  in a part, gone         questions to a part that contains the answer, and to one without it
  auc                     how well the model separates such questions from those with an answer
  silent                  the share that gets nothing at the default `min_relevance`

`--write` then fits on everything and writes `src/satchel/recall/relevance.json`. Models of notes or turns without
data stay as they are.
"""

import argparse
import contextlib
import random
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar, get_args

import msgspec
import numpy as np

import satchel
from bench import notes
from bench.evidence import Conversation, drafts, in_order
from bench.fit import Example, Remembering, Source, fit_weights, read_source, temporary_store
from bench.notes import auc
from bench.table import print_table
from satchel.api.filters import filter_for
from satchel.embed.embedder import Embedder, resolve_embedder
from satchel.model.memory import as_time, utc_now
from satchel.recall import ranking
from satchel.recall.finder import MIN_RELEVANCE
from satchel.recall.question import read_question
from satchel.recall.scoring import (
    RELEVANCE_FILE,
    SIGNS,
    Answerable,
    FittedRelevance,
    Models,
    family,
    log_odds,
    near_enough,
    signs,
    weights,
)

PROJECTS = Path(__file__).with_name("projects")
PENALTY = 3.0
# Chosen from the curves in docs/explanation/recall.md: saves as many tokens as possible without losing evidence.
SHARPNESS = {"notes": 0.8, "turns": 0.55}
# The share of questions to a memory that have an answer there. Agents ask about much that was never noted; people
# ask about a conversation what was said in it.
ANSWERED = {"notes": 0.4, "turns": 0.75}
DIGITS = 5
# How many other projects or conversations each one is asked questions of.
AWAY_QUESTIONS = 60
# Questions by kind, time or order have an answer in every project.
NOT_AWAY = ("latest", "kind", "date_range", "none")
ABOUT = (
    "Log-odds that a question has an answer in a store: an intercept and a weight for each sign of "
    "recall/scoring.py. Fitted by `python -m bench.relevance --write`."
)

# How many questions of a long conversation are asked.
MOST_QUESTIONS = 60
# Parts of a project: how many notes, how many of the questions that they answer, and how many parts.
PARTS = ((3, 2, 6), (8, 4, 6), (30, 12, 2))
# Parts of a conversation: how many turns, and how many parts.
WINDOWS = ((6, 8), (15, 8), (50, 8))

Chosen = TypeVar("Chosen")
Sort = Literal["answerable", "near miss", "away", "in a part", "gone"]
ANSWERED_SORTS = ("answerable", "in a part")


class Asked(NamedTuple):
    """One question, as the model sees it."""

    file: str
    group: str
    """The project or conversation that it was asked about."""
    sort: Sort
    signs: dict[str, float]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, nargs="+", default=sorted(PROJECTS.glob("*.json")), metavar="FILE")
    parser.add_argument("--embedder", default="minilm", metavar="NAME")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args(arguments)
    try:
        sources = [read_source(path) for path in options.data]
    except OSError as error:
        print(f"bench.relevance: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    except (ValueError, KeyError, TypeError) as error:
        print(f"bench.relevance: {error}", file=sys.stderr)
        return 2
    plain = options.embedder == "none"
    embedder = options.embedder if plain else Remembering(resolve_embedder(options.embedder))
    fitted: dict[str, Answerable] = {}
    for sort in ("notes", "turns"):
        asked = list(_asked([each for each in sources if each.sort == sort], embedder))
        if asked:
            report(sort, asked)
            fitted[sort] = fit(sort, asked)
    if options.write:
        _write(fitted, family(options.embedder))
    return 0


def fit(sort: str, asked: Iterable[Asked]) -> Answerable:
    """Fit a logistic regression over the features; each file has the same weight."""
    examples = [
        Example(
            each.file,
            0,
            {name: np.array([value]) for name, value in each.signs.items()},
            np.zeros(1),
            np.array([float(each.sort in ANSWERED_SORTS)]),
        )
        for each in asked
    ]
    found = fit_weights(SIGNS, examples, penalty=PENALTY)
    share = float(np.mean([each.needed[0] for each in examples]))
    intercept = found.intercept + _log_odds(ANSWERED[sort]) - _log_odds(share)
    return Answerable(round(intercept, DIGITS), found.columns, SHARPNESS[sort])


def report(sort: str, asked: Sequence[Asked]) -> None:
    """Report results for projects or conversations that were left out of the fit."""
    scored: dict[Sort, list[float]] = {name: [] for name in get_args(Sort)}
    for group in dict.fromkeys(each.group for each in asked):
        model = fit(sort, [each for each in asked if each.group != group])
        for each in asked:
            if each.group == group:
                scored[each.sort].append(_probability(model, each.signs))
    rows: list[Sequence[str]] = [("", "questions", "auc", f"silent at {MIN_RELEVANCE:g}, %")]
    for name, values in scored.items():
        told = None
        if name not in ANSWERED_SORTS:
            told = auc(scored["in a part" if name == "gone" else "answerable"], values)
        silent = f"{100 * float(np.mean([value < MIN_RELEVANCE for value in values])):.1f}" if values else "–"
        rows.append((name, f"{len(values):,}", "–" if told is None else f"{100 * told:.1f}", silent))
    print_table(f"{sort}: is there an answer? each project or conversation left out", rows)


def _log_odds(share: float) -> float:
    return float(np.log(share / (1 - share)))


def _probability(model: Answerable, found: dict[str, float]) -> float:
    odds = model.intercept + sum(weight * found[name] for name, weight in model.weights.items())
    return float(1 / (1 + np.exp(-odds)))


def _asked(sources: Sequence[Source], embedder: Embedder | str) -> Iterator[Asked]:
    for place, source in enumerate(sources):
        if source.project is not None:
            yield from _of_project(source, [*sources[:place], *sources[place + 1 :]], embedder)
        else:
            yield from _of_conversations(source, embedder)


def _of_project(source: Source, others: Sequence[Source], embedder: Embedder | str) -> Iterator[Asked]:
    assert source.project is not None
    project = source.project
    foreign = [
        each.question
        for other in others
        if other.project is not None
        for each in other.project.questions
        if each.category not in NOT_AWAY
    ]
    questions: list[tuple[str, Sort]] = [
        (each.question, "answerable" if each.evidence else "near miss") for each in project.questions
    ]
    questions += [(text, "away") for text in _some(foreign)]
    with temporary_store(embedder) as bag:  # type: ignore[arg-type]
        notes.fill(bag, project)
        for text, sort in questions:
            yield Asked(source.name, project.id, sort, _signs(bag, text, project))
    for part, inside, gone in _parts(project):
        with temporary_store(embedder) as bag:  # type: ignore[arg-type]
            notes.fill(bag, part)
            for question in inside:
                yield Asked(source.name, project.id, "in a part", _signs(bag, question, project))
            for question in gone:
                yield Asked(source.name, project.id, "gone", _signs(bag, question, project))


def _parts(project: notes.Project) -> Iterator[tuple[notes.Project, list[str], list[str]]]:
    """Yield parts of a project, each with questions that it answers and others that it does not."""
    chance = random.Random(project.id)
    asked = [each for each in project.questions if each.evidence and each.category not in NOT_AWAY]
    single = [each for each in asked if len(each.evidence) == 1]
    for size, number, times in PARTS:
        if size >= len(project.memories) or number > len(single):
            continue
        for _ in range(times):
            chosen = chance.sample(single, number)
            kept = {each for question in chosen for each in question.evidence}
            others = [note.id for note in project.memories if note.id not in kept]
            kept |= set(chance.sample(others, max(0, size - len(kept))))
            part = msgspec.structs.replace(
                project, memories=tuple(note for note in project.memories if note.id in kept)
            )
            gone = [each.question for each in asked if kept.isdisjoint(each.evidence)]
            yield part, [each.question for each in chosen], chance.sample(gone, min(number, len(gone)))


def _of_conversations(source: Source, embedder: Embedder | str) -> Iterator[Asked]:
    for place, conversation in enumerate(source.conversations):
        rest = [*source.conversations[:place], *source.conversations[place + 1 :]]
        foreign = _some([question.text for other in rest for question in other.questions])
        some = conversation._replace(questions=tuple(_some(conversation.questions, MOST_QUESTIONS)))
        with temporary_store(embedder) as bag:  # type: ignore[arg-type]
            for piece in in_order(some):
                bag.add_many(drafts(piece))
                bag.catch_up()
                for question in piece.questions:
                    yield Asked(source.name, conversation.id, "answerable", _signs(bag, question.text))
            for text in foreign:
                yield Asked(source.name, conversation.id, "away", _signs(bag, text))
        for part, inside, gone in _windows(conversation):
            with temporary_store(embedder) as bag:  # type: ignore[arg-type]
                bag.add_many(drafts(part))
                bag.catch_up()
                for text in inside:
                    yield Asked(source.name, conversation.id, "in a part", _signs(bag, text))
                for text in (*gone, foreign[len(inside) % len(foreign)]):
                    yield Asked(source.name, conversation.id, "gone", _signs(bag, text))


def _windows(conversation: Conversation) -> Iterator[tuple[Conversation, list[str], list[str]]]:
    """Yield runs of turns, each with questions that it answers and others that it does not."""
    chance = random.Random(conversation.id)
    number = {turn.id: place for place, turn in enumerate(conversation.turns)}
    for size, times in WINDOWS:
        near = [
            question
            for question in conversation.questions
            if max(number[each] for each in question.evidence) - min(number[each] for each in question.evidence)
            < size
        ]
        for question in chance.sample(near, min(times, len(near))):
            last = max(number[each] for each in question.evidence)
            first = min(number[each] for each in question.evidence)
            start = max(0, chance.randint(last - size + 1, first))
            turns = conversation.turns[start : start + size]
            here = {turn.id for turn in turns}
            inside = [each.text for each in conversation.questions if here.issuperset(each.evidence)]
            outside = [each.text for each in conversation.questions if here.isdisjoint(each.evidence)]
            gone = chance.sample(outside, min(2, len(outside)))
            yield conversation._replace(turns=turns), inside[:3], gone


def _some(questions: Sequence[Chosen], number: int = AWAY_QUESTIONS) -> Sequence[Chosen]:
    """Return this many of them, evenly spaced."""
    return questions[:: max(1, len(questions) // number)][:number]


def _signs(bag: satchel.Satchel, text: str, project: notes.Project | None = None) -> dict[str, float]:
    """Compute the features of a question as `recall` does, with the shipped weights."""
    name = bag._indexer.embedder.name if bag._indexer.embedder else "none"
    as_of = None if project is None else project.now
    now = utc_now() if as_of is None else as_time(as_of, name="now")
    question = read_question(text, now=now, vector=bag._indexer.query_vector(text))
    where = filter_for(bag.scope, as_of=as_of)
    seen = ranking.examine(bag._store, question, where, wanted=100, close=near_enough(name))
    odds, _ = ranking.rerank(seen, log_odds(seen.columns, weights(family(name))))
    return signs(question, seen, odds)


def _write(fitted: dict[str, Answerable], name: str) -> None:
    known: dict[str, Models] = {}
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        known = msgspec.json.decode(RELEVANCE_FILE.read_bytes(), type=FittedRelevance).families
    held = known.get(name)
    default = next(iter(fitted.values()))
    models = Models(
        *(fitted.get(sort) or (getattr(held, sort) if held is not None else default) for sort in ("notes", "turns"))
    )
    families = dict(sorted((known | {name: models}).items()))
    RELEVANCE_FILE.write_bytes(
        msgspec.json.format(msgspec.json.encode(FittedRelevance(ABOUT, families)), indent=1) + b"\n"
    )
    print(f"\nwrote the models of {', '.join(fitted)} for {name} to {RELEVANCE_FILE.name}")


if __name__ == "__main__":
    sys.exit(main())
