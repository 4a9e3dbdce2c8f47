"""A tool's result: stored in full under a handle, returned in pages, with cursors, notes and a digest."""

import contextlib
import json
import os
import re
import threading
import zlib
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple, TypedDict, Unpack

import msgspec

from satchel.errors import InputError, StoreFormatError
from satchel.fitting.cutting import Beginning, Bracket, Price, Seam, first_character, longest_beginning
from satchel.fitting.engine import Attempt, Count, self_counted, with_less_room
from satchel.fitting.listing import as_json
from satchel.model.patterns import lazy_pattern
from satchel.model.result import Result
from satchel.session.account import FLOOR, Account
from satchel.session.digests.base import BEGIN, Measure, Reached, seam_at
from satchel.session.digests.digest import SHAPES, digest, headline, shape_of
from satchel.store.contract import Category, Content, LedgerRow, Role
from satchel.text.passages import continues

__all__ = [
    "Compression",
    "Found",
    "History",
    "LedgerEntry",
    "Messages",
    "MessagesResult",
    "Output",
    "ReadOptions",
    "ResultOptions",
    "Shown",
    "ToolResult",
    "allocation_of",
    "as_output",
    "check_handle",
    "compress",
    "decompress",
    "digest_line",
    "examine_output",
    "new_handle",
    "page_of",
    "parse_cursor",
    "result_entry",
    "signature",
    "text_entry",
    "with_page",
]


class LedgerEntry(Result, msgspec.Struct, frozen=True, kw_only=True):
    """One entry of a session's ledger: a message, a call, a result or a page of one.

    `level` says how much of it the context holds: whole, digest, stub or gone. `token_count` is what it cost when
    it was entered, which is more than it costs now if it has shrunk since.
    """

    handle: str
    """`Session.expand` returns the original for it."""
    role: str
    category: str
    turn: int
    token_count: int
    level: str
    tool: str | None = None
    call_id: str | None = None
    pinned: bool = False
    size: int = 0

    @classmethod
    def of(cls, posted: LedgerRow) -> "LedgerEntry":
        return cls(
            handle=posted.handle,
            role=posted.role,
            category=posted.category,
            turn=posted.turn,
            token_count=posted.tokens,
            level=posted.level,
            tool=posted.tool or None,
            call_id=posted.call_id or None,
            pinned=posted.pinned,
            size=posted.size,
        )

    def _summary(self) -> str:
        return f"{self.handle} {self.tool or self.role} {self.level}, {self.token_count:,} tokens, turn {self.turn}"


class Shown(Result, msgspec.Struct, frozen=True, kw_only=True):
    """A page of a tool's result, within its allocation.

    `text` goes to the model. `str()` gives it too, and `structured()` has the same facts for programs.
    """

    text: str
    """What goes to the model: the content, then the note. `token_count` is its number of tokens."""
    content: str
    """The characters of the original themselves; the contents of all pages joined are the original."""
    note: str
    warning: str | None
    """The warning at the end of the note, if one was asked for and due."""
    handle: str
    cursor: str | None
    """`Session.page` returns the next page for it; None on the last page."""
    total: int
    returned: int
    unit: str
    """What `total` and `returned` count: records, lines or characters."""
    token_count: int
    allocation: int
    total_tokens: int
    """Of the whole; above 200,000 characters estimated from samples."""
    remaining_tokens: int
    """About what the pages after this one cost."""
    budget_note: str | None
    size: int

    def __str__(self) -> str:
        return self.text

    def structured(self) -> dict[str, Any]:
        """The facts of the note as JSON, for programs."""
        facts: dict[str, Any] = {
            "total": self.total,
            "returned": self.returned,
            "unit": self.unit,
            "continuation_token": self.cursor,
            "budget_note": self.budget_note,
        }
        return {name: value for name, value in facts.items() if value is not None}

    def _summary(self) -> str:
        part = f"{self.returned:,} of {self.total:,} {self.unit}"
        return f"{self.handle} {part}, {self.token_count:,} of {self.allocation:,} tokens"


