"""The ledger of one session: entries, and the eviction that brings a tier over its limit down again.

Each change is one transaction that ends with eviction, in batches: results of earlier turns become digests, and
history becomes stubs, least recently used first.
"""

import contextlib
import itertools
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import msgspec

from satchel.errors import StoreError
from satchel.model.checks import check_weight
from satchel.model.memory import utc_now
from satchel.session.account import Account, account_of
from satchel.session.results import compress, new_handle
from satchel.store.contract import Books, Category, Content, LedgerRow, Level, TurnRow
from satchel.store.store import Store

__all__ = [
    "KEEP_DAYS",
    "LOW",
    "Ledger",
    "Posting",
    "Unit",
    "cost",
    "grouped",
    "named",
    "over_watermark",
    "turn_row",
    "units_of",
]


LOW = 0.7
"""The part of the limit down to which a batch clears."""


class Unit(NamedTuple):
    """What must stay together, such as a tool call and its result."""

    key: int
    tokens: int
    stub: int
    """The tokens of what stands in its place once it is evicted."""
    used: int
    """When it was last used; larger is later."""
    kept: bool
    """Whether it is pinned, or too new to go."""


def over_watermark(units: Iterable[Unit], *, limit: int, low: float = LOW) -> list[int]:
    """The keys of what to evict, in that order: nothing up to the limit, beyond it down to `low` of the limit.

    What is evicted changes the front of a prompt, and a prompt cache reads nothing beyond the first change. So it
    pays to change it seldom, and then by much. A unit whose stub would not be smaller stays.
    """
    target = check_weight(low, name="low watermark") * limit
    units = list(units)
    total = sum(unit.tokens for unit in units)
    evicted: list[int] = []
    if total <= limit:
        return evicted
    for unit in sorted(units, key=lambda unit: unit.used):
        if total <= target:
            break
        if not unit.kept and unit.stub < unit.tokens:
            total -= unit.tokens - unit.stub
            evicted.append(unit.key)
    return evicted


# What can be evicted, and what it costs at each level.


KEEP_DAYS = 30
"""How long a content is kept after its last use."""
KEEP_BYTES = 512_000_000
"""How many bytes the contents of a store may take, compress; the least recently used go first."""

# Stubs that take more than this part of the history are put into one list, down to the second.
_STUBS_AT_MOST, _STUBS_AFTERWARDS = 0.25, 0.1
# How many entries are made between two looks at what has expired.
_ENTRIES_BETWEEN_LOOKS = 500
# Seconds for which a cached account is good enough to show a result; entering it reads the current one.
_A_MOMENT = 2.0
# A tier that nothing can leave is looked at again when it has grown by so much.
_MUCH_MORE = 1.1

Count = Callable[[str], int]

_SUMS: dict[Category, str] = {
    "system": "system",
    "history": "history",
    "tool_results": "tool_results",
    "user": "user_message",
}


def cost(entry: LedgerRow, level: Level | None = None) -> int:
    """The tokens of an entry at a level, which is its own if none is named."""
    return {
        "whole": entry.tokens,
        "digest": entry.digest_tokens,
        "stub": entry.stub_tokens,
        "gone": 0,
    }[level or entry.level]


def units_of(entries: Sequence[LedgerRow], *, busy: frozenset[int] = frozenset(), newest: int = 0) -> list[Unit]:
    """What can be evicted from a history: a call with its results is one unit, kept while its pair is in `busy`.

    The key is the `seq` of the unit's first entry. A unit whose stub would not be smaller goes without one.
    """
    units = []
    for call, group in grouped(entries).items():
        tokens, stub = sum(cost(entry) for entry in group), sum(entry.stub_tokens for entry in named(group))
        kept = call in busy or any(entry.pinned or entry.seq == newest for entry in group)
        used = max(entry.used for entry in group)
        units.append(Unit(group[0].seq, tokens, stub if stub < tokens else 0, used, kept))
    return units


def grouped(entries: Sequence[LedgerRow]) -> dict[int, list[LedgerRow]]:
    """The entries that are held whole or as digests, by the call they belong to; others stand alone."""
    groups: dict[int, list[LedgerRow]] = defaultdict(list)
    for entry in entries:
        if entry.level in ("whole", "digest"):
            groups[entry.pair].append(entry)
    return groups


