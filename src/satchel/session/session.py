"""A session: what enters an agent's context, counted against its budget, cut to it, and kept whole."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from reprlib import repr as shortened
from typing import Any, Literal, NamedTuple, TypedDict, Unpack, cast

from satchel.errors import BudgetError, InputError
from satchel.fitting.as_json import as_json
from satchel.model.fields import check_name
from satchel.model.limits import check_budget, check_limit
from satchel.session.accounts import FLOOR, Account
from satchel.session.calibration import Calibration, reported_tokens
from satchel.session.checks import as_call_id, as_mapping, as_text, as_tool, as_truth
from satchel.session.contents import Packing, packed, said
from satchel.session.delivery import Parcel, delivered, delivered_bytes
from satchel.session.drafts import fields_of_result, fields_of_text, parcel_of
from satchel.session.hints import with_hint
from satchel.session.ledger import Ledger, Posting
from satchel.session.notes import digest_line
from satchel.session.patterns import find_lines
from satchel.session.plan import Budget
from satchel.session.prepared import Prepared
from satchel.session.provider import PROVIDERS, Provider, messages_within
from satchel.session.reading import Whole, entry_of, start_of, whole_of
from satchel.session.records import Measure, measure
from satchel.session.search import shown_lines
from satchel.session.shapes import Shape
from satchel.session.shown import Entry, Found, History, Messages, Shown
from satchel.session.worklog import history_within
from satchel.store.contract import Store
from satchel.store.ledger import Books, Category, Posted, Role, TurnRow
from satchel.text.tokens.counter import Counter

__all__ = ["HINTS", "RECORDED", "Answer", "Delivering", "Hints", "Session"]

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


class Delivering(TypedDict, total=False):
    """How a result is entered and shown."""

    call_id: str | None
    """The call it answers."""
    arguments: Mapping[str, Any] | None
    """What the call asked for, which a digest says; those of `call` if there was one."""
    error: bool
    extra_tokens: int
    """Of parts that are passed on beside the text, such as images."""
    max_tokens: int | None
    """Instead of the allocation; never more than the turn has left."""
    pinned: bool
    new_turn: bool
    """Whether a turn begins with it."""
    warn: bool
    """Whether a warning that is due is told along with it, and not by `warning`."""


class Session:
    """The books of one agent session, kept in the store. Safe to share between threads and processes."""

    def __init__(self, store: Store, books: Books, *, counter: Counter, hints: Hints = "footer") -> None:
        self.name = books.name
        self.counter = counter
        self.hints = hints
        self._ledger = Ledger(store, books, counter.count)
        self._asked: OrderedDict[str, Any] = OrderedDict()
        self._paged: tuple[tuple[bytes, str], Whole, Measure] | None = None

    def __repr__(self) -> str:
        return f"<Session {self.name!r}>"

    @property
    def budget(self) -> Budget:
        return self._ledger.account.budget

    def record(self, category: str, text: str, *, name: str | None = None, pinned: bool = False) -> Entry:
        """Enter what went into the context beside tool results: system, user, assistant or history.

        A system text takes the place of the one of the same name. A user's message begins a turn, and the one
        before it becomes history.
        """
        if category not in RECORDED:
            raise InputError(f"unknown category {shortened(category)}; known: {', '.join(RECORDED)}")
        role, place = _ROLES[category]
        kept = packed(as_text(text))
        fields = fields_of_text(text, role, self._ledger.free_handle(), self.counter.count)
        fields |= {"name": check_name("name", name) or "", "pinned": as_truth("pinned", pinned)}
        with self._ledger.posting() as posting:
            if role == "system":
                earlier = [entry for entry in posting.held("system") if entry.name == fields["name"]]
                posting.replace(earlier)
            elif role == "user":
                posting.move(posting.held("user"), level="whole", category="history")
                posting.begin_turn()
            elif role == "assistant":
                _answered(posting)
            return Entry.of(posting.enter(content=kept, category=place, role=role, **fields))

    def call(self, tool: str, arguments: Any = None, call_id: str | None = None) -> Entry:
        """Enter that the model calls a tool; its result has the same `call_id`, made up here if none is given."""
        text = said({} if arguments is None else arguments)
        if isinstance(text, bytes):
            raise InputError("the arguments of a call are text or JSON, not bytes")
        handle = self._ledger.free_handle()
        fields = fields_of_text(text, "call", handle, self.counter.count, tool=as_tool(tool))
        fields["call_id"] = call_id = as_call_id(call_id) or f"call_{handle}"
        if isinstance(arguments, Mapping):
            self._asked[call_id] = arguments
            if len(self._asked) > _CALLS_REMEMBERED:
                self._asked.popitem(last=False)
        with self._ledger.posting() as posting:
            _answered(posting)
            return Entry.of(posting.enter(content=packed(text), category="history", role="call", **fields))

    def result(self, tool: str, output: Any, **options: Unpack[Delivering]) -> Shown:
        """Keep what a tool said, whole, and give as much of it as the allocation has room for.

        `output` is text, bytes or a JSON value; the options are those of `Delivering`. The rest comes by `page`,
        the whole by `expand`.
        """
        return self.prepare(tool, output, **options).enter()

    def prepare(self, tool: str, output: Any, **options: Unpack[Delivering]) -> Prepared:
        """A result as `result` would show it, still to be entered; until then its handle leads nowhere."""
        if unknown := options.keys() - Delivering.__annotations__.keys():
            raise InputError(f"unknown option {min(unknown)!r}; known: {', '.join(Delivering.__annotations__)}")
        tool, call_id = as_tool(tool), as_call_id(options.get("call_id"))
        error = as_truth("error", options.get("error", False))
        whole = said(output)
        packing = Packing(whole)
        account = self._ledger.lately
        asked, extra = check_budget(options.get("max_tokens")), check_budget(options.get("extra_tokens")) or 0
        new_turn, count = options.get("new_turn", False), self.counter.count
        parcel = parcel_of(whole, tool, self._ledger.free_handle(), account.books.secret, count)
        arguments = options.get("arguments") or self._asked.pop(call_id, None)

        def make(account: Account) -> Shown:
            return self._delivered(parcel, whole, 0, account.in_next_turn() if new_turn else account, asked, extra)

        known = {"tool": tool, "call_id": call_id, "error": error}
        known["pinned"] = as_truth("pinned", options.get("pinned", False))

        def describe() -> dict[str, Any]:
            return known | fields_of_result(parcel, whole, tool, arguments, error=error, count=count)

        ready = Prepared(
            self._ledger, make(account), make, packing, describe, asked=asked, extra=extra, new_turn=new_turn
        )
        ready.expect(warn=options.get("warn", False))
        return ready

    def answered(self, answers: Sequence[Answer]) -> None:
        """Enter what tools said that keep to a budget of their own, each as a turn of its own; nothing is cut."""
        count, drafts = self.counter.count, []
        for tool, text, error in answers:
            tool = as_tool(tool)
            parcel = parcel_of(as_text(text), tool, self._ledger.free_handle(), b"", count)
            fields = fields_of_result(parcel, text, tool, None, error=error, count=count)
            fields |= {"handle": parcel.handle, "tool": tool, "error": error, "stop": len(text)}
            drafts.append((packed(text), fields | {"tokens": parcel.total_tokens}))
        with self._ledger.posting() as posting:
            for content, fields in drafts:
                posting.begin_turn()
                posting.enter(content=content, category="tool_results", role="result", **fields)

    def page(self, cursor: str, *, max_tokens: int | None = None, call_id: str | None = None) -> Shown:
        """The page that a cursor points to, within what a call may have now."""
        account = self._ledger.account
        entry, start = start_of(self._ledger, cursor, account.books.secret)
        whole, measured = self._to_page(entry)
        if not isinstance(whole.said, str) or start > len(whole.said):
            raise InputError(f"the cursor {cursor[:60]!r} points beyond its result")
        parcel = Parcel(
            whole.said,
            entry.handle,
            cast(Shape, entry.shape),
            measured,
            entry.total_tokens,
            entry.size,
            account.books.secret,
        )
        asked, text = check_budget(max_tokens), whole.said

        def make(account: Account) -> Shown:
            return self._delivered(parcel, text, start, account, asked, 0)

        shown = make(account)
        with self._ledger.posting() as posting:
            if shown.token_count > posting.account.granted(asked):
                shown = make(posting.account)
            again = f"more of {entry.handle}, from character {start:,} on"
            place = {"start": start, "stop": start + len(shown.content), "note": shown.note}
            self._enter_again(posting, whole, again, shown.token_count, call_id, place)
        return shown

    def expand(self, handle: str) -> str | bytes:
        """Everything that stands behind a handle, as it was; this counts as a use, and not as a delivery."""
        entry = entry_of(self._ledger, handle)
        whole = whole_of(self._ledger, entry)
        with self._ledger.posting() as posting:
            posting.use(entry, whole.content)
        return whole.said

    def find(
        self, handle: str, pattern: str, *, max_tokens: int | None = None, call_id: str | None = None
    ) -> Found:
        """The lines of a result that match a regular expression, which has a second to do so."""
        entry = entry_of(self._ledger, handle)
        whole = whole_of(self._ledger, entry)
        if not isinstance(whole.said, str):
            raise InputError(f"the result {entry.handle!r} is not text; expand gives its bytes")
        asked, lines = check_budget(max_tokens), find_lines(whole.said, pattern)

        def make(account: Account) -> Found:
            return shown_lines(lines, allocation=account.granted(asked), count=self.counter.count)

        found = make(self._ledger.account)
        with self._ledger.posting() as posting:
            if found.token_count > posting.account.granted(asked):
                found = make(posting.account)
            again = f"{found.matches:,} lines of {entry.handle} match {shortened(pattern)}"
            self._enter_again(posting, whole, again, found.token_count, call_id, {"note": found.text})
        return found

    def pin(self, handle: str, *, pinned: bool = True) -> Entry:
        """Keep an entry in the context whatever happens, or no longer."""
        entry = entry_of(self._ledger, handle)
        with self._ledger.posting() as posting:
            posting.pin(entry, pinned=as_truth("pinned", pinned))
        return Entry.of(entry_of(self._ledger, handle))

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

    def entries(self) -> list[Entry]:
        """What the context still holds or names, oldest first."""
        return [Entry.of(entry) for entry in self._ledger.ledgers.held(self._ledger.org, self._ledger.session)]

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

    def _to_page(self, entry: Posted) -> tuple[Whole, Measure]:
        """What is paged through, unpacked once: the next page is mostly one of the same result."""
        if (paged := self._paged) is not None and paged[0] == (entry.content, entry.shape):
            return paged[1]._replace(entry=entry), paged[2]
        whole = whole_of(self._ledger, entry)
        measured = measure(whole.said if isinstance(whole.said, str) else "", entry.shape)
        if entry.size <= _LARGEST_HELD:
            self._paged = ((entry.content, entry.shape), whole, measured)
        return whole, measured

    def _delivered(
        self, parcel: Parcel, whole: str | bytes, start: int, account: Account, asked: int | None, extra: int
    ) -> Shown:
        granted = account.granted(asked)
        # Pictures cannot be cut; however large they are, some text tells what there is and how to go on.
        allocation = max(min(granted, FLOOR), granted - extra)
        held, count = account.after(extra), self.counter.count
        if isinstance(whole, bytes):
            return delivered_bytes(whole, parcel.handle, allocation=allocation, account=held, count=count)
        hints = self.hints == "footer"
        parcel = parcel._replace(extra=extra)
        return delivered(parcel, start, allocation=allocation, account=held, hints=hints, count=count)

    def _enter_again(
        self, posting: Posting, whole: Whole, digest: str, tokens: int, call_id: str | None, place: dict[str, Any]
    ) -> None:
        """Enter that more of a result went into the context, which counts as a use of it."""
        entry = whole.entry
        posting.use(entry, whole.content)
        posting.enter(
            handle=self._ledger.free_handle(),
            content=whole.content,
            category="tool_results",
            role="page",
            tool=entry.tool,
            call_id=as_call_id(call_id),
            origin=entry.handle,
            shape=entry.shape,
            size=entry.size,
            tokens=tokens,
            total_tokens=entry.total_tokens,
            digest=digest,
            digest_tokens=self.counter.count(digest_line(entry.handle, entry.tool, digest)),
            **place,
        )


def _answered(posting: Posting) -> None:
    """The model has seen the results of the turn, and goes on: that is the next one."""
    if posting.books.turn_results:
        posting.begin_turn()