class Found(Result, msgspec.Struct, frozen=True, kw_only=True):
    """The matches of a pattern in a result, within their allocation.

    `text` has them with their line numbers, and in long lines with their columns; below it says which of how many
    they are. It is empty if nothing fitted.
    """

    text: str
    token_count: int
    allocation: int
    matches: int
    """How many matches there are in all."""
    start: int
    """The number of the first match that was asked for, counted from 1."""
    shown: int
    """How many matches are in the text."""
    next_start: int | None
    """The `start` that gives the next matches; None if there are no more."""
    complete: bool
    """Whether the search reached the end of the result."""

    def __str__(self) -> str:
        return self.text

    def _summary(self) -> str:
        return f"{self.matches:,} matches, {self.shown:,} shown, {self.token_count:,} tokens"


class History(Result, msgspec.Struct, frozen=True, kw_only=True):
    """A session as a text log: results as digests, evicted entries as stubs.

    `entries` are all that the context holds, also those for which the text has no room.
    """

    text: str
    token_count: int
    entries: tuple[LedgerEntry, ...]
    omitted: int
    """How many entries are shown as stubs, or not at all, for lack of room."""

    def __str__(self) -> str:
        return self.text

    def _summary(self) -> str:
        return f"{len(self.entries):,} entries, {self.omitted:,} omitted, {self.token_count:,} tokens"


class MessagesResult(Result, msgspec.Struct, frozen=True, kw_only=True):
    """The messages of a session for a provider, and what they cost."""

    system: str
    messages: list[dict[str, Any]]
    token_count: int
    """Of the messages as JSON."""
    omitted: int
    """How many entries are left out for lack of room, without even a stub."""


class Messages(Result, list[dict[str, Any]]):
    """A session as a list of messages, as the API of a provider takes them.

    Pass `system` separately to Anthropic; for OpenAI it is the first message.
    """

    def __init__(
        self, messages: Sequence[dict[str, Any]], *, system: str, token_count: int, omitted: int = 0
    ) -> None:
        super().__init__(messages)
        self.omitted = omitted
        """How many entries are left out for lack of room, without even a stub."""
        self.system = system
        """The system prompt."""
        self.token_count = token_count
        """Of the messages as JSON."""

    def _plain(self) -> MessagesResult:
        return MessagesResult(
            system=self.system, messages=list(self), token_count=self.token_count, omitted=self.omitted
        )

    def _summary(self) -> str:
        return f"{len(self):,} messages, {self.omitted:,} omitted, {self.token_count:,} tokens"


# Outputs as text or bytes, and their compressed form in the store


# Below this size, compression saves less than its own overhead.
_WORTH_COMPRESSING = 200
# Compressing this much takes about as long as starting a thread.
_WORTH_A_THREAD = 50_000

Output = str | bytes


def as_output(output: Any) -> Output:
    """Return an output as text: UTF-8 bytes are decoded, other bytes stay bytes, other values become JSON."""
    if isinstance(output, bytearray | memoryview):
        output = bytes(output)
    if isinstance(output, bytes):
        try:
            return output.decode("utf-8")
        except UnicodeDecodeError:
            return output
    if isinstance(output, str):
        return output
    try:
        return _json(output)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InputError(f"the output is not text, bytes or JSON but {type(output).__name__}: {error}") from error


def _json(value: Any) -> str:
    """Encode a value as JSON; lone surrogates, which UTF-8 cannot encode, are escaped."""
    try:
        return as_json(value)
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":"))


def compress(output: Output) -> Content:
    """Return the output in the form the store keeps, under the hash of its bytes."""
    # A lone surrogate, which JSON can express, must survive the round trip.
    data = output if isinstance(output, bytes) else output.encode("utf-8", "surrogatepass")
    name = blake2b(data, digest_size=16).digest()
    if len(data) >= _WORTH_COMPRESSING:
        small = zlib.compress(data, 1)
        if len(small) < len(data):
            return Content(name, "zlib", small)
    return Content(name, "plain", data)


