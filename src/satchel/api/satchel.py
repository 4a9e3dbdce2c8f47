"""`Satchel`: the one object that joins the layers, and what users import."""

import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

import msgspec

from satchel.api.filters import Chosen, When, filter_for
from satchel.api.keeping import Keeper
from satchel.embed.embedder import Embedder
from satchel.embed.registry import resolve_embedder
from satchel.errors import InputError, UnknownIdError
from satchel.fitting.choice import Policy
from satchel.fitting.context import ContextBlock, Frame, Wrap, fitted_block
from satchel.fitting.context_pack import PACK_FORMATS, ContextPack, PackFormat
from satchel.fitting.documents import as_item
from satchel.fitting.formats import FORMATS, LAYOUTS, Format
from satchel.fitting.hits import Hits, Timeline, fitted_hits
from satchel.fitting.listing import DETAILS, Detail
from satchel.fitting.packing import Pins
from satchel.model.arguments import as_path, as_query, check_known
from satchel.model.fields import as_name, as_time, utc_now
from satchel.model.ids import normalise_prefix
from satchel.model.limits import check_budget, check_limit, check_weight
from satchel.model.memory import Change, Hit, Memory, Relation, Scope
from satchel.model.receipt import Entry
from satchel.recall.finder import MIN_RELEVANCE, Finder, enough_for, is_relevant
from satchel.recall.indexer import Indexer
from satchel.store.contract import Filter, SearchStore, Stats, Store
from satchel.store.locations import open_store, restore_store
from satchel.text.tokens.counter import Counter
from satchel.text.tokens.registry import DEFAULT_COUNTER
from satchel.text.tokens.registry import counter as find_counter

# The books of sessions are imported where they are used: a search that starts cold does not need them.
if TYPE_CHECKING:
    from satchel.session.opening import Holds
    from satchel.session.plan import Budget
    from satchel.session.session import Hints, Session

__all__ = ["Satchel", "open", "restore"]


