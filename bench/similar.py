"""What `Satchel.similar` shows when notes are saved, and its cost compared with `add` and `search`.

python -m bench.similar --data FILE… [--embedder NAME] [--untagged]
python -m bench.similar --cost 1000 10000 [--embedder NAME]

With `--data`, each file is a project of notes (see bench.notes) in its own store. Its notes are added one by one in
order of time, and after each one the similar notes are requested. A pair is a note that supersedes an earlier one:
the evidence and a stale memory of the same question. Questions of category kind list what is done next to what is
open; nothing is superseded there, so they give no pairs. `--untagged` leaves out tags and kinds.

  found        share of the pairs where the older note is among the (at most 3) similar ones
  shown        similar notes per save, mean
  silent       share of the saves that show nothing
  pairs shown  share of what is shown that is the older note of a pair

With `--cost`, synthetic memories fill a store in a file; then single ones are added, each followed by a request for
similar notes and a search for its first words. Medians in milliseconds, and the ratio of `similar` to the others.
"""

import argparse
import itertools
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

import satchel
from bench.corpus import Corpus
from bench.notes import Note, Project, draft_of, read_project
from bench.table import print_table
from satchel.model.memory import as_time

__all__ = ["Shown", "measure", "pairs"]

LIMIT = 3
LISTING = "kind"
TIMED = 40
ASKED = 60


class Shown(NamedTuple):
    """One project: its pairs, those found, and how many similar notes each save showed."""

    project: str
    pairs: int
    found: int
    shown: tuple[int, ...]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    wanted = parser.add_mutually_exclusive_group(required=True)
    wanted.add_argument("--data", type=Path, nargs="+", metavar="FILE")
    wanted.add_argument("--cost", type=int, nargs="+", metavar="N", help="sizes of the stores to be timed")
    parser.add_argument("--embedder", metavar="NAME", help="for satchel.open; its default if not given")
    parser.add_argument("--untagged", action="store_true", help="without tags and kinds")
    options = parser.parse_args(arguments)
    given: dict[str, Any] = {"embedder": options.embedder} if options.embedder else {}
    if options.cost:
        _print_costs([_timed(size, given) for size in options.cost])
        return 0
    try:
        projects = [read_project(path) for path in options.data]
    except OSError as error:
        print(f"bench.similar: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    except ValueError as error:
        print(f"bench.similar: {error}", file=sys.stderr)
        return 2
    _print_shown([measure(project, untagged=options.untagged, **given) for project in projects])
    return 0


def pairs(project: Project) -> set[tuple[str, str]]:
    """Return the newer and the older note of each pair."""
    at = {note.id: as_time(note.at, name="at") for note in project.memories}
    asked = (question for question in project.questions if question.category != LISTING)
    both = (pair for question in asked for pair in itertools.product(question.evidence, question.stale))
    return {(newer, older) for newer, older in both if at[newer] > at[older]}


def measure(project: Project, *, untagged: bool = False, **given: Any) -> Shown:
    """Add the notes of a project one by one, and request the notes similar to each."""
    notes = sorted(project.memories, key=lambda note: as_time(note.at, name="at"))
    wanted, found, shown = pairs(project), 0, []
    with satchel.open(":memory:", **given) as bag:
        for note in notes:
            plain = msgspec.structs.replace(note, tags=(), kind=None) if untagged else note
            hits = bag.similar(_added(bag, plain), limit=LIMIT)
            shown.append(len(hits))
            found += sum((note.id, hit.memory.ref) in wanted for hit in hits)
    return Shown(project.id, len(wanted), found, tuple(shown))


def _added(bag: satchel.Satchel, note: Note) -> str:
    return bag.add_many([draft_of(note)])[0].id


class Cost(NamedTuple):
    """Medians in milliseconds."""

    size: int
    add: float
    similar: float
    search: float


def _timed(size: int, given: dict[str, Any]) -> Cost:
    made: Iterable[dict[str, Any]] = Corpus().memories(size + TIMED)
    notes = [satchel.Draft(**{**fields, "project": "one"}) for fields in made]
    with tempfile.TemporaryDirectory() as folder, satchel.open(Path(folder) / "notes.db", **given) as bag:
        view = bag.scoped(project="one")
        view.add_many(notes[:size])
        view.catch_up()
        took: dict[str, list[float]] = {"add": [], "similar": [], "search": []}
        for draft in notes[size:]:
            started = time.perf_counter()
            memory = view.add_many([draft])[0]
            added = time.perf_counter()
            view.similar(memory.id)
            compared = time.perf_counter()
            view.search(memory.text[:ASKED])
            searched = time.perf_counter()
            took["add"].append(added - started)
            took["similar"].append(compared - added)
            took["search"].append(searched - compared)
    return Cost(size, **{name: 1e3 * statistics.median(values) for name, values in took.items()})


def _print_shown(measured: Sequence[Shown]) -> None:
    rows: list[Sequence[str]] = [("", "pairs", "found", "shown", "silent", "pairs shown")]
    rows += [_row(each.project, [each]) for each in measured]
    if len(measured) > 1:
        rows.append(_row("all", measured))
    print_table(f"similar notes when one is saved: {len(measured)} projects; %, and notes per save", rows)


def _row(label: str, measured: Sequence[Shown]) -> Sequence[str]:
    wanted, found = sum(each.pairs for each in measured), sum(each.found for each in measured)
    shown = [count for each in measured for count in each.shown]
    return (
        label,
        str(wanted),
        f"{100 * found / wanted:.0f}" if wanted else "-",
        f"{statistics.fmean(shown):.2f}",
        f"{100 * shown.count(0) / len(shown):.0f}",
        f"{100 * found / sum(shown):.0f}" if sum(shown) else "-",
    )


def _print_costs(costs: Sequence[Cost]) -> None:
    rows: list[Sequence[str]] = [("memories", "add", "similar", "search", "similar/add", "similar/search")]
    for each in costs:
        times = (f"{value:.1f}" for value in each[1:])
        ratios = (f"{each.similar / each.add:.2f}", f"{each.similar / each.search:.2f}")
        rows.append((f"{each.size:,}", *times, *ratios))
    print_table("what similar adds to a save; ms, medians", rows)


if __name__ == "__main__":
    raise SystemExit(main())
