"""Import and export: JSON lines, context packs, and the JSON answers of every interface."""

import hashlib
import itertools
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

import msgspec

from satchel.api.saving import inside, new_candidate, redacted_record
from satchel.errors import InputError, SatchelError
from satchel.fitting.context_pack import PACK_VERSION
from satchel.model.checks import check_weight
from satchel.model.ids import check_id
from satchel.model.invisible import json_bytes
from satchel.model.memory import (
    CHANGEABLE,
    RELATIONS,
    Change,
    Draft,
    Memory,
    Relation,
    Scope,
    as_time,
    checked,
    compact,
)
from satchel.model.result import Result, quoted
from satchel.model.scope_fields import SCOPE_FIELDS
from satchel.recall.indexer import Indexer
from satchel.store import memories
from satchel.store.contract import Candidate, Embedded, Record
from satchel.store.partial_file import partial_file
from satchel.store.store import Store
from satchel.text.redact import redact

__all__ = [
    "FORMAT_VERSION",
    "Imported",
    "Line",
    "Problem",
    "check_target",
    "export_lines",
    "import_lines",
    "parse_line",
    "unpacked",
    "write_atomically",
]


def write_atomically(target: Path, chunks: Iterable[bytes]) -> int:
    """Write or replace a file atomically, readable only by its owner. Returns the number of chunks.

    If writing fails, the old file is unchanged. A pipe or a device is written to directly.
    """
    try:
        target = check_target(target)
        if target.exists() and not target.is_file():
            with open(target, "wb") as device:
                return _written(device, chunks)
        return _replaced(target, chunks)
    except OSError as error:
        raise SatchelError(f"cannot write {target}: {error.strerror or error}") from error


def check_target(target: Path) -> Path:
    """Resolve links and return the path, or raise an `InputError` if no file may be written there."""
    target = Path(os.path.realpath(target))
    if target.is_dir():
        raise InputError(f"{target} is a folder, not a file")
    if not target.parent.is_dir():
        raise InputError(f"the folder {target.parent} does not exist; make it first")
    if target.is_file() and _is_database(target):
        raise InputError(f"{target} is a database and not replaced by something else; give another file")
    return target


def _replaced(target: Path, chunks: Iterable[bytes]) -> int:
    # In the same folder: a rename is atomic only within one file system.
    with partial_file(target.parent) as partial:
        with open(partial, "wb") as file:
            count = _written(file, chunks)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(target)
    return count


def _written(file: IO[bytes], chunks: Iterable[bytes]) -> int:
    count = 0
    for chunk in chunks:
        file.write(chunk)
        count += 1
    return count


def _is_database(path: Path) -> bool:
    with open(path, "rb") as file:
        return file.read(16).startswith(b"SQLite format 3")


# JSON lines.
#
# The first line is a header. Then comes a line for each memory with its history, then a line for each relation. An
# import also accepts lines with a `text` and other fields of a draft.


FORMAT_VERSION = 1
MAX_COUNT = 2**53
ACTIONS = (
    "add",
    "update",
    "confirm",
    "forget",
    "unforget",
    "relate",
    "unrelate",
    "supersede",
    "unsupersede",
    "purge",
)

Line = Record | Relation | Draft | None

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
# msgspec crashes the process if several threads first use a type at the same time, so these are prepared here.
_KNOWN = [msgspec.json.Decoder(kind) for kind in (Record, Relation)]


def export_lines(records: Iterable[Record], relations: Iterable[Relation]) -> Iterator[bytes]:
    yield json_bytes({"satchel": "export", "version": FORMAT_VERSION}) + b"\n"
    exported = set()
    for record in records:
        exported.add(record.memory.id)
        history = [compact(entry) for entry in record.history]
        yield json_bytes({"memory": compact(record.memory), "history": history}) + b"\n"
    for relation in relations:
        if not {relation.source, relation.target} <= exported:
            # Its memory was added after the export had passed that id.
            continue
        yield json_bytes({"relation": compact(relation)}) + b"\n"


def parse_line(line: bytes) -> Line:
    """Parse and check a line; None for the header and for empty lines."""
    if not isinstance(line, bytes):
        raise InputError(f"a line of bytes is needed, not {type(line).__name__}")
    content = line.removeprefix(b"\xef\xbb\xbf").strip()
    if not content:
        return None
    try:
        value = _decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"not JSON: {error}") from None
    if not isinstance(value, dict):
        raise InputError(f"a JSON object is needed, not {type(value).__name__}")
    if "satchel" in value:
        _check_version(value.get("version"))
        return None
    try:
        if isinstance(value.get("memory"), dict):
            shortened = {"shortened": True} if value.get("shortened") else {}
            memory = _memory_of(value["memory"] | shortened)
            return _record(msgspec.convert({"memory": memory, "history": value.get("history", ())}, Record))
        if "id" in value:
            return _record(msgspec.convert({"memory": _memory_of(value)}, Record))
        if "relation" in value:
            return _relation(msgspec.convert(value["relation"], Relation))
        if "text" in value:
            return _draft(value)
    except msgspec.ValidationError as error:
        raise InputError(str(error)) from None
    raise InputError("neither a memory, a relation nor a draft: there is no `text`")