class Compression:
    """Compresses an output, in a thread if it is large, while its page is being made."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._content: Content | None = None
        self._thread: threading.Thread | None = None
        if len(output) > _WORTH_A_THREAD:
            self._thread = threading.Thread(target=self._compress, daemon=True)
            self._thread.start()

    def done(self) -> Content:
        """Wait for the compressed content."""
        if self._thread is not None:
            self._thread.join()
        # If the thread ran out of memory, compress again here, so that the error reaches the caller.
        return self._content or compress(self._output)

    def _compress(self) -> None:
        with contextlib.suppress(MemoryError):
            self._content = compress(self._output)


def decompress(content: Content) -> bytes:
    """Return exactly the bytes that were compressed."""
    if content.codec == "plain":
        return content.data
    try:
        return zlib.decompress(content.data)
    except zlib.error as error:
        raise StoreFormatError(
            f"a stored result is damaged: {error}; run `satchel doctor` to check the file"
        ) from error


# Handles of contents. A cursor is a handle, the character where the next page begins, and a signature.


# Crockford's base 32, without i, l, o and u: no characters that look alike, and few accidental words.
_LETTERS = "0123456789abcdefghjkmnpqrstvwxyz"
_HANDLE_LENGTH = 8
_SEAL_LENGTH = 6

_HANDLE = lazy_pattern(rf"[{_LETTERS}]{{{_HANDLE_LENGTH}}}")
_CURSOR = lazy_pattern(
    rf"([{_LETTERS}]{{{_HANDLE_LENGTH}}})\.([{_LETTERS}]{{1,12}})\.([{_LETTERS}]{{{_SEAL_LENGTH}}})"
)


class Place(NamedTuple):
    """The parts of a cursor."""

    handle: str
    start: int
    signature: str


def new_handle() -> str:
    return _base32(int.from_bytes(os.urandom(5)), _HANDLE_LENGTH)


def check_handle(handle: object) -> str:
    """Check a handle and return it as it is stored; a cursor is accepted in place of its handle."""
    if not isinstance(handle, str):
        raise InputError(f"the handle is not a string but {type(handle).__name__}")
    bare = handle.strip().lower()
    if found := _CURSOR.fullmatch(bare):
        return found[1]
    if not _HANDLE.fullmatch(bare):
        raise InputError(f"{handle[:40]!r} is not a handle; a handle has {_HANDLE_LENGTH} letters and digits")
    return bare


def cursor_to(handle: str, start: int, secret: bytes) -> str:
    return f"{handle}.{_base32(start)}.{signature(handle, start, secret)}"


def parse_cursor(cursor: object) -> Place:
    """Split a cursor into its parts; the caller must check its signature."""
    if not isinstance(cursor, str):
        raise InputError(f"the cursor is not a string but {type(cursor).__name__}")
    found = _CURSOR.fullmatch(cursor.strip().lower())
    if found is None:
        raise InputError(f"{cursor[:60]!r} is not a cursor; give it exactly as it was shown")
    start = 0
    for letter in found[2]:
        start = start * len(_LETTERS) + _LETTERS.index(letter)
    return Place(found[1], start, found[3])


def signature(handle: str, start: int, secret: bytes) -> str:
    """Return the signature of a cursor: a keyed hash, which proves that this session made it."""
    digest = blake2b(f"{handle}.{start}".encode(), key=secret, digest_size=8).digest()
    return _base32(int.from_bytes(digest) % len(_LETTERS) ** _SEAL_LENGTH, _SEAL_LENGTH)


def _base32(number: int, width: int = 1) -> str:
    letters = ""
    while number or len(letters) < width:
        number, rest = divmod(number, len(_LETTERS))
        letters = _LETTERS[rest] + letters
    return letters


# Where a page ends: at a record, a hunk or a line if possible, within its tokens, never inside a character


# A page may end at a line if that uses this share of its room; otherwise it is cut between words.
_LINE_ENDS = seam_at(re.compile(r"\n"), 0.3)
_WORD_ENDS = seam_at(re.compile(r"(?<=\s)(?=\S)"), 0.3)


def _anywhere(text: str, start: int, within: Bracket) -> Sequence[int]:
    return range(within.fits + 1, within.over)


def _between_characters(text: str, start: int, stop: int) -> int:
    """Move `stop` back until it splits neither a combined character nor a CRLF."""
    while start < stop < len(text) and (continues(text, stop) or text[stop - 1 : stop + 1] == "\r\n"):
        stop -= 1
    return stop


_CHARACTERS = Seam(_anywhere, 0.0, back=_between_characters)


def page_stop(text: str, start: int, *, room: int, price: Price, shape: str) -> Beginning:
    """Return the end of the page that begins at `start`; `start` itself if not even one character fits.

    The price of a longer beginning may be slightly lower, as token counts are not strictly monotonic.
    """
    seams = (*SHAPES[shape].seams, _LINE_ENDS, _WORD_ENDS, _CHARACTERS)
    return longest_beginning(
        text, start=start, room=room, price_at=lambda stop: price(text[start:stop]), seams=seams
    )


# The note below a page, and the lines that replace shortened or evicted entries


class Noted(NamedTuple):
    """A content with its note."""

    text: str
    note: str
    tokens: int
    """Of the text, as the note states them."""
    warning: str | None
    """The warning at the end of the note, if there is one."""


def noted(
    content: str,
    lines: list[str],
    account: Account,
    count: Count,
    *,
    tokens: int = 0,
    extra: int = 0,
    place: str | None = None,
    warn: bool,
) -> Noted:
    """Return a content with a note that states the tokens of both and what the account has left afterwards.

    `tokens` is about the cost of the content; `extra` are the tokens of parts besides the text; `place` says where
    a last page is. With `warn`, a warning that is due is the last line, and counted as the rest.
    """
    end = "" if place is None else f"; {place}, the end"
    beside = f" and ~{extra:,} beside the text" if extra else ""
    above = content if not content or content.endswith("\n") else f"{content}\n"

    def note(stated: int) -> str:
        after = account.after(stated)
        left = "" if after.budget.assumed else f"; {after.left} left"
        warning = after.due_warning if warn else None
        return "\n".join([*lines, f"📏 ~{stated:,} tokens{beside}{left}{end}", *([warning] if warning else [])])

    guess = tokens + count(note(tokens))
    text, counted = self_counted(lambda stated: above + note(stated), count, guess=guess)
    return Noted(text, text[len(above) :], counted, account.after(counted).due_warning if warn else None)


def binary_note(size: int, handle: str) -> str:
    return f"[binary output, {size:,} bytes that are not UTF-8 text: kept whole, handle={handle}]"


def stub_line(handle: str, named: str, headline: str, *, size: int, tokens: int) -> str:
    """Return the line that replaces an evicted entry: handle, one-line description, size."""
    return f"[{handle} {named}: {headline} · {kilobytes(size)}, ~{tokens:,} tokens]"


def digest_line(handle: str, tool: str, digest: str) -> str:
    return f"[{handle}] {tool}: {digest}"


def kilobytes(size: int) -> str:
    return f"{size:,} bytes" if size < 1_000 else f"{size / 1_000:,.1f} KB"


# Token counts of long texts, estimated from samples


_EXACT_BELOW = 200_000
_SAMPLES = 16
_SAMPLE = 4_096


def about_tokens(text: str, count: Callable[[str], int]) -> int:
    """Count the tokens: exactly up to 200,000 characters, above that from samples of the whole text."""
    if len(text) <= _EXACT_BELOW:
        return count(text)
    last = len(text) - _SAMPLE
    starts = [last * number // (_SAMPLES - 1) for number in range(_SAMPLES)]
    counted = sum(count(text[start : start + _SAMPLE]) for start in starts)
    return round(counted / (_SAMPLES * _SAMPLE) * len(text))


# A result: examined once, then shown in pages that fit their allocation, each with a note below


# A text with this many characters, and tokens, for each token of room cannot fit in one page.
_MANY = 4
_USUAL_NOTE = 75
_LONG_CHARACTER = 40


class ResultOptions(TypedDict, total=False):
    """Options of `Session.result` and `Session.prepare`: how a result is entered and shown."""

    call_id: str | None
    """The id of the call that this result answers."""
    arguments: Mapping[str, Any] | None
    """The arguments of the call, for the digest; by default those recorded with `call`."""
    error: bool
    extra_tokens: int
    """Tokens of parts that are passed on besides the text, such as images."""
    max_tokens: int | None
    """Replaces the allocation; never more than the turn has left."""
    pinned: bool
    new_turn: bool
    """Whether this result begins a turn."""
    remark: str | None
    """A line about the call, which begins the note."""
    warn: bool
    """Whether a due warning is the last line of the note (`Shown.warning`) instead of being given by `warning`."""


class ReadOptions(TypedDict, total=False):
    """Options of `Session.page` and `Session.find`: how a part of a stored result is shown and entered."""

    max_tokens: int | None
    """Replaces the allocation; never more than the turn has left."""
    call_id: str | None
    """The id of the call that asked for it."""
    remark: str | None
    """A line about the call, which begins the note."""
    record: bool
    """False leaves the ledger as it is, for a store that cannot be written."""


class ToolResult(msgspec.Struct, frozen=True, kw_only=True):
    """A tool's output, examined once, with the options of its call.

    Its pages, its digest and its ledger entry are all made from this value.
    """

    tool: str
    handle: str
    text: str
    data: bytes | None = None
    """The output if it is not text; then `text` is empty."""
    size: int
    """In bytes."""
    shape: str
    measure: Measure
    total_tokens: int
    secret: bytes
    """The key that signs the session's cursors."""
    call_id: str | None = None
    arguments: Mapping[str, Any] | None = None
    error: bool = False
    extra_tokens: int = 0
    max_tokens: int | None = None
    pinned: bool = False
    new_turn: bool = False
    remark: str | None = None
    warn: bool = False
    unstored: str | None = None
    """Why the output could not be stored; then its page has no cursor."""
    before: Reached = BEGIN
    """What lies before the page to be made."""


