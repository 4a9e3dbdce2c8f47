"""Prepare drafts for the store: checks, scope, masked secrets. After a save: its outcome, and similar memories."""

import contextlib
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, Literal

import msgspec

from satchel.api.satchel import Satchel
from satchel.errors import InputError, SatchelError
from satchel.fitting.listing import clean
from satchel.model.ids import new_id
from satchel.model.memory import (
    FREE_TEXT,
    IDENTITY,
    Change,
    Draft,
    Hit,
    Memory,
    Scope,
    as_name,
    checked,
    free_texts,
    utc_now,
)
from satchel.model.metadata import metadata_lines
from satchel.model.result import Result, quoted
from satchel.model.scope_fields import SCOPE_FIELDS
from satchel.store.contract import Candidate, Record
from satchel.store.rows import text_key
from satchel.text.redact import MASK, masked_labels, redact, redact_member, redact_values, without_masks
from satchel.text.tokens import DEFAULT_COUNTER, counter

__all__ = [
    "WIDTH",
    "Outcome",
    "Similar",
    "inside",
    "new_candidate",
    "other_project",
    "outcome_of",
    "redacted_changes",
    "redacted_record",
    "said_again",
    "save_candidates",
    "similar_after_save",
    "similar_ones",
]


# The token count that is stored with a memory is always that of the default counter.
_count = counter(DEFAULT_COUNTER).count


def new_candidate(draft: Draft, view: Scope, *, now: datetime | None = None) -> Candidate:
    """Return the memory that a draft becomes in a view, with the fields that the draft sets."""
    moment = now or utc_now()
    given = redacted_changes(draft.given())
    memory = Memory(
        id=new_id(),
        scope=_placed(view, draft.org, draft.project, draft.user, draft.agent, draft.session),
        created_at=moment,
        updated_at=moment,
        **({"at": moment} | given),
    )
    return Candidate(memory, frozenset(given), text_key(memory))


def save_candidates(view: Satchel, candidates: Sequence[Candidate]) -> list[Memory]:
    """Save candidates that were made for the scope of this view, all or none."""
    return view._save(candidates)


def other_project(view: Scope, memory: Memory, name: str | None) -> str | None:
    """Return the checked name of the project that a memory moves to; None means that it has none any more.

    A view of one project can neither move a memory out of it nor into it.
    """
    project = None if name is None else as_name("move_to", name)
    inside(view, msgspec.structs.replace(memory.scope, project=project))
    _refuse_secrets({"move_to": project})
    return project


def redacted_changes(changes: dict[str, Any]) -> dict[str, Any]:
    """Return checked field values with secrets masked. A new text also sets `tokens` and `masked`."""
    clean = dict(changes)
    # Most memories have no secret: one scan of all texts together finds that out.
    found = redact("\n".join(_texts(changes)))
    if found.masked:
        _mask_fields(clean)
    if "text" in clean:
        labels = masked_labels(*free_texts(clean)) if MASK in found.text else ()
        if labels and not without_masks(clean["text"]).strip():
            raise InputError("the whole text is private or secret; there is nothing to remember")
        clean["tokens"] = _count(clean["text"])
        clean["masked"] = labels
    return clean


def _texts(fields: dict[str, Any]) -> list[str]:
    texts = [*free_texts(fields)]
    texts += [value for name in IDENTITY if (value := fields.get(name))]
    if metadata := fields.get("metadata"):
        # With its keys: what is called a password is one.
        texts += metadata_lines(metadata)
    return texts


def _mask_fields(fields: dict[str, Any]) -> None:
    """Mask the secrets of each field, in place. A masked value must still be within its limits."""
    for name in IDENTITY:
        if (value := fields.get(name)) and (found := redact(value).masked):
            # Masked, two of them could become one, and one memory overwrite another.
            raise InputError(f"{name} looks like a secret ({found[0]}); give it another")
    for name in FREE_TEXT:
        if value := fields.get(name):
            fields[name] = checked(name, redact(value).text)
    if tags := fields.get("tags"):
        fields["tags"] = checked("tags", [redact(tag).text for tag in tags])
    if metadata := fields.get("metadata"):
        fields["metadata"] = checked("metadata", _masked_object(metadata))