def _check_version(version: object) -> None:
    if version != FORMAT_VERSION:
        raise InputError(f"format version {version!r} is not known here; upgrade Satchel")


def _record(record: Record) -> Record:
    memory = record.memory
    fields = {name: checked(name, getattr(memory, name)) for name in CHANGEABLE}
    fields["id"] = check_id(memory.id)
    if memory.superseded_by is not None:
        fields["superseded_by"] = check_id(memory.superseded_by)
    for name in ("created_at", "updated_at", "accessed_at", "confirmed_at"):
        if (moment := getattr(memory, name)) is not None:
            fields[name] = as_time(moment, name=name)
    for name, least in (("revision", 1), ("access_count", 0), ("confirmations", 0), ("tokens", 0)):
        if not least <= getattr(memory, name) <= MAX_COUNT:
            raise InputError(f"{name} {getattr(memory, name)} is out of range")
    return Record(memory=msgspec.structs.replace(memory, **fields), history=tuple(map(_change, record.history)))


def _change(change: Change) -> Change:
    if change.action not in ACTIONS:
        raise InputError(f"unknown action {change.action[:40]!r} in the history")
    for name, pair in change.changes.items():
        if not isinstance(pair, list) or len(pair) != 2:
            raise InputError(f"a change of {name!r} needs an old and a new value")
        if name == "relation":
            # A removed relation has no new value.
            _check_link(pair[0] if change.action == "unrelate" else pair[1])
    return msgspec.structs.replace(change, at=as_time(change.at))


def _check_link(link: object) -> None:
    if not isinstance(link, dict) or link.get("kind") not in RELATIONS:
        raise InputError("a relation in the history needs a known kind")
    for end in ("source", "target"):
        check_id(str(link.get(end)))


def _relation(relation: Relation) -> Relation:
    return msgspec.structs.replace(
        relation,
        source=check_id(relation.source),
        target=check_id(relation.target),
        strength=check_weight(relation.strength, name="strength"),
        created_at=as_time(relation.created_at, name="created_at"),
    )


def _draft(value: dict[str, Any]) -> Draft:
    unknown = value.keys() - set(Draft.__struct_fields__)
    if unknown:
        raise InputError(f"unknown field {min(unknown)!r}")
    if value.get("ref") is None and value.get("topic_key") is None:
        # Importing the same line again updates the same memory.
        content = msgspec.json.encode(value, order="sorted")
        value["ref"] = "import:" + hashlib.sha256(content).hexdigest()[:32]
    return Draft(**value)


# Answers with memories and context packs, converted to the lines of an export.


_MARKDOWN = re.compile(rb"# (?:Project )?Context\b.*\(\d+ memor")
_BOM = b"\xef\xbb\xbf"
# A line that ends like this is the beginning of a JSON document over several lines.
_OPEN = (b"{", b"[", b",")


class _Source(NamedTuple):
    """One memory, relation or draft as a line, and its place in the input."""

    number: int
    content: bytes
    place: str = ""
    """Which of several memories on the line it is, as a prefix for messages."""


def unpacked(lines: Iterable[bytes]) -> Iterator[_Source]:
    """Yield a line of an export for each memory, relation or draft in the input.

    The input is JSON lines or one JSON document over several lines. A line or a document may hold several memories:
    a list of them, or an answer such as `{"memories": […]}` or `{"hits": […]}`, or a context pack.
    """
    rest = iter(lines)
    first = list(itertools.islice(rest, 1))
    if first and isinstance(first[0], bytes):
        if _MARKDOWN.match(first[0]):
            raise InputError("a context pack as markdown; only one made with --json can be imported")
        if _is_open(first[0]):
            whole = [*first, *rest]
            if (document := _document(whole)) is not None:
                yield from _sources(1, document)
                return
            first, rest = whole, iter(())
    for number, line in enumerate(itertools.chain(first, rest), start=1):
        value = _decoded(line) if isinstance(line, bytes) and _may_hold_several(line) else None
        if value is not None and _members(value) is not None:
            yield from _sources(number, value)
        else:
            yield _Source(number, line)


