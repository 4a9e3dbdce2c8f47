"""A tool's result: stored whole under a handle, handed out in pages, with cursors, notes and a digest."""

import contextlib
import json
import os
import re
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec

from satchel.errors import InputError, StoreFormatError
from satchel.fitting.engine import self_counted
from satchel.fitting.listing import as_json
from satchel.session.account import Account
from satchel.session.digests.base import Ends, Measure, found_by
from satchel.session.digests.digest import SHAPES, digest, headline, shape_of
from satchel.store.ledger import Content, Posted, Role
from satchel.text.cutting import Bracket, Price, first_character, narrowed
from satchel.text.passages import continues

__all__ = [
    "Entry",
    "Found",
    "History",
    "Messages",
    "Packing",
    "Parcel",
    "Place",
    "Said",
    "Shown",
    "Stop",
    "about_tokens",
    "binary_note",
    "check_handle",
    "cursor_to",
    "delivered",
    "delivered_bytes",
    "digest_line",
    "fields_of_result",
    "fields_of_text",
    "kilobytes",
    "new_handle",
    "noted",
    "packed",
    "page_stop",
    "parcel_of",
    "parse_cursor",
    "said",
    "seal",
    "stub_line",
    "unpacked",
]


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """What was entered into the books of a session."""

    handle: str
    """What `expand` gives the whole of it for."""
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
    def of(cls, posted: Posted) -> "Entry":
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


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """A page of a result, within its allocation."""

    text: str
    """What goes to the model: the content, then the note. `token_count` is its number of tokens."""
    content: str
    """The characters of the original themselves; the contents of all pages joined are the original."""
    note: str
    handle: str
    cursor: str | None
    """What `page` gives the next page for; None where there is none."""
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
        """What a program wants to know of it."""
        facts: dict[str, Any] = {
            "total": self.total,
            "returned": self.returned,
            "unit": self.unit,
            "continuation_token": self.cursor,
            "budget_note": self.budget_note,
        }
        return {name: value for name, value in facts.items() if value is not None}


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """The lines of a result that match a pattern, within their allocation."""

    text: str
    token_count: int
    allocation: int
    matches: int
    """Lines that match."""
    shown: int
    """How many of them the text has."""
    complete: bool
    """Whether the search went to the end."""

    def __str__(self) -> str:
        return self.text


class History(msgspec.Struct, frozen=True, kw_only=True):
    """The work log as text: results as digests, what was evicted as stubs."""

    text: str
    token_count: int
    entries: tuple[Entry, ...]
    omitted: int
    """How many entries are shown as stubs, or not at all, for lack of room."""

    def __str__(self) -> str:
        return self.text


class Messages(list[dict[str, Any]]):
    """Messages as a provider takes them."""

    def __init__(
        self, messages: Sequence[dict[str, Any]], *, system: str, token_count: int, omitted: int = 0
    ) -> None:
        super().__init__(messages)
        self.omitted = omitted
        """How many entries are left out for lack of room, without even a stub."""
        self.system = system
        """The system prompt, which Anthropic takes apart from the messages."""
        self.token_count = token_count
        """Of the messages as JSON."""


# What was said as bytes, packed for the store and back.


# Below this, packing saves less than its own overhead.
_WORTH_PACKING = 200
# Starting a thread takes about as long as packing this much.
_WORTH_A_THREAD = 50_000

Said = str | bytes


def said(output: Any) -> Said:
    """An output as text, or as bytes where they are not UTF-8; anything but these as JSON."""
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
        raise InputError(f"an output is a text, bytes or JSON, not {type(output).__name__}: {error}") from error


def _json(value: Any) -> str:
    """A value as JSON; half a surrogate pair, which UTF-8 does not know, is spelled out."""
    try:
        return as_json(value)
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":"))