def examine_output(
    output: Output, *, tool: str, handle: str, secret: bytes, count: Count, **options: Unpack[ResultOptions]
) -> ToolResult:
    """Determine size, shape and tokens of an output."""
    if isinstance(output, bytes):
        text, data, shape, size, total_tokens = "", output, "text", len(output), 0
        measure = Measure(size, "bytes")
    else:
        text, data, shape = output, None, shape_of(output, tool=tool)
        size, total_tokens = len(output.encode("utf-8", "surrogatepass")), about_tokens(output, count)
        measure = SHAPES[shape].measure(output)
    return ToolResult(
        tool=tool,
        handle=handle,
        text=text,
        data=data,
        size=size,
        shape=shape,
        measure=measure,
        total_tokens=total_tokens,
        secret=secret,
        **options,
    )


def allocation_of(result: ToolResult, account: Account) -> int:
    """Return how many tokens the text of a result may have now."""
    granted = (account.in_next_turn() if result.new_turn else account).granted(result.max_tokens)
    # Images cannot be cut. Even if they use up the allocation, the text must say what there is and how to go on.
    return max(min(granted, FLOOR), granted - result.extra_tokens)


def page_of(result: ToolResult, start: int, account: Account, *, hints: bool, count: Count) -> Shown:
    """Return the page that begins at a character, within the tokens that the account grants now.

    Its note states what the account has left afterwards. Binary output has only the note. A result that is whole
    without its warning is not cut to warn: the next result will.
    """
    page = _page_from(result, start, account, hints=hints, count=count)
    if result.warn and ((page.cursor and page.warning) or not page.text):
        unwarned = msgspec.structs.replace(result, warn=False)
        plain = _page_from(unwarned, start, account, hints=hints, count=count)
        return plain if plain.cursor is None or not page.text else page
    return page


