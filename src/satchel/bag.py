"""`Satchel`: the one object that joins the layers, and what users import."""

import builtins
import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self, Unpack, overload

import msgspec

from satchel.arguments import Choice, Chosen, as_draft, as_name, as_path, as_query, check_known, filter_for
from satchel.blocks import ContextBlock, Frame, Wrap, fitted_block
from satchel.embed import Embedder, resolve_embedder
from satchel.errors import EmbedderError, InputError, UnknownIdError
from satchel.fields import RelationKind, checked, utc_now
from satchel.finding import FLOOR, Finder, enough_for
from satchel.ids import normalise_prefix
from satchel.indexing import Indexer
from satchel.items import as_item
from satchel.limits import check_budget, check_limit
from satchel.memory import (
    CHANGEABLE,
    Change,
    ChangedFields,
    Draft,
    Memory,
    PlacedFields,
    Relation,
    Scope,
)
from satchel.pack import PINS, POLICIES, Entry, Pins, Policy
from satchel.packs import PACK_FORMATS, ContextPack, PackFormat
from satchel.render import DETAILS, FORMATS, LAYOUTS, Detail, Format
from satchel.results import Hits, Timeline, fitted_hits
from satchel.store import Check, Filter, Stats, Store, open_store, restore_store
from satchel.tokens import DEFAULT_COUNTER, Counter
from satchel.tokens import counter as find_counter

# Masking and JSON lines are imported where they are used: a search that starts cold needs neither.
if TYPE_CHECKING:
    from satchel.transfer import Imported

__all__ = ["Satchel", "open", "restore"]

_NEVER_EMPTY = ("text", "kind", "tier", "status", "importance", "confidence", "pinned", "at")


def open(
    location: str | os.PathLike[str],
    *,
    counter: str | Counter = DEFAULT_COUNTER,
    embedder: str | Embedder | None = None,
    create: bool = True,
) -> "Satchel":
    """Open the store at a location: a file, which is made if need be, or ":memory:".

    Without an embedder the store's own is used, and `static` for a new one.
    """
    counting = find_counter(counter)
    if embedder is not None:
        # Refused before a store is made for it.
        resolve_embedder(embedder)
    store = open_store(as_path(location), create=create)
    try:
        return Satchel(store, counter=counting, indexer=Indexer(store, embedder))
    except BaseException:
        store.close()
        raise


def restore(
    backup: str | os.PathLike[str], location: str | os.PathLike[str], *, replace: bool = False
) -> Path | None:
    """Put a backup in a store's place; with `replace` the old one is kept at the path returned."""
    return restore_store(Path(as_path(backup)), as_path(location), replace=replace)


def _asked(query: str | None) -> str | None:
    """The question of a context; a blank one is none."""
    return None if query is None or not as_query(query).strip() else query


