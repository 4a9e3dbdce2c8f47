"""What is done to the memories of a store: added, changed, ended, related, moved, embedded, mended."""

import builtins
import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, Unpack, overload

import msgspec

from satchel.api.filters import Choice, Chosen, as_draft, filter_for
from satchel.embed.embedder import Embedder
from satchel.errors import EmbedderError, InputError, UnknownIdError
from satchel.model.arguments import as_path
from satchel.model.fields import RelationKind, checked, utc_now
from satchel.model.memory import CHANGEABLE, ChangedFields, Draft, Memory, PlacedFields, Relation, Scope
from satchel.recall.indexer import Indexer
from satchel.store.contract import Check, Filter, Store
from satchel.text.tokens.counter import Counter

# Masking and JSON lines are imported where they are used: a search that starts cold needs neither.
if TYPE_CHECKING:
    from satchel.api.transfer.imports import Imported
    from satchel.store.holdings import Held

__all__ = ["Keeper"]

_NEVER_EMPTY = ("text", "kind", "tier", "status", "importance", "confidence", "pinned", "at")


class Keeper:
    """Memories in one scope of one store, to be kept; a context manager."""

    def __init__(
        self, store: Store, *, counter: Counter, indexer: Indexer | None = None, scope: Scope | None = None
    ) -> None:
        self._store = store
        self._indexer = indexer or Indexer(store)
        self.counter = counter
        self.scope = scope or Scope()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Satchel {self._store.location} {self.scope}>"

    def close(self) -> None:
        """Write what is pending and let go of the store; views of it close with it."""
        self._indexer.close()
        self._store.close()

    @property
    def embedder(self) -> str | None:
        """The name of the embedder whose vectors the store holds; None before there are any."""
        held = self._store.embedding()
        return held.name if held else None

    @property
    def embedder_trouble(self) -> str | None:
        """Why the embedder failed last, where it did: what was saved then waits, and is found by its words."""
        return self._indexer.trouble

    @property
    def waiting(self) -> int:
        """How many memories wait for their vectors; they are found by their words meanwhile."""
        return self._store.backlog_size()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Self]:
        """All that this thread does inside is stored together, or not at all if an error leaves it."""
        with self._store.transaction():
            yield self
        self._indexer.catch_up()

    def add(self, text: str, **fields: Unpack[PlacedFields]) -> Memory:
        """Remember a text. The fields are those of `Draft`; the same `ref` or `topic_key` updates."""
        return self.add_many([as_draft(text, dict(fields))])[0]

    def add_many(self, drafts: Iterable[Draft]) -> list[Memory]:
        """Remember several texts in one transaction."""
        from satchel.api.intake import new_candidate

        now = utc_now()
        wanted = list(drafts)
        for draft in wanted:
            if not isinstance(draft, Draft):
                raise InputError(f"a Draft is needed, not {type(draft).__name__}")
        candidates = [new_candidate(draft, self.scope, now=now) for draft in wanted]
        if not candidates:
            return []
        embedded = self._indexer.embedded(candidate.memory for candidate in candidates)
        stored = self._store.add(candidates, embedded)
        self._indexer.catch_up()
        return stored

    def update(self, identifier: str, **changes: Unpack[ChangedFields]) -> Memory:
        """Change fields of a memory; None clears one that may be empty."""
        from satchel.api.intake import redacted_changes

        if unknown := changes.keys() - set(CHANGEABLE):
            raise InputError(f"unknown field {min(unknown)!r}; known: {', '.join(CHANGEABLE)}")
        if not changes:
            raise InputError("nothing to change was given")
        if cleared := [name for name in _NEVER_EMPTY if name in changes and changes.get(name) is None]:
            raise InputError(f"{cleared[0]} cannot be empty")
        fields = redacted_changes({name: checked(name, value) for name, value in changes.items()})
        if "tags" in fields and fields["tags"] is None:
            fields["tags"] = ()
        memory = self._find(identifier)
        if fields.get("status") == "active":
            fields["superseded_by"] = None
            if memory.invalid_at is not None and memory.invalid_at <= utc_now():
                fields.setdefault("invalid_at", None)
        embedded = None
        if {"text", "title", "tags"} & fields.keys():
            embedded = self._indexer.embedded([msgspec.structs.replace(memory, **fields)])
        changed = self._store.change(self.scope, memory.id, fields, action="update", embedded=embedded)
        self._indexer.catch_up()
        return changed

    def forget(
        self,
        identifiers: str | Iterable[str] | None = None,
        *,
        purge: bool = False,
        everything: bool = False,
        kind: Choice = None,
        tier: Choice = None,
        tags: Choice = None,
    ) -> int:
        """End memories, by id or by what they are; with `purge` remove every trace. How many.

        All that a view holds goes only with `everything=True`; an empty list of ids means none.
        """
        if not isinstance(purge, bool) or not isinstance(everything, bool):
            raise InputError("purge and everything are either true or false")
        wanted = [identifiers] if isinstance(identifiers, str) else identifiers
        ids = None if wanted is None else tuple(self._store.resolve(self.scope, each) for each in wanted)
        narrowed = [choice for choice in (ids, kind, tier, tags) if choice is not None]
        if not narrowed and not everything:
            raise InputError("say what to forget: ids, a kind, a tier or tags; or everything in this view")
        if not all(narrowed):
            return 0
        where = filter_for(self.scope, kind=kind, tier=tier, tags=tags, ids=ids or (), everything=True)
        return self._store.purge(where) if purge else self._store.forget(where, utc_now())

    def erase(self) -> "dict[Held, int]":
        """Remove this view's org with all that it has: memories, history, sessions. How many rows of each kind.

        Only from a view of a whole org, such as `bag.scoped(org="acme")`.
        """
        if self.scope != Scope(org=self.scope.org):
            raise InputError("an org is erased as a whole; this view is narrower: use `forget` with purge=True")
        return self._store.erase(self.scope.org)

    def relate(
        self, source: str, target: str, kind: RelationKind = "related", *, strength: float = 1.0
    ) -> Relation:
        """Link two memories; `supersedes` also ends the target."""
        relation = Relation(
            source=self._store.resolve(self.scope, source),
            target=self._store.resolve(self.scope, target),
            kind=kind,
            strength=strength,
            created_at=utc_now(),
        )
        return self._store.relate(self.scope, relation)

    @overload
    def export(self, target: None = None, **chosen: Unpack[Chosen]) -> Iterator[bytes]: ...
    @overload
    def export(self, target: str | os.PathLike[str], **chosen: Unpack[Chosen]) -> int: ...
    def export(
        self, target: str | os.PathLike[str] | None = None, **chosen: Unpack[Chosen]
    ) -> Iterator[bytes] | int:
        """Every memory as JSON lines, whatever its status; into a file, if one is named, and how many."""
        from satchel.api.transfer.files import write_atomically
        from satchel.api.transfer.lines import export_lines

        where = filter_for(self.scope, **chosen, everything=True)
        lines = export_lines(self._store.records(where), self._store.all_relations(where))
        # The first line says what the file is.
        return lines if target is None else write_atomically(Path(as_path(target)).expanduser(), lines) - 1

    def import_(
        self,
        source: str | os.PathLike[str] | Iterable[bytes],
        *,
        strict: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> "Imported":
        """Bring in JSON lines from a file or an iterable; importing the same again changes nothing."""
        if isinstance(source, str | os.PathLike):
            path = Path(as_path(source)).expanduser()
            try:
                with builtins.open(path, "rb") as lines:
                    return self.import_(lines, strict=strict, progress=progress)
            except OSError as error:
                raise InputError(f"cannot read {path}: {error.strerror}") from error
        from satchel.api.transfer.imports import import_lines

        return import_lines(self._store, self._indexer, self.scope, source, strict=strict, progress=progress)

    def backup(self, target: str | os.PathLike[str]) -> int:
        """Copy the store to a new file while others write; the number of bytes."""
        return self._store.backup(Path(as_path(target)).expanduser())

    def checks(self) -> list[Check]:
        """What is well with the store and what is not."""
        return self._store.checks()

    def repair(self) -> list[str]:
        """Mend what can be mended without losing anything; what was done."""
        return self._store.repair()

    def reembed(
        self,
        embedder: str | Embedder | None = None,
        *,
        progress: Callable[[int, int], None] | None = None,
    ) -> int:
        """Make all vectors anew, by another embedder or the same; how many passages were embedded.

        The old vectors serve until it is done. Stopped half-way, it goes on where it was.
        """
        return self._indexer.reembed(embedder, progress)

    def catch_up(self, *, progress: Callable[[int], None] | None = None) -> int:
        """Embed all that waits for its vectors, and return when it is done; how many memories.

        They wait because there were too many at once for an embedder that takes its time, or because it
        failed or was not there. What goes on in the background is taken over.
        """
        done = self._indexer.catch_up_wholly(progress)
        if done and self.waiting:
            raise EmbedderError(f"the embedder failed after {done:,} memories; the others still wait: try again")
        return done

    def _find(self, identifier: str) -> Memory:
        known = self._store.resolve(self.scope, identifier)
        where = Filter(scope=self.scope, ids=(known,), statuses=())
        found = self._store.select(where, limit=1)
        if not found:
            raise UnknownIdError(f"no memory has the id {identifier!r} here")
        return found[0]