def packed(whole: Said) -> Content:
    # A lone surrogate, which JSON can spell, comes back as it was.
    data = whole if isinstance(whole, bytes) else whole.encode("utf-8", "surrogatepass")
    name = blake2b(data, digest_size=16).digest()
    if len(data) >= _WORTH_PACKING:
        small = zlib.compress(data, 1)
        if len(small) < len(data):
            return Content(name, "zlib", small)
    return Content(name, "plain", data)


class Packing:
    """A content on its way: a large one is packed in a thread, while others look at it."""

    def __init__(self, whole: Said) -> None:
        self._whole = whole
        self._packed: Content | None = None
        self._thread: threading.Thread | None = None
        if len(whole) > _WORTH_A_THREAD:
            self._thread = threading.Thread(target=self._pack, daemon=True)
            self._thread.start()

    def done(self) -> Content:
        if self._thread is not None:
            self._thread.join()
        # Also where the thread failed: here the error has somebody to tell.
        return self._packed or packed(self._whole)

    def _pack(self) -> None:
        with contextlib.suppress(MemoryError):
            self._packed = packed(self._whole)


def unpacked(content: Content) -> bytes:
    """The very bytes that were packed."""
    if content.codec == "plain":
        return content.data
    try:
        return zlib.decompress(content.data)
    except zlib.error as error:
        raise StoreFormatError(
            f"a stored result is damaged: {error}; `satchel doctor` looks at the file"
        ) from error


# Handles of what was said, and cursors to where its next page begins.


# Without i, l, o and u: nothing that is read for something else, and few words.
_LETTERS = "0123456789abcdefghjkmnpqrstvwxyz"
_HANDLE_LENGTH = 8
_SEAL_LENGTH = 6

_HANDLE = re.compile(rf"[{_LETTERS}]{{{_HANDLE_LENGTH}}}")
_CURSOR = re.compile(
    rf"([{_LETTERS}]{{{_HANDLE_LENGTH}}})\.([{_LETTERS}]{{1,12}})\.([{_LETTERS}]{{{_SEAL_LENGTH}}})"
)


class Place(NamedTuple):
    """What a cursor says."""

    handle: str
    start: int
    seal: str


def new_handle() -> str:
    return _spelled(int.from_bytes(os.urandom(5)), _HANDLE_LENGTH)


def check_handle(handle: object) -> str:
    """A handle as it is stored; a cursor stands for the handle it begins with."""
    if not isinstance(handle, str):
        raise InputError(f"a handle is a string, not {type(handle).__name__}")
    bare = handle.strip().lower()
    if found := _CURSOR.fullmatch(bare):
        return found[1]
    if not _HANDLE.fullmatch(bare):
        raise InputError(f"{handle[:40]!r} is not a handle; those have {_HANDLE_LENGTH} letters and digits")
    return bare


def cursor_to(handle: str, start: int, secret: bytes) -> str:
    return f"{handle}.{_spelled(start)}.{seal(handle, start, secret)}"


def parse_cursor(cursor: object) -> Place:
    """What a cursor says, which its seal has yet to prove."""
    if not isinstance(cursor, str):
        raise InputError(f"a cursor is a string, not {type(cursor).__name__}")
    found = _CURSOR.fullmatch(cursor.strip().lower())
    if found is None:
        raise InputError(f"{cursor[:60]!r} is not a cursor; give it exactly as it was shown")
    start = 0
    for letter in found[2]:
        start = start * len(_LETTERS) + _LETTERS.index(letter)
    return Place(found[1], start, found[3])


def seal(handle: str, start: int, secret: bytes) -> str:
    """What only the session can have written."""
    digest = blake2b(f"{handle}.{start}".encode(), key=secret, digest_size=8).digest()
    return _spelled(int.from_bytes(digest) % len(_LETTERS) ** _SEAL_LENGTH, _SEAL_LENGTH)


def _spelled(number: int, width: int = 1) -> str:
    letters = ""
    while number or len(letters) < width:
        number, rest = divmod(number, len(_LETTERS))
        letters = _LETTERS[rest] + letters
    return letters