def _page_from(result: ToolResult, start: int, account: Account, *, hints: bool, count: Count) -> Shown:
    allocation = allocation_of(result, account)
    held = (account.in_next_turn() if result.new_turn else account).after(result.extra_tokens)
    text, room = result.text, allocation
    if start + _MANY * allocation < len(text) and result.total_tokens > _MANY * allocation:
        # One page is not enough, so reserve room for the note that says so.
        room -= _USUAL_NOTE

    def made(stop: Beginning) -> Shown:
        return _made(result, start, stop, allocation=allocation, account=held, hints=hints, count=count)

    def attempt(room: int) -> Attempt[Shown] | None:
        stop = page_stop(text, start, room=room, price=count, shape=result.shape)
        if stop.end == start:
            return None
        shown = made(stop)
        # Cutting off one token of text saves at least one token of the page.
        return Attempt(shown, shown.token_count - allocation, used=stop.price)

    if not text:
        shown = made(Beginning(start, 0))
        return shown if shown.token_count <= allocation else _empty_page(shown, shown.token_count)
    if (page := with_less_room(room, attempt)) is not None:
        return page
    # Show at least one character: a page without content would have a cursor to itself.
    first = first_character(text[start : start + _LONG_CHARACTER])
    least = made(Beginning(start + max(1, len(first)), 1))
    return least if least.token_count <= allocation else _empty_page(made(Beginning(start, 0)), least.token_count)