def _is_open(line: bytes) -> bool:
    """Return whether a line is the beginning of a JSON document over several lines."""
    content = line.removeprefix(_BOM).strip()
    unfinished = content.startswith((b"{", b"[")) and (content.endswith(_OPEN) or b'"context-pack"' in content)
    return unfinished and _decoded(line) is None


def _document(lines: Sequence[bytes]) -> Any:
    """Decode all lines as one JSON document; None if they are JSON lines and only the first is malformed."""
    try:
        value = msgspec.json.decode(b"".join(lines).removeprefix(_BOM))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        if b'"context-pack"' not in lines[0] and _decoded(b"".join(lines[1:2])) is not None:
            return None
        raise InputError(f"not a whole JSON object: {error}") from None
    single = isinstance(value, dict) and not {"id", "memory", "relation", "text"}.isdisjoint(value)
    if _members(value) is None and not single:
        raise InputError("neither JSON lines nor a document with memories")
    return value


def _may_hold_several(line: bytes) -> bool:
    """Return whether a line may have several memories. Most lines have not, and are decoded only once."""
    content = line.removeprefix(_BOM).lstrip()
    return content.startswith(b"[") or any(name in content for name in (b'"memories"', b'"hits"', b'"focus"'))


def _decoded(line: bytes) -> Any:
    """Decode a line; None if it is not JSON."""
    try:
        return msgspec.json.decode(line.removeprefix(_BOM))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _members(value: Any) -> list[Any] | None:
    """Return the memories in a list or an answer; None for anything else."""
    if isinstance(value, list):
        return value
    if not isinstance(value, dict) or "memory" in value:
        return None
    is_pack = value.get("satchel") == "context-pack"
    if is_pack and value.get("version") != PACK_VERSION:
        raise InputError(f"pack version {value.get('version')!r} is not known here; upgrade Satchel")
    found = next((value[name] for name in ("memories", "hits") if isinstance(value.get(name), list)), None)
    if found is None and is_pack:
        raise InputError("the pack has no list of memories")
    if found is None and isinstance(value.get("focus"), dict):
        found = [*(value.get("before") or ()), value["focus"], *(value.get("after") or ())]
    return found


def _sources(number: int, document: Any) -> Iterator[_Source]:
    members = _members(document)
    if members is None:
        yield _Source(number, _encode(document))
    elif isinstance(document, dict) and document.get("satchel") == "context-pack":
        # Each memory of a pack is on a line of its own, below the line of the pack.
        yield from (_Source(line, _encode(member)) for line, member in enumerate(members, start=number + 1))
    else:
        numbered = enumerate(members, start=1)
        yield from (_Source(number, _encode(member), f"memory {place}: ") for place, member in numbered)


def _memory_of(value: dict[str, Any]) -> dict[str, Any]:
    """Return a memory of an answer or a pack with all fields that a stored memory needs.

    Without its times of creation and change, both are taken to be the time that it is about.
    """
    if value.get("shortened"):
        raise InputError("its text was shortened; print it whole, with --detail full and without a token budget")
    if "text" not in value:
        raise InputError("it has no text; print it with --detail full")
    fields = {name: content for name, content in value.items() if name not in SCOPE_FIELDS}
    if "scope" not in fields:
        fields["scope"] = {name: value[name] for name in SCOPE_FIELDS if value.get(name) is not None}
    made = {"created_at": value["at"], "updated_at": value["at"]} if "at" in value else {}
    return {**made, "tokens": 0, **fields}


# Importing: in batches; malformed lines are reported with their numbers.


# Other writers wait while a batch is stored. Batches of four times the size saved less than 10 % of the time.
BATCH = 1024

Outcome = Literal["added", "updated", "kept", "relation"]
Item = Record | Relation | Candidate


class Problem(Result, msgspec.Struct, frozen=True):
    """A line that could not be imported: its number, from 1, and the reason. Secrets in the message are masked."""

    line: int
    message: str

    def _summary(self) -> str:
        return f"line {self.line:,}: {quoted(self.message)}"


class Imported(Result, msgspec.Struct, frozen=True, kw_only=True):
    """The result of an import: how many memories were added, updated or left unchanged, and how many relations.

    `problems` lists the lines that could not be imported. All others were stored.
    """

    added: int = 0
    updated: int = 0
    kept: int = 0
    relations: int = 0
    problems: tuple[Problem, ...] = ()

    def _summary(self) -> str:
        counts = f"{self.added:,} added, {self.updated:,} updated, {self.kept:,} kept, {self.relations:,} relations"
        return f"{counts}, {len(self.problems):,} problems"