# Where a page ends: at a record, a hunk or a line if it can, within its tokens, never inside a character.


# A page that ends at a better place may leave this much of its room unused.
_ENOUGH = 0.6
# An end of a line is good enough where it uses this much; a line as long as a page is cut between words.
_ENOUGH_OF_LINES = 0.3

_FIRST_REACH = 4
_LINE_ENDS = found_by(re.compile(r"\n"))
_WORD_ENDS = found_by(re.compile(r"(?<=\s)(?=\S)"))


class Stop(NamedTuple):
    """Where a page ends, and what it costs, which may be a little less where it was cut inside a word."""

    place: int
    price: int


def page_stop(text: str, start: int, *, room: int, price: Price, shape: str) -> Stop:
    """The end of the page that starts here; the start itself where not even a character has room.

    The price of a beginning may go down a little as it grows, as that of tokens does.
    """

    def price_at(stop: int) -> int:
        return price(text[start:stop])

    if room <= 0 or start >= len(text):
        return Stop(start, 0)
    bracket = _first_bracket(text, start, price_at, room)
    if bracket.fits == len(text):
        return Stop(bracket.fits, bracket.spent)
    for ends, share in _kinds_of_ends(shape):
        bracket = narrowed(bracket, ends(text, start, bracket.fits, bracket.over), price_at, room)
        if bracket.fits > start and bracket.spent >= share * room:
            return Stop(bracket.fits, bracket.spent)
    last = narrowed(bracket, _anywhere(bracket), price_at, room)
    return Stop(_between_characters(text, start, last.fits), last.spent)


def _first_bracket(text: str, start: int, price_at: Callable[[int], int], room: int) -> Bracket:
    """From the start to an end that is too far, doubled from a near one, so that no long text is priced whole."""
    reach = _FIRST_REACH * room
    while start + reach < len(text):
        if (cost := price_at(start + reach)) > room:
            return Bracket(start, 0, start + reach, cost)
        reach *= 2
    cost = price_at(len(text))
    if cost <= room:
        return Bracket(len(text), cost, len(text), room + 1)
    return Bracket(start, 0, len(text), cost)


def _kinds_of_ends(shape: str) -> Iterator[tuple[Ends, float]]:
    """The best places first, with how much of the room a page must use to end there."""
    for ends in SHAPES[shape].page_ends:
        yield ends, _ENOUGH
    yield _LINE_ENDS, _ENOUGH_OF_LINES
    yield _WORD_ENDS, _ENOUGH_OF_LINES


def _anywhere(within: Bracket) -> Sequence[int]:
    return range(within.fits + 1, within.over)


def _between_characters(text: str, start: int, stop: int) -> int:
    """Back to where no character is cut, nor a line end of two; a character longer than the room stays out."""
    while start < stop < len(text) and (continues(text, stop) or text[stop - 1 : stop + 1] == "\r\n"):
        stop -= 1
    return stop


# The lines below a page that say what it is a part of and costs, and the lines that stand for what has left.


Count = Callable[[str], int]


def noted(
    content: str, lines: list[str], left: Callable[[int], int], count: Count, *, tokens: int = 0, extra: int = 0
) -> tuple[str, str, int]:
    """The content, of about so many tokens, with its note; the note alone; the tokens of both, which it states.

    `left` says what a session has left after a number of tokens, `extra` are those of parts beside the text.
    """
    beside = f" and ~{extra:,} for what is not text" if extra else ""
    above = content if not content or content.endswith("\n") else f"{content}\n"

    def note(stated: int) -> str:
        return "\n".join([*lines, f"📏 ~{stated:,} tokens{beside}; ~{left(stated) // 1000}k left"])

    guess = tokens + count(note(tokens))
    text, counted = self_counted(lambda stated: above + note(stated), count, guess=guess)
    return text, text[len(above) :], counted


