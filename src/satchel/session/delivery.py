"""A result on its way out: whole if it fits its allocation, else the next page of it, with the note below."""

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from satchel.session.accounts import Account
from satchel.session.cursors import cursor_to
from satchel.session.notes import binary_note, noted
from satchel.session.pages import Stop, page_stop
from satchel.session.records import Measure
from satchel.session.shapes import Shape
from satchel.session.shown import Shown
from satchel.text.cutting import first_character

__all__ = ["Parcel", "delivered", "delivered_bytes"]

Count = Callable[[str], int]

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
