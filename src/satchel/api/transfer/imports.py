"""Bringing lines into a store: in batches, each bad line reported with its number."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

import msgspec

from satchel.api.intake import inside, new_candidate, redacted_record
from satchel.api.transfer.lines import parse_line
from satchel.api.transfer.unpacking import unpacked
from satchel.errors import InputError
from satchel.model.memory import Draft, Memory, Relation, Scope
from satchel.recall.indexer import Indexer
from satchel.store.contract import Candidate, Embedded, Record, Store
from satchel.text.redact import redact

__all__ = ["Imported", "Problem", "import_lines"]

# Other writers wait while a batch is stored; four times as large it gained less than a tenth of the time.
BATCH = 1000

Outcome = Literal["added", "updated", "kept", "relation"]
Item = Record | Relation | Candidate


class Problem(msgspec.Struct, frozen=True):
    """A line that could not be imported, and why."""

    line: int
    message: str


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """What an import did."""

    added: int = 0
    updated: int = 0
    kept: int = 0
    relations: int = 0
    problems: tuple[Problem, ...] = ()


def import_lines(
    store: Store,
    indexer: Indexer,
    scope: Scope,
    lines: Iterable[bytes],
    *,
    strict: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Imported:
    """Store what the lines hold; strict means that one bad line leaves the store as it was."""
    run = _Run(store, indexer, scope, strict=strict)
    batches = run.parsed(lines, progress)
    if strict:
        # All of it is read and checked before the store is locked, and stored under one lock.
        everything = list(batches)
        with store.transaction():
            run.store_all(everything)
    else:
        run.store_all(batches)
    indexer.catch_up()
    return run.result()


class _Numbered(NamedTuple):
    number: int
    item: Item


class _Batch(NamedTuple):
    lines: list[_Numbered]
    embedded: Embedded | None


class _Run:
    def __init__(self, store: Store, indexer: Indexer, scope: Scope, *, strict: bool) -> None:
        self.store = store
        self.indexer = indexer
        self.scope = scope
        self.strict = strict
        self.counts: dict[Outcome, int] = {"added": 0, "updated": 0, "kept": 0, "relation": 0}
        self.problems: list[Problem] = []

    def parsed(self, lines: Iterable[bytes], progress: Callable[[int], None] | None) -> Iterator[_Batch]:
        numbered = enumerate(unpacked(lines), start=1)
        while batch := list(itertools.islice(numbered, BATCH)):
            parsed = [each for number, line in batch if (each := self._parse(number, line))]
            items = (each.item for each in parsed)
            memories = [item.memory for item in items if not isinstance(item, Relation)]
            yield _Batch(parsed, self.indexer.embedded(memories) if memories else None)
            if progress is not None:
                progress(sum(len(line) for _, line in batch))

    def store_all(self, batches: Iterable[_Batch]) -> None:
        for batch in batches:
            for _, group in itertools.groupby(batch.lines, key=lambda each: type(each.item)):
                self._store(list(group), batch.embedded)

    def result(self) -> Imported:
        return Imported(
            added=self.counts["added"],
            updated=self.counts["updated"],
            kept=self.counts["kept"],
            relations=self.counts["relation"],
            problems=tuple(sorted(self.problems, key=lambda problem: problem.line)),
        )

    def _parse(self, number: int, line: bytes) -> _Numbered | None:
        """What can be done before the store is locked: scopes checked, secrets out, tokens counted."""
        try:
            item = parse_line(line)
            if isinstance(item, Record):
                inside(self.scope, item.memory.scope)
                return _Numbered(number, redacted_record(item))
            if isinstance(item, Draft):
                return _Numbered(number, new_candidate(item, self.scope))
            return _Numbered(number, item) if item is not None else None
        except InputError as error:
            self._problem(number, error)
            return None

    def _store(self, group: list[_Numbered], embedded: Embedded | None) -> None:
        """All at once; where one is bad, halves of it, until the bad one stands alone."""
        try:
            outcomes = self._stored([each.item for each in group], embedded)
        except InputError as error:
            if len(group) == 1:
                self._problem(group[0].number, error)
                return
            middle = len(group) // 2
            self._store(group[:middle], embedded)
            self._store(group[middle:], embedded)
        else:
            for outcome in outcomes:
                self.counts[outcome] += 1

    def _stored(self, items: Sequence[Item], embedded: Embedded | None) -> Sequence[Outcome]:
        """What became of items that are all of one type; all of them, or none and an error."""
        match items[0]:
            case Record():
                records = [each for each in items if isinstance(each, Record)]
                return self.store.put(self.scope, records, embedded)
            case Relation():
                relations = [each for each in items if isinstance(each, Relation)]
                self.store.put_relations(self.scope, relations)
                return ["relation"] * len(relations)
            case Candidate():
                candidates = [each for each in items if isinstance(each, Candidate)]
                # A line is what it was at the last import by its ref alone, whatever else has its text.
                stored = self.store.add(candidates, embedded, deduplicate=False)
                return [_outcome(*pair) for pair in zip(candidates, stored, strict=True)]

    def _problem(self, number: int, error: InputError) -> None:
        # A message may quote the line, and the line may hold a secret.
        message = redact(str(error)).text
        if self.strict:
            raise InputError(f"line {number}: {message}; nothing was imported") from error
        self.problems.append(Problem(number, message))


def _outcome(candidate: Candidate, stored: Memory) -> Outcome:
    if stored.id == candidate.memory.id:
        return "added"
    return "updated" if stored.updated_at >= candidate.memory.created_at else "kept"