class Satchel:
    """Memories in one scope of one store. Safe to share between threads; a context manager."""

    def __init__(
        self, store: Store, *, counter: Counter, indexer: Indexer | None = None, scope: Scope | None = None
    ) -> None:
        self._store = store
        self._indexer = indexer or Indexer(store)
        self._finder = Finder(store, self._indexer)
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

    def scoped(
        self,
        *,
        org: str | None = None,
        project: str | None = None,
        user: str | None = None,
        agent: str | None = None,
        session: str | None = None,
    ) -> "Satchel":
        """A view: reads and writes stay inside it. A view can be narrowed further, never widened."""
        given = {"org": org, "project": project, "user": user, "agent": agent, "session": session}
        chosen = {name: as_name(name, value) for name, value in given.items() if value is not None}
        for name, value in chosen.items():
            held = getattr(self.scope, name)
            # Only the store itself, which is in no scope yet, may choose an org.
            if held is not None and held != value and (name != "org" or self.scope != Scope()):
                raise InputError(f"{name} {value!r} is outside this view, which is {name} {held!r}")
        scope = msgspec.structs.replace(self.scope, **chosen)
        return Satchel(self._store, counter=self.counter, indexer=self._indexer, scope=scope)

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
        from satchel.intake import new_candidate

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

    def get(self, identifier: str) -> Memory:
        """One memory by its id or a unique prefix of it; this counts as a use."""
        memory = self._find(identifier)
        self._store.touch([memory.id], utc_now())
        return self._find(memory.id)

    def recent(
        self,
        *,
        limit: int = 20,
        ended: bool = False,
        **chosen: Unpack[Chosen],
    ) -> list[Memory]:
        """The newest memories by the time they speak of; `ended` also brings what no longer holds."""
        where = filter_for(self.scope, **chosen, ended=ended)
        return self._store.select(where, limit=check_limit(limit))

    def search(
        self,
        query: str,
        *,
        limit: int = 10,
        token_budget: int | None = None,
        ended: bool = False,
        detail: Detail = "full",
        format: Literal["text", "json"] = "text",
        explain: bool = False,
        as_of: datetime | date | str | None = None,
        **chosen: Unpack[Chosen],
    ) -> Hits:
        """The best matches, first cut to the limit, then to the budget, counted on `Hits.text`.

        `as_of` searches what was known and held at an earlier moment; `explain` fills `Hit.parts`.
        """
        budget = check_budget(token_budget)
        check_known("detail", detail, DETAILS)
        check_known("format", format, ("text", "json"))
        where = filter_for(self.scope, **chosen, ended=ended, as_of=as_of)
        found = self._finder.asked(as_query(query), where, limit=check_limit(limit), explain=explain)
        names = self.short_ids([hit.memory for hit in found]) if format == "text" else None
        sought = self._finder.sought(query)
        hits = fitted_hits(found, names=names, budget=budget, counter=self.counter, detail=detail, sought=sought)
        self._store.touch([hit.memory.id for hit in hits], utc_now())
        return hits

    def context(
        self,
        query: str | None = None,
        *,
        token_budget: int | None = 2000,
        format: Format = "system_prompt",
        policy: Policy = "best",
        pins: Pins = "strict",
        limit: int | None = None,
        ended: bool = False,
        frame: Frame | Wrap | None = None,
        explain: bool = False,
        as_of: datetime | date | str | None = None,
        **chosen: Unpack[Chosen],
    ) -> ContextBlock:
        """One text with what is worth most for its tokens: all that is pinned, then what the query finds.

        Without a query what is recent and important. The budget is held against `text`, which `frame` may
        make of the block, such as a prompt around it. Where what is pinned does not fit, that is an error,
        or with `pins="best_effort"` as much of it as fits. `as_of` and `explain` are those of `search`.
        """
        budget = check_budget(token_budget)
        check_known("format", format, FORMATS)
        check_known("policy", policy, POLICIES)
        check_known("pins", pins, PINS)
        most = enough_for(budget) if limit is None else check_limit(limit)
        where = filter_for(self.scope, **chosen, ended=ended, as_of=as_of)
        asked = _asked(query)
        sought = () if asked is None else self._finder.sought(asked)
        found = self._finder.for_context(asked, where, limit=most, explain=explain)
        block = fitted_block(
            [as_item(hit, sought=sought, superseded=not ended) for hit in found],
            budget=budget,
            counter=self.counter,
            layout=LAYOUTS[format],
            policy=policy,
            pins=pins,
            floor=0.0 if asked is None else FLOOR,
            frame=frame,
            hits=found,
        )
        self._store.touch([hit.memory.id for hit in block.hits], utc_now())
        return block

    def context_pack(
        self,
        query: str | None = None,
        *,
        token_budget: int | None = 2000,
        format: PackFormat = "markdown",
        policy: Policy = "best",
        pins: Pins = "strict",
        limit: int | None = None,
        ended: bool = False,
        as_of: datetime | date | str | None = None,
        **chosen: Unpack[Chosen],
    ) -> ContextPack:
        """Whole memories as one text to carry elsewhere; as JSON, `import_` brings them back there.

        Which memories, and in which order, is decided as in `context`.
        """
        budget = check_budget(token_budget)
        check_known("format", format, PACK_FORMATS)
        check_known("policy", policy, POLICIES)
        check_known("pins", pins, PINS)
        most = enough_for(budget) if limit is None else check_limit(limit)
        where = filter_for(self.scope, **chosen, ended=ended, as_of=as_of)
        asked = _asked(query)
        found = self._finder.for_context(asked, where, limit=most)
        pack = ContextPack(
            found,
            project=self.scope.project,
            token_budget=budget,
            counter=self.counter,
            format=format,
            policy=policy,
            pins=pins,
            floor=0.0 if asked is None else FLOOR,
        )
        self._store.touch([memory.id for memory in pack.memories], utc_now())
        return pack

    def update(self, identifier: str, **changes: Unpack[ChangedFields]) -> Memory:
        """Change fields of a memory; None clears one that may be empty."""
        from satchel.intake import redacted_changes

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
        if {"text", "title"} & fields.keys():
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
        self._store.relate(self.scope, relation)
        return relation

    def relations(self, identifier: str) -> list[Relation]:
        """The relations that start or end at a memory."""
        return self._store.relations(self.scope, [self._store.resolve(self.scope, identifier)])

    def timeline(self, identifier: str, *, before: int = 5, after: int = 5) -> Timeline:
        """What came just before and after a memory, in its session or else in its scope."""
        earlier = check_limit(before, name="before", least=0)
        later = check_limit(after, name="after", least=0)
        focus = self._find(identifier)
        where = msgspec.structs.replace(filter_for(self.scope), scope=focus.scope)
        around = self._store.around(focus, where, before=earlier, after=later)
        return Timeline(
            before=tuple(each for each in around if (each.at, each.id) < (focus.at, focus.id)),
            focus=focus,
            after=tuple(each for each in around if (each.at, each.id) > (focus.at, focus.id)),
        )

    def history(self, identifier: str) -> list[Change]:
        """Every change of a memory, oldest first; by its full id even after it was purged."""
        try:
            known = self._store.resolve(self.scope, identifier)
        except UnknownIdError:
            # Whatever else is there by this id belongs to another scope.
            found = self._store.history(self.scope, normalise_prefix(identifier))
            if not found or found[-1].action != "purge":
                raise
            return found
        return self._store.history(self.scope, known)

    def stats(self) -> Stats:
        """Counts of what this view holds, whatever its status."""
        return self._store.stats(filter_for(self.scope, everything=True), utc_now())

    def short_ids(self, memories: Sequence[Memory | Entry]) -> list[str]:
        """The shortest prefix that names each of these memories."""
        return self._store.short_ids([memory.id for memory in memories])

    @overload
    def export(self, target: None = None, **chosen: Unpack[Chosen]) -> Iterator[bytes]: ...
    @overload
    def export(self, target: str | os.PathLike[str], **chosen: Unpack[Chosen]) -> int: ...
    def export(
        self, target: str | os.PathLike[str] | None = None, **chosen: Unpack[Chosen]
    ) -> Iterator[bytes] | int:
        """Every memory as JSON lines, whatever its status; into a file, if one is named, and how many."""
        from satchel.transfer import export_lines, write_atomically

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
        from satchel.transfer import import_lines

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
        """Embed what waits for its vectors because its embedder failed or was not there; how many memories."""
        done = 0
        while made := self._indexer.catch_up():
            done += made
            if progress is not None:
                progress(done)
        if done and self._store.backlog(limit=1):
            raise EmbedderError(f"the embedder failed after {done:,} memories; the others still wait: try again")
        return done

    def _find(self, identifier: str) -> Memory:
        known = self._store.resolve(self.scope, identifier)
        where = Filter(scope=self.scope, ids=(known,), statuses=())
        found = self._store.select(where, limit=1)
        if not found:
            raise UnknownIdError(f"no memory has the id {identifier!r} here")
        return found[0]