def _made(
    result: ToolResult, start: int, page: Beginning, *, allocation: int, account: Account, hints: bool, count: Count
) -> Shown:
    text, stop = result.text, page.end
    content = text[start:stop]
    more = stop < len(text)
    after = result.measure.reached(text, stop, result.before)
    returned = after.units - result.before.units
    place = result.measure.place(text, start, stop, result.before, after)
    rest = round(result.total_tokens * (len(text) - stop) / len(text)) if more else 0
    cursor = cursor_to(result.handle, stop, result.secret) if more else None
    extra = result.extra_tokens
    lines = [] if text or extra else ["[no output]"]
    budget_note = None
    if result.data is not None:
        budget_note = binary_note(result.size, result.handle)
        lines, extra = [budget_note], 0
    if more and result.unstored is not None:
        cursor = None
        budget_note = f"{place}; the rest (~{rest:,} tokens) is not kept: {result.unstored}"
        lines = [f"[{budget_note}]"]
    elif more:
        summary = f"{place}; the rest costs ~{rest:,} tokens"
        lines = [f"➡ The rest: cursor={cursor}", f"⚡ {summary}. handle={result.handle}"]
        if hints and returned:
            room = account.after(page.price + _USUAL_NOTE).allocation
            lines[-1] += f". Budget allows ~{max(1, room * returned // max(1, page.price)):,} more at once."
        budget_note = f"{summary}; go on with the continuation_token"
    if result.remark:
        lines = [result.remark, *lines]
    made = noted(
        content,
        lines,
        account,
        count,
        tokens=page.price,
        extra=extra,
        place=place if start and not more else None,
        warn=result.warn,
    )
    return Shown(
        text=made.text,
        content=content,
        note=made.note,
        warning=made.warning,
        handle=result.handle,
        cursor=cursor,
        total=result.measure.total,
        returned=returned,
        unit=result.measure.unit,
        token_count=made.tokens,
        allocation=allocation,
        total_tokens=result.total_tokens,
        remaining_tokens=rest,
        budget_note=budget_note,
        size=result.size,
    )


def _empty_page(made: Shown, needed: int) -> Shown:
    nothing = f"nothing fitted (needs at least {needed:,} tokens); the continuation_token begins with it"
    return msgspec.structs.replace(
        made, text="", content="", note="", warning=None, token_count=0, returned=0, budget_note=nothing
    )


# Ledger entries of results and texts: size, digest, and the stub that replaces them after eviction


def result_entry(result: ToolResult, count: Count) -> LedgerRow:
    """Return the ledger entry of a result; `with_page` adds the page that was shown."""
    if result.data is not None:
        short = line = f"binary output of {result.size:,} bytes"
    else:
        arguments, shape, error = result.arguments, result.shape, result.error
        short = digest(result.text, arguments=arguments, shape=shape, error=error)
        line = headline(result.text, arguments=arguments, shape=shape, error=error)
    stub = stub_line(result.handle, result.tool, line, size=result.size, tokens=result.total_tokens)
    return LedgerRow(
        handle=result.handle,
        category="tool_results",
        role="result",
        pinned=result.pinned,
        error=result.error,
        media="text" if result.data is None else "bytes",
        size=result.size,
        total_tokens=result.total_tokens,
        shape=result.shape,
        tool=result.tool,
        call_id=result.call_id or "",
        digest=short,
        digest_tokens=count(digest_line(result.handle, result.tool, short)),
        stub=stub,
        stub_tokens=count(stub),
    )


def with_page(entry: LedgerRow, shown: Shown, *, start: int = 0, extra_tokens: int = 0) -> LedgerRow:
    """Return the entry with the page that was shown of it."""
    return msgspec.structs.replace(
        entry,
        start=start,
        stop=start + len(shown.content),
        tokens=shown.token_count + extra_tokens,
        note=shown.note,
    )


def text_entry(
    text: str, role: Role, category: Category, handle: str, count: Count, *, tool: str = ""
) -> LedgerRow:
    """Return the ledger entry of a text that is never paged."""
    tokens = count(text)
    size = len(text.encode("utf-8", "surrogatepass"))
    line = headline(text, tool=tool or None, arguments=None, shape="text")
    stub = stub_line(handle, tool or role, line, size=size, tokens=tokens)
    return LedgerRow(
        handle=handle,
        category=category,
        role=role,
        tool=tool,
        size=size,
        stop=len(text),
        tokens=tokens,
        total_tokens=tokens,
        stub=stub,
        stub_tokens=count(stub),
    )
