"""The ledger of one session: its entries, and eviction when a tier exceeds its limit.

Each change is one transaction that ends with eviction in batches, least recently used first: results of earlier
turns become digests, and history becomes stubs.
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
from satchel.store.contract import Category, Content, LedgerRow, Level, SessionRow, TurnRow
from satchel.store.store import Store

__all__ = [
    "KEEP_DAYS",
    "LOW",
    "Ledger",
    "Posting",
    "Unit",
    "cost",
    "entries_with_stub",
    "eviction_units",
    "grouped",
    "keys_to_evict",
    "turn_row",
]


LOW = 0.7
"""Low watermark: eviction reduces a tier to this share of its limit."""


class Unit(NamedTuple):
    """Entries that are evicted together, such as a tool call and its result."""

    key: int
    tokens: int
    stub: int
    """The tokens of the stub that replaces it after eviction."""
    used: int
    """When it was last used; larger means later."""
    kept: bool
    """Whether it must stay, because it is pinned or too new."""


def keys_to_evict(units: Iterable[Unit], *, limit: int, low: float = LOW) -> list[int]:
    """Return the keys to evict, in that order; none if the units are within the limit.

    Above the limit, units are evicted until at most `low` times the limit is used. Eviction changes the front of a
    prompt and so invalidates the provider's prompt cache; rare large batches are cheaper than frequent small ones.
    A unit whose stub would not be smaller stays.
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


# What can be evicted, and its cost at each level


KEEP_DAYS = 30
"""How many days a content is kept after its last use."""
KEEP_BYTES = 512_000_000
"""How many bytes all contents of a store may use, compressed; the least recently used are dropped first."""

# Above the first share of the history tier, stubs are merged into one listing until the second share is reached.
_MAX_STUB_SHARE, _TARGET_STUB_SHARE = 0.25, 0.1
# How many new entries there are between two checks for expired contents.
_ENTRIES_BETWEEN_EXPIRIES = 500
# How many seconds a cached account may be used to show a result. Entering the result reads the current account.
_CACHED_SECONDS = 2.0
# After eviction found nothing to evict in a tier, it tries again when the tier has grown by this factor.
_RETRY_GROWTH = 1.1

Count = Callable[[str], int]

_SUMS: dict[Category, str] = {
    "system": "system",
    "history": "history",
    "tool_results": "tool_results",
    "user": "user_message",
}


def cost(entry: LedgerRow, level: Level | None = None) -> int:
    """Return the tokens of an entry at a level, by default its own level."""
    return {
        "whole": entry.tokens,
        "digest": entry.digest_tokens,
        "stub": entry.stub_tokens,
        "gone": 0,
    }[level or entry.level]


def eviction_units(
    entries: Sequence[LedgerRow], *, busy: frozenset[int] = frozenset(), newest: int = 0
) -> list[Unit]:
    """Group the entries of a history into eviction units: a call and its results are one unit.

    The key of a unit is the `seq` of its first entry. A unit is kept while its pair is in `busy`. A unit whose stub
    would not be smaller is evicted without a stub.
    """
    units = []
    for call, group in grouped(entries).items():
        tokens, stub = (
            sum(cost(entry) for entry in group),
            sum(entry.stub_tokens for entry in entries_with_stub(group)),
        )
        kept = call in busy or any(entry.pinned or entry.seq == newest for entry in group)
        used = max(entry.used for entry in group)
        units.append(Unit(group[0].seq, tokens, stub if stub < tokens else 0, used, kept))
    return units


def grouped(entries: Sequence[LedgerRow]) -> dict[int, list[LedgerRow]]:
    """Group the entries that are held whole or as digests by their call; other entries are groups of one."""
    groups: dict[int, list[LedgerRow]] = defaultdict(list)
    for entry in entries:
        if entry.level in ("whole", "digest"):
            groups[entry.pair].append(entry)
    return groups


def entries_with_stub(group: Sequence[LedgerRow]) -> list[LedgerRow]:
    """Return the entries of a unit that get a stub; the stub of a result covers its call too."""
    answered = any(entry.role != "call" for entry in group)
    return [entry for entry in group if entry.stub and not (answered and entry.role == "call")]


def turn_row(row: SessionRow, at: datetime) -> TurnRow:
    """Return the sums of the current turn, as they are stored when it ends."""
    sums = (row.system, row.history, row.tool_results, row.user_message)
    return TurnRow(row.turn, at, *sums, row.evicted)