def named(group: Sequence[LedgerRow]) -> list[LedgerRow]:
    """The entries of a unit whose stubs stand for it: a result's stub stands for its call too."""
    answered = any(entry.role != "call" for entry in group)
    return [entry for entry in group if entry.stub and not (answered and entry.role == "call")]


def turn_row(books: Books, at: datetime) -> TurnRow:
    """The sums of the turn that goes on, as they are stored when it ends."""
    sums = (books.system, books.history, books.tool_results, books.user_message)
    return TurnRow(books.turn, at, *sums, books.evicted)


class Ledger:
    """The ledger of one session in a store.

    `posting` makes changes in a transaction. Results that are shown but not entered yet are registered with
    `expect`, so that those shown after them do not use the same tokens twice. Safe to share between threads.
    """

    def __init__(self, store: Store, books: Books, count: Count) -> None:
        self.store = store
        self.ledgers = store.ledgers
        self.org = books.scope.org
        self.session = books.id
        self.count = count
        self._unlooked = 0
        self._last: tuple[float, Books] | None = None
        self._stuck: dict[str, tuple[int, int]] = {}
        self.lock = threading.RLock()
        self._ahead: WeakKeyDictionary[object, tuple[int, bool]] = WeakKeyDictionary()

    @property
    def books(self) -> Books:
        """The session's row in the store: its budget and its sums."""
        found = self.ledgers.books(self.org, self.session)
        if found is None:
            raise StoreError("this session was removed from the store; open it again, or restart what serves it")
        self._last = (time.monotonic(), found)
        return found

    @property
    def account(self) -> Account:
        return account_of(self.books)

    @property
    def lately(self) -> Account:
        """The account, at most two seconds old, with the results that are shown but not entered yet."""
        if (last := self._last) is not None and time.monotonic() - last[0] < _A_MOMENT:
            return self.with_ahead(account_of(last[1]))
        return self.with_ahead(self.account)

    def with_ahead(self, account: Account, *, before: object = None) -> Account:
        """The account with what is expected, or only with what was expected before a certain owner."""
        with self.lock:
            ahead = list(itertools.takewhile(lambda each: each[0] is not before, self._ahead.items()))
        for _, (tokens, begins_turn) in ahead:
            account = (account.in_next_turn() if begins_turn else account).after(tokens)
        return account

    def expect(self, owner: object, tokens: int, *, new_turn: bool) -> None:
        """Take a result into account until it is entered, or until its owner is garbage."""
        with self.lock:
            self._ahead[owner] = (tokens, new_turn)

    def entered(self, owner: object) -> None:
        """The result is entered, or never will be."""
        with self.lock:
            self._ahead.pop(owner, None)

    @contextlib.contextmanager
    def posting(self) -> Iterator["Posting"]:
        """A transaction on the ledger; it ends with eviction and the new sums."""
        with self.store.transaction():
            posting = Posting(self, self.books)
            yield posting
            posting.finish()
        # Inside a transaction of the caller's it may yet be undone.
        self._last = None if self.store.in_transaction else (time.monotonic(), posting.books)
        self._unlooked += posting.books.clock - posting.before.clock
        if self._unlooked >= _ENTRIES_BETWEEN_LOOKS:
            self.expire()

    def expire(self, *, days: float = KEEP_DAYS, most_bytes: int = KEEP_BYTES) -> int:
        """Drop contents that were not used for `days`, then the oldest above `most_bytes`; their entries stay."""
        self._unlooked = 0
        return self.ledgers.expire(self.org, before=utc_now() - timedelta(days=days), most_bytes=most_bytes)

    def stick(self, tier: str, turn: int, tokens: int) -> None:
        """Remember that a tier is over its limit and nothing in it can be evicted, to save the next look."""
        self._stuck[tier] = (turn, tokens)

    def is_stuck(self, tier: str, turn: int, tokens: int) -> bool:
        """Whether that still holds: the turn is the same and the tier has hardly grown."""
        last_turn, last_tokens = self._stuck.get(tier, (-1, 0))
        return turn == last_turn and last_tokens <= tokens < _MUCH_MORE * last_tokens

    def free_handle(self) -> str:
        """A handle that no entry has."""
        while self.ledgers.by_handle(self.org, handle := new_handle()) is not None:
            pass
        return handle


