"""`Satchel`, the main class of the library, and `open`, which makes one.

It checks arguments and connects the layers: `recall` finds, `fitting` makes text within a budget, `store` keeps.
"""

import builtins
import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, Unpack, overload

import msgspec

from satchel.api.filters import Choice, Chosen, When, as_draft, filter_for
from satchel.api.views import visible_changes, visible_hits, visible_memories
from satchel.embed.embedder import Embedder, resolve_embedder
from satchel.errors import EmbedderError, InputError, StoreError, UnknownIdError
from satchel.fitting.hits import Hits, Timeline, fitted_hits
from satchel.fitting.listing import DETAILS, Detail
from satchel.model.checks import (
    as_path,
    as_query,
    check_budget,
    check_known,
    check_limit,
    check_offset,
    check_weight,
    expanded,
)
from satchel.model.filters import SORTS, Filter, Sort
from satchel.model.ids import check_id, parse_id
from satchel.model.memory import (
    CHANGEABLE,
    RELATIONS,
    Change,
    ChangedFields,
    Draft,
    Forgotten,
    Hit,
    Identifier,
    Memory,
    PlacedFields,
    Relation,
    RelationKind,
    Scope,
    as_name,
    as_time,
    checked,
    compact,
    utc_now,
)
from satchel.model.packing import (
    FORMATS,
    PACK_FORMATS,
    Format,
    Item,
    PackFormat,
    Pins,
    PolicyName,
    ReceiptEntry,
    Unread,
)
from satchel.model.signatures import checked_function, checked_keywords
from satchel.recall.finder import MIN_RELEVANCE, Recalled, enough_for, find, find_for_context, is_relevant
from satchel.recall.indexer import Indexer, cache_bytes
from satchel.store import index, memories
from satchel.store.contract import Candidate, Check, SearchStore, Stats
from satchel.store.locations import (
    DEFAULT_STORE,
    default_location,
    default_replica,
    open_store,
    restore_store,
)
from satchel.store.memories import short_ids as shortened_ids
from satchel.store.memories import unforget as restored
from satchel.store.store import Store
from satchel.text.tokens import DEFAULT_COUNTER, Counter
from satchel.text.tokens import counter as find_counter

if TYPE_CHECKING:
    from satchel.api.transfer import Imported
    from satchel.fitting.context import ContextBlock, Frame
    from satchel.fitting.context_pack import ContextPack
    from satchel.recall.ranking import Weak
    from satchel.session.account import SessionState
    from satchel.session.budget import Budget
    from satchel.session.session import Hints, Holds, Session
    from satchel.store.contract import Held

__all__ = ["NEVER_EMPTY", "Satchel", "open", "restore"]

# Masking, packing, JSON lines and sessions are imported where they are used: a first search needs none of them.

NEVER_EMPTY = ("text", "kind", "tier", "status", "importance", "confidence", "pinned", "at")


@checked_function
def open(
    location: str | os.PathLike[str] = DEFAULT_STORE,
    *,
    counter: str | Counter = DEFAULT_COUNTER,
    embedder: str | Embedder | None = None,
    create: bool = True,
    read_db: str | None = None,
    cache_mb: int | None = None,
) -> "Satchel":
    """Open a store: a file, ":memory:" or "postgresql://…".

    Without a location it is the store that the command line uses: $SATCHEL_DB, then a file in the user data
    directory. A file that does not exist is created, unless `create` is False. `counter` is the vocabulary or the
    model whose tokens are counted, such as "o200k_base" or "gpt-4o". `embedder` makes the vectors of a new store,
    `minilm` by default; an existing store keeps its own, and naming another one is an error. `read_db` is the
    address of a streaming replica of a PostgreSQL server, which answers reads whenever it is up to date;
    $SATCHEL_READ_DB is that of $SATCHEL_DB. `cache_mb` is how many megabytes searches may keep in memory between
    calls: $SATCHEL_CACHE_MB, then 256; 0 keeps nothing.
    """
    keeping = cache_bytes(cache_mb)
    counting = find_counter(counter)
    if embedder is not None:
        # Refused before a store is made for it.
        resolve_embedder(embedder)
    if location is DEFAULT_STORE:
        place, replica = default_location(create=create), read_db or default_replica()
    else:
        place, replica = as_path(location), read_db
    store = open_store(place, read_location=replica, create=create)
    try:
        return Satchel(store, counter=counting, indexer=Indexer(store, embedder, cache_bytes=keeping))
    except BaseException:
        store.close()
        raise


@checked_function
def restore(
    backup: str | os.PathLike[str], location: str | os.PathLike[str], *, replace: bool = False
) -> Path | None:
    """Restore a `backup` to a store file at `location`.

    A store that exists there is an error, unless `replace` is True: then it is kept beside the new one, and its
    path is returned. Otherwise the result is None.
    """
    return restore_store(Path(as_path(backup)), as_path(location), replace=replace)