class Ledger:
    """The ledger of one session in a store.

    `posting` opens a transaction for changes. Results that are shown but not entered yet are registered with
    `reserve`, so that later results do not spend the same tokens again. Safe to share between threads.
    """

    def __init__(self, store: Store, row: SessionRow, count: Count) -> None:
        self.store = store
        self.ledgers = store.ledgers
        self.org = row.scope.org
        self.session = row.id
        self.count = count
        self._entries_since_expiry = 0
        self._last: tuple[float, SessionRow] | None = None
        self._blocked: dict[str, tuple[int, int]] = {}
        self.lock = threading.RLock()
        self._reservations: WeakKeyDictionary[object, tuple[int, bool]] = WeakKeyDictionary()

    @property
    def row(self) -> SessionRow:
        """The session's row in the store: its budget and its sums."""
        found = self.ledgers.session(self.org, self.session)
        if found is None:
            raise StoreError("this session was removed from the store; open it again or restart the server")
        self._last = (time.monotonic(), found)
        return found

    @property
    def account(self) -> Account:
        return account_of(self.row)

    @property
    def recent_account(self) -> Account:
        """The account, at most two seconds old, including results that are shown but not entered yet."""
        if (last := self._last) is not None and time.monotonic() - last[0] < _CACHED_SECONDS:
            return self.with_reservations(account_of(last[1]))
        return self.with_reservations(self.account)

    def with_reservations(self, account: Account, *, before: object = None) -> Account:
        """Return the account plus all reservations, or plus those made before the owner `before`."""
        with self.lock:
            reserved = list(itertools.takewhile(lambda each: each[0] is not before, self._reservations.items()))
        for _, (tokens, begins_turn) in reserved:
            account = (account.in_next_turn() if begins_turn else account).after(tokens)
        return account

    def reserve(self, owner: object, tokens: int, *, new_turn: bool) -> None:
        """Reserve tokens for a result until it is entered or its owner is garbage-collected."""
        with self.lock:
            self._reservations[owner] = (tokens, new_turn)

    def release(self, owner: object) -> None:
        """Release the reservation of a result that was entered or never will be."""
        with self.lock:
            self._reservations.pop(owner, None)

    @contextlib.contextmanager
    def posting(self) -> Iterator["Posting"]:
        """Open a transaction on the ledger; it ends with eviction and stores the new sums."""
        with self.store.transaction():
            posting = Posting(self, self.row)
            yield posting
            posting.finish()
        # If the caller's own transaction is open, this one may still be rolled back: do not cache the sums.
        self._last = None if self.store.in_transaction else (time.monotonic(), posting.row)
        self._entries_since_expiry += posting.row.clock - posting.before.clock
        if self._entries_since_expiry >= _ENTRIES_BETWEEN_EXPIRIES:
            self.expire()

    def expire(self, *, days: float = KEEP_DAYS, most_bytes: int = KEEP_BYTES) -> int:
        """Drop contents not used for `days`, then the oldest ones above `most_bytes`; their entries stay."""
        self._entries_since_expiry = 0
        return self.ledgers.expire(self.org, before=utc_now() - timedelta(days=days), most_bytes=most_bytes)

    def block_eviction(self, tier: str, turn: int, tokens: int) -> None:
        """Remember that a tier is over its limit but nothing in it can be evicted, to skip the next attempts."""
        self._blocked[tier] = (turn, tokens)

    def is_eviction_blocked(self, tier: str, turn: int, tokens: int) -> bool:
        """Whether eviction is still pointless: same turn, and the tier has hardly grown."""
        last_turn, last_tokens = self._blocked.get(tier, (-1, 0))
        return turn == last_turn and last_tokens <= tokens < _RETRY_GROWTH * last_tokens

    def free_handle(self) -> str:
        """Return a new handle that no entry uses."""
        while self.ledgers.by_handle(self.org, handle := new_handle()) is not None:
            pass
        return handle


