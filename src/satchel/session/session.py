"""A session: what enters an agent's context, counted against its budget, cut to it, and kept."""

import os
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from hmac import compare_digest
from reprlib import repr as shortened
from typing import Any, Literal, NamedTuple, Unpack

import msgspec

from satchel.errors import BudgetError, ExpiredError, InputError, UnknownIdError
from satchel.fitting.listing import as_json, clean
from satchel.model.checks import check_budget, check_limit
from satchel.model.ids import new_id
from satchel.model.memory import Scope, check_name, utc_now
from satchel.model.surrogates import repair_surrogates
from satchel.session.account import FLOOR, Account, Calibration, account_of, reported_tokens
from satchel.session.budget import Budget, resolve_budget
from satchel.session.digests.base import Measure
from satchel.session.digests.digest import SHAPES
from satchel.session.find import find_lines, shown_lines
from satchel.session.hints import with_hint
from satchel.session.ledger import KEEP_DAYS, Ledger, Posting
from satchel.session.messages import PROVIDERS, Provider, history_within, messages_within
from satchel.session.results import (
    Compression,
    Found,
    History,
    LedgerEntry,
    Messages,
    Output,
    Parcel,
    ResultOptions,
    Shown,
    as_output,
    check_handle,
    compress,
    decompress,
    digest_line,
    examined,
    new_handle,
    page_of,
    parse_cursor,
    result_entry,
    seal,
    text_entry,
    with_page,
)
from satchel.store.contract import Store
from satchel.store.ledger import Books, Category, Content, Posted, Role, TurnRow
from satchel.text.tokens import Counter

__all__ = [
    "HINTS",
    "HOLDS",
    "RECORDED",
    "Answer",
    "Hints",
    "Holds",
    "Prepared",
    "Session",
    "Stored",
    "as_call_id",
    "as_mapping",
    "as_text",
    "as_tool",
    "as_truth",
    "enter_all",
    "entry_of",
    "find_session",
    "new_session_name",
    "open_session",
    "remove_session",
    "session_states",
    "start_of",
    "stored",
]


_LONGEST = 200


def as_tool(name: object) -> str:
    """A tool's name, in one line."""
    if not isinstance(name, str) or not (words := repair_surrogates(name).split()):
        raise InputError(f"a tool has a name, not {shortened(name)}")
    return " ".join(words)[:_LONGEST]


def as_call_id(identifier: object) -> str:
    """The id of a call; empty where there is none."""
    if identifier is None:
        return ""
    if not isinstance(identifier, str) or not 0 < len(identifier) <= _LONGEST:
        raise InputError(f"a call_id is a string of 1 to {_LONGEST} characters, not {shortened(identifier)}")
    return repair_surrogates(identifier)


def as_text(text: object) -> str:
    if not isinstance(text, str):
        raise InputError(f"text must be a string, not {type(text).__name__}")
    return text