def open(
    location: str | os.PathLike[str],
    *,
    counter: str | Counter = DEFAULT_COUNTER,
    embedder: str | Embedder | None = None,
    create: bool = True,
) -> "Satchel":
    """Open the store at a location: a file, which is made if need be, or ":memory:".

    Without an embedder the store's own is used, and `minilm` for a new one.
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


def _filtered(chosen: Chosen) -> bool:
    """Whether a caller asks for a kind, a tier, a tag or a time: that is never answered with nothing."""
    return any(chosen.get(name) for name in ("kind", "tier", "tags", "since", "until"))


def _moment(as_of: When | None) -> datetime | None:
    return None if as_of is None else as_time(as_of, name="as_of")


def _asked(query: str | None) -> str | None:
    """The question of a context; a blank one is none."""
    return None if query is None or not as_query(query).strip() else query


def _relevance(wanted: float | None) -> float:
    return MIN_RELEVANCE if wanted is None else check_weight(wanted, name="min_relevance")


class Satchel(Keeper):
    """Memories in one scope of one store. Safe to share between threads; a context manager."""

    def __init__(
        self, store: Store, *, counter: Counter, indexer: Indexer | None = None, scope: Scope | None = None
    ) -> None:
        super().__init__(store, counter=counter, indexer=indexer, scope=scope)
        self._finder = Finder(store, self._indexer)
        # The store itself is in no scope yet, though it reads and writes in that of the default org.
        self._is_view = scope is not None

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
            # Only the store itself may choose an org.
            if held is not None and held != value and (name != "org" or self._is_view):
                raise InputError(f"{name} {value!r} is outside this view, which is {name} {held!r}")
        scope = msgspec.structs.replace(self.scope, **chosen)
        store = self._store.within(scope.org)
        indexer = self._indexer if store is self._store else self._indexer.within(store)
        return Satchel(
            store, counter=self.counter, indexer=indexer, scope=scope if chosen or self._is_view else None
        )

    def get(self, identifier: str, *, as_of: When | None = None) -> Memory:
        """One memory by its id or a unique prefix of it; this counts as a use.

        `as_of` gives it as it was at an earlier moment; one that was not known then is an error.
        """
        moment = _moment(as_of)
        memory = self._find_at(identifier, moment)
        self._store.touch([memory.id], utc_now())
        return memory if moment is not None else self._find(memory.id)

    def recent(
        self,
        *,
        limit: int = 20,
        pinned: bool = False,
        ended: bool = False,
        as_of: When | None = None,
        **chosen: Unpack[Chosen],
    ) -> list[Memory]:
        """The newest memories by the time they speak of, or of the pinned ones.

        `ended` also brings what no longer holds; `as_of` shows them as they were at an earlier moment.
        """
        moment = _moment(as_of)
        where = msgspec.structs.replace(filter_for(self.scope, **chosen, ended=ended, as_of=moment), pinned=pinned)
        return self._store_at(where, moment).select(where, limit=check_limit(limit))

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
        """The best matches, first cut to the limit, then to the budget, counted on `Hits.text`.

        Only those whose relevance is at least `min_relevance` (0 to 1; by default what was measured to lose little
        evidence): `Hits.weak` says how many others matched. Memories that say the same are one hit, before the
        limit; its `duplicates` are the ids of the others. `as_of` searches what was known and held at an earlier
        moment, and gives it as it was then; `explain` fills `Hit.parts`. Where nothing relevant matches but
        something passes the filters given, these are the newest and most important of it, and `Hits.matched` is
        False.
        """
        budget = check_budget(token_budget)
        least = _relevance(min_relevance)
        check_known("detail", detail, DETAILS)
        check_known("format", format, ("text", "json"))
        moment = _moment(as_of)
        where = filter_for(self.scope, **chosen, ended=ended, as_of=moment)
        asked = as_query(query)
        found = self._finder_at(where, moment).asked(
            asked,
            where,
            limit=check_limit(limit),
            filtered=_filtered(chosen),
            min_relevance=least,
            explain=explain,
            distinct=True,
        )
        relevant = [hit for hit in found.hits if hit.relevance >= least]
        names = self.short_ids([hit.memory for hit in relevant]) if format == "text" else None
        hits = fitted_hits(
            relevant,
            names=names,
            budget=budget,
            counter=self.counter,
            detail=detail,
            sought=self._finder.sought(asked),
            matched=found.matched,
            weak=len(found.hits) - len(relevant),
        )
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
        detail: Detail = "full",
        ended: bool = False,
        frame: Frame | Wrap | None = None,
        explain: bool = False,
        as_of: When | None = None,
        min_relevance: float | None = None,
        **chosen: Unpack[Chosen],
    ) -> ContextBlock:
        """One text with what is worth most for its tokens: all that is pinned, then what the query finds.

        The budget is a limit, not a target: only what has `min_relevance` comes, the best match first, and 0 fills
        the budget. Without a query what is recent and important. The budget is held against `text`, which
        `frame` may make of the block, such as a prompt around it. Where what is pinned does not fit, that is an
        error, or with `pins="best_effort"` as much of it as fits. `detail` is the most that is shown of a
        memory; it, `as_of` and `explain` are those of `search`.
        """
        budget = check_budget(token_budget)
        least = _relevance(min_relevance)
        check_known("format", format, FORMATS)
        check_known("detail", detail, DETAILS)
        most = enough_for(budget) if limit is None else check_limit(limit)
        moment = _moment(as_of)
        where = filter_for(self.scope, **chosen, ended=ended, as_of=moment)
        asked = _asked(query)
        if asked is None:
            least = 0.0
        sought = () if asked is None else self._finder.sought(asked)
        found = self._finder_at(where, moment, asked=asked is not None).for_context(
            asked, where, limit=most, filtered=_filtered(chosen), min_relevance=least, explain=explain
        )
        block = fitted_block(
            [
                as_item(
                    hit,
                    detail=detail,
                    sought=sought,
                    superseded=not ended,
                    relevant=asked is None or is_relevant(hit, least),
                    needed=hit.needed(least),
                )
                for hit in found.hits
            ],
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
        policy: Policy = "best",
        pins: Pins = "strict",
        limit: int | None = None,
        ended: bool = False,
        frame: Frame | Wrap | None = None,
        as_of: When | None = None,
        min_relevance: float | None = None,
        **chosen: Unpack[Chosen],
    ) -> ContextPack:
        """Whole memories as one text to carry elsewhere; as JSON, `import_` brings them back there.

        Which memories, and in which order, is decided as in `context`, whose `frame` may also stand around it.
        """
        least = _relevance(min_relevance)
        budget = check_budget(token_budget)
        check_known("format", format, PACK_FORMATS)
        most = enough_for(budget) if limit is None else check_limit(limit)
        moment = _moment(as_of)
        where = filter_for(self.scope, **chosen, ended=ended, as_of=moment)
        asked = _asked(query)
        if asked is None:
            least = 0.0
        finder = self._finder_at(where, moment, asked=asked is not None)
        found = finder.for_context(asked, where, limit=most, filtered=_filtered(chosen), min_relevance=least)
        pack = ContextPack(
            found.hits,
            relevant=[asked is None or is_relevant(hit, least) for hit in found.hits],
            project=self.scope.project,
            token_budget=budget,
            counter=self.counter,
            format=format,
            policy=policy,
            pins=pins,
            best_first=least > 0,
            frame=frame,
        )
        self._store.touch([memory.id for memory in pack.memories], utc_now())
        return pack

    def relations(self, identifier: str, *, as_of: When | None = None) -> list[Relation]:
        """The relations that start or end at a memory, to others inside this view; `as_of`, those made by then."""
        moment = _moment(as_of)
        known = self._store.resolve(self.scope, identifier)
        where = Filter(scope=self.scope, ids=(known,), statuses=())
        return self._store_at(where, moment).relations(self.scope, [known])

    def similar(self, identifier: str, *, limit: int = 3) -> list[Hit]:
        """The current memories of this view that are about the same thing as one memory, most alike first.

        Often there are none. `Hit.score` says how alike they are, from 0.5 to 1. Only memories of the same project
        are compared, and notes only with notes, not with what was said in a conversation.
        """
        from satchel.recall.similar import similar

        most = check_limit(limit)
        memory = self._find(identifier)
        within = msgspec.structs.replace(self.scope, project=memory.scope.project)
        return similar(self._store, memory, filter_for(within), limit=most)

    def timeline(self, identifier: str, *, before: int = 5, after: int = 5, as_of: When | None = None) -> Timeline:
        """What came just before and after a memory, in its session or else in its scope; `as_of`, as of then."""
        earlier = check_limit(before, name="before", least=0)
        later = check_limit(after, name="after", least=0)
        moment = _moment(as_of)
        focus = self._find_at(identifier, moment)
        where = msgspec.structs.replace(filter_for(self.scope, as_of=moment), scope=focus.scope)
        around = self._store_at(where, moment).around(focus, where, before=earlier, after=later)
        return Timeline(
            before=tuple(each for each in around if (each.at, each.id) < (focus.at, focus.id)),
            focus=focus,
            after=tuple(each for each in around if (each.at, each.id) > (focus.at, focus.id)),
        )

    def history(self, identifier: str) -> list[Change]:
        """Every change of a memory, oldest first.

        In a view of a whole org also that it was purged, by its full id.
        """
        try:
            known = self._store.resolve(self.scope, identifier)
        except UnknownIdError:
            # What is left of a memory does not say in which project it was.
            if self.scope != Scope(org=self.scope.org):
                raise
            # Whatever else is there by this id belongs to another scope.
            found = self._store.history(self.scope, normalise_prefix(identifier))
            if not found or found[-1].action != "purge":
                raise
            return found
        return self._store.history(self.scope, known)

    def stats(self) -> Stats:
        """Counts of what this view holds, whatever its status."""
        return self._store.stats(filter_for(self.scope, everything=True), utc_now())

    def session(
        self,
        name: str,
        *,
        budget: "Budget | None" = None,
        model: str | None = None,
        hints: "Hints" = "footer",
        holds: "Holds | None" = None,
    ) -> "Session":
        """The books of an agent's session, by its name; begun if there are none, else opened as they were left.

        Without a budget a new session takes the one of `model`, of the environment, of the settings' file, or the
        default. With `holds="whole"` earlier results are not made into digests, since the caller keeps them.
        """
        from satchel.session.opening import open_session

        return open_session(
            self._store,
            self.scope,
            name,
            counter=self.counter,
            budget=budget,
            model=model,
            hints=hints,
            holds=holds,
        )

    def sessions(self, *, limit: int = 20) -> list[dict[str, Any]]:
        """The state of the sessions in this view, those changed last first."""
        from satchel.session.opening import session_states

        return session_states(self._store, self.scope, limit=limit)

    def find_session(self, name: str) -> "Session":
        """The books of a session that is there; in a view that spans several of the name, the one changed last."""
        from satchel.session.opening import find_session

        return find_session(self._store, self.scope, name, counter=self.counter)

    def forget_session(self, name: str) -> None:
        """Remove a session with all that it kept; its handles are gone."""
        from satchel.session.opening import remove_session

        remove_session(self._store, self.scope, name)

    def warm_up(self) -> None:
        """Load what the first search and the first count need, which takes longer than they do."""
        self.counter.count("warm")
        # Nobody has asked for anything yet that a server may be told.
        if not (self.embedder or "").startswith("openai:"):
            self._indexer.query_vector("warm")

    def _store_at(self, where: Filter, moment: datetime | None, *, asked: bool = False) -> SearchStore:
        """What is read of the store as of a moment; if something is `asked`, with the vectors of earlier texts."""
        if moment is None:
            return self._store
        from satchel.recall.as_of import store_at

        return store_at(self._store, where, moment, embed=self._indexer.past_vectors if asked else None)

    def _finder_at(self, where: Filter, moment: datetime | None, *, asked: bool = True) -> Finder:
        if moment is None:
            return self._finder
        return Finder(self._store_at(where, moment, asked=asked), self._indexer, now=moment)

    def _find_at(self, identifier: str, moment: datetime | None) -> Memory:
        memory = self._find(identifier)
        if moment is None:
            return memory
        where = Filter(scope=self.scope, ids=(memory.id,), statuses=(), until=moment)
        found = self._store_at(where, moment).select(where, limit=1)
        if not found:
            raise UnknownIdError(f"no memory has the id {identifier!r} here as of {moment.isoformat()}")
        return found[0]

    def short_ids(self, memories: Sequence[Memory | Entry | str]) -> list[str]:
        """The shortest prefix that names each of these memories, which may be given by their ids."""
        return self._store.short_ids([each if isinstance(each, str) else each.id for each in memories])
