"""A session: everything that enters an agent's context, counted against a token budget and stored in full."""

import os
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from hmac import compare_digest
from reprlib import repr as shortened
from typing import Any, Literal, NamedTuple, Protocol, Unpack

import msgspec

from satchel.errors import BudgetError, ExpiredError, InputError, UnknownIdError
from satchel.fitting.listing import as_json, clean
from satchel.model.checks import MAX_LIMIT, check_budget, check_limit, repair_surrogates
from satchel.model.ids import new_id
from satchel.model.memory import Memory, PlacedFields, Scope, check_name, utc_now
from satchel.model.scope_fields import SCOPE_FIELDS
from satchel.model.signatures import checked_keywords
from satchel.session.account import Account, Calibration, SessionState, account_of, reported_tokens
from satchel.session.budget import Budget, context_window, resolve_budget
from satchel.session.digests.base import BEGIN, Measure, Reached
from satchel.session.digests.digest import SHAPES
from satchel.session.find import LEAST_TOKENS, find_matches, shown_matches
from satchel.session.hints import with_hint
from satchel.session.ledger import KEEP_DAYS, Ledger, Posting, turn_row
from satchel.session.messages import PROVIDERS, Provider, history_within, messages_within
from satchel.session.results import (
    Compression,
    Found,
    History,
    LedgerEntry,
    Messages,
    Output,
    ReadOptions,
    ResultOptions,
    Shown,
    ToolResult,
    allocation_of,
    as_output,
    check_handle,
    compress,
    decompress,
    digest_line,
    examine_output,
    new_handle,
    page_of,
    parse_cursor,
    result_entry,
    signature,
    text_entry,
    with_page,
)
from satchel.store.contract import Category, Content, LedgerRow, Role, SessionRow, TurnRow
from satchel.store.store import Store
from satchel.text.redact import redact, redact_json
from satchel.text.tokens import Counter

__all__ = [
    "Hints",
    "Holds",
    "Notebook",
    "Prepared",
    "Session",
    "ToolAnswer",
    "enter_all",
    "find_session",
    "new_session_name",
    "open_session",
    "remove_session",
    "session_states",
]


Hints = Literal["footer", "schema", "none"]
HINTS = ("footer", "schema", "none")
Holds = Literal["digests", "whole"]
HOLDS = ("digests", "whole")
RECORDED = ("system", "user", "assistant", "history")

# The result read last by `page` is cached up to this many bytes.
_LARGEST_HELD = 16_000_000

# Half of a smaller window would not hold a page and its note.
_LEAST_WINDOW = 2_000

# Arguments of calls whose results have not come yet; digests mention them.
_CALLS_REMEMBERED = 256

_ROLES: dict[str, tuple[Role, Category]] = {
    "system": ("system", "system"),
    "user": ("user", "user"),
    "assistant": ("assistant", "history"),
    "history": ("note", "history"),
}


class ToolAnswer(NamedTuple):
    """The answer of a tool that has its own token limit, so that a session only records it."""

    tool: str
    text: str
    error: bool = False


class Notebook(Protocol):
    """Saves what a session is asked to remember: a `Satchel`."""

    def transaction(self) -> AbstractContextManager[object]:
        """Make one transaction of the writes of this thread inside the block."""

    def add(self, text: str, **fields: Unpack[PlacedFields]) -> Memory:
        """Save a memory."""