def as_truth(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise InputError(f"{name} is either true or false, not {shortened(value)}")
    return value


def as_mapping(name: str, value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InputError(f"{name} must be an object with fields, not {type(value).__name__}")
    return value


# The whole of what was said, by its handle or by a cursor into it.


class Stored(NamedTuple):
    """An entry with everything that its tool said."""

    entry: Posted
    content: Content
    output: Output


def entry_of(ledger: Ledger, handle: object) -> Posted:
    """The entry of a handle, in this session."""
    name = check_handle(handle)
    found = ledger.ledgers.by_handle(ledger.org, name)
    if found is None:
        raise UnknownIdError(f"no result has the handle {name!r}; handles are shown below each result")
    session, entry = found
    if session != ledger.session:
        raise UnknownIdError(f"the handle {name!r} belongs to another session; ask for it there")
    return entry


def start_of(ledger: Ledger, cursor: object, secret: bytes) -> tuple[Posted, int]:
    """What a cursor points into, and at which character."""
    place = parse_cursor(cursor)
    entry = entry_of(ledger, place.handle)
    if not compare_digest(seal(place.handle, place.start, secret), place.seal):
        raise InputError(f"the cursor {str(cursor)[:60]!r} was altered; give it exactly as it was shown")
    return entry, place.start


def stored(ledger: Ledger, entry: Posted) -> Stored:
    """Read back everything that was said, as it was."""
    content = ledger.ledgers.content(ledger.org, entry.content)
    if content is None:
        raise ExpiredError(
            f"the result {entry.handle!r} has expired: contents are kept {KEEP_DAYS} days after their last use, "
            "and fewer where they take too much room; call the tool again"
        )
    data = decompress(content)
    return Stored(entry, content, data if entry.media == "bytes" else data.decode("utf-8", "surrogatepass"))


# A result that is ready to be shown, and not yet in the ledger.


class Prepared:
    """A tool's result that can be shown but is not in the ledger yet. Made by `Session.prepare`.

    `shown` is its first page. `enter` writes the result to the ledger; until then its handle and cursor lead
    nowhere, but its tokens are already taken into account for the results that are prepared after it. A result
    that is shown whole needs no handle, so it may go to the model before it is entered.
    """

    def __init__(self, ledger: Ledger, parcel: Parcel, compression: Compression, *, hints: bool) -> None:
        self._ledger = ledger
        self._parcel = parcel
        self._compression = compression
        self._hints = hints
        self.warning: str | None = None
        """That tokens run low, where the caller asked for warnings and one is due."""
        self._warned: int | None = None
        self.shown = self._page(ledger.lately)
        self._expect()

    def enter(self) -> Shown:
        """Enter it and return what is to be shown, which is less if other calls have taken the room meanwhile."""
        entry, content = self._described()
        try:
            with self._ledger.posting() as posting:
                account = self._ledger.with_ahead(posting.account, before=self)
                if self._is_over(account):
                    self.shown = self._page(account)
                self._post(posting, entry, content)
        finally:
            self._ledger.entered(self)
        return self.shown

    def _expect(self) -> None:
        """Let the ledger count on it: cut again, if others that are not entered yet take the room."""
        with self._ledger.lock:
            account = self._ledger.lately
            if self._is_over(account):
                self.shown = self._page(account)
            tokens = self.shown.token_count + self._parcel.extra_tokens
            self._ledger.expect(self, tokens, new_turn=self._parcel.new_turn)
        after = account.after(tokens)
        if self._parcel.warn and after.level != account.books.warned:
            self._warned = after.level
            self.warning = after.warning if after.level > account.books.warned else None

    def _page(self, account: Account) -> Shown:
        return page_of(self._parcel, 0, account, hints=self._hints, count=self._ledger.count)

    def _is_over(self, account: Account) -> bool:
        parcel = self._parcel
        room = (account.in_next_turn() if parcel.new_turn else account).granted(parcel.max_tokens)
        return 0 < self.shown.token_count > max(min(room, FLOOR), room - parcel.extra_tokens)

    def _described(self) -> tuple[Posted, Content]:
        # In this order: a thread may still be compressing.
        return result_entry(self._parcel, self._ledger.count), self._compression.done()

    def _post(self, posting: Posting, entry: Posted, content: Content) -> None:
        if self._parcel.new_turn:
            posting.begin_turn()
        if self._warned is not None:
            posting.set(warned=self._warned)
        posting.enter(with_page(entry, self.shown, extra_tokens=self._parcel.extra_tokens), content)


def enter_all(results: Sequence[Prepared]) -> None:
    """Enter results that were shown already, as they were shown, in one transaction; all are of one session."""
    ledger = results[0]._ledger
    try:
        described = [(each, *each._described()) for each in results]
        with ledger.posting() as posting:
            for each, entry, content in described:
                each._post(posting, entry, content)
    finally:
        for each in results:
            ledger.entered(each)


# A session: what enters an agent's context, counted against its budget, cut to it, and kept whole.


Hints = Literal["footer", "schema", "none"]
HINTS = ("footer", "schema", "none")
RECORDED = ("system", "user", "assistant", "history")

# The last result that was paged through stays in memory up to this many bytes.
_LARGEST_HELD = 16_000_000

# What calls asked for, until their results come: digests say it.
_CALLS_REMEMBERED = 256

_ROLES: dict[str, tuple[Role, Category]] = {
    "system": ("system", "system"),
    "user": ("user", "user"),
    "assistant": ("assistant", "history"),
    "history": ("note", "history"),
}


class Answer(NamedTuple):
    """What a tool said that keeps to a budget of its own."""

    tool: str
    text: str
    error: bool = False


class Session:
    """The books of one agent session, kept in the store. Safe to share between threads and processes."""

    def __init__(self, store: Store, books: Books, *, counter: Counter, hints: Hints = "footer") -> None:
        self.name = books.name
        self.counter = counter
        self.hints = hints
        self._ledger = Ledger(store, books, counter.count)
        self._secret = books.secret
        self._asked: OrderedDict[str, Any] = OrderedDict()
        self._paged: tuple[tuple[bytes, str], Stored, Measure] | None = None

    def __repr__(self) -> str:
        return f"<Session {self.name!r}>"

    @property
    def budget(self) -> Budget:
        return self._ledger.account.budget

    def record(self, category: str, text: str, *, name: str | None = None, pinned: bool = False) -> LedgerEntry:
        """Enter what went into the context beside tool results: system, user, assistant or history.

        A system text takes the place of the one of the same name. A user's message begins a turn, and the one
        before it becomes history.
        """
        if category not in RECORDED:
            raise InputError(f"unknown category {shortened(category)}; known: {', '.join(RECORDED)}")
        role, place = _ROLES[category]
        content = compress(as_text(text))
        entry = msgspec.structs.replace(
            text_entry(text, role, place, self._ledger.free_handle(), self.counter.count),
            name=check_name("name", name) or "",
            pinned=as_truth("pinned", pinned),
        )
        with self._ledger.posting() as posting:
            if role == "system":
                posting.replace([earlier for earlier in posting.held("system") if earlier.name == entry.name])
            elif role == "user":
                posting.move(posting.held("user"), level="whole", category="history")
                posting.begin_turn()
            elif role == "assistant":
                _answered(posting)
            return LedgerEntry.of(posting.enter(entry, content))

    def call(self, tool: str, arguments: Any = None, call_id: str | None = None) -> LedgerEntry:
        """Enter that the model calls a tool; its result has the same `call_id`, made up here if none is given."""
        text = as_output({} if arguments is None else arguments)
        if isinstance(text, bytes):
            raise InputError("the arguments of a call are text or JSON, not bytes")
        handle = self._ledger.free_handle()
        entry = text_entry(text, "call", "history", handle, self.counter.count, tool=as_tool(tool))
        call_id = as_call_id(call_id) or f"call_{handle}"
        if isinstance(arguments, Mapping):
            self._asked[call_id] = arguments
            if len(self._asked) > _CALLS_REMEMBERED:
                self._asked.popitem(last=False)
        with self._ledger.posting() as posting:
            _answered(posting)
            return LedgerEntry.of(posting.enter(msgspec.structs.replace(entry, call_id=call_id), compress(text)))

    def result(self, tool: str, output: Any, **options: Unpack[ResultOptions]) -> Shown:
        """Keep what a tool said, whole, and give as much of it as the allocation has room for.

        `output` is text, bytes or a JSON value; the options are those of `ResultOptions`. The rest comes by `page`,
        the whole by `expand`.
        """
        return self.prepare(tool, output, **options).enter()

    def prepare(self, tool: str, output: Any, **options: Unpack[ResultOptions]) -> Prepared:
        """A result as `result` would show it, still to be entered; until then its handle leads nowhere."""
        if unknown := options.keys() - ResultOptions.__annotations__.keys():
            raise InputError(f"unknown option {min(unknown)!r}; known: {', '.join(ResultOptions.__annotations__)}")
        tool, call_id, output = as_tool(tool), as_call_id(options.get("call_id")), as_output(output)
        checked: ResultOptions = {
            **options,
            "call_id": call_id,
            "error": as_truth("error", options.get("error", False)),
            "extra_tokens": check_budget(options.get("extra_tokens")) or 0,
            "max_tokens": check_budget(options.get("max_tokens")),
            "pinned": as_truth("pinned", options.get("pinned", False)),
            "arguments": options.get("arguments") or self._asked.pop(call_id, None),
        }
        compression = Compression(output)
        parcel = self._examined(tool, output, **checked)
        return Prepared(self._ledger, parcel, compression, hints=self.hints == "footer")

    def answered(self, answers: Sequence[Answer]) -> None:
        """Enter what tools said that keep to a budget of their own, each as a turn of its own; nothing is cut."""
        count, entries = self.counter.count, []
        for tool, text, error in answers:
            parcel = self._examined(as_tool(tool), as_text(text), error=error)
            entry = msgspec.structs.replace(result_entry(parcel, count), stop=len(text), tokens=parcel.total_tokens)
            entries.append((entry, compress(text)))
        with self._ledger.posting() as posting:
            for entry, content in entries:
                posting.begin_turn()
                posting.enter(entry, content)

    def page(self, cursor: str, *, max_tokens: int | None = None, call_id: str | None = None) -> Shown:
        """The page that a cursor points to, within what a call may have now."""
        account = self._ledger.account
        entry, start = start_of(self._ledger, cursor, account.books.secret)
        whole, measured = self._to_page(entry)
        if not isinstance(whole.output, str) or start > len(whole.output):
            raise InputError(f"the cursor {cursor[:60]!r} points beyond its result")
        parcel = Parcel(
            tool=entry.tool,
            handle=entry.handle,
            text=whole.output,
            size=entry.size,
            shape=entry.shape,
            measure=measured,
            total_tokens=entry.total_tokens,
            secret=account.books.secret,
            max_tokens=check_budget(max_tokens),
        )
        hints, count = self.hints == "footer", self.counter.count
        shown = page_of(parcel, start, account, hints=hints, count=count)
        with self._ledger.posting() as posting:
            if shown.token_count > posting.account.granted(parcel.max_tokens):
                shown = page_of(parcel, start, posting.account, hints=hints, count=count)
            again = self._again(whole, f"more of {entry.handle}, from character {start:,} on", call_id)
            posting.use(entry, whole.content)
            posting.enter(with_page(again, shown, start=start), whole.content)
        return shown

    def expand(self, handle: str) -> str | bytes:
        """Everything that stands behind a handle, as it was; this counts as a use, and not as a delivery."""
        entry = entry_of(self._ledger, handle)
        whole = stored(self._ledger, entry)
        with self._ledger.posting() as posting:
            posting.use(entry, whole.content)
        return whole.output

    def find(
        self, handle: str, pattern: str, *, max_tokens: int | None = None, call_id: str | None = None
    ) -> Found:
        """The lines of a result that match a regular expression, which has a second to do so."""
        entry = entry_of(self._ledger, handle)
        whole = stored(self._ledger, entry)
        if not isinstance(whole.output, str):
            raise InputError(f"the result {entry.handle!r} is not text; expand gives its bytes")
        asked, count = check_budget(max_tokens), self.counter.count
        lines = find_lines(whole.output, pattern)
        found = shown_lines(lines, allocation=self._ledger.account.granted(asked), count=count)
        with self._ledger.posting() as posting:
            if found.token_count > (granted := posting.account.granted(asked)):
                found = shown_lines(lines, allocation=granted, count=count)
            again = self._again(
                whole, f"{found.matches:,} lines of {entry.handle} match {shortened(pattern)}", call_id
            )
            posting.use(entry, whole.content)
            posting.enter(msgspec.structs.replace(again, note=found.text, tokens=found.token_count), whole.content)
        return found

    def pin(self, handle: str, *, pinned: bool = True) -> LedgerEntry:
        """Keep an entry in the context whatever happens, or no longer."""
        entry = entry_of(self._ledger, handle)
        with self._ledger.posting() as posting:
            posting.pin(entry, pinned=as_truth("pinned", pinned))
        return LedgerEntry.of(entry_of(self._ledger, handle))

    def next_turn(self) -> int:
        """Begin a turn, in which results have their whole tier again; its number."""
        with self._ledger.posting() as posting:
            posting.begin_turn()
            return posting.books.turn

    def allocation(self) -> int:
        """How many tokens the next result may have."""
        return self._ledger.account.allocation

    def suggest_limit(self, cost_of_one_item: int | str) -> int:
        """How many items the next result has room for, by the tokens of one, or one as an example."""
        if isinstance(cost_of_one_item, str):
            cost = self.counter.count(cost_of_one_item)
        else:
            cost = check_budget(cost_of_one_item) or 0
        if cost < 1:
            raise BudgetError(f"an item costs at least 1 token, not {cost_of_one_item!r}")
        return self._ledger.account.suggested(cost)

    def state(self) -> dict[str, Any]:
        """The state of the budget, for the model: JSON."""
        return self._ledger.account.state()

    def warning(self) -> str | None:
        """A line for the model when tokens run low: once below each threshold, again after there was room."""
        account = self._ledger.account
        if account.level == account.books.warned:
            return None
        with self._ledger.posting() as posting:
            account = posting.account
            rises = account.level > account.books.warned
            posting.set(warned=account.level)
        return account.warning if rises else None

    def feedback(self, usage: Any) -> Calibration:
        """Hold the ledger against the `usage` of a provider's response to what is held now."""
        reported = reported_tokens(usage)
        with self._ledger.posting() as posting:
            books = posting.books
            counted = books.system + books.history + books.tool_results + books.user_message
            calibration = posting.account.calibration.with_observation(counted, reported)
            posting.set(calibration=as_json(calibration))
        return calibration

    def tool_schema(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        """A tool's definition with what the budget allows, where the session has `hints="schema"`.

        Schemas stand before everything else in a prompt: to change one makes its cache useless.
        """
        given = as_mapping("schema", schema)
        return with_hint(given, allowance=self.allocation()) if self.hints == "schema" else dict(given)

    def entries(self) -> list[LedgerEntry]:
        """What the context still holds or names, oldest first."""
        return [
            LedgerEntry.of(entry) for entry in self._ledger.ledgers.held(self._ledger.org, self._ledger.session)
        ]

    def results(self, *, limit: int = 1000) -> list[Posted]:
        """The newest results, newest first, whether the context still holds them or not."""
        return self._ledger.ledgers.results(self._ledger.org, self._ledger.session, limit=check_limit(limit))

    def turns(self) -> list[TurnRow]:
        """What each turn left, and the one that goes on."""
        books = self._ledger.books
        now = TurnRow(
            books.turn,
            books.updated_at,
            books.system,
            books.history,
            books.tool_results,
            books.user_message,
            books.evicted,
        )
        return [*self._ledger.ledgers.turns(self._ledger.org, self._ledger.session), now]

    def history(self, max_tokens: int | None = None) -> History:
        """The work log as text, within the history's tier or what is given: results as digests."""
        budget = check_budget(max_tokens)
        return history_within(self._ledger, self.budget.history if budget is None else budget)

    def messages(self, provider: Provider = "anthropic", *, max_tokens: int | None = None) -> Messages:
        """The work log as messages of a provider; a call and its result are both there or both not."""
        if provider not in PROVIDERS:
            raise InputError(f"unknown provider {provider!r}; known: {', '.join(PROVIDERS)}")
        return messages_within(self._ledger, provider, check_budget(max_tokens))

    def _examined(self, tool: str, output: Output, **options: Unpack[ResultOptions]) -> Parcel:
        return examined(
            output,
            tool=tool,
            handle=self._ledger.free_handle(),
            secret=self._secret,
            count=self.counter.count,
            **options,
        )

    def _to_page(self, entry: Posted) -> tuple[Stored, Measure]:
        """What is paged through, read and measured once: the next page is mostly one of the same result."""
        if (paged := self._paged) is not None and paged[0] == (entry.content, entry.shape):
            return paged[1]._replace(entry=entry), paged[2]
        whole = stored(self._ledger, entry)
        measured = SHAPES[entry.shape].measure(whole.output if isinstance(whole.output, str) else "")
        if entry.size <= _LARGEST_HELD:
            self._paged = ((entry.content, entry.shape), whole, measured)
        return whole, measured

    def _again(self, whole: Stored, digest: str, call_id: str | None) -> Posted:
        """The entry of more that is shown of a result."""
        entry = whole.entry
        return Posted(
            handle=self._ledger.free_handle(),
            category="tool_results",
            role="page",
            tool=entry.tool,
            call_id=as_call_id(call_id),
            origin=entry.handle,
            shape=entry.shape,
            size=entry.size,
            total_tokens=entry.total_tokens,
            digest=digest,
            digest_tokens=self.counter.count(digest_line(entry.handle, entry.tool, digest)),
        )


def _answered(posting: Posting) -> None:
    """The model has seen the results of the turn, and goes on: that is the next one."""
    if posting.books.turn_results:
        posting.begin_turn()


# Sessions of a store: begun, opened again, listed, removed.


Holds = Literal["digests", "whole"]
HOLDS = ("digests", "whole")


def open_session(
    store: Store,
    scope: Scope,
    name: str,
    *,
    counter: Counter,
    budget: Budget | None = None,
    model: str | None = None,
    hints: Hints = "footer",
    holds: Holds | None = None,
) -> Session:
    """The session of a name, begun if there is none; its budget is changed only if one is given."""
    for field, value, known in (("hints", hints, HINTS), ("holds", holds or "digests", HOLDS)):
        if value not in known:
            raise InputError(f"unknown {field} {value!r}; known: {', '.join(known)}")
    if budget is not None and not isinstance(budget, Budget):
        raise InputError(f"budget must be a satchel.Budget, not {type(budget).__name__}")
    now = utc_now()
    changes: dict[str, Any] = {}
    if budget is not None or model is not None:
        changes["budget"] = as_json(resolve_budget(budget, model=model))
    if holds is not None:
        changes["holds"] = holds
    fresh = Books(
        id=new_id(),
        scope=msgspec.structs.replace(scope, session=None),
        name=_named(name),
        created_at=now,
        updated_at=now,
        secret=os.urandom(16),
        calibration=as_json(Calibration()),
        **({"budget": as_json(resolve_budget())} | changes if "budget" not in changes else changes),
    )
    books = store.ledgers.open(fresh)
    changes = {name: value for name, value in changes.items() if getattr(books, name) != value}
    if changes:
        store.ledgers.change(books.scope.org, books.id, changes)
    return Session(store, books, counter=counter, hints=hints)


def new_session_name(kind: str) -> str:
    """A name for a session that nobody named: what it is of, when it began, and a few letters of its own."""
    return f"{kind}-{utc_now():%Y%m%d-%H%M%S}-{new_handle()[:4]}"


def find_session(store: Store, scope: Scope, name: str, *, counter: Counter) -> Session:
    """The session of a name, or an error that names those there are."""
    return Session(store, _named_so(store, scope, name)[0], counter=counter)


def session_states(store: Store, scope: Scope, *, limit: int = 20) -> list[dict[str, Any]]:
    """The state of each session, those changed last first."""
    return [
        account_of(books).state()
        | {"project": books.scope.project, "created_at": books.created_at, "updated_at": books.updated_at}
        for books in store.ledgers.sessions(scope, limit=check_limit(limit))
    ]


def remove_session(store: Store, scope: Scope, name: str) -> None:
    """Remove a session with all that it kept; one of several of the name is not chosen."""
    books, *others = _named_so(store, scope, name)
    if others:
        places = ", ".join(clean(each.scope.project or "none") for each in (books, *others))
        raise InputError(f"{len(others) + 1} sessions have the name {name!r}; say which by its project: {places}")
    store.ledgers.remove(books.scope.org, books.id)


def _named_so(store: Store, scope: Scope, name: str) -> list[Books]:
    found = store.ledgers.named(scope, _named(name))
    if not found:
        known = ", ".join(clean(each.name) for each in store.ledgers.sessions(scope, limit=5))
        raise UnknownIdError(f"there is no session {name!r}; there {f'are: {known}' if known else 'is none yet'}")
    return found


def _named(name: object) -> str:
    checked = check_name("session", name)
    if checked is None:
        raise InputError("a session needs a name that is not blank")
    return checked