class Posting:
    """Changes to the ledger in one transaction; `row` is kept up to date after each of them."""

    def __init__(self, ledger: Ledger, row: SessionRow) -> None:
        self.row = row
        self.before = row
        self._ledger = ledger
        self._ledgers = ledger.ledgers
        self._where = (ledger.org, ledger.session)

    @property
    def account(self) -> Account:
        return account_of(self.row)

    def set(self, **changes: Any) -> None:
        self.row = msgspec.structs.replace(self.row, **changes)

    def begin_turn(self) -> None:
        """Store the sums of the current turn and begin the next."""
        self._ledgers.end_turn(*self._where, turn_row(self.row, utc_now()))
        self.set(turn=self.row.turn + 1, turn_results=0)

    def enter(self, entry: LedgerRow, content: Content) -> LedgerRow:
        """Add an entry as the newest one, and return it with its place in the ledger."""
        now = utc_now()
        seq = self.row.clock + 1
        call = self._open_call(entry.call_id) if entry.role != "call" else None
        entry = msgspec.structs.replace(
            entry,
            seq=seq,
            used=seq,
            turn=self.row.turn,
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
                turn_results=self.row.turn_results + entry.tokens,
                delivered=self.row.delivered + entry.tokens,
                results=self.row.results + (entry.role == "result"),
            )
        return entry

    def _open_call(self, call_id: str) -> LedgerRow | None:
        """Return the call with this id if it has no result yet; ids may be reused."""
        last = self._ledgers.last_of_call(*self._where, call_id) if call_id else None
        return last if last is not None and last.role == "call" else None

    def use(self, entry: LedgerRow, content: Content | None = None) -> None:
        """Mark an entry and its content as used now, so that they are evicted later."""
        self.set(clock=self.row.clock + 1)
        self._ledgers.repost(*self._where, [entry.seq], {"used": self.row.clock})
        if content is not None:
            self._ledgers.keep(self._ledger.org, content, utc_now())

    def pin(self, entry: LedgerRow, *, pinned: bool) -> None:
        self._ledger.block_eviction("history", -1, 0)
        self._ledgers.repost(*self._where, [entry.seq], {"pinned": pinned})

    def move(self, entries: Sequence[LedgerRow], *, level: Level, category: Category) -> None:
        """Set the level and category of entries and update the sums."""
        if not entries:
            return
        for entry in entries:
            self._add(entry.category, -cost(entry))
            self._add(category, cost(entry, level))
        self._ledgers.repost(*self._where, [entry.seq for entry in entries], {"level": level, "category": category})

    def replace(self, entries: Sequence[LedgerRow]) -> None:
        """Drop entries from the context because a new entry replaces them."""
        for entry in entries:
            self.move([entry], level="gone", category=entry.category)

    def held(self, category: Category, *, words: bool = True) -> list[LedgerRow]:
        """Return the entries of a category; with `words=False` without digests and stubs, for their sizes only."""
        return self._ledgers.held(*self._where, category, words=words)

    def finish(self) -> None:
        """Evict from tiers that exceed their limits, and store the sums that changed."""
        self._shrink_results()
        self._evict()
        self.set(updated_at=utc_now())
        changes = {
            name: value
            for name in SessionRow.__struct_fields__
            if (value := getattr(self.row, name)) != getattr(self.before, name)
        }
        self._ledgers.change(*self._where, changes)

    def _add(self, category: Category, tokens: int) -> None:
        name = _SUMS[category]
        self.set(**{name: getattr(self.row, name) + tokens})

    def _limit(self, tier: int) -> int:
        return self.account.calibration.within(tier)

    def _shrink_results(self) -> None:
        """If tool results exceed their tier, turn a batch of results of earlier turns into digests.

        With `holds="whole"` the caller keeps every page in its context, so this happens only when the whole context
        exceeds its budget: the caller must have dropped some pages by then.
        """
        row, budget = self.row, self.account.budget
        limit = self._limit(budget.tool_results)
        if row.holds == "whole":
            limit = self._limit(budget.total - budget.response) - row.system - row.user_message - row.history
        if row.tool_results <= limit or self._ledger.is_eviction_blocked(
            "tool_results", row.turn, row.tool_results
        ):
            return
        results = self.held("tool_results", words=False)
        units = [
            # The model has not seen the results of this turn, and maybe not those of the turn before.
            Unit(entry.seq, entry.tokens, 0, entry.used, entry.pinned or entry.turn >= row.turn - 1)
            for entry in results
        ]
        going = set(keys_to_evict(units, limit=max(0, limit), low=budget.low))
        self.move([entry for entry in results if entry.seq in going], level="digest", category="history")
        self.set(evicted=row.evicted + len(going))
        if self.row.tool_results > limit:
            self._ledger.block_eviction("tool_results", row.turn, self.row.tool_results)

    def _evict(self) -> None:
        """If the history exceeds its limit, evict a batch of the least recently used entries."""
        budget = self.account.budget
        limit = self._limit(budget.history)
        if self.row.history <= limit or self._ledger.is_eviction_blocked("history", 0, self.row.history):
            return
        entries = self.held("history")
        busy = frozenset(entry.pair for entry in self.held("tool_results", words=False))
        units = eviction_units(entries, busy=busy, newest=max((entry.seq for entry in entries), default=0))
        stubs = [entry for entry in entries if entry.level == "stub"]
        already = sum(cost(entry) for entry in stubs)
        going = set(keys_to_evict([*units, Unit(0, already, already, 0, kept=True)], limit=limit, low=budget.low))
        if not going:
            self._ledger.block_eviction("history", 0, self.row.history)
            return
        groups = [group for group in grouped(entries).values() if group[0].seq in going]
        stubbed: list[LedgerRow] = []
        listed: list[LedgerRow] = []
        dropped: list[LedgerRow] = []
        for group in groups:
            names = entries_with_stub(group)
            small = sum(entry.stub_tokens for entry in names) < sum(cost(entry) for entry in group)
            (stubbed if small else listed).extend(names)
            dropped += [entry for entry in group if entry not in names]
        self.move(stubbed, level="stub", category="history")
        self.move(dropped, level="gone", category="history")
        self.set(evicted=self.row.evicted + len(groups))
        stubs += [msgspec.structs.replace(entry, level="stub") for entry in stubbed]
        self._list([*listed, *_too_many(stubs, limit)])

    def _list(self, entries: Sequence[LedgerRow]) -> None:
        """Replace entries by one note that lists their stubs; the note itself is shown as one short stub."""
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
    """Return the oldest stubs to merge into a listing, if all stubs take too large a share of the history."""
    total = sum(entry.stub_tokens for entry in stubs)
    if total <= _MAX_STUB_SHARE * limit:
        return []
    going: list[LedgerRow] = []
    for entry in sorted(stubs, key=lambda entry: entry.seq):
        if total <= _TARGET_STUB_SHARE * limit:
            break
        if not entry.pinned:
            total -= entry.stub_tokens
            going.append(entry)
    return going