@checked_keywords
class Session:
    """The context of one agent session: what entered it, what it holds now, and how many tokens are left.

    Record the system prompt and messages with `record`, and pass every tool result to `result`, which stores it in
    full and returns as much as its allocation allows. When a tier exceeds its limit, old results become digests and
    old history becomes stubs; `expand` returns the original of anything by its handle. The ledger is in the store,
    so a session survives its process and can be shared between threads and processes.

    Secrets in texts, arguments and names are masked before they are stored. Results are stored as they are, unless
    the session is opened with `mask_results`.
    """

    def __init__(
        self,
        store: Store,
        row: SessionRow,
        *,
        counter: Counter,
        hints: Hints = "footer",
        mask_results: bool = False,
        notebook: Notebook | None = None,
    ) -> None:
        self.name = row.name
        self.counter = counter
        self.hints = hints
        self.mask_results = mask_results
        self._ledger = Ledger(store, row, counter.count)
        self._secret = row.secret
        self._scope = msgspec.structs.replace(row.scope, session=row.name)
        self._notebook = notebook
        self._asked: OrderedDict[str, Any] = OrderedDict()
        self._paged: tuple[tuple[bytes, str], _Stored, Measure, Reached] | None = None

    def __repr__(self) -> str:
        return f"<Session {self.name!r}>"

    @property
    def budget(self) -> Budget:
        """The session's current budget, read from the store."""
        return self._ledger.account.budget

    def record(
        self, category: str, text: str, *, name: str | None = None, pinned: bool = False, remember: bool = False
    ) -> LedgerEntry:
        """Record a text that is in the context besides tool results, and return its ledger entry.

        `category` is system, user, assistant or history. A system text replaces the one with the same `name`. A
        user message begins a turn, and the previous user message moves to the history. A pinned text is never
        evicted.

        With `remember` the text is also saved as a memory of the conversation, so that `search` finds it: its tier
        is `conversation`, its session this one, its speaker the category. Both are written or neither.
        """
        if category not in RECORDED:
            raise InputError(f"unknown category {shortened(category)}; known: {', '.join(RECORDED)}")
        if _as_truth("remember", remember):
            if self._notebook is None:
                raise InputError("this session cannot remember; open it with `bag.session(…)`")
            place: Any = {field: getattr(self._scope, field) for field in SCOPE_FIELDS}
            with self._notebook.transaction():
                self._notebook.add(_as_text(text), tier="conversation", speaker=category, **place)
                return self._record(category, text, name=name, pinned=pinned)
        return self._record(category, text, name=name, pinned=pinned)

    def _record(self, category: str, text: str, *, name: str | None, pinned: bool) -> LedgerEntry:
        role, place = _ROLES[category]
        text = redact(_as_text(text)).text
        content = compress(text)
        entry = msgspec.structs.replace(
            text_entry(text, role, place, self._ledger.free_handle(), self.counter.count),
            name=redact(check_name("name", name) or "").text,
            pinned=_as_truth("pinned", pinned),
        )
        with self._ledger.posting() as posting:
            if role == "system":
                posting.replace([earlier for earlier in posting.held("system") if earlier.name == entry.name])
            elif role == "user":
                posting.move(posting.held("user"), level="whole", category="history")
                posting.begin_turn()
            elif role == "assistant":
                _begin_turn_after_results(posting)
            return LedgerEntry.of(posting.enter(entry, content))

    def call(self, tool: str, arguments: Any = None, call_id: str | None = None) -> LedgerEntry:
        """Record that the model calls a tool, and return the ledger entry.

        Pass the same `call_id` with the result (one is generated if you give none): the two then stay together, and
        the result's digest mentions the arguments. A call after a result begins a new turn.
        """
        text = as_output({} if arguments is None else arguments)
        if isinstance(text, bytes):
            raise InputError("arguments are bytes; give text or a JSON value")
        text = redact_json(text)
        handle = self._ledger.free_handle()
        entry = text_entry(text, "call", "history", handle, self.counter.count, tool=_as_tool(tool))
        call_id = _as_call_id(call_id) or f"call_{handle}"
        if isinstance(arguments, Mapping):
            self._asked[call_id] = arguments
            if len(self._asked) > _CALLS_REMEMBERED:
                self._asked.popitem(last=False)
        with self._ledger.posting() as posting:
            _begin_turn_after_results(posting)
            return LedgerEntry.of(posting.enter(msgspec.structs.replace(entry, call_id=call_id), compress(text)))

    def result(self, tool: str, output: Any, **options: Unpack[ResultOptions]) -> Shown:
        """Store a tool's output in full, and return as much of it as the allocation allows.

        `output` is text, bytes or a JSON value; `ResultOptions` lists the options. The returned text ends with a
        note that states its token count and, if there is more, a cursor for `page`. It never exceeds the
        allocation; if not even the note fits, it is empty and `budget_note` says how many tokens are needed.
        """
        return self.prepare(tool, output, **options).enter()

    def prepare(self, tool: str, output: Any, **options: Unpack[ResultOptions]) -> "Prepared":
        """Make a result as `result` does, but let the caller decide when to enter it into the ledger.

        Until `Prepared.enter` is called, its handle and cursor do not work. Use this to answer first and write
        later, or to prepare the results of parallel calls and enter them together.
        """
        if unknown := options.keys() - ResultOptions.__annotations__.keys():
            raise InputError(f"unknown option {min(unknown)!r}; known: {', '.join(ResultOptions.__annotations__)}")
        tool, call_id, output = _as_tool(tool), _as_call_id(options.get("call_id")), as_output(output)
        if self.mask_results and isinstance(output, str):
            output = redact_json(output)
        checked: ResultOptions = {
            **options,
            "call_id": call_id,
            "error": _as_truth("error", options.get("error", False)),
            "extra_tokens": check_budget(options.get("extra_tokens")) or 0,
            "max_tokens": check_budget(options.get("max_tokens")),
            "pinned": _as_truth("pinned", options.get("pinned", False)),
            "arguments": options.get("arguments") or self._asked.pop(call_id, None),
        }
        compression = Compression(output)
        result = self._examine(tool, output, **checked)
        return Prepared(self._ledger, result, compression, hints=self.hints == "footer")

    def answered(self, answers: Sequence[ToolAnswer]) -> None:
        """Record answers of tools that have their own token limit: nothing is cut, and each answer is one turn."""
        count, entries = self.counter.count, []
        for tool, text, error in answers:
            text = redact(_as_text(text)).text
            result = self._examine(_as_tool(tool), text, error=error)
            entry = msgspec.structs.replace(result_entry(result, count), stop=len(text), tokens=result.total_tokens)
            entries.append((entry, compress(text)))
        with self._ledger.posting() as posting:
            for entry, content in entries:
                posting.begin_turn()
                posting.enter(entry, content)

    def page(self, cursor: str, **options: Unpack[ReadOptions]) -> Shown:
        """Return the page that a cursor points to, within the current allocation; `ReadOptions` lists the options.

        The contents of all pages together are the original. A cursor that was altered or belongs to another session
        is rejected; one whose result has expired raises `ExpiredError`.
        """
        asked = check_budget(options.get("max_tokens"))
        account = self._ledger.account
        entry, start = _start_of(self._ledger, cursor, account.row.secret)
        whole, measured, since = self._output_to_page(entry)
        if not isinstance(whole.output, str) or start > len(whole.output):
            raise InputError(
                f"the cursor {cursor[:60]!r} points beyond the end of its result; use one as it was shown"
            )
        before = measured.reached(whole.output, start, since if since.at <= start else BEGIN)
        if self._paged is not None and self._paged[1].content is whole.content:
            self._paged = (*self._paged[:3], before)
        result = ToolResult(
            tool=entry.tool,
            handle=entry.handle,
            text=whole.output,
            size=entry.size,
            shape=entry.shape,
            measure=measured,
            total_tokens=entry.total_tokens,
            secret=account.row.secret,
            max_tokens=asked,
            remark=options.get("remark"),
            before=before,
        )
        hints, count = self.hints == "footer", self.counter.count
        shown = page_of(result, start, account, hints=hints, count=count)
        if not options.get("record", True):
            return shown
        with self._ledger.posting() as posting:
            if shown.token_count > posting.account.granted(asked):
                shown = page_of(result, start, posting.account, hints=hints, count=count)
            about = f"more of {entry.handle}, from character {start:,} on"
            again = self._page_entry(whole, about, options.get("call_id"))
            posting.use(entry, whole.content)
            posting.enter(with_page(again, shown, start=start), whole.content)
        return shown

    def expand(self, handle: str) -> str | bytes:
        """Return the full original for a handle: text, or bytes if the output was not UTF-8.

        This counts as a use, so the entry is evicted later. It adds no tokens to the context.
        """
        entry = _entry_of(self._ledger, handle)
        whole = _stored(self._ledger, entry)
        with self._ledger.posting() as posting:
            posting.use(entry, whole.content)
        return whole.output

    def find(self, handle: str, pattern: str, *, start: int = 1, **options: Unpack[ReadOptions]) -> Found:
        """Return the matches of a regular expression in a result, from the match with the number `start` on.

        A match stays within its line. A short line is shown whole, of a long line the characters around each match.
        The pattern ignores case unless it contains capital letters. The search stops after one second: then
        `Found.complete` is false, or `InputError` is raised if nothing was found by then.
        """
        entry = _entry_of(self._ledger, handle)
        whole = _stored(self._ledger, entry)
        if not isinstance(whole.output, str):
            raise InputError(f"the result {entry.handle!r} is binary and has no lines; expand returns its bytes")
        asked, remark, count = check_budget(options.get("max_tokens")), options.get("remark"), self.counter.count
        granted = self._ledger.account.granted(asked)
        most = min(MAX_LIMIT, max(1, granted // LEAST_TOKENS))
        matches = find_matches(whole.output, pattern, start=start, most=most)
        found = shown_matches(matches, allocation=granted, count=count, remark=remark)
        if not options.get("record", True):
            return found
        with self._ledger.posting() as posting:
            if found.token_count > (granted := posting.account.granted(asked)):
                found = shown_matches(matches, allocation=granted, count=count, remark=remark)
            about = f"{found.matches:,} matches of {shortened(redact(pattern).text)} in {entry.handle}"
            again = self._page_entry(whole, about, options.get("call_id"))
            posting.use(entry, whole.content)
            # The store keeps UTF-8, which cannot encode lone surrogates.
            note = redact(repair_surrogates(found.text)).text
            posting.enter(msgspec.structs.replace(again, note=note, tokens=found.token_count), whole.content)
        return found

    def pin(self, handle: str, *, pinned: bool = True) -> LedgerEntry:
        """Protect an entry from eviction, or stop protecting it with `pinned=False`, and return it."""
        entry = _entry_of(self._ledger, handle)
        with self._ledger.posting() as posting:
            posting.pin(entry, pinned=_as_truth("pinned", pinned))
        return LedgerEntry.of(_entry_of(self._ledger, handle))

    def learn_window(self, window: int | str) -> None:
        """Take half of a context window as the total, if the total was only assumed.

        `window` is a number of tokens or the name of a model.
        """
        tokens = context_window(window) if isinstance(window, str) else check_budget(window) or 0
        if tokens < _LEAST_WINDOW:
            raise BudgetError(f"window {window!r} is not at least {_LEAST_WINDOW:,} tokens")
        with self._ledger.posting() as posting:
            budget = posting.account.budget
            if budget.assumed:
                posting.set(budget=as_json(budget.for_window(tokens)))

    def next_turn(self) -> int:
        """Begin a turn, in which the whole tier of tool results is available again, and return its number."""
        with self._ledger.posting() as posting:
            posting.begin_turn()
            return posting.row.turn

    def allocation(self, *, new_turn: bool = False) -> int:
        """Return how many tokens the next result may have, in this turn or in a new one."""
        account = self._ledger.account
        return (account.in_next_turn() if new_turn else account).allocation

    def suggest_limit(self, cost_of_one_item: int | str) -> int:
        """Return how many items fit in the next result, at least 1.

        `cost_of_one_item` is a number of tokens, or an example text to count.
        """
        if isinstance(cost_of_one_item, str):
            cost = self.counter.count(cost_of_one_item)
        else:
            cost = check_budget(cost_of_one_item) or 0
        if cost < 1:
            raise BudgetError(f"cost_of_one_item {cost_of_one_item!r} is not at least 1 token")
        return self._ledger.account.suggested(cost)

    def state(self) -> SessionState:
        """Return the state of the budget: total, tokens used by category, remaining, warning.

        `state.json()` is the same for a model.
        """
        return self._ledger.account.state()

    def warning(self) -> str | None:
        """Return a warning for the model if tokens are low, otherwise None.

        Each warning is given once when the remaining tokens fall below its threshold, and again only after they
        have risen above it.
        """
        account = self._ledger.account
        if account.level == account.row.warned:
            return None
        with self._ledger.posting() as posting:
            account = posting.account
            rises = account.level > account.row.warned
            posting.set(warned=account.level)
        return account.warning if rises else None

    def feedback(self, usage: Any) -> Calibration:
        """Calibrate the counter with the `usage` of a provider's response to the current context.

        `usage` comes from Anthropic, OpenAI or Gemini, as a mapping or an object of their SDKs. Returns the new
        calibration.
        """
        reported = reported_tokens(usage)
        with self._ledger.posting() as posting:
            row = posting.row
            counted = row.system + row.history + row.tool_results + row.user_message
            calibration = posting.account.calibration.with_observation(counted, reported)
            posting.set(calibration=as_json(calibration))
        return calibration

    def tool_schema(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        """Return a tool definition; with `hints="schema"` it states how many results the budget allows.

        Tool definitions come first in a prompt, so a changed hint invalidates the provider's prompt cache.
        """
        given = _as_mapping("schema", schema)
        return with_hint(given, allowance=self.allocation()) if self.hints == "schema" else dict(given)

    def entries(self) -> list[LedgerEntry]:
        """Return the entries that the context still holds, whole or as a digest or stub, oldest first."""
        held = self._ledger.ledgers.held(self._ledger.org, self._ledger.session)
        return [LedgerEntry.of(entry) for entry in held]

    def results(self, *, limit: int = 1000) -> list[LedgerRow]:
        """Return the newest results, newest first, including those that the context no longer holds."""
        return self._ledger.ledgers.results(self._ledger.org, self._ledger.session, limit=check_limit(limit))

    def turns(self) -> list[TurnRow]:
        """Return the tokens by category at the end of each turn and now."""
        row = self._ledger.row
        ended = self._ledger.ledgers.turns(self._ledger.org, self._ledger.session)
        return [*ended, turn_row(row, row.updated_at)]

    def history(self, max_tokens: int | None = None) -> History:
        """Return the session as a text log: results as digests, evicted entries as stubs.

        It has at most `max_tokens`, by default the history tier. The least recently used entries are left out
        first, and a line says how many are missing.
        """
        budget = check_budget(max_tokens)
        return history_within(self._ledger, self.budget.history if budget is None else budget)

    def messages(self, provider: Provider = "anthropic", *, max_tokens: int | None = None) -> Messages:
        """Return the session as messages for the API of Anthropic or OpenAI.

        With `max_tokens`, old results shrink to digests, then old exchanges to stubs, until the messages fit. If
        they cannot fit, `BudgetError` says how many tokens are needed. A call and its result are always kept
        together.
        """
        if provider not in PROVIDERS:
            raise InputError(f"unknown provider {provider!r}; known: {', '.join(PROVIDERS)}")
        return messages_within(self._ledger, provider, check_budget(max_tokens))

    def _examine(self, tool: str, output: Output, **options: Unpack[ResultOptions]) -> ToolResult:
        return examine_output(
            output,
            tool=tool,
            handle=self._ledger.free_handle(),
            secret=self._secret,
            count=self.counter.count,
            **options,
        )

    def _output_to_page(self, entry: LedgerRow) -> "tuple[_Stored, Measure, Reached]":
        """Return the output to page through, and what lies before its last page.

        The last output is cached: the next page is usually of it too.
        """
        if (paged := self._paged) is not None and paged[0] == (entry.content, entry.shape):
            return paged[1]._replace(entry=entry), paged[2], paged[3]
        whole = _stored(self._ledger, entry)
        measured = SHAPES[entry.shape].measure(whole.output if isinstance(whole.output, str) else "")
        if entry.size <= _LARGEST_HELD:
            self._paged = ((entry.content, entry.shape), whole, measured, BEGIN)
        return whole, measured, BEGIN

    def _page_entry(self, whole: "_Stored", digest: str, call_id: str | None) -> LedgerRow:
        """Return the entry for a page or for found lines; the caller adds its tokens and position."""
        entry = whole.entry
        return LedgerRow(
            handle=self._ledger.free_handle(),
            category="tool_results",
            role="page",
            tool=entry.tool,
            call_id=_as_call_id(call_id),
            origin=entry.handle,
            shape=entry.shape,
            size=entry.size,
            total_tokens=entry.total_tokens,
            digest=digest,
            digest_tokens=self.counter.count(digest_line(entry.handle, entry.tool, digest)),
        )


def _begin_turn_after_results(posting: Posting) -> None:
    """What a model says or calls after it received results belongs to the next turn."""
    if posting.row.turn_results:
        posting.begin_turn()


# A result that is ready to be shown but not in the ledger yet


class Prepared:
    """A tool result that can be shown but is not in the ledger yet. Made by `Session.prepare`.

    `shown` is its first page. `enter` writes the result to the ledger. Until then its handle and cursor do not
    work, but its tokens are reserved, so that results prepared later do not spend them again. A result that is
    shown completely needs no handle, so it may go to the model before it is entered.
    """

    def __init__(self, ledger: Ledger, result: ToolResult, compression: Compression, *, hints: bool) -> None:
        self._ledger = ledger
        self._result = result
        self._compression = compression
        self._hints = hints
        self._warned: int | None = None
        self.shown = self._page(ledger.recent_account)
        self._reserve()

    def enter(self) -> Shown:
        """Enter the result and return what to show, which is less if other calls have used the tokens meanwhile."""
        entry, content = self._described()
        try:
            with self._ledger.posting() as posting:
                account = self._ledger.with_reservations(posting.account, before=self)
                if self._is_over(account):
                    self.shown = self._page(account)
                    self._warned = self._level_after(account)
                self._post(posting, entry, content)
        finally:
            self._ledger.release(self)
        return self.shown

    def discard(self) -> None:
        """Release the tokens of a result that will not be entered."""
        self._ledger.release(self)

    def unstored(self, why: str) -> Shown:
        """Return what to show if the result could not be entered: its page says why there is no more of it."""
        result = msgspec.structs.replace(self._result, unstored=why)
        return page_of(result, 0, self._ledger.recent_account, hints=self._hints, count=self._ledger.count)

    def _reserve(self) -> None:
        """Reserve its tokens in the ledger; cut it again if other results that are not entered yet need them."""
        with self._ledger.lock:
            account = self._ledger.recent_account
            if self._is_over(account):
                self.shown = self._page(account)
            tokens = self.shown.token_count + self._result.extra_tokens
            self._ledger.reserve(self, tokens, new_turn=self._result.new_turn)
        self._warned = self._level_after(account)

    def _level_after(self, account: Account) -> int | None:
        """Return the warning level to record, or None if it stays: a level counts only if the model is told."""
        level = account.after(self.shown.token_count + self._result.extra_tokens).level
        told = self.shown.warning is not None or level < account.row.warned
        return level if self._result.warn and told else None

    def _page(self, account: Account) -> Shown:
        return page_of(self._result, 0, account, hints=self._hints, count=self._ledger.count)

    def _is_over(self, account: Account) -> bool:
        return 0 < self.shown.token_count > allocation_of(self._result, account)

    def _described(self) -> tuple[LedgerRow, Content]:
        # In this order: a thread may still be compressing.
        return result_entry(self._result, self._ledger.count), self._compression.done()

    def _post(self, posting: Posting, entry: LedgerRow, content: Content) -> None:
        if self._result.new_turn:
            posting.begin_turn()
        if self._warned is not None:
            posting.set(warned=self._warned)
        posting.enter(with_page(entry, self.shown, extra_tokens=self._result.extra_tokens), content)


def enter_all(results: Sequence[Prepared]) -> None:
    """Enter results of one session, as they were shown, in one transaction."""
    ledger = results[0]._ledger
    try:
        described = [(each, *each._described()) for each in results]
        with ledger.posting() as posting:
            for each, entry, content in described:
                each._post(posting, entry, content)
    finally:
        for each in results:
            ledger.release(each)


# Reading stored contents by handle or cursor


class _Stored(NamedTuple):
    """An entry with the complete output of its tool."""

    entry: LedgerRow
    content: Content
    output: Output


def _entry_of(ledger: Ledger, handle: object) -> LedgerRow:
    """Return the entry with this handle, which must belong to this session."""
    name = check_handle(handle)
    found = ledger.ledgers.by_handle(ledger.org, name)
    # One message for both cases: whether a handle exists elsewhere is not this session's to know.
    if found is None or found[0] != ledger.session:
        raise UnknownIdError(
            f"no result has the handle {name!r} in this session; handles are shown below each result and work only "
            "in the session of that result"
        )
    return found[1]


def _start_of(ledger: Ledger, cursor: object, secret: bytes) -> tuple[LedgerRow, int]:
    """Return the entry that a cursor points into, and the position in characters."""
    place = parse_cursor(cursor)
    entry = _entry_of(ledger, place.handle)
    if not compare_digest(signature(place.handle, place.start, secret), place.signature):
        raise InputError(f"the cursor {str(cursor)[:60]!r} was altered; give it exactly as it was shown")
    return entry, place.start


def _stored(ledger: Ledger, entry: LedgerRow) -> _Stored:
    """Return the entry with its complete output, unchanged."""
    content = ledger.ledgers.content(ledger.org, entry.content)
    if content is None:
        raise ExpiredError(
            f"the result {entry.handle!r} has expired: contents are kept for {KEEP_DAYS} days after the last use, "
            "or less when the store is over its size limit; call the tool again"
        )
    data = decompress(content)
    return _Stored(entry, content, data if entry.media == "bytes" else data.decode("utf-8", "surrogatepass"))


# Opening, finding, listing and removing sessions


def open_session(
    store: Store,
    scope: Scope,
    name: str,
    *,
    counter: Counter,
    budget: Budget | int | None = None,
    model: str | None = None,
    hints: Hints = "footer",
    holds: Holds | None = None,
    mask_results: bool = False,
    notebook: Notebook | None = None,
) -> Session:
    """Open the session with this name in a scope, or create it.

    The budget and `holds` of an existing session change only if they are given. `model` sets the total to half the
    model's context window. A number as the budget is its total.
    """
    _as_truth("mask_results", mask_results)
    for field, value, known in (("hints", hints, HINTS), ("holds", holds or "digests", HOLDS)):
        if value not in known:
            raise InputError(f"unknown {field} {value!r}; known: {', '.join(known)}")
    if isinstance(budget, int) and not isinstance(budget, bool):
        budget = Budget(total=budget)
    if budget is not None and not isinstance(budget, Budget):
        kind = type(budget).__name__
        raise InputError(f"budget must be a number of tokens or a satchel.Budget, not {kind}")
    now = utc_now()
    changes: dict[str, Any] = {}
    if budget is not None or model is not None:
        changes["budget"] = as_json(resolve_budget(budget, model=model))
    if holds is not None:
        changes["holds"] = holds
    fresh = SessionRow(
        id=new_id(),
        scope=msgspec.structs.replace(scope, session=None),
        name=_checked_name(name),
        created_at=now,
        updated_at=now,
        secret=os.urandom(16),
        calibration=as_json(Calibration()),
        **({"budget": as_json(resolve_budget())} | changes if "budget" not in changes else changes),
    )
    row = store.ledgers.open(fresh)
    changes = {name: value for name, value in changes.items() if getattr(row, name) != value}
    if changes:
        store.ledgers.change(row.scope.org, row.id, changes)
    return Session(store, row, counter=counter, hints=hints, mask_results=mask_results, notebook=notebook)


def new_session_name(kind: str) -> str:
    """Return a name for an unnamed session: its kind, the time, and four random characters."""
    return f"{kind}-{utc_now():%Y%m%d-%H%M%S}-{new_handle()[:4]}"


def find_session(
    store: Store, scope: Scope, name: str, *, counter: Counter, notebook: Notebook | None = None
) -> Session:
    """Open an existing session; the error for an unknown name lists the latest ones."""
    return Session(store, _sessions_named(store, scope, name)[0], counter=counter, notebook=notebook)


def session_states(store: Store, scope: Scope, *, limit: int = 20) -> list[SessionState]:
    """The state of each session in a scope, the last changed first."""
    return [account_of(row).state() for row in store.ledgers.sessions(scope, limit=check_limit(limit))]


def remove_session(store: Store, scope: Scope, name: str) -> None:
    """Remove a session and everything it stored; if several have the name, raise `InputError` and remove none."""
    row, *others = _sessions_named(store, scope, name)
    if others:
        places = ", ".join(clean(each.scope.project or "none") for each in (row, *others))
        raise InputError(f"{len(others) + 1} sessions are called {name!r}; name the project of one: {places}")
    store.ledgers.remove(row.scope.org, row.id)


def _sessions_named(store: Store, scope: Scope, name: str) -> list[SessionRow]:
    name = _checked_name(name)
    found = store.ledgers.named(scope, name)
    if not found:
        known = ", ".join(clean(each.name) for each in store.ledgers.sessions(scope, limit=5))
        raise UnknownIdError(f"there is no session {name!r}; there {f'are: {known}' if known else 'is none yet'}")
    return found


def _checked_name(name: object) -> str:
    """Check the name of a session and mask secrets in it: names that differ only in a secret are the same."""
    checked = check_name("session", name)
    if checked is None:
        raise InputError("the session name is blank; give a name")
    return redact(checked).text


# Checks of arguments


_LONGEST = 200


def _as_tool(name: object) -> str:
    """Check a tool's name and return it on one line."""
    if not isinstance(name, str) or not (words := repair_surrogates(name).split()):
        raise InputError(f"tool {shortened(name)} is empty or not text; give the name of the tool")
    return redact(" ".join(words)).text[:_LONGEST]


def _as_call_id(identifier: object) -> str:
    """Check the id of a call; empty if there is none."""
    if identifier is None:
        return ""
    if not isinstance(identifier, str) or not 0 < len(identifier) <= _LONGEST:
        raise InputError(f"call_id {shortened(identifier)} is not a string of 1 to {_LONGEST} characters")
    return repair_surrogates(identifier)


def _as_text(text: object) -> str:
    if not isinstance(text, str):
        raise InputError(f"text must be a string, not {type(text).__name__}")
    return text


def _as_truth(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise InputError(f"{name} {shortened(value)} is not true or false")
    return value


def _as_mapping(name: str, value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InputError(f"{name} must be an object with fields, not {type(value).__name__}")
    return value