def binary_note(size: int, handle: str) -> str:
    return f"[binary output, {size:,} bytes that are not UTF-8 text: kept whole, handle={handle}]"


def stub_line(handle: str, named: str, headline: str, *, size: int, tokens: int) -> str:
    """What stays of an entry that was evicted: its handle, one line, its size."""
    return f"[{handle} {named}: {headline} · {kilobytes(size)}, ~{tokens:,} tokens]"


def digest_line(handle: str, tool: str, digest: str) -> str:
    return f"[{handle}] {tool}: {digest}"


def kilobytes(size: int) -> str:
    return f"{size:,} bytes" if size < 1_000 else f"{size / 1_000:,.1f} KB"


# How many tokens a long text has, without counting all of it.


_EXACT_BELOW = 200_000
_SAMPLES = 16
_SAMPLE = 4_096


def about_tokens(text: str, count: Callable[[str], int]) -> int:
    """Exact up to 200,000 characters; above, by samples from all over the text."""
    if len(text) <= _EXACT_BELOW:
        return count(text)
    last = len(text) - _SAMPLE
    starts = [last * number // (_SAMPLES - 1) for number in range(_SAMPLES)]
    counted = sum(count(text[start : start + _SAMPLE]) for start in starts)
    return round(counted / (_SAMPLES * _SAMPLE) * len(text))


# A result on its way out: whole if it fits its allocation, else the next page of it, with the note below.


# So many characters for each token of the room, and tokens too, are surely not one page.
_MANY = 4
_USUAL_NOTE = 75
_LONG_CHARACTER = 40


class Parcel(NamedTuple):
    """What is known of a result before a page of it is made."""

    text: str
    handle: str
    shape: str
    measure: Measure
    total_tokens: int
    size: int
    secret: bytes
    extra: int = 0
    """Tokens of parts that go beside the text."""


def delivered(parcel: Parcel, start: int, *, allocation: int, account: Account, hints: bool, count: Count) -> Shown:
    """The page that starts at a character; the note says what the account has left after it."""
    text = parcel.text
    room = allocation
    if start + _MANY * allocation < len(text) and parcel.total_tokens > _MANY * allocation:
        # There will be more than this page, and the note that says so.
        room -= _USUAL_NOTE

    def made(stop: Stop) -> Shown:
        return _made(parcel, start, stop, allocation=allocation, account=account, hints=hints, count=count)

    while (stop := page_stop(text, start, room=room, price=count, shape=parcel.shape)).place > start or not text:
        shown = made(stop)
        over = shown.token_count - allocation
        if over <= 0:
            return shown
        if not text:
            return _silent(shown, shown.token_count)
        # What is cut off costs a token or more for each token that is too many.
        room = min(room, stop.price) - over
    # A page that shows nothing would lead to itself.
    first = first_character(text[start : start + _LONG_CHARACTER])
    least = made(Stop(start + max(1, len(first)), 1))
    return least if least.token_count <= allocation else _silent(made(Stop(start, 0)), least.token_count)


def delivered_bytes(data: bytes, handle: str, *, allocation: int, account: Account, count: Count) -> Shown:
    """For what is no text: a line that says so. The bytes are kept."""
    text, note, tokens = noted("", [binary_note(len(data), handle)], _left(account), count)
    made = Shown(
        text=text,
        content="",
        note=note,
        handle=handle,
        cursor=None,
        total=len(data),
        returned=0,
        unit="bytes",
        token_count=tokens,
        allocation=allocation,
        total_tokens=0,
        remaining_tokens=0,
        budget_note=binary_note(len(data), handle),
        size=len(data),
    )
    return made if tokens <= allocation else _silent(made, tokens)


def _made(
    parcel: Parcel, start: int, end: Stop, *, allocation: int, account: Account, hints: bool, count: Count
) -> Shown:
    text, stop = parcel.text, end.place
    content = text[start:stop]
    more = stop < len(text)
    returned = parcel.measure.within(text, start, stop)
    rest = round(parcel.total_tokens * (len(text) - stop) / len(text)) if more else 0
    cursor = cursor_to(parcel.handle, stop, parcel.secret) if more else None
    summary = None
    lines = [] if text or parcel.extra else ["[no output]"]
    if more:
        summary = (
            f"{returned:,} of {parcel.measure.total:,} {parcel.measure.unit} shown; the rest costs ~{rest:,} tokens"
        )
        lines = [f"➡ The rest: cursor={cursor}", f"⚡ {summary}. handle={parcel.handle}"]
        if hints and returned:
            room = account.after(end.price + _USUAL_NOTE).allocation
            lines[-1] += f". Budget allows ~{max(1, room * returned // max(1, end.price)):,} more at once."
    whole, note, tokens = noted(content, lines, _left(account), count, tokens=end.price, extra=parcel.extra)
    return Shown(
        text=whole,
        content=content,
        note=note,
        handle=parcel.handle,
        cursor=cursor,
        total=parcel.measure.total,
        returned=returned,
        unit=parcel.measure.unit,
        token_count=tokens,
        allocation=allocation,
        total_tokens=parcel.total_tokens,
        remaining_tokens=rest,
        budget_note=summary and f"{summary}; go on with the continuation_token",
        size=parcel.size,
    )


def _left(account: Account) -> Callable[[int], int]:
    return lambda tokens: account.after(tokens).remaining


def _silent(made: Shown, needed: int) -> Shown:
    nothing = f"nothing fitted (needs at least {needed:,} tokens); the continuation_token begins with it"
    return msgspec.structs.replace(
        made, text="", content="", note="", token_count=0, returned=0, budget_note=nothing
    )


# What is entered of a text or a result: its size, its shape, what is said of it in fewer words.


def parcel_of(whole: Said, tool: str, handle: str, secret: bytes, count: Count) -> Parcel:
    """A result, looked at once before pages of it are made."""
    if isinstance(whole, bytes):
        return Parcel("", handle, "text", Measure(len(whole), "bytes"), 0, len(whole), secret)
    shape = shape_of(whole, tool=tool)
    size = len(whole.encode("utf-8", "surrogatepass"))
    return Parcel(whole, handle, shape, SHAPES[shape].measure(whole), about_tokens(whole, count), size, secret)


def fields_of_result(
    parcel: Parcel, whole: Said, tool: str, arguments: Mapping[str, Any] | None, *, error: bool, count: Count
) -> dict[str, Any]:
    """What is entered of a result besides its page."""
    if isinstance(whole, bytes):
        short = line = f"binary output of {len(whole):,} bytes"
    else:
        short = digest(whole, tool=tool, arguments=arguments, shape=parcel.shape, error=error)
        line = headline(whole, tool=tool, arguments=arguments, shape=parcel.shape, error=error)
    stub = stub_line(parcel.handle, tool, line, size=parcel.size, tokens=parcel.total_tokens)
    return {
        "media": "bytes" if isinstance(whole, bytes) else "text",
        "size": parcel.size,
        "shape": parcel.shape,
        "total_tokens": parcel.total_tokens,
        "digest": short,
        "digest_tokens": count(digest_line(parcel.handle, tool, short)),
        "stub": stub,
        "stub_tokens": count(stub),
    }


def fields_of_text(text: str, role: Role, handle: str, count: Count, *, tool: str = "") -> dict[str, Any]:
    """What is entered of a text that nobody pages through."""
    tokens = count(text)
    size = len(text.encode("utf-8", "surrogatepass"))
    line = headline(text, tool=tool or None, arguments=None, shape="text")
    stub = stub_line(handle, tool or role, line, size=size, tokens=tokens)
    return {
        "handle": handle,
        "tool": tool,
        "size": size,
        "stop": len(text),
        "tokens": tokens,
        "total_tokens": tokens,
        "stub": stub,
        "stub_tokens": count(stub),
    }
