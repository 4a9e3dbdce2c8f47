"""The work log of a session: its entries in order, each with what is said of it at every level of detail."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from satchel.model.surrogates import repair_surrogates
from satchel.session.contents import unpacked
from satchel.session.eviction import over_watermark
from satchel.session.ledger import Ledger, units_of
from satchel.session.notes import digest_line
from satchel.session.shown import Entry, History
from satchel.store.ledger import Posted

__all__ = ["Logged", "history_within", "logged"]

_SPEAKERS = {"user": "User: ", "assistant": "Assistant: ", "note": "", "call": "→ "}


class Logged(NamedTuple):
    """An entry, and what it said, as far as the context was shown it."""

    entry: Posted
    text: str

    @property
    def short(self) -> str:
        """Its line in a work log: a result as its digest, anything else as it is."""
        entry = self.entry
        if entry.level == "stub":
            return entry.stub
        if entry.role in ("result", "page"):
            return digest_line(entry.handle, entry.tool, entry.digest)
        name = entry.tool + " " if entry.role == "call" else ""
        return f"{_SPEAKERS.get(entry.role, '')}{name}{self.text}"


def logged(ledger: Ledger) -> list[Logged]:
    """What the context holds of a session but its system texts, oldest first."""
    entries = [entry for entry in ledger.ledgers.held(ledger.org, ledger.session) if entry.role != "system"]
    return [Logged(entry, _text(ledger, entry)) for entry in entries]


def history_within(ledger: Ledger, budget: int) -> History:
    """The work log as text; over the budget, what was least recently used is shown as stubs, then left out."""
    log = logged(ledger)
    lines = {each.entry.seq: each.short for each in log}
    omitted = [each.entry.seq for each in log if each.entry.level == "stub"]
    count = ledger.count
    shrinkable = [
        each.entry for each in log if count(each.entry.stub) < count(lines[each.entry.seq]) or each.entry.call_id
    ]
    newest = max((each.entry.seq for each in log), default=0)
    priced = [_priced(entry, count(lines[entry.seq] + "\n")) for entry in shrinkable]
    others = sum(count(text + "\n") for seq, text in lines.items()) - sum(entry.tokens for entry in priced)
    going = set(over_watermark(units_of(priced, newest=newest), limit=max(0, budget - others), low=1.0))
    groups = {entry.pair for entry in shrinkable if entry.seq in going}
    for entry in shrinkable:
        if entry.pair in groups:
            lines[entry.seq] = "" if entry.role == "call" else entry.stub
            omitted.append(entry.seq)
    last = [entry for entry in (each.entry for each in log) if lines[entry.seq]]
    # Stubs go before what is still said, and pins last of all.
    leaving = sorted(last, key=lambda entry: (entry.pinned, entry.seq not in omitted, entry.seq))
    text, left_out = _fitted(lines, [entry.seq for entry in leaving], budget, count)
    return History(
        text=text,
        token_count=count(text),
        entries=tuple(Entry.of(each.entry) for each in log),
        omitted=len({*omitted, *left_out}),
    )


def _priced(entry: Posted, tokens: int) -> Posted:
    return msgspec.structs.replace(entry, level="whole", tokens=tokens)


def _fitted(
    lines: Mapping[int, str], leaving: Sequence[int], budget: int, count: Callable[[str], int]
) -> tuple[str, Sequence[int]]:
    """As many of the lines as fit, below one that says how many were left out, in the order of leaving."""

    def made(dropped: int) -> str:
        gone = set(leaving[:dropped])
        above = f"[{dropped:,} entries left out for lack of room]\n" if dropped else ""
        return above + "".join(f"{line}\n" for seq, line in lines.items() if line and seq not in gone)

    if count(whole := made(0)) <= budget:
        return whole, ()
    low, high = 1, len(leaving)
    while low < high:
        middle = (low + high) // 2
        if count(made(middle)) <= budget:
            high = middle
        else:
            low = middle + 1
    text = made(high)
    return (text if count(text) <= budget else ""), leaving[:high]


def _text(ledger: Ledger, entry: Posted) -> str:
    """The part of an entry that was shown, with its note; empty where only a digest or a stub is needed."""
    if entry.level != "whole":
        return ""
    content = ledger.ledgers.content(ledger.org, entry.content)
    if content is None:
        return entry.digest or entry.stub
    if entry.media == "bytes":
        return entry.note
    shown = repair_surrogates(unpacked(content).decode("utf-8", "surrogatepass")[entry.start : entry.stop])
    if not entry.note:
        return shown
    return shown + ("" if not shown or shown.endswith("\n") else "\n") + entry.note