class Posting:
    """Changes to the ledger within one transaction; the sums in `books` follow each of them."""

    def __init__(self, ledger: Ledger, books: Books) -> None:
        self.books = books
        self.before = books
        self._ledger = ledger
        self._ledgers = ledger.ledgers
        self._where = (ledger.org, ledger.session)

    @property
    def account(self) -> Account:
        return account_of(self.books)

    def set(self, **changes: Any) -> None:
        self.books = msgspec.structs.replace(self.books, **changes)

    def begin_turn(self) -> None:
        """Store the sums of the turn that ends, and begin the next."""
        self._ledgers.end_turn(*self._where, turn_row(self.books, utc_now()))
        self.set(turn=self.books.turn + 1, turn_results=0)

    def enter(self, entry: LedgerRow, content: Content) -> LedgerRow:
        """Add an entry, which becomes the newest, with its place in the ledger set."""
        now = utc_now()
        seq = self.books.clock + 1
        call = self._open_call(entry.call_id) if entry.role != "call" else None
        entry = msgspec.structs.replace(
            entry,
            seq=seq,
            used=seq,
            turn=self.books.turn,
            at=now,
            content=content.hash,
            pair=seq if call is None else call.seq,
        )
        self._ledgers.keep(self._ledger.org, content, now)
        self._ledgers.post(*self._where, entry)
        self.set(clock=seq)
        self._add(entry.category, cost(entry))
        if entry.category == "tool_results":
            self.set(
                turn_results=self.books.turn_results + entry.tokens,
                delivered=self.books.delivered + entry.tokens,
                results=self.books.results + (entry.role == "result"),
            )
        return entry

    def _open_call(self, call_id: str) -> LedgerRow | None:
        """The call of an id that has no result yet; ids may be reused."""
        last = self._ledgers.last_of_call(*self._where, call_id) if call_id else None
        return last if last is not None and last.role == "call" else None

    def use(self, entry: LedgerRow, content: Content | None = None) -> None:
        """Mark an entry as used now, so that it is evicted later, and its content as well."""
        self.set(clock=self.books.clock + 1)
        self._ledgers.repost(*self._where, [entry.seq], {"used": self.books.clock})
        if content is not None:
            self._ledgers.keep(self._ledger.org, content, utc_now())

    def pin(self, entry: LedgerRow, *, pinned: bool) -> None:
        self._ledger.stick("history", -1, 0)
        self._ledgers.repost(*self._where, [entry.seq], {"pinned": pinned})

    def move(self, entries: Sequence[LedgerRow], *, level: Level, category: Category) -> None:
        """Set the level and the category of entries, and update the sums."""
        if not entries:
            return
        for entry in entries:
            self._add(entry.category, -cost(entry))
            self._add(category, cost(entry, level))
        self._ledgers.repost(*self._where, [entry.seq for entry in entries], {"level": level, "category": category})

    def replace(self, entries: Sequence[LedgerRow]) -> None:
        """Drop entries from the context, because a new one takes their place."""
        for entry in entries:
            self.move([entry], level="gone", category=entry.category)

    def held(self, category: Category, *, words: bool = True) -> list[LedgerRow]:
        """The entries of a category; without digests and stubs if only their sizes matter."""
        return self._ledgers.held(*self._where, category, words=words)

    def finish(self) -> None:
        """Evict what is over the limits, and store the sums that changed."""
        self._shrink_results()
        self._evict()
        self.set(updated_at=utc_now())
        changes = {
            name: value
            for name in Books.__struct_fields__
            if (value := getattr(self.books, name)) != getattr(self.before, name)
        }
        self._ledgers.change(*self._where, changes)

    def _add(self, category: Category, tokens: int) -> None:
        name = _SUMS[category]
        self.set(**{name: getattr(self.books, name) + tokens})

    def _limit(self, tier: int) -> int:
        return self.account.calibration.within(tier)

    def _shrink_results(self) -> None:
        """Results of earlier turns become digests, a batch at once, when they take more than their tier.

        A caller that holds every page has to have dropped some when all of its context would be over.
        """
        books, budget = self.books, self.account.budget
        limit = self._limit(budget.tool_results)
        if books.holds == "whole":
            limit = self._limit(budget.total - budget.response) - books.system - books.user_message - books.history
        if books.tool_results <= limit or self._ledger.is_stuck("tool_results", books.turn, books.tool_results):
            return
        results = self.held("tool_results", words=False)
        units = [
            # The model has not seen those of this turn, nor perhaps of the one before.
            Unit(entry.seq, entry.tokens, 0, entry.used, entry.pinned or entry.turn >= books.turn - 1)
            for entry in results
        ]
        going = set(over_watermark(units, limit=max(0, limit), low=budget.low))
        self.move([entry for entry in results if entry.seq in going], level="digest", category="history")
        self.set(evicted=books.evicted + len(going))
        if self.books.tool_results > limit:
            self._ledger.stick("tool_results", books.turn, self.books.tool_results)

    def _evict(self) -> None:
        """If the history is over its limit, evict what was least recently used, a batch at once."""
        budget = self.account.budget
        limit = self._limit(budget.history)
        if self.books.history <= limit or self._ledger.is_stuck("history", 0, self.books.history):
            return
        entries = self.held("history")
        busy = frozenset(entry.pair for entry in self.held("tool_results", words=False))
        units = units_of(entries, busy=busy, newest=max((entry.seq for entry in entries), default=0))
        stubs = [entry for entry in entries if entry.level == "stub"]
        already = sum(cost(entry) for entry in stubs)
        going = set(over_watermark([*units, Unit(0, already, already, 0, kept=True)], limit=limit, low=budget.low))
        if not going:
            self._ledger.stick("history", 0, self.books.history)
            return
        groups = [group for group in grouped(entries).values() if group[0].seq in going]
        stubbed: list[LedgerRow] = []
        listed: list[LedgerRow] = []
        silent: list[LedgerRow] = []
        for group in groups:
            names = named(group)
            small = sum(entry.stub_tokens for entry in names) < sum(cost(entry) for entry in group)
            (stubbed if small else listed).extend(names)
            silent += [entry for entry in group if entry not in names]
        self.move(stubbed, level="stub", category="history")
        self.move(silent, level="gone", category="history")
        self.set(evicted=self.books.evicted + len(groups))
        stubs += [msgspec.structs.replace(entry, level="stub") for entry in stubbed]
        self._list([*listed, *_too_many(stubs, limit)])

    def _list(self, entries: Sequence[LedgerRow]) -> None:
        """Replace entries by one note that lists their stubs, itself shown as one short stub."""
        if not entries:
            return
        listing = "".join(f"{entry.stub}\n" for entry in sorted(entries, key=lambda entry: entry.seq))
        handle = self._ledger.free_handle()
        stub = f"[{handle} lists {len(entries):,} earlier entries]"
        self.move(entries, level="gone", category="history")
        tokens = self._ledger.count(listing)
        entry = LedgerRow(
            handle=handle,
            category="history",
            role="note",
            level="stub",
            size=len(listing.encode("utf-8", "surrogatepass")),
            stop=len(listing),
            tokens=tokens,
            total_tokens=tokens,
            stub=stub,
            stub_tokens=self._ledger.count(stub),
        )
        self.enter(entry, compress(listing))


def _too_many(stubs: Sequence[LedgerRow], limit: int) -> list[LedgerRow]:
    """The oldest stubs, where all of them take a large part of the history."""
    total = sum(entry.stub_tokens for entry in stubs)
    if total <= _STUBS_AT_MOST * limit:
        return []
    going: list[LedgerRow] = []
    for entry in sorted(stubs, key=lambda entry: entry.seq):
        if total <= _STUBS_AFTERWARDS * limit:
            break
        if not entry.pinned:
            total -= entry.stub_tokens
            going.append(entry)
    return going
