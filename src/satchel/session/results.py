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
from satchel.fitting.cutting import Beginning, Bracket, Price, Seam, first_character, longest_beginning
from satchel.fitting.engine import Attempt, Count, self_counted, with_less_room
from satchel.fitting.listing import as_json
from satchel.session.account import Account
from satchel.session.digests.digest import digest, headline
from satchel.session.digests.shapes import Shape, shape_of
from satchel.store.ledger import Content, Posted, Role
from satchel.text.passages import continues

__all__ = [
    "Entry",
    "Found",
    "History",
    "Measure",
    "Messages",
    "Packing",
    "Parcel",
    "Place",
    "Said",
    "Shown",
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
    "measure",
    "new_handle",
    "noted",
    "packed",
    "page_stop",
    "parcel_of",
    "parse_cursor",
    "said",
    "seal",
    "separators",
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


# Records, lines or characters: what the parts of an output are counted in.


_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}]|,\s*+', re.DOTALL)
_OPENING, _CLOSING = "[{", "]}"

_raw_list = msgspec.json.Decoder(list[msgspec.Raw])
_raw_object = msgspec.json.Decoder(dict[str, msgspec.Raw])


class Measure(NamedTuple):
    """How many parts an output has, and what they are called."""

    total: int
    unit: str
    level: int = 0
    """How deep in brackets the records stand."""

    def within(self, text: str, start: int, stop: int) -> int:
        """How many of them a page shows; one that goes on from the page before counts where it ends."""
        if self.unit == "records":
            # A page starts where a record does, or where the text does.
            level = 0 if start else self.level
            shown = sum(1 for depth, end in separators(text, start, stop) if depth == level and end <= stop)
            return min(self.total, shown + (stop == len(text)))
        if self.unit == "lines":
            return text.count("\n", start, stop) + (stop == len(text) and not text.endswith("\n"))
        return stop - start


def measure(text: str, shape: str) -> Measure:
    """Records of JSON where there are several, else lines, or characters where there is one line only."""
    if shape == "json" and (found := _records(text)) is not None:
        return found
    lines = text.count("\n") + (not text.endswith("\n") and text != "")
    return Measure(lines, "lines") if lines > 1 else Measure(len(text), "characters")


def separators(text: str, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """For each comma between values of JSON: its depth, counted from the start, and where the next value begins."""
    depth = 0
    for token in _TOKEN.finditer(text, start, stop):
        mark = token[0][0]
        if mark == ",":
            yield depth, token.end()
        elif mark in _OPENING:
            depth += 1
        elif mark in _CLOSING:
            depth -= 1


def _records(text: str) -> Measure | None:
    """The values of an array, or of the largest array in an object."""
    try:
        if text.lstrip()[:1] == "[":
            return _several(len(_raw_list.decode(text)), level=1)
        longest = max(_raw_object.decode(text).values(), key=len, default=None)
        return None if longest is None else _several(len(_raw_list.decode(longest)), level=2)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return None


def _several(number: int, *, level: int) -> Measure | None:
    return Measure(number, "records", level) if number > 1 else None


# Where a page ends: at a record, a hunk or a line if it can, within its tokens, never inside a character.


# A page that ends at a better place may leave this much of its room unused.
_ENOUGH = 0.6
# An end of a line is good enough where it uses this much; a line as long as a page is cut between words.
_ENOUGH_OF_LINES = 0.3

_FILE_OF_A_DIFF = re.compile(r"^(?=diff --git |Index: |--- \S)", re.MULTILINE)
_HUNK = re.compile(r"^(?=@@ )", re.MULTILINE)
_LINE_END = re.compile(r"\n")
_WORD_END = re.compile(r"(?<=\s)(?=\S)")

_Ends = Callable[[str, int, Bracket], Sequence[int]]


def page_stop(text: str, start: int, *, room: int, price: Price, shape: str) -> Beginning:
    """The end of the page that starts here; the start itself where not even a character has room.

    The price of a beginning may go down a little as it grows, as that of tokens does.
    """
    return longest_beginning(
        text, start=start, room=room, price_at=lambda stop: price(text[start:stop]), seams=_seams(shape)
    )


def _seams(shape: str) -> Iterator[Seam]:
    """Where a page may end, the best places first, with how much of its room it must use to end there."""
    if shape == "json":
        for depth in range(3):
            yield Seam(_ends_of_records(depth), _ENOUGH)
    elif shape == "diff":
        yield Seam(_matches_of(_FILE_OF_A_DIFF), _ENOUGH)
        yield Seam(_matches_of(_HUNK), _ENOUGH)
    yield Seam(_matches_of(_LINE_END), _ENOUGH_OF_LINES)
    yield Seam(_matches_of(_WORD_END), _ENOUGH_OF_LINES)
    yield Seam(_anywhere, 0.0, back=_between_characters)


def _matches_of(pattern: re.Pattern[str]) -> _Ends:
    def ends(text: str, start: int, within: Bracket) -> Sequence[int]:
        found = (match.end() for match in pattern.finditer(text, within.fits, within.over))
        return [end for end in found if within.fits < end < within.over]

    return ends


def _ends_of_records(depth: int) -> _Ends:
    """After a comma of the outermost level that has any here, or of the next, or of the one below that."""

    def ends(text: str, start: int, within: Bracket) -> Sequence[int]:
        found = list(separators(text, start, within.over))
        levels = sorted({level for level, _ in found})
        if depth >= len(levels):
            return []
        return [end for level, end in found if level == levels[depth] and within.fits < end < within.over]

    return ends


def _anywhere(text: str, start: int, within: Bracket) -> Sequence[int]:
    return range(within.fits + 1, within.over)


def _between_characters(text: str, start: int, stop: int) -> int:
    """Back to where no character is cut, nor a line end of two; a character longer than the room stays out."""
    while start < stop < len(text) and (continues(text, stop) or text[stop - 1 : stop + 1] == "\r\n"):
        stop -= 1
    return stop


# The lines below a page that say what it is a part of and costs, and the lines that stand for what has left.


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
    shape: Shape
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

    def made(stop: Beginning) -> Shown:
        return _made(parcel, start, stop, allocation=allocation, account=account, hints=hints, count=count)

    def page_of(room: int) -> Attempt[Shown] | None:
        stop = page_stop(text, start, room=room, price=count, shape=parcel.shape)
        if stop.end == start:
            return None
        shown = made(stop)
        # What is cut off costs a token or more for each token that is too many.
        return Attempt(shown, shown.token_count - allocation, used=stop.price)

    if not text:
        shown = made(Beginning(start, 0))
        return shown if shown.token_count <= allocation else _silent(shown, shown.token_count)
    if (page := with_less_room(room, page_of)) is not None:
        return page
    # A page that shows nothing would lead to itself.
    first = first_character(text[start : start + _LONG_CHARACTER])
    least = made(Beginning(start + max(1, len(first)), 1))
    return least if least.token_count <= allocation else _silent(made(Beginning(start, 0)), least.token_count)


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
    parcel: Parcel, start: int, page: Beginning, *, allocation: int, account: Account, hints: bool, count: Count
) -> Shown:
    text, stop = parcel.text, page.end
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
            room = account.after(page.price + _USUAL_NOTE).allocation
            lines[-1] += f". Budget allows ~{max(1, room * returned // max(1, page.price)):,} more at once."
    whole, note, tokens = noted(content, lines, _left(account), count, tokens=page.price, extra=parcel.extra)
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
    return Parcel(whole, handle, shape, measure(whole, shape), about_tokens(whole, count), size, secret)


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
