"""Memories as JSON lines that travel between stores.

The first line says what it is; then a line for each memory with its history, then a line for each
relation. A line that only has a `text` and other fields of a draft is taken too.
"""

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from satchel.errors import InputError
from satchel.model.fields import RELATIONS, as_time, checked
from satchel.model.ids import check_id
from satchel.model.limits import check_weight
from satchel.model.memory import CHANGEABLE, Change, Draft, Relation, compact
from satchel.store.contract import Record

__all__ = ["FORMAT_VERSION", "Line", "export_lines", "parse_line"]

FORMAT_VERSION = 1
MAX_COUNT = 2**53
ACTIONS = ("add", "update", "confirm", "forget", "relate", "supersede", "purge")

Line = Record | Relation | Draft | None

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
# So that msgspec knows these types before several threads ask it for them at once, which kills the process.
_KNOWN = [msgspec.json.Decoder(kind) for kind in (Record, Relation)]


def export_lines(records: Iterable[Record], relations: Iterable[Relation]) -> Iterator[bytes]:
    yield _encode({"satchel": "export", "version": FORMAT_VERSION}) + b"\n"
    exported = set()
    for record in records:
        exported.add(record.memory.id)
        history = [compact(entry) for entry in record.history]
        yield _encode({"memory": compact(record.memory), "history": history}) + b"\n"
    for relation in relations:
        if not {relation.source, relation.target} <= exported:
            # Its memory was added after this export had passed its place.
            continue
        yield _encode({"relation": compact(relation)}) + b"\n"


def parse_line(line: bytes) -> Line:
    """What a line holds, checked; None for the first line and for empty ones."""
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
        if "memory" in value:
            return _record(msgspec.convert(value, Record))
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
            _check_link(pair[1])
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
        # The same line imported again finds what it made.
        content = msgspec.json.encode(value, order="sorted")
        value["ref"] = "import:" + hashlib.sha256(content).hexdigest()[:32]
    return Draft(**value)
