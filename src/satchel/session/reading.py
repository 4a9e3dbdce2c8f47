"""The whole of what was said, by its handle or by a cursor into it."""

from hmac import compare_digest
from typing import NamedTuple

from satchel.errors import ExpiredError, InputError, UnknownIdError
from satchel.session.contents import Said, unpacked
from satchel.session.cursors import check_handle, parse_cursor, seal
from satchel.session.ledger import KEEP_DAYS, Ledger
from satchel.store.ledger import Content, Posted

__all__ = ["Whole", "entry_of", "start_of", "whole_of"]


class Whole(NamedTuple):
    entry: Posted
    content: Content
    said: Said


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


def whole_of(ledger: Ledger, entry: Posted) -> Whole:
    """Everything that was said, as it was."""
    content = ledger.ledgers.content(ledger.org, entry.content)
    if content is None:
        raise ExpiredError(
            f"the result {entry.handle!r} has expired: contents are kept {KEEP_DAYS} days after their last use, "
            "and fewer where they take too much room; call the tool again"
        )
    data = unpacked(content)
    return Whole(entry, content, data if entry.media == "bytes" else data.decode("utf-8", "surrogatepass"))