def _masked_object(values: dict[str, Any]) -> dict[str, Any]:
    for key in values:
        if found := redact(key).masked:
            # Masked, two keys could become one.
            raise InputError(f"a key of the metadata looks like a secret ({found[0]}); give it another name")
    return {key: _masked_value(key, value) for key, value in values.items()}


def _masked_value(key: str, value: Any) -> Any:
    if isinstance(value, dict):
        return _masked_object(value)
    if isinstance(value, list):
        return [_masked_value(key, each) for each in value]
    return redact_member(key, value) if isinstance(value, str) else value


def redacted_record(record: Record) -> Record:
    """Return an imported record with its secrets masked, as if it had been added here."""
    memory = record.memory
    fields = ("tags", "metadata", *FREE_TEXT, *IDENTITY)
    clean = redacted_changes({name: getattr(memory, name) for name in fields})
    history = tuple(
        msgspec.structs.replace(entry, changes=redact_values(entry.changes)) for entry in record.history
    )
    return Record(memory=msgspec.structs.replace(memory, **clean), history=history)


def inside(view: Scope, scope: Scope) -> None:
    """Raise an error if a scope is outside a view."""
    for name in SCOPE_FIELDS:
        wanted, found = getattr(view, name), getattr(scope, name)
        if wanted is not None and wanted != found:
            raise InputError(f"{name} {found!r} is outside this view, which is {name} {wanted!r}")


@lru_cache(maxsize=1024)
def _placed(view: Scope, *names: str | None) -> Scope:
    given = {field: name for field, name in zip(SCOPE_FIELDS, names, strict=True) if name}
    scope = msgspec.structs.replace(view, **given)
    inside(view, scope)
    _refuse_secrets({field: getattr(scope, field) for field in SCOPE_FIELDS})
    return scope


def _refuse_secrets(names: dict[str, str | None]) -> None:
    for field, name in names.items():
        if masked := redact(name or "").masked:
            # Masked, two scopes could become one.
            raise InputError(f"{field} looks like a secret ({masked[0]}); name it otherwise")


Outcome = Literal["saved", "confirmed", "updated"]
"""What adding a text did: a new memory, the same text confirmed, or a memory updated by its ref or topic."""


def outcome_of(memory: Memory, history: Sequence[Change], *, since: datetime) -> Outcome:
    """Return what adding a draft did, given the memory and its history since then."""
    if memory.revision == 1:
        return "saved"
    said = [change for change in history if change.action == "confirm" and change.at >= since]
    return "confirmed" if said else "updated"


def said_again(memory: Memory) -> str:
    """Return how often a confirmed memory was said, and when first."""
    return f"said {memory.confirmations + 1:,} times, first {memory.at.date()}"


# After a save: which other memories are about the same thing.


# How many characters of a memory are shown.
WIDTH = 80


class Similar(Result, msgspec.Struct, frozen=True, kw_only=True):
    """A memory that is about the same thing as another, in one line."""

    id: str
    at: datetime
    headline: str
    """Its title or first words, without control characters."""
    score: float
    """How similar they are, from 0.5 to 1."""

    def _summary(self) -> str:
        return f"{self.score:.2f} {self.id} {quoted(self.headline)}"


def similar_ones(hits: Iterable[Hit]) -> tuple[Similar, ...]:
    return tuple(
        Similar(id=hit.memory.id, at=hit.memory.at, headline=_headline(hit.memory), score=hit.score) for hit in hits
    )


def similar_after_save(view: Satchel, memory: Memory, *, but: Sequence[str] = ()) -> tuple[Similar, ...]:
    """Return the memories that this one may replace; none for a turn of a conversation.

    Those whose full ids are in `but` are left out. The save has succeeded by now, so an error here is suppressed.
    """
    if memory.tier == "conversation":
        return ()
    with contextlib.suppress(SatchelError):
        found = similar_ones(view.similar(memory.id))
        return tuple(each for each in found if each.id not in but)
    return ()


def _headline(memory: Memory) -> str:
    line = " ".join(clean(memory.headline(WIDTH)).split())
    return line if len(line) <= WIDTH else line[: WIDTH - 1].rstrip() + "…"