@checked_keywords
class Satchel:
    """Memories in one scope of one store.

    `satchel.open` returns one for a whole store, `scoped` a view of a part of it. Reads and writes stay inside the
    scope. It can be shared between threads. As a context manager it closes the store at the end.

    Wherever a method takes an id, it takes the full id, a prefix of at least 8 digits, the short id that texts
    show, or a `Memory` or `Hit`.
    """

    def __init__(
        self, store: Store, *, counter: Counter, indexer: Indexer | None = None, scope: Scope | None = None
    ) -> None:
        self.counter = counter
        self.scope = scope or Scope()
        # The store itself is not a view yet, though it reads and writes in the default org.
        self._is_view = scope is not None
        self._store = store
        self._indexer = indexer or Indexer(store)

    def scoped(
        self,
        *,
        org: str | None = None,
        project: str | None = None,
        user: str | None = None,
        agent: str | None = None,
        session: str | None = None,
    ) -> "Satchel":
        """Return a view of one `org`, `project`, `user`, `agent` or `session`, or of several together.

        Reads and writes stay inside the view: what you add gets its scope, and nothing outside is found. A view can
        be narrowed further, but not widened or moved. Only the store itself, before it is a view, can choose an
        org.
        """
        given = {"org": org, "project": project, "user": user, "agent": agent, "session": session}
        chosen = {name: as_name(name, value) for name, value in given.items() if value is not None}
        for name, value in chosen.items():
            held = getattr(self.scope, name)
            # Only the store itself may choose an org.
            if held is not None and held != value and (name != "org" or self._is_view):
                raise InputError(f"{name} {value!r} is outside this view, which is {name} {held!r}")
        scope = msgspec.structs.replace(self.scope, **chosen)
        store = self._store.within(scope.org)
        indexer = self._indexer if store is self._store else self._indexer.within(store)
        return Satchel(
            store, counter=self.counter, indexer=indexer, scope=scope if chosen or self._is_view else None
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Write what is pending and close the store. Views of it are closed too."""
        self._indexer.close()
        self._store.close()

    def __repr__(self) -> str:
        chosen = " ".join(f"{name}={value!r}" for name, value in compact(self.scope).items())
        return f"<Satchel {self._store.location} {chosen}".rstrip() + ">"

    # Save and change.

    def add(self, text: str, **fields: Unpack[PlacedFields]) -> Memory:
        """Save a text and return the memory.

        `title`, `kind`, `tier`, `tags`, `importance` (0 to 1), `confidence` (0 to 1), `status` and `pinned`
        describe it; `speaker` and `source` say where it comes from, and `metadata` is a JSON object of your own.
        `at` is the time that it is about, now by default. It holds from `valid_from` until `invalid_at`. `org`,
        `project`, `user`, `agent` and `session` place it inside this view.

        `ref` is your own id for it, and `topic_key` names something that changes over time, such as "api/style". If
        a memory of the same scope has this `ref` or `topic_key`, it is updated. If one has the same text, it is
        confirmed. Neither adds a second memory. Secrets are masked before anything is stored.
        """
        return self.add_many([as_draft(text, dict(fields))])[0]

    def add_many(self, drafts: Iterable[Draft]) -> list[Memory]:
        """Save several `drafts` in one transaction, all or none, and return the memories in the same order.

        Each is a `satchel.Draft`, which has the fields of `add`. Vectors may be computed later, in the background;
        until then the memories are found by their words.
        """
        new_candidate = _candidate_maker()
        now = utc_now()
        wanted = list(drafts)
        for draft in wanted:
            if not isinstance(draft, Draft):
                raise InputError(f"a Draft is needed, not {type(draft).__name__}")
        return self._save([new_candidate(draft, self.scope, now=now) for draft in wanted])

    def add_messages(
        self,
        messages: Iterable[Any],
        *,
        session: str | None = None,
        at: When | None = None,
        tags: Choice = None,
        source: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        skip: Iterable[str] = ("system", "developer", "tool", "function"),
    ) -> list[Memory]:
        """Remember what was said in a conversation, and return its memories, one for each message, in order.

        `messages` are dicts or SDK objects as the APIs of OpenAI and Anthropic have them: `{"role": "user",
        "content": "…"}`, where the content is a string or a list of parts. Each becomes a memory of the tier
        `conversation` in the session, with its name or else its role as the speaker. Not remembered: messages whose
        role is in `skip`, tool calls and their results, thinking, images and other parts without text, and messages
        that are empty or only a secret.

        Calling it again with the same list, grown by new messages or without the oldest ones, adds only what is
        new. A list with only the new messages works too, unless it starts as the conversation does.

        `session` names the conversation; a view of a session has it already. `at` is the time of the first message,
        now by default; the others follow it in order. `tags`, `source` and `metadata` are set on every new memory.
        """
        from satchel.api.conversations import save_turns, turns_of

        name = self.scope.session if session is None else as_name("session", session)
        if name is None:
            raise InputError("add_messages needs a session, such as session='chat-1'")
        start = utc_now() if at is None else as_time(at, name="at")
        turns = turns_of(messages, skip=skip)
        view = self.scoped(session=name)
        return save_turns(view, turns, start=start, tags=tags, source=source, metadata=metadata) if turns else []

    def _save(self, candidates: Sequence[Candidate]) -> list[Memory]:
        if not candidates:
            return []
        embedded = self._indexer.embedded(candidate.memory for candidate in candidates)
        with self._store.writing(self.scope.org) as tx:
            stored = memories.add(tx, candidates, embedded)
            behind = index.has_backlog(tx)
        if behind:
            self._indexer.catch_up()
        return visible_memories(self._store, self.scope, stored)

    def update(self, identifier: Identifier, **changes: Unpack[ChangedFields]) -> Memory:
        """Change fields of one memory and return it.

        `identifier` names the memory. The fields are those of `add`: `text`, `title`, `kind`, `tier`, `tags`,
        `importance`, `confidence`, `status`, `pinned`, `at`, `valid_from`, `invalid_at`, `speaker`, `source`,
        `ref`, `topic_key` and `metadata`. None clears a field that may be empty; `tags` and `metadata` are replaced
        as a whole. The earlier values stay in `history`. Setting the status to "active" also removes that the
        memory was superseded or had expired.

        `move_to` moves it to another project, or with None to none. Its session, history and relations stay. A view
        of one project cannot move a memory out of it, and a `ref` or `topic_key` that is taken there is an error.
        """
        from satchel.api.saving import other_project, redacted_changes

        known = (*CHANGEABLE, "move_to")
        if unknown := changes.keys() - set(known):
            raise InputError(f"unknown field {min(unknown)!r}; known: {', '.join(known)}")
        if not changes:
            raise InputError("nothing to change was given")
        if cleared := [name for name in NEVER_EMPTY if name in changes and changes.get(name) is None]:
            raise InputError(f"{cleared[0]} cannot be empty")
        set_here = {name: checked(name, value) for name, value in changes.items() if name != "move_to"}
        fields = redacted_changes(set_here)
        for name, empty in (("tags", ()), ("metadata", {})):
            if name in fields and fields[name] is None:
                fields[name] = empty
        memory = self._find(identifier)
        moved = {"project": other_project(self.scope, memory, changes["move_to"])} if "move_to" in changes else {}
        if fields.get("status") == "active":
            fields["superseded_by"] = None
            if memory.invalid_at is not None and memory.invalid_at <= utc_now():
                fields.setdefault("invalid_at", None)
        embedded = None
        if {"text", "title", "tags"} & fields.keys():
            embedded = self._indexer.embedded([msgspec.structs.replace(memory, **fields)])
        with self._store.writing(self.scope.org) as tx:
            changed = memories.change(tx, self.scope, memory.id, fields | moved, action="update", embedded=embedded)
        self._indexer.catch_up()
        return visible_memories(self._store, self.scope, [changed])[0]

    def forget(
        self,
        identifiers: Identifier | Iterable[Identifier] | None = None,
        *,
        purge: bool = False,
        everything: bool = False,
        dry_run: bool = False,
        **chosen: Unpack[Chosen],
    ) -> Forgotten:
        """Soft-delete memories, by `identifiers` or by filters, and return how many and when.

        Searches no longer find them, but `ended=True` still does, and `unforget` restores them. With `purge` they
        are deleted for good, with their history. With `dry_run` they are only counted. The filters are those of
        `search`: `kind`, `tier`, `tags`, `status`, `since`, `until`, `metadata`. To forget all memories of this
        view, set `everything`; an empty list of ids forgets none.
        """
        if not all(isinstance(flag, bool) for flag in (purge, everything, dry_run)):
            raise InputError("purge, everything and dry_run are either true or false")
        ids = self._ids(identifiers)
        narrowed = [choice for choice in (ids, *chosen.values()) if choice is not None]
        if not narrowed and not everything:
            raise InputError(
                "say what to forget: ids, or a filter such as a kind or tags; or everything in this view"
            )
        if not all(narrowed):
            return Forgotten(count=0)
        where = filter_for(self.scope, **chosen, ids=ids or (), everything=True)
        moment = utc_now()
        if dry_run:
            with self._store.reading(self.scope.org) as tx:
                found = memories.select_ids(tx, where) if purge else memories.to_forget(tx, where, moment)
                return Forgotten(count=len(found))
        with self._store.writing(self.scope.org) as tx:
            if purge:
                return Forgotten(count=memories.purge(tx, where), purged=True)
            count = memories.forget(tx, where, moment)
            return Forgotten(count=count, at=moment if count else None)

    def unforget(
        self,
        identifiers: Identifier | Iterable[Identifier] | None = None,
        *,
        at: When | None = None,
    ) -> int:
        """Restore memories that `forget` ended, and return how many.

        Name them by `identifiers`, or give the time `at` that `forget` returned to restore all that this call
        ended. With both, those of the ids are restored that it ended. Memories that were not forgotten are not
        counted. What was purged cannot be restored.
        """
        ids = self._ids(identifiers)
        if ids is None and at is None:
            raise InputError("say what to restore: ids, or the moment `at` of a call of forget")
        moment = None if at is None else as_time(at, name="at")
        with self._store.writing(self.scope.org) as tx:
            return restored(tx, self.scope, ids, moment)

    def erase(self) -> "dict[Held, int]":
        """Delete the org of this view with everything in it: memories, history and sessions.

        Only a view of a whole org can do this, such as `bag.scoped(org="acme")`. Returns how many rows of each kind
        were deleted.
        """
        if self.scope != Scope(org=self.scope.org):
            raise InputError("an org is erased as a whole; this view is narrower: use `forget` with purge=True")
        return self._store.erase(self.scope.org)

    def relate(
        self, source: Identifier, target: Identifier, kind: RelationKind = "related", *, strength: float = 1.0
    ) -> Relation:
        """Link two memories and return the relation.

        `source` and `target` name the memories. `kind` says what the first is to the second: caused_by, fixes,
        supersedes, related, contradicts, depends_on, implements or part_of. "supersedes" also ends the target.
        Related memories are found together, the more so the higher the `strength` (0 to 1); a contradicted memory
        ranks lower.
        """
        relation = Relation(
            source=self._resolve(source),
            target=self._resolve(target),
            kind=kind,
            strength=strength,
            created_at=utc_now(),
        )
        with self._store.writing(self.scope.org) as tx:
            return memories.relate(tx, self.scope, relation)

    def unrelate(self, source: Identifier, target: Identifier, kind: RelationKind | None = None) -> int:
        """Remove the relations from `source` to `target`, and return how many.

        `kind` removes only relations of this kind. A target that was superseded by this relation alone becomes
        current again.
        """
        if kind is not None:
            check_known("relation", kind, RELATIONS)
        ends = self._resolve(source), self._resolve(target)
        with self._store.writing(self.scope.org) as tx:
            return len(memories.unrelate(tx, self.scope, *ends, kind, utc_now()))

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Self]:
        """Write everything that this thread does in the block together, or nothing if an error leaves it.

        Other threads are not part of it. A slow embedder computes the vectors afterwards.
        """
        with self._store.transaction():
            yield self
        self._indexer.catch_up()

    # Find and fit.

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
        as_of: When | None = None,
        min_relevance: float | None = None,
        **chosen: Unpack[Chosen],
    ) -> Hits:
        """Find the memories that are most likely needed for a `query`, best first.

        At most `limit` hits are returned, and as many of them as `Hits.text` can list within `token_budget` tokens.
        `Hits.omitted` counts those that did not fit. Hits less relevant than `min_relevance` (0 to 1) are left out;
        `Hits.irrelevant` counts them. Memories that say the same are one hit, and its `duplicates` are the ids of
        the others.

        Filters: `kind`, `tier` and `status` take one value or several, of which a memory must have one; `tags` must
        all be there; `since` and `until` bound the time that a memory is about, as a date, a datetime or words such
        as "last month"; `metadata` takes keys and values that must be equal. If nothing relevant matches but
        something passes the filters, the newest and most important of that is returned, and `Hits.matched` is
        False.

        `ended` also finds memories that were forgotten, superseded or have expired. `as_of` searches the store as
        it was at an earlier time. `detail` is how much of each memory the text shows: "summary" (a line),
        "standard" (a snippet) or "full". `format` is the form of the text: "text" or "json". `explain` fills
        `Hit.parts` with the parts of each score.
        """
        budget = check_budget(token_budget)
        least = _relevance(min_relevance)
        check_known("detail", detail, DETAILS)
        check_known("format", format, ("text", "json"))
        moment = _moment(as_of)
        where = filter_for(self.scope, **chosen, ended=ended, as_of=moment)
        asked = as_query(query)
        found = find(
            self._store_at(where, moment, asked=True),
            self._indexer,
            asked,
            where,
            now=moment,
            limit=check_limit(limit),
            filtered=_filtered(chosen),
            min_relevance=least,
            explain=explain,
            distinct=True,
        )
        relevant = visible_hits(self._store, self.scope, [hit for hit in found.hits if hit.relevance >= least])
        names = self.short_ids([hit.memory for hit in relevant]) if format == "text" else None
        hits = fitted_hits(
            relevant,
            names=names,
            budget=budget,
            counter=self.counter,
            detail=detail,
            sought=found.sought,
            matched=found.matched,
            irrelevant=len(found.hits) - len(relevant),
        )
        self._store.touch([hit.memory.id for hit in hits], utc_now())
        return hits

    def context(
        self,
        query: str | None = None,
        *,
        token_budget: int | None = 2000,
        format: Format = "system_prompt",
        policy: PolicyName = "best",
        pins: Pins = "strict",
        limit: int | None = None,
        detail: Detail = "full",
        ids: bool = False,
        ended: bool = False,
        frame: "Frame | None" = None,
        explain: bool = False,
        as_of: When | None = None,
        min_relevance: float | None = None,
        **chosen: Unpack[Chosen],
    ) -> "ContextBlock":
        """Return one text for a context window: what is pinned, then what matters most for the `query`.

        `ContextBlock.text` has at most `token_budget` tokens, headings included; None means no limit. The budget is
        a limit, not a target: only memories with at least `min_relevance` (0 to 1) are used, the best match first,
        and 0 fills the budget. Without a query the text has what is recent and important. `ContextBlock.receipt`
        says what became of each candidate.

        `format` is the form of the text: "system_prompt", "markdown", "messages" or "raw". `policy` chooses by
        value per token ("best"), by rank ("greedy"), or by tier and rank ("tier"). Pinned memories must all fit, or
        with `pins="best_effort"` as many as do. `limit` is how many candidates to choose from. `detail` is the most
        that is shown of a memory. A `frame` writes text around the block, such as a prompt, inside the budget.

        With `ids`, each memory also has its short id and its kind, so that a model can update or forget it: `-
        [k3f7 decision] We rotate JWTs every hour.` A label costs about 6 tokens.

        The filters `kind`, `tier`, `tags`, `status`, `since`, `until` and `metadata`, and `ended`, `as_of` and
        `explain`, are those of `search`.
        """
        from satchel.fitting.context import fitted_block
        from satchel.fitting.formats import LAYOUTS
        from satchel.fitting.renditions import as_item

        budget = check_budget(token_budget)
        least = _relevance(min_relevance)
        check_known("format", format, FORMATS)
        check_known("detail", detail, DETAILS)
        found, least, relevant = self._for_context(
            query,
            chosen,
            least=least,
            budget=budget,
            limit=limit,
            ended=ended,
            as_of=as_of,
            explain=explain,
            # One that is not relevant may still supersede another.
            relevant_only=not ended,
        )
        shown = [hit.memory for hit, worth in zip(found.hits, relevant, strict=True) if worth or hit.memory.pinned]
        names = dict(zip((each.id for each in shown), self.short_ids(shown), strict=True)) if ids else {}

        def item(hit: Hit, worth: bool) -> Item:
            return as_item(
                hit,
                detail=detail,
                sought=found.sought,
                superseded=not ended,
                relevant=worth,
                needed=hit.needed(least),
                short_id=names.get(hit.memory.id),
            )

        block = fitted_block(
            [item(hit, worth) for hit, worth in zip(found.hits, relevant, strict=True)],
            unread=_unread(found.weak, item),
            budget=budget,
            counter=self.counter,
            layout=LAYOUTS[format],
            policy=policy,
            pins=pins,
            best_first=least > 0,
            frame=frame,
            hits=found.hits,
            matched=found.matched,
        )
        self._store.touch([hit.memory.id for hit in block.hits], utc_now())
        return block

    def context_pack(
        self,
        query: str | None = None,
        *,
        token_budget: int | None = 2000,
        format: PackFormat = "markdown",
        policy: PolicyName = "best",
        pins: Pins = "strict",
        limit: int | None = None,
        ended: bool = False,
        frame: "Frame | None" = None,
        as_of: When | None = None,
        min_relevance: float | None = None,
        **chosen: Unpack[Chosen],
    ) -> "ContextPack":
        """Return whole memories as one text to use elsewhere, such as in another AI service.

        The memories are chosen as in `context`, with the same `query`, `token_budget`, `policy`, `pins`, `limit`,
        `min_relevance`, `ended`, `as_of` and `frame`, and the filters `kind`, `tier`, `tags`, `status`, `since`,
        `until` and `metadata`. None of them is shortened. `format` is "markdown", "json", "system_prompt" or "raw";
        `import_` reads a pack in JSON. The pack has its memories, its numbers and its receipt beside the text.
        """
        from satchel.fitting.context_pack import ContextPack

        least = _relevance(min_relevance)
        budget = check_budget(token_budget)
        check_known("format", format, PACK_FORMATS)
        found, least, relevant = self._for_context(
            query, chosen, least=least, budget=budget, limit=limit, ended=ended, as_of=as_of
        )
        pack = ContextPack(
            found.hits,
            relevant=relevant,
            project=self.scope.project,
            token_budget=budget,
            counter=self.counter,
            format=format,
            policy=policy,
            pins=pins,
            best_first=least > 0,
            frame=frame,
            matched=found.matched,
        )
        self._store.touch([memory.id for memory in pack.memories], utc_now())
        return pack

    def _for_context(
        self,
        query: str | None,
        chosen: Chosen,
        *,
        least: float,
        budget: int | None,
        limit: int | None,
        ended: bool,
        as_of: When | None,
        explain: bool = False,
        relevant_only: bool = False,
    ) -> "_Candidates":
        """Find the candidates for a context or a pack, with or without a query."""
        most = enough_for(budget) if limit is None else check_limit(limit)
        moment = _moment(as_of)
        where = filter_for(self.scope, **chosen, ended=ended, as_of=moment)
        # A blank query is no query.
        asked = None if query is None or not as_query(query).strip() else query
        if asked is None:
            least = 0.0
        found = find_for_context(
            self._store_at(where, moment, asked=asked is not None),
            self._indexer,
            asked,
            where,
            now=moment,
            limit=most,
            filtered=_filtered(chosen),
            min_relevance=least,
            explain=explain,
            relevant_only=relevant_only,
        )
        found = found._replace(
            hits=visible_hits(self._store, self.scope, found.hits), weak=self._visible_weak(found.weak)
        )
        return _Candidates(found, least, [asked is None or is_relevant(hit, least) for hit in found.hits])

    def _visible_weak(self, weak: "Weak | None") -> "Weak | None":
        if weak is None:
            return None

        def read() -> dict[str, Hit]:
            return {hit.id: hit for hit in visible_hits(self._store, self.scope, [*weak.read().values()])}

        return weak._replace(read=read)

    # Look at what is there.

    def get(self, identifier: Identifier, *, as_of: When | None = None) -> Memory:
        """Return one memory by its `identifier`. This counts as a use.

        `as_of` returns it as it was at an earlier time. An id that is unknown, that several memories share, or that
        was not there at that time is an error.
        """
        moment = _moment(as_of)
        memory = self._find_at(identifier, moment)
        self._store.touch([memory.id], utc_now())
        return memory if moment is not None else self._find(memory.id)

    def recent(
        self,
        *,
        limit: int = 20,
        offset: int = 0,
        sort: Sort = "at",
        pinned: bool = False,
        ended: bool = False,
        as_of: When | None = None,
        **chosen: Unpack[Chosen],
    ) -> list[Memory]:
        """Return the newest memories, by the time that they are about.

        At most `limit` are returned, after the first `offset` of them. `sort` orders them by something else, the
        latest or highest first: "created", "updated", "used" or "importance". With `pinned` only pinned memories
        are returned. The filters `kind`, `tier`, `tags`, `status`, `since`, `until` and `metadata`, and `ended` and
        `as_of`, are those of `search`. It does not count as a use.
        """
        check_known("sort", sort, SORTS)
        moment = _moment(as_of)
        where = msgspec.structs.replace(filter_for(self.scope, **chosen, ended=ended, as_of=moment), pinned=pinned)
        found = self._store_at(where, moment).select(
            where, limit=check_limit(limit), sort=sort, offset=check_offset(offset)
        )
        return visible_memories(self._store, self.scope, found)

    def relations(self, identifier: Identifier, *, as_of: When | None = None) -> list[Relation]:
        """Return the relations that start or end at the memory `identifier`, to others inside this view.

        `as_of` returns those that existed at an earlier time.
        """
        moment = _moment(as_of)
        known = self._resolve(identifier)
        where = Filter(scope=self.scope, ids=(known,), statuses=())
        return self._store_at(where, moment).relations(self.scope, [known])

    def similar(self, identifier: Identifier, *, limit: int = 3) -> list[Hit]:
        """Return current memories that are about the same thing as the memory `identifier`, best first.

        At most `limit` are returned, often none. `Hit.score` says how similar they are, from 0.5 to 1. Only
        memories of the same project are compared, and notes only with notes, not with turns of a conversation.
        """
        from satchel.recall.similar import similar

        most = check_limit(limit)
        memory = self._find(identifier)
        within = msgspec.structs.replace(self.scope, project=memory.scope.project)
        return visible_hits(self._store, self.scope, similar(self._store, memory, filter_for(within), limit=most))

    def timeline(
        self, identifier: Identifier, *, before: int = 5, after: int = 5, as_of: When | None = None
    ) -> Timeline:
        """Return what came just before and after the memory `identifier`, in its session or its scope.

        `before` and `after` are how many memories at most. The order is by the time that memories are about.
        `as_of` shows the timeline as it was at an earlier time.
        """
        earlier = check_limit(before, name="before", least=0)
        later = check_limit(after, name="after", least=0)
        moment = _moment(as_of)
        focus = self._find_at(identifier, moment)
        where = msgspec.structs.replace(filter_for(self.scope, as_of=moment), scope=focus.scope)
        found = self._store_at(where, moment).around(focus, where, before=earlier, after=later)
        around = visible_memories(self._store, self.scope, found)
        return Timeline(
            before=tuple(each for each in around if (each.at, each.id) < (focus.at, focus.id)),
            focus=focus,
            after=tuple(each for each in around if (each.at, each.id) > (focus.at, focus.id)),
        )

    def history(self, identifier: Identifier) -> list[Change]:
        """Return every change of the memory `identifier`, oldest first.

        A view of a whole org also tells that a memory was purged, by its full id; nothing else is left of it. A
        view of one project does not tell the name of another project that the memory was moved from.
        """
        with self._store.reading(self.scope.org) as tx:
            try:
                known = memories.resolve(tx, self.scope, _id_of(identifier))
            except UnknownIdError:
                # What is left of a memory does not say in which project it was.
                if self.scope != Scope(org=self.scope.org):
                    raise
                # Whatever else is there by this id belongs to another scope.
                whole = parse_id(_id_of(identifier)).prefix
                found = memories.history(tx, self.scope.org, whole.first) if whole else []
                if not found or found[-1].action != "purge":
                    raise
                return found
            return visible_changes(self._store, self.scope, memories.history(tx, self.scope.org, known))

    def stats(self) -> Stats:
        """Count the memories of this view, whatever their status, by kind, tier, status and project."""
        with self._store.reading(self.scope.org) as tx:
            counted = memories.stats(tx, filter_for(self.scope, everything=True), utc_now())
        kept = self._indexer.kept(self.scope)
        return msgspec.structs.replace(
            counted, embedder=self.embedder, cache_bytes=kept.used, cache_limit=kept.limit
        )

    def projects(self) -> dict[str, int]:
        """Return the projects of this view with their numbers of current memories, most first."""
        return self._count_names("project")

    def tags(self) -> dict[str, int]:
        """Return the tags of this view with their numbers of current memories, most first.

        Tags that differ only in the case of ASCII letters are counted as one, as filters compare them.
        """
        return self._count_names("tags")

    def _count_names(self, column: Literal["project", "tags"]) -> dict[str, int]:
        with self._store.reading(self.scope.org) as tx:
            return memories.count_names(tx, filter_for(self.scope), column)

    def short_ids(self, memories: Sequence[Identifier | ReceiptEntry]) -> list[str]:
        """Return a short id for each of `memories`, which can also be given by their full ids.

        A short id has 4 to 6 characters, or more if that is not unique in the org, and works wherever an id does. A
        memory has the same short id in every store, apart from its length.
        """
        ids = [check_id(_id_of(each)) for each in memories]
        with self._store.reading(self.scope.org) as tx:
            return shortened_ids(tx, self.scope.org, ids)

    # Move between stores.

    @overload
    def export(self, target: None = None, **chosen: Unpack[Chosen]) -> Iterator[bytes]: ...
    @overload
    def export(self, target: str | os.PathLike[str], **chosen: Unpack[Chosen]) -> int: ...
    def export(
        self, target: str | os.PathLike[str] | None = None, **chosen: Unpack[Chosen]
    ) -> Iterator[bytes] | int:
        """Write memories as JSON lines, whatever their status, with their history and relations.

        With a `target`, they are written to this file, which is replaced in one step, and the number of lines after
        the header is returned. Without one, the lines are returned as an iterator of bytes. The filters `kind`,
        `tier`, `tags`, `status`, `since`, `until` and `metadata` are those of `search`.
        """
        from satchel.api.transfer import export_lines, write_atomically

        where = filter_for(self.scope, **chosen, everything=True)
        lines = export_lines(self._store.records(where), self._store.all_relations(where))
        # The first line says what the file is.
        return lines if target is None else write_atomically(expanded(as_path(target)), lines) - 1

    def import_(
        self,
        source: str | os.PathLike[str] | Iterable[bytes],
        *,
        strict: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> "Imported":
        """Import JSON lines, a context pack as JSON, or what `--json` prints, and return what was done.

        `source` is the path of a file, or the lines as bytes. Memories keep their ids, so importing the same again
        changes nothing; of two versions of a memory the one that was changed last is kept. Lines that cannot be
        read are listed in `Imported.problems`; with `strict` they are an error and nothing is imported. `progress`
        is called after each batch with the number of bytes that it had.
        """
        if isinstance(source, str | os.PathLike):
            path = expanded(as_path(source))
            try:
                with builtins.open(path, "rb") as lines:
                    return self.import_(lines, strict=strict, progress=progress)
            except OSError as error:
                raise InputError(f"cannot read {path}: {error.strerror}") from error
        from satchel.api.transfer import import_lines

        return import_lines(self._store, self._indexer, self.scope, source, strict=strict, progress=progress)

    def backup(self, target: str | os.PathLike[str]) -> int:
        """Copy the store to a new file `target` while others write, and return the number of bytes."""
        return self._store.backup(expanded(as_path(target)))

    # Agent sessions.

    def session(
        self,
        name: str,
        *,
        budget: "Budget | int | None" = None,
        model: str | None = None,
        hints: "Hints" = "footer",
        holds: "Holds | None" = None,
        mask_results: bool = False,
    ) -> "Session":
        """Open the session of an agent by its `name`, or create it.

        A session counts what enters the agent's context against a budget, and keeps tool results in full. `budget`
        is the total number of tokens, or a `Budget` with its parts. Without one, a new session takes the budget of
        `model` (half its context window), of the environment, of the settings file, or the default of 100,000.
        `hints` says where the model is told what is left: in the "footer" of results, in the "schema" of tools, or
        nowhere ("none"). With `holds="whole"`, earlier results are not replaced by digests, because the caller
        keeps them in full. Results are stored as they are; with `mask_results`, secrets in them are masked before
        they are stored and shown. Secrets in everything else, names included, are always masked.
        """
        from satchel.session.session import open_session

        return open_session(
            self._store,
            self.scope,
            name,
            counter=self.counter,
            budget=budget,
            model=model,
            hints=hints,
            holds=holds,
            mask_results=mask_results,
            notebook=self,
        )

    def sessions(self, *, limit: int = 20) -> "list[SessionState]":
        """Return the state of at most `limit` sessions in this view, the last changed first."""
        from satchel.session.session import session_states

        return session_states(self._store, self.scope, limit=limit)

    def find_session(self, name: str) -> "Session":
        """Open a session that exists; an unknown `name` is an error that lists the latest ones.

        If several sessions of this view have the name, it is the one changed last.
        """
        from satchel.session.session import find_session

        return find_session(self._store, self.scope, name, counter=self.counter, notebook=self)

    def forget_session(self, name: str) -> None:
        """Delete the session `name` with all that it stored. Its handles and cursors no longer work."""
        from satchel.session.session import remove_session

        remove_session(self._store, self.scope, name)

    # Embeddings and upkeep.

    @property
    def embedder(self) -> str | None:
        """The name of the embedder whose vectors the store holds; None before there are any."""
        with self._store.reading() as tx:
            held = index.embedding(tx)
        return held.name if held else None

    @property
    def embedder_trouble(self) -> str | None:
        """Why the embedder failed last, or None. Memories saved since then are found by their words only."""
        return self._indexer.trouble

    @property
    def waiting(self) -> int:
        """How many memories wait for their vectors. Until then they are found by their words."""
        with self._store.reading() as tx:
            return index.backlog_size(tx)

    def reembed(
        self,
        embedder: str | Embedder | None = None,
        *,
        progress: Callable[[int, int], None] | None = None,
    ) -> int:
        """Compute all vectors anew, with another `embedder` or the same, and return how many.

        The old vectors are used until it is done. If it is interrupted, the next call continues. `progress` is
        called with the numbers of passages done and in all.
        """
        return self._indexer.reembed(embedder, progress)

    def catch_up(self, *, progress: Callable[[int], None] | None = None) -> int:
        """Compute the vectors of all memories that wait for them, and return how many memories there were.

        Memories wait if there were too many at once for a slow embedder, or if it failed. Work in the background is
        taken over. `progress` is called with the number of memories done.
        """
        done = self._indexer.catch_up_wholly(progress)
        if done and self.waiting:
            raise EmbedderError(f"the embedder failed after {done:,} memories; the others still wait: try again")
        return done

    def warm_up(self, *, whole: bool = False) -> None:
        """Load what the first search and the first count need, so that they are as fast as later ones.

        With `whole`, also load what a process needs only if it runs for long: the whole vocabulary, and what
        searches keep of this view in memory, which takes a second for about 100,000 memories. Otherwise that is
        loaded when there is much to count, and when a large view is searched for the tenth time.
        """
        self.counter.count("warm")
        # Nobody has asked for anything yet that a server may be told.
        if not (self.embedder or "").startswith("openai:"):
            self._indexer.query_vector("warm", org=self.scope.org)
        if whole:
            self.counter.load()
            with self._store.reading(self.scope.org):
                self._indexer.columns.select(self._store, filter_for(self.scope), load=True)

    def checks(self) -> list[Check]:
        """Run health checks on the store, and return one finding each, with what to do about a failure."""
        return self._store.checks()

    def repair(self) -> list[str]:
        """Repair what can be repaired without losing anything, and return what was done."""
        return self._store.repair()

    # What the methods above share.

    def _resolve(self, identifier: Identifier) -> str:
        with self._store.reading(self.scope.org) as tx:
            return memories.resolve(tx, self.scope, _id_of(identifier))

    def _ids(self, named: Identifier | Iterable[Identifier] | None) -> tuple[str, ...] | None:
        """The full ids of what a caller names; None if nothing was given, which an empty list is not."""
        if named is None:
            return None
        several = [named] if isinstance(named, str | Memory | Hit) else named
        return tuple(dict.fromkeys(map(self._resolve, several)))

    def _find(self, identifier: Identifier) -> Memory:
        known = self._resolve(identifier)
        where = Filter(scope=self.scope, ids=(known,), statuses=())
        found = self._store.select(where, limit=1)
        if not found:
            raise UnknownIdError(f"no memory has the id {_id_of(identifier)!r} here")
        return visible_memories(self._store, self.scope, found)[0]

    def _find_at(self, identifier: Identifier, moment: datetime | None) -> Memory:
        memory = self._find(identifier)
        if moment is None:
            return memory
        where = Filter(scope=self.scope, ids=(memory.id,), statuses=(), until=moment)
        found = self._store_at(where, moment).select(where, limit=1)
        if not found:
            raise UnknownIdError(f"no memory has the id {_id_of(identifier)!r} here as of {moment.isoformat()}")
        return visible_memories(self._store, self.scope, found)[0]

    def _store_at(self, where: Filter, moment: datetime | None, *, asked: bool = False) -> SearchStore:
        """Return the store as it was at a moment. For a query (`asked`), earlier texts have their vectors too."""
        if moment is None:
            return self._store
        from satchel.recall.as_of import store_at

        return store_at(self._store, where, moment, embed=self._indexer.past_vectors if asked else None)


class _Candidates(NamedTuple):
    """The candidates for a context, and which of them are relevant."""

    found: Recalled
    least: float
    """How relevant a hit must be; 0 without a query."""
    relevant: list[bool]
    """Whether each hit is relevant; without a query all of them are."""


def _unread(weak: "Weak | None", item: Callable[[Hit, bool], Item]) -> Unread | None:
    """Return the candidates that were not read, for a receipt."""
    if weak is None:
        return None

    def read() -> list[tuple[int, Item]]:
        try:
            hits = weak.read()
        except StoreError:
            # The store was closed since: then the receipt names them without their texts.
            hits = {}
        named = zip(weak.places.tolist(), weak.ids.tolist(), weak.scores.tolist(), strict=True)
        return [
            (
                place,
                item(hits[each], False) if each in hits else Item(id=each, text="", value=score, relevant=False),
            )
            for place, each, score in named
        ]

    return Unread(len(weak.ids), read)


@cache
def _candidate_maker() -> Callable[..., Candidate]:
    # Imported when first used, because most commands only read, and kept: an import takes time in every call.
    from satchel.api.saving import new_candidate

    return new_candidate


def _id_of(named: Identifier | ReceiptEntry) -> str:
    """Return the id of what a caller gave to name a memory. The check of ids refuses what is none of these."""
    return named.id if isinstance(named, Memory | Hit | ReceiptEntry) else named


def _filtered(chosen: Chosen) -> bool:
    """Whether a caller asks for a kind, a tier, a tag, a time or metadata: that is never answered with nothing."""
    return any(chosen.get(name) for name in ("kind", "tier", "tags", "since", "until", "metadata"))


def _moment(as_of: When | None) -> datetime | None:
    return None if as_of is None else as_time(as_of, name="as_of")


def _relevance(wanted: float | None) -> float:
    return MIN_RELEVANCE if wanted is None else check_weight(wanted, name="min_relevance")