def import_lines(
    store: Store,
    indexer: Indexer,
    scope: Scope,
    lines: Iterable[bytes],
    *,
    strict: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Imported:
    """Import lines. With `strict`, a single bad line is an error, and nothing is stored."""
    run = _Run(store, indexer, scope, strict=strict)
    if strict:
        # Everything is read and checked before the store is locked, then stored in one transaction.
        everything = list(run.prepared(lines, progress))
        with store.transaction():
            run.store_all(everything)
    elif store.in_transaction:
        # In this thread, because only it is inside the transaction, which decides when vectors are made.
        run.store_all(run.prepared(lines, progress))
    else:
        run.store_all(run.prepared_ahead(lines, progress))
    indexer.catch_up()
    return run.result()


class _Numbered(NamedTuple):
    source: _Source
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

    def prepared(self, lines: Iterable[bytes], progress: Callable[[int], None] | None) -> Iterator[_Batch]:
        """Yield the batches to store, each made when it is asked for."""
        for sources in _batches(lines):
            yield self._prepare(sources)
            _report(progress, sources)

    def prepared_ahead(self, lines: Iterable[bytes], progress: Callable[[int], None] | None) -> Iterator[_Batch]:
        """Yield the same, and make the next one in a thread meanwhile: the database needs no interpreter lock.

        The lines are read in the thread of the caller, who may have made them with something bound to it.
        """
        waiting: tuple[list[_Source], Future[_Batch]] | None = None
        with ThreadPoolExecutor(1, thread_name_prefix="satchel-import") as thread:
            for sources in _batches(lines):
                coming = thread.submit(self._prepare, sources)
                if waiting is not None:
                    yield waiting[1].result()
                    _report(progress, waiting[0])
                waiting = sources, coming
            if waiting is not None:
                yield waiting[1].result()
                _report(progress, waiting[0])

    def _prepare(self, sources: Sequence[_Source]) -> _Batch:
        parsed = [each for source in sources if (each := self._parse(source))]
        new = [each.item.memory for each in parsed if not isinstance(each.item, Relation)]
        return _Batch(parsed, self.indexer.embedded(new) if new else None)

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

    def _parse(self, source: _Source) -> _Numbered | None:
        """Do all work that needs no lock: check scopes, mask secrets, count tokens."""
        try:
            item = parse_line(source.content)
            if isinstance(item, Record):
                inside(self.scope, item.memory.scope)
                return _Numbered(source, redacted_record(item))
            if isinstance(item, Draft):
                return _Numbered(source, new_candidate(item, self.scope))
            return _Numbered(source, item) if item is not None else None
        except InputError as error:
            self._problem(source, error)
            return None

    def _store(self, group: list[_Numbered], embedded: Embedded | None) -> None:
        """Store a group in one transaction. If that fails, store its halves, down to the single bad item."""
        try:
            outcomes = self._stored([each.item for each in group], embedded)
        except InputError as error:
            if len(group) == 1:
                self._problem(group[0].source, error)
                return
            middle = len(group) // 2
            self._store(group[:middle], embedded)
            self._store(group[middle:], embedded)
        else:
            for outcome in outcomes:
                self.counts[outcome] += 1

    def _stored(self, items: Sequence[Item], embedded: Embedded | None) -> Sequence[Outcome]:
        """Store items of one type, all or none, and return the outcome of each."""
        match items[0]:
            case Record():
                records = [each for each in items if isinstance(each, Record)]
                with self.store.writing(self.scope.org) as tx:
                    return memories.put(tx, self.scope, records, embedded)
            case Relation():
                relations = [each for each in items if isinstance(each, Relation)]
                with self.store.writing(self.scope.org) as tx:
                    memories.put_relations(tx, self.scope, relations)
                return ["relation"] * len(relations)
            case Candidate():
                candidates = [each for each in items if isinstance(each, Candidate)]
                # A line is matched with what an earlier import stored by its ref alone, not by its text.
                with self.store.writing(self.scope.org) as tx:
                    stored = memories.add(tx, candidates, embedded, deduplicate=False)
                return [_outcome(*pair) for pair in zip(candidates, stored, strict=True)]

    def _problem(self, source: _Source, error: InputError) -> None:
        # A message may quote the line, and the line may contain a secret.
        message = source.place + redact(str(error)).text
        if self.strict:
            raise InputError(f"line {source.number}: {message}; nothing was imported") from error
        self.problems.append(Problem(source.number, message))


def _batches(lines: Iterable[bytes]) -> Iterator[list[_Source]]:
    sources = unpacked(lines)
    while batch := list(itertools.islice(sources, BATCH)):
        yield batch


def _report(progress: Callable[[int], None] | None, batch: Sequence[_Source]) -> None:
    if progress is not None:
        progress(sum(len(source.content) for source in batch))


def _outcome(candidate: Candidate, stored: Memory) -> Outcome:
    if stored.id == candidate.memory.id:
        return "added"
    return "updated" if stored.updated_at >= candidate.memory.created_at else "kept"
